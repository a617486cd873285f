//! Why an upload is refused: a stable code, one line, and what to do.

use std::fmt;

/// Stable codes of refused uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadCode {
    /// Not WebAssembly at all, or damaged.
    NotAComponent,
    /// WebAssembly, but a core module.
    CoreModule,
    /// It imports what no Styx host provides.
    ForeignImport,
    /// It does not export `invoke` and `describe` as the contract has them.
    MissingExport,
    /// Too many bytes.
    TooLarge,
    /// It would take too much to compile or to keep.
    TooComplex,
    /// It is not valid, or the compiler refuses it.
    CompileFailed,
    /// `describe` did not give a usable description.
    DescribeFailed,
    /// The server could not check it.
    HostFailure,
}

impl UploadCode {
    /// The code as it appears in replies and documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            UploadCode::NotAComponent => "NOT_A_COMPONENT",
            UploadCode::CoreModule => "CORE_MODULE",
            UploadCode::ForeignImport => "FOREIGN_IMPORT",
            UploadCode::MissingExport => "MISSING_EXPORT",
            UploadCode::TooLarge => "TOO_LARGE",
            UploadCode::TooComplex => "TOO_COMPLEX",
            UploadCode::CompileFailed => "COMPILE_FAILED",
            UploadCode::DescribeFailed => "DESCRIBE_FAILED",
            UploadCode::HostFailure => "HOST_FAILURE",
        }
    }
}

impl fmt::Display for UploadCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refused upload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}; {hint}")]
pub struct UploadError {
    /// Kind of the refusal.
    pub code: UploadCode,
    /// The reason, in one line.
    pub message: String,
    /// Hint: what to do about it.
    pub hint: String,
}

impl UploadError {
    pub(super) fn new(code: UploadCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        UploadError { code, message: message.into(), hint: hint.into() }
    }

    /// The HTTP status to answer with.
    pub fn status(&self) -> u16 {
        match self.code {
            UploadCode::TooLarge => 413,
            UploadCode::HostFailure => 500,
            _ => 400,
        }
    }
}
