//! The page of all settings is what the code says: of the server, of an app's manifest, of the verbs, of the environment.
//! `UPDATE_REFERENCE=1` writes it anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command};
use styx_build::manifest::reference::KEYS;
use styx_protocol::deployment::Limits;
use styx_server::config::ServerConfig;

const PAGE: &str = "../../docs/reference/configuration.md";

#[expect(clippy::disallowed_methods, reason = "says whether a test writes what it compares with")]
#[test]
fn the_page_of_all_settings_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = page();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differ = written.lines().zip(page.lines()).find(|(written, made)| written != made);
    assert!(written == page, "UPDATE_REFERENCE=1 writes the page anew; the first difference: {differ:?}");
}

#[test]
fn limits_are_by_default_what_the_page_says() {
    let Limits { fuel, transaction_fuel, memory, call_depth, calls, rw_set, payload } = Limits::default();
    for (name, value) in [
        ("fuel", fuel),
        ("transaction_fuel", transaction_fuel),
        ("memory", memory),
        ("call_depth", call_depth.into()),
        ("calls", calls.into()),
        ("rw_set", rw_set.into()),
        ("payload", payload.into()),
    ] {
        let key = KEYS.iter().find(|key| key.name == name).unwrap();
        let said = match key.default.strip_suffix("MiB") {
            Some(mebibytes) => mebibytes.parse::<u64>().unwrap() << 20,
            None => key.default.replace(' ', "").parse().unwrap(),
        };
        assert_eq!(said, value, "{name}");
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Configuration\n\nAll settings. This page is made of the code (`UPDATE_REFERENCE=1 cargo test … -p styx-cli --test system \
         the_page_of_all_settings`).\n\n",
    );
    manifest(&mut page);
    server(&mut page);
    variables(&mut page);
    verbs(&mut page);
    page
}

/// `[app]` and what else an app's directory may say.
fn manifest(page: &mut String) {
    page.push_str(
        "## An app: `styx.toml` in its directory\n\nEverything may be left out. Sizes are written as `\"64MiB\"` or as a number of bytes. \
         A key that is not known is an error that names the nearest one. A change here alone builds nothing anew.\n",
    );
    let mut table = "";
    for key in KEYS {
        if key.table != table {
            table = key.table;
            writeln!(page, "\n`[{table}]`\n\n| key | for example | default | |\n|---|---|---|---|").unwrap();
        }
        writeln!(page, "| `{}` | `{}` | {} | {} |", key.name, cell(key.example), cell(key.default), cell(key.meaning))
            .unwrap();
    }
}

/// `[server]`, flags and variables.
fn server(page: &mut String) {
    page.push_str(
        "\n## A server\n\nEach setting is a flag of `styx server`, a variable, and a key under `[server]` of a `styx.toml` in the directory where the \
         server starts: `--backlog-max 500`, `STYX__SERVER__BACKLOG_MAX=500`, `backlog_max = 500`. A flag counts before a variable, \
         and that before the file. Times are written as `500ms`, `10s` or `1h`, sizes as `64MiB`. `styx server --print-config` shows what is in force.\n",
    );
    let command = flags_of_server();
    let mut headings: Vec<(String, Vec<Arg>)> = Vec::new();
    for argument in command.get_arguments() {
        let heading = argument.get_help_heading().unwrap_or("All").to_owned();
        match headings.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, arguments)) => arguments.push(argument.clone()),
            None => headings.push((heading, vec![argument.clone()])),
        }
    }
    for (heading, arguments) in headings {
        writeln!(page, "\n{heading}:\n\n| flag | default | |\n|---|---|---|").unwrap();
        for argument in arguments {
            writeln!(page, "| `{}` | {} | {} |", flag(&argument), default(&argument), cell(&help(&argument))).unwrap();
        }
    }
}

fn flags_of_server() -> Command {
    use clap::CommandFactory;
    ServerConfig::command()
}

