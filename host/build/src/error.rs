//! Why a build or a bundle failed: a stable code, one line, what to do, and the
//! end of what the tool printed.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// The kind of failure. Its text is stable; every code has a page in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// `styx.toml` cannot be understood.
    BadManifest,
    /// The source directory does not say what it is.
    BadProject,
    /// Uploaded bytes that are no bundle, or not a safe one.
    BadBundle,
    /// A compiler or packager is not there.
    ToolchainMissing,
    /// The tool ran and said no.
    BuildFailed,
    /// The file system refused.
    Io,
}

impl Code {
    /// The stable text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadManifest => "BAD_MANIFEST",
            Self::BadProject => "BAD_PROJECT",
            Self::BadBundle => "BAD_BUNDLE",
            Self::ToolchainMissing => "TOOLCHAIN_MISSING",
            Self::BuildFailed => "BUILD_FAILED",
            Self::Io => "IO",
        }
    }
}

/// A failed build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    pub code: Code,
    /// One line that says what is wrong.
    pub message: String,
    /// Advice; may be empty.
    pub hint: String,
    /// The last lines that the tool printed; may be empty.
    pub output: String,
}

/// Characters of a message.
const MESSAGE_MAX: usize = 600;

impl BuildError {
    /// An error without a hint.
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        let mut message = message.to_string();
        // Libraries print values on lines of their own.
        if message.contains('\n') {
            message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        // A manifest may name things by a megabyte.
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX) {
            message.replace_range(end.., "…");
        }
        Self { code, message, hint: String::new(), output: String::new() }
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = hint.to_string();
        self
    }

    /// Shows what the tool printed.
    pub fn output(mut self, output: impl Into<String>) -> Self {
        self.output = output.into();
        self
    }

    /// All that is wrong, a line and what to do each: the first is the error, with the others behind it.
    pub fn of_all(code: Code, all: Vec<(String, String)>) -> Option<Self> {
        let mut all = all.into_iter();
        let (first, hint) = all.next()?;
        let others: Vec<_> = all.map(|(message, hint)| format!("{message}; {hint}")).collect();
        let more = if others.is_empty() { String::new() } else { format!(" ({} more)", others.len()) };
        Some(Self::new(code, format_args!("{first}{more}")).hint(hint).output(others.join("\n")))
    }

    /// An operation on a file that failed: `BuildError::io("read", path)` for `map_err`.
    pub fn io(doing: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let what = format!("cannot {doing} {}", path.display());
        move |error| Self::new(Code::Io, format_args!("{what}: {error}")).hint(to_do(&error))
    }
}

/// What to do about what the file system says.
fn to_do(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "give whoever builds the permission: `ls -l` shows who has it, `chmod` changes it"
        }
        ErrorKind::ReadOnlyFilesystem => "build where something may be written",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space there",
        ErrorKind::InvalidData => "write it as UTF-8",
        _ => "",
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code.as_str(), self.message)?;
        if !self.hint.is_empty() {
            write!(out, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_file_system_refuses_is_said_with_what_to_do() {
        let said = |kind: ErrorKind| BuildError::io("read", Path::new("a.py"))(kind.into()).to_string();
        assert_eq!(
            said(ErrorKind::PermissionDenied),
            "IO: cannot read a.py: permission denied; give whoever builds the permission: `ls -l` shows who has it, `chmod` changes it"
        );
        assert!(said(ErrorKind::StorageFull).ends_with("; free some space there"));
        assert!(said(ErrorKind::BrokenPipe).ends_with(": broken pipe"), "nothing is said that helps nobody");
    }
}
