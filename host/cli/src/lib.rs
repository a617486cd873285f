//! The command line: every verb, over HTTP where it concerns a running server.

mod apps;
mod build;
mod client;
mod cluster;
mod deploy;
mod dev;
mod doctor;
mod editor;
mod environment;
mod error;
mod generate;
mod invoke;
mod logs;
mod migrations;
mod new;
mod output;
mod partitions;
mod requests;
mod scale;
mod server;
mod snapshots;
mod state;
mod tokens;

pub use environment::{LOG_FILTER, TOKEN};

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::CliError;
use output::Output;
use styx_server::config::Flags;

/// Where calls are taken, unless something else is said.
const INGRESS_URL: &str = "http://127.0.0.1:8080";

/// Transactional stateful functions on WebAssembly.
///
/// Write plain functions on keyed entities, deploy them, call them over HTTP: every request runs
/// as one strictly serializable transaction, exactly once, whatever graph of functions it calls.
#[derive(Debug, Parser)]
#[command(name = "styx", version, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct Global {
    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    /// Where the server's admin endpoints are
    #[arg(
        long,
        global = true,
        env = "STYX_ADMIN_URL",
        default_value = "http://127.0.0.1:9070",
        value_name = "URL",
        hide_env_values = true
    )]
    admin_url: String,
    /// Where the server takes calls
    #[arg(
        long,
        global = true,
        env = "STYX_INGRESS_URL",
        default_value = INGRESS_URL,
        value_name = "URL",
        hide_env_values = true
    )]
    ingress_url: String,
    /// File with the token to show [default: what STYX_TOKEN holds]
    #[arg(long, global = true, env = "STYX_TOKEN_FILE", value_name = "FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// Certificates of the authorities to believe, as PEM [default: the system's]
    #[arg(long, global = true, env = "STYX_CA", value_name = "FILE", hide_env_values = true)]
    ca: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a server: everything in one process, or one part of a cluster with --role
    Server {
        #[command(flatten)]
        flags: Flags,
        /// Lines of the log to show: error, warn, info, debug, trace, or as STYX_LOG filters them [default: info]
        #[arg(long, value_name = "LEVEL")]
        log_level: Option<String>,
        /// Print the configuration in force, and end
        #[arg(long)]
        print_config: bool,
        /// End when standard input does: with whoever started it
        #[arg(long, hide = true)]
        while_stdin: bool,
    },
    /// Make a new app: a directory that builds and passes its tests as it is
    New {
        /// Directory to make; its name is the app's
        directory: PathBuf,
        /// Language of the functions
        #[arg(long, value_enum, default_value_t)]
        lang: new::Lang,
    },
    /// Have editors and the language's own tools find the SDK: `cargo test`, `go test`, pyright, tsc, clangd
    Editor {
        /// Directory of the app
        #[arg(default_value = ".")]
        source: PathBuf,
    },
    /// Run a server and an app on it: built and deployed again whenever a file of it changes
    Dev {
        /// Directory of the app
        #[arg(default_value = ".")]
        source: PathBuf,
    },
    /// Run an app's own tests, with the SDK where they find it
    Test {
        /// Directory of the app
        #[arg(default_value = ".")]
        source: PathBuf,
        /// For the runner: pytest or unittest, cargo test, node, go test
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Build a source directory into a bundle
    Build {
        /// Directory of the app
        #[arg(default_value = ".")]
        source: PathBuf,
        /// The bundle to write [default: <name>.zip in the directory's target/]
        #[arg(long, short)]
        output: Option<PathBuf>,
    },
    /// Build if needed, and upload: a source directory, a bundle or a component
    Deploy {
        /// Directory, .zip or .wasm
        #[arg(default_value = ".")]
        source: PathBuf,
        /// Name of the app [default: from styx.toml or the file's name]
        #[arg(long)]
        app: Option<String>,
        /// Check only; change nothing
        #[arg(long)]
        dry_run: bool,
        /// Deploy it though calls between apps break, each of which aborts then, or entities are not of the type that it says
        #[arg(long)]
        force: bool,
        /// Place entities anew where keys of their operator get a prefix with it, or lose theirs; calls wait as long
        #[arg(long)]
        rekey: bool,
        /// Migrate entities that are of an earlier type, all of them and now
        #[arg(long, conflicts_with = "dry_run")]
        migrate_state: bool,
    },
    /// Call a function and print its result
    Call(invoke::Invocation),
    /// Have a function called; returns once that is durable
    Send(invoke::Invocation),
    /// Look at the committed state, or write it from outside
    State {
        #[command(subcommand)]
        verb: state::StateVerb,
    },
    /// What came of a request that was sent
    Result(invoke::ResultArgs),
    /// List apps, show one, go back to an earlier deployment, delete
    Apps(apps::AppsArgs),
    /// List, take, check, restore and copy snapshots
    Snapshots {
        #[command(subcommand)]
        verb: snapshots::SnapshotsVerb,
    },
    /// Show which partitions are large, which are called, and who has them
    Partitions(partitions::PartitionsArgs),
    /// Let some workers have all partitions, so that others may be stopped, or so that new ones get their part; or have more
    /// partitions
    Scale(scale::ScaleArgs),
    /// Move partitions between the workers of a cluster
    Migrations {
        #[command(subcommand)]
        verb: migrations::MigrationsVerb,
    },
    /// Issue, list and revoke tokens
    Tokens {
        #[command(subcommand)]
        verb: tokens::TokensVerb,
    },
    /// Show lines that functions have logged
    Logs(logs::LogsArgs),
    /// Look at requests: how they went, why they were slow or aborted; and at those that are set aside
    Requests {
        #[command(subcommand)]
        verb: requests::RequestsVerb,
    },
    /// Make the certificates of a cluster's processes
    Cluster {
        #[command(subcommand)]
        verb: cluster::ClusterVerb,
    },
    /// Write code that calls an app
    Generate {
        #[command(subcommand)]
        verb: generate::GenerateVerb,
    },
    /// Check the machine and the server
    Doctor,
    /// Print what completes commands in a shell: `styx completions bash > ~/.local/share/bash-completion/completions/styx`
    Completions {
        /// Name of the shell
        shell: clap_complete::Shell,
    },
}