fn variables(page: &mut String) {
    page.push_str("\n## Environment\n\nBeside `STYX__SERVER__…` of a server:\n\n| variable | |\n|---|---|\n");
    let mut found = BTreeMap::new();
    each(&styx_cli::command(), &mut |argument| {
        if let Some(name) = argument.get_env() {
            let text = format!("`{}`: {}", flag(argument), help(argument));
            found.insert(name.to_string_lossy().into_owned(), text);
        }
    });
    let others = [
        (
            styx_cli::LOG_FILTER,
            "which lines of its log a server shows, as `tracing` writes filters: `info`, `styx_server=debug,warn`. `--log-level` counts before it",
        ),
        (styx_cli::TOKEN, "the token to show, if no file does"),
        (
            styx_server::auth::ADMIN_TOKEN,
            "of a server: the operator's token, if `--admin-token-file` does not name a file",
        ),
        ("NO_COLOR", "set to anything: no colours"),
        ("XDG_CACHE_HOME", "where `styx build` keeps its tools, in `styx` there; `~/.cache` otherwise"),
    ];
    found.extend(others.map(|(name, text)| (name.to_owned(), text.to_owned())));
    for (name, text) in found {
        writeln!(page, "| `{name}` | {} |", cell(&text)).unwrap();
    }
}

fn each(command: &Command, see: &mut impl FnMut(&Arg)) {
    command.get_arguments().for_each(&mut *see);
    for verb in command.get_subcommands() {
        each(verb, see);
    }
}

fn verbs(page: &mut String) {
    page.push_str("\n## The command line\n\nFlags of every verb; those that ask no server have of these only `--json`:\n\n| flag | default | |\n|---|---|---|\n");
    let command = styx_cli::command();
    for argument in command.get_arguments() {
        writeln!(page, "| `{}` | {} | {} |", flag(argument), default(argument), cell(&help(argument))).unwrap();
    }
    page.push_str("\nVerbs; a server's flags are above:\n\n| verb | |\n|---|---|\n");
    for verb in command.get_subcommands() {
        list(verb, "styx", page);
    }
}

fn list(command: &Command, before: &str, page: &mut String) {
    let name = format!("{before} {}", command.get_name());
    if command.get_subcommands().next().is_some() {
        command.get_subcommands().for_each(|verb| list(verb, &name, page));
        return;
    }
    let mut usage = name.clone();
    let mut flags = Vec::new();
    for argument in command.get_arguments() {
        let is_of_server = command.get_name() == "server" && argument.get_help_heading().is_some();
        if argument.is_positional() && argument.is_hide_set() {
            // There to be refused.
        } else if argument.is_positional() {
            let value = value(argument).unwrap_or_default();
            usage.push_str(&if argument.is_required_set() { format!(" {value}") } else { format!(" [{value}]") });
        } else if !is_of_server && !argument.is_hide_set() {
            flags.push(format!("`{}` {}", flag(argument), lower(&help(argument))));
        }
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let flags = if flags.is_empty() { String::new() } else { format!("; {}", flags.join("; ")) };
    writeln!(page, "| `{usage}` | {}{} |", cell(&about), cell(&flags)).unwrap();
}

fn flag(argument: &Arg) -> String {
    let long = argument.get_long().unwrap_or_default();
    match value(argument) {
        Some(value) if argument.get_action().takes_values() => format!("--{long} {value}"),
        _ => format!("--{long}"),
    }
}

fn value(argument: &Arg) -> Option<String> {
    argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string)
}

fn help(argument: &Arg) -> String {
    argument.get_help().map(ToString::to_string).unwrap_or_default()
}

/// What it is when nothing is said, unless that depends on the machine.
fn default(argument: &Arg) -> String {
    if argument.is_hide_default_value_set() || !argument.get_action().takes_values() {
        return String::new();
    }
    let values: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if values.is_empty() { String::new() } else { format!("`{}`", values.join(",")) }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Text in a table: in one line, with no border in it.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
