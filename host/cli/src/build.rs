//! `styx build`.

use std::path::{Path, PathBuf};

use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;

use crate::error::CliError;
use crate::output::Output;
use styx_build::{self, BuildReport, ComponentReport, Progress};

struct BuildProgress<'a> {
    bar: ProgressBar,
    plain: bool,
    output: &'a Output,
}

impl<'a> BuildProgress<'a> {
    fn new(bar: ProgressBar, output: &'a Output) -> Self {
        Self { plain: bar.is_hidden() && !output.is_json(), bar, output }
    }
}

impl Progress for BuildProgress<'_> {
    fn step(&self, line: &str) {
        if self.plain {
            crate::output::tell(&format!("  {line}"));
        }
        self.bar.set_message(line.to_string());
    }
    fn warning(&self, line: &str) {
        self.bar.suspend(|| self.output.warn(line));
    }
    fn detail(&self, line: &str) {
        self.bar.set_message(line.trim().chars().take(100).collect::<String>());
    }
}

/// `styx build`.
pub(crate) fn run(source: &Path, file: Option<PathBuf>, output: &Output) -> Result<(), CliError> {
    let report = build(source, file, output)?;
    if output.is_json() {
        let one = |component: &ComponentReport| json!({"name": component.name, "bytes": component.bytes, "digest": component.digest, "cached": component.cached});
        let components: Vec<_> = report.components.iter().map(one).collect();
        output.value(
            &json!({"app": report.app, "bundle": report.output, "bytes": report.bytes, "components": components}),
        );
    }
    Ok(())
}

/// Makes ready what builds again and again are faster by; whatever goes wrong, a build says better.
pub(crate) fn prepare(source: &Path, output: &Output) {
    let shown = BuildProgress::new(output.spinner("preparing"), output);
    let _ = styx_build::prepare(source, &shown);
    shown.bar.finish_and_clear();
}

/// `styx test`.
pub(crate) fn test(source: &Path, arguments: &[String], output: &Output) -> Result<(), CliError> {
    // Its lines go between those of the tests: no bar.
    let shown = BuildProgress::new(ProgressBar::hidden(), output);
    if styx_build::test(source, arguments, &shown).map_err(refused)? {
        return Ok(());
    }
    Err(CliError::new("TESTS_FAILED", "not all tests pass", "see what they say above"))
}

pub(crate) fn refused(error: styx_build::BuildError) -> CliError {
    CliError { detail: error.output, ..CliError::new(error.code.as_str(), error.message, error.hint) }
}

/// Builds the app in `source`, by default into its `target` directory, and tells a person about it.
pub(crate) fn build(source: &Path, file: Option<PathBuf>, output: &Output) -> Result<BuildReport, CliError> {
    let name =
        source.canonicalize().ok().and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    let file = file.unwrap_or_else(|| source.join("target").join(format!("{}.zip", name.as_deref().unwrap_or("app"))));
    let shown = BuildProgress::new(output.spinner("building"), output);
    let built = styx_build::build(source, &file, &shown);
    shown.bar.finish_and_clear();
    let report = built.map_err(refused)?;
    for component in &report.components {
        let how = if component.cached {
            "unchanged".to_string()
        } else {
            format!("built in {:.1} s", component.elapsed.as_secs_f64())
        };
        output.done(&format!("{} {}, {how}", component.name, HumanBytes(component.bytes)));
    }
    output.done(&format!("{} {}", report.output.display(), HumanBytes(report.bytes)));
    Ok(report)
}