/// Verbs that ask no server.
const ALONE: [&str; 7] = ["server", "new", "editor", "test", "build", "cluster", "completions"];

/// The verbs, their flags and their help.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let of_client = |argument: &&Arg| argument.is_global_set() && argument.get_id() != "json";
    let hidden: Vec<Arg> =
        command.get_arguments().filter(of_client).map(|argument| argument.clone().hide(true)).collect();
    let hide = |verb: clap::Command| verb.args(&hidden);
    ALONE.into_iter().fold(command, |command, verb| {
        command.mut_subcommand(verb, |verb| {
            let names: Vec<String> = verb.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
            names.into_iter().fold(hide(verb), |verb, inner| verb.mut_subcommand(inner, hide))
        })
    })
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => match styx_server::config::refused_value(&error) {
            Some((_, refused)) => {
                let refused = CliError::from(refused);
                let json = std::env::args_os().any(|argument| argument == "--json");
                Output::new(json).error(&refused);
                return ExitCode::from(refused.status);
            }
            None => error.exit(),
        },
    };
    let output = Output::new(cli.global.json);
    match run(cli, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.status)
        }
    }
}

fn run(cli: Cli, output: &Output) -> Result<(), CliError> {
    let client = || client::Client::new(&cli.global);
    match cli.verb {
        Verb::Server { flags, log_level, print_config, while_stdin } => {
            server::run(flags, log_level.as_deref(), print_config, while_stdin, output)
        }
        Verb::New { directory, lang } => new::run(&directory, lang, output),
        Verb::Editor { source } => editor::run(&source, output),
        Verb::Dev { source } => dev::run(&cli.global, &source, output),
        Verb::Test { source, arguments } => build::test(&source, &arguments, output),
        Verb::Build { source, output: file } => build::run(&source, file, output),
        Verb::Deploy { source, app, dry_run, force, rekey, migrate_state } => {
            deploy::run(&client()?, &source, app, deploy::Options { dry_run, force, rekey, migrate_state }, output)
        }
        Verb::Call(invocation) => invoke::call(&client()?, &invocation, output),
        Verb::Send(invocation) => invoke::send(&client()?, &invocation, output),
        Verb::State { verb } => state::run(&client()?, &verb, output),
        Verb::Result(args) => invoke::result(&client()?, &args, output),
        Verb::Apps(args) => apps::run(&client()?, args, output),
        Verb::Snapshots { verb } => snapshots::run(client, verb, output),
        Verb::Partitions(args) => partitions::run(&client()?, &args, output),
        Verb::Scale(args) => scale::run(&client()?, args, output),
        Verb::Migrations { verb } => migrations::run(&client()?, verb, output),
        Verb::Generate { verb } => generate::run(&client()?, verb, output),
        Verb::Tokens { verb } => tokens::run(&client()?, verb, output),
        Verb::Logs(args) => logs::run(&client()?, &args, output),
        Verb::Requests { verb } => requests::run(&client()?, verb, output),
        Verb::Cluster { verb } => cluster::run(verb, output),
        Verb::Doctor => doctor::run(&client()?, output),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "styx", &mut script);
            output.text(&String::from_utf8_lossy(&script));
            Ok(())
        }
    }
}
