//! `styx build`.

use std::path::{Path, PathBuf};

use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;

use super::output::Output;
use crate::build::{self, BuildReport, Progress};
use crate::error::CliError;

struct Shown {
    bar: ProgressBar,
    plain: bool,
}

impl Progress for Shown {
    fn step(&self, line: &str) {
        if self.plain {
            eprintln!("  {line}");
        }
        self.bar.set_message(line.to_string());
    }
    fn detail(&self, line: &str) {
        self.bar.set_message(line.trim().chars().take(100).collect::<String>());
    }
}

/// Builds the app in `source`; returns what was made.
pub(super) fn run(source: &Path, file: Option<PathBuf>, output: &Output) -> Result<BuildReport, CliError> {
    let name = source.canonicalize().ok().and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    let file = file.unwrap_or_else(|| source.join("target").join(format!("{}.zip", name.as_deref().unwrap_or("app"))));
    let bar = output.spinner("building");
    let shown = Shown { plain: bar.is_hidden() && !output.is_json(), bar };
    let report = build::build(source, &file, &shown).map_err(|error| CliError::new(error.code.as_str(), error.message.clone(), error.hint.clone()))?;
    shown.bar.finish_and_clear();
    let components: Vec<_> = report.components.iter().map(|component| json!({"name": component.name, "bytes": component.bytes, "digest": component.digest, "cached": component.cached})).collect();
    if output.is_json() {
        output.value(&json!({"app": report.app, "bundle": report.output, "bytes": report.bytes, "components": components}));
    } else {
        for component in &report.components {
            let how = if component.cached { "unchanged".to_string() } else { format!("built in {:.1} s", component.elapsed.as_secs_f64()) };
            output.done(&format!("{} {}, {how}", component.name, HumanBytes(component.bytes)));
        }
        output.done(&format!("{} {}", report.output.display(), HumanBytes(report.bytes)));
    }
    Ok(report)
}
