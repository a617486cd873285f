//! `styx generate client`: a module with a class for each operator of an app and a method for each of its functions.

mod app;
mod python;
mod schema;
#[cfg(test)]
mod tests;
mod typescript;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;

use self::app::App;
use crate::client::Client;
use crate::error::CliError;
use crate::invoke::encode;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum GenerateVerb {
    /// Write a typed client of an app, from what it declares
    Client(ClientArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Name of the app
    app: String,
    /// Language of the client
    #[arg(long)]
    lang: Language,
    /// File to write; standard output if none is given
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// In Python: methods that are awaited
    #[arg(long)]
    asyncio: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    Python,
    Typescript,
}

pub(crate) fn run(client: &Client, verb: GenerateVerb, output: &Output) -> Result<(), CliError> {
    let GenerateVerb::Client(ClientArgs { app, lang, output: file, asyncio }) = verb;
    if asyncio && lang != Language::Python {
        return Err(CliError::usage("BAD_TARGET", "--asyncio is of Python", "methods in TypeScript return promises"));
    }
    let told = client.send(client.admin(Method::GET, &format!("/v1/apps/{}", encode(&app))))?.body;
    let app = App::read(&told).ok_or_else(|| {
        CliError::new("CLIENT", "the server describes the app in another way than this version reads", "")
    })?;
    let text = match lang {
        Language::Python => python::module(&app, asyncio),
        Language::Typescript => typescript::module(&app),
    };
    let Some(file) = file else {
        output.text(&text);
        return Ok(());
    };
    std::fs::write(&file, text).map_err(|error| {
        CliError::usage("IO", format!("{}: {error}", file.display()), "give a file that can be written")
    })?;
    output.done(&format!("{} calls {} {}", file.display(), app.name, app.deployment));
    Ok(())
}
