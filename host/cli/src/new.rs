//! `styx new`.

use std::path::Path;

use serde_json::json;
use styx_build::Language;

use crate::error::CliError;
use crate::output::Output;

/// Languages of templates.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum Lang {
    #[default]
    #[value(alias = "py")]
    Python,
    #[value(alias = "rs")]
    Rust,
    #[value(alias = "ts", alias = "javascript", alias = "js")]
    Typescript,
    #[value(alias = "golang")]
    Go,
    C,
}

impl From<Lang> for Language {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::Python => Language::Python,
            Lang::Rust => Language::Rust,
            Lang::Typescript => Language::TypeScript,
            Lang::Go => Language::Go,
            Lang::C => Language::C,
        }
    }
}

pub(crate) fn run(directory: &Path, lang: Lang, output: &Output) -> Result<(), CliError> {
    let files = styx_build::create(directory, lang.into()).map_err(crate::build::refused)?;
    if output.is_json() {
        output.value(&json!({ "directory": directory, "language": Language::from(lang), "files": files }));
    }
    for file in &files {
        output.note(&format!("  {}", file.display()));
    }
    // An app is one without that, too.
    match styx_build::point_editors(directory) {
        Ok(_) => output.note("  and where editors find the SDK on this machine (`styx editor`)"),
        Err(error) => output.note(&format!("  editors do not find the SDK (`styx editor`): {error}")),
    }
    let shown = directory.display();
    output.done(&format!("{shown} is there: `styx test {shown}` runs its tests, `styx dev {shown}` a server with it"));
    Ok(())
}
