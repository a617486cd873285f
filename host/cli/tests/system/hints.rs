//! What messages, hints, help and documents tell people to type exists: every verb, flag, setting, limit and
//! variable that a text of the product names is looked up where it would be used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use styx_server::auth::ADMIN_TOKEN;
use styx_server::config::ServerConfig;

const CRATES: [&str; 8] = ["protocol", "driver", "engine", "storage", "transport", "build", "server", "cli"];

/// Flags of other programs: those that build guests, and cargo, which builds and tests Styx.
const FLAGS_OF_OTHERS: [&str; 41] = [
    "clear",
    "config",
    "crate-type",
    "deps",
    "disable-pip-version-check",
    "exact",
    "features",
    "fetch-retry-maxtimeout",
    "fetch-retry-mintimeout",
    "ignored",
    "installed",
    "interpreter",
    "ignore-scripts",
    "lib",
    "loglevel",
    "manifest-path",
    "message-format",
    "no-audit",
    "no-compile",
    "no-deps",
    "no-fund",
    "no-input",
    "no-save",
    "no-update-notifier",
    "nocapture",
    "offline",
    "path",
    "print",
    "python",
    "quiet",
    "release",
    "remap-path-prefix",
    "sdk",
    "stay",
    "target",
    "test",
    "version",
    "wit",
    "without-pip",
    // Of every verb, before it is parsed.
    "help",
    "flag",
];

/// Words that follow the product's name in sentences, and a function of the module by that name that Go's guests import.
const NO_VERBS: [&str; 4] = ["sets", "is", "names", "random"];

/// What guests in C include: its macros and constants begin as the variables do.
const C_HEADER: &str = include_str!("../../../../sdk/c/include/styx.h");

/// The texts of a Rust source, its documentation among them, or the whole of any other file.
fn texts(path: &Path) -> Vec<String> {
    fn collect(tokens: TokenStream, texts: &mut Vec<String>) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => collect(group.stream(), texts),
                TokenTree::Literal(literal) => texts.push(literal.to_string()),
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
    let content = std::fs::read_to_string(path).unwrap();
    if path.extension().is_none_or(|extension| extension != "rs") {
        return vec![content];
    }
    let mut texts = Vec::new();
    collect(content.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display())), &mut texts);
    // A text that goes on behind the end of a line.
    texts.iter().map(|text| text.split("\\\n").map(str::trim_start).collect()).collect()
}

/// The sources below a directory; tests have guests, flags and variables of their own.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let of_tests = path.file_stem().is_some_and(|name| name == "tests");
        if of_tests {
            continue;
        } else if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What stands behind each `mark` in `text`, as long as its characters are such.
fn behind<'a>(text: &'a str, mark: &str, is_part: impl Fn(char) -> bool) -> Vec<&'a str> {
    let whole =
        |at: &usize| !text[..*at].ends_with(|before: char| before.is_alphanumeric() || "-_/.:".contains(before));
    let ends = |rest: &str| rest.find(|char| !is_part(char)).unwrap_or(rest.len());
    let starts = text.match_indices(mark).map(|(at, _)| at).filter(whole).map(|at| &text[at + mark.len()..]);
    starts.map(|rest| &rest[..ends(rest)]).filter(|found| !found.is_empty()).collect()
}

/// What is wrong with the verbs that a text names.
fn unknown_verbs(text: &str) -> Vec<String> {
    let command = styx_cli::command();
    let mut unknown = Vec::new();
    for words in behind(text, "styx ", |char| char.is_ascii_lowercase() || char == ' ') {
        let mut words = words.split(' ');
        let verb = words.next().unwrap_or_default();
        if verb.is_empty() || NO_VERBS.contains(&verb) {
            continue;
        }
        match command.find_subcommand(verb) {
            None => unknown.push(format!("styx {verb}")),
            Some(found) if found.has_subcommands() => {
                let below = words.next().unwrap_or_default();
                if !below.is_empty() && found.find_subcommand(below).is_none() {
                    unknown.push(format!("styx {verb} {below}"));
                }
            }
            Some(_) => {}
        }
    }
    unknown
}

fn flags(command: &clap::Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned));
    own.chain(command.get_subcommands().flat_map(flags)).collect()
}

fn variables(command: &clap::Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|argument| Some(argument.get_env()?.to_str()?.to_owned()));
    own.chain(command.get_subcommands().flat_map(variables)).collect()
}

/// Whether the manifest of an app has such a limit, with a value as numbers and sizes have it.
fn is_limit(name: &str) -> bool {
    styx_build::Manifest::parse(&format!("[limits]\n{name} = 1024\n")).is_ok()
}

/// Everything that a text names and that is not there.
fn unknown(text: &str) -> Vec<String> {
    let mut unknown = unknown_verbs(text);
    let flags = flags(&styx_cli::command());
    for flag in behind(text, "--", |char| char.is_ascii_lowercase() || char == '-') {
        if flag.starts_with(|first: char| first.is_ascii_lowercase())
            && !flags.contains(flag)
            && !FLAGS_OF_OTHERS.contains(&flag)
        {
            unknown.push(format!("--{flag}"));
        }
    }
    for limit in behind(text, "limits.", |char| char.is_ascii_lowercase() || char == '_') {
        if !is_limit(limit) {
            unknown.push(format!("limits.{limit}"));
        }
    }
    let variables = variables(&styx_cli::command());
    for name in behind(text, "STYX_", |char| char.is_ascii_uppercase() || char == '_') {
        if name.starts_with("TEST_") {
            continue;
        }
        let known = match name.strip_prefix("_SERVER__") {
            Some("") | Some("KEY") => true,
            Some(key) => ServerConfig::keys().contains(&key.to_lowercase()),
            None => {
                let name = format!("STYX_{name}");
                variables.contains(&name)
                    || [styx_cli::LOG_FILTER, styx_cli::TOKEN, ADMIN_TOKEN].contains(&name.as_str())
                    || !behind(C_HEADER, &name, |char| "( ,".contains(char)).is_empty()
            }
        };
        if !known {
            unknown.push(format!("STYX_{name}"));
        }
    }
    unknown
}

#[test]
fn what_is_named_is_found_and_what_is_not_there_is_not() {
    let right = "`styx snapshots create`, styx server --threads 2, limits.fuel, STYX__SERVER__DATA_DIR, STYX_LOG";
    assert_eq!(unknown(right), [""; 0]);
    let wrong = "`styx journal`, `styx snapshots burn`, give --thread, raise limits.feul, STYX__SERVER__TREADS";
    assert_eq!(
        unknown(wrong),
        ["styx journal", "styx snapshots burn", "--thread", "limits.feul", "STYX__SERVER__TREADS"]
    );
}

/// What messages point people to.
#[test]
fn every_verb_has_help_of_its_own() {
    let mut command = styx_cli::command();
    command.build();
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        assert!(!verb.is_disable_help_flag_set() && !verb.is_no_binary_name_set(), "{}", verb.get_name());
        assert!(verb.get_about().is_some(), "{}", verb.get_name());
    }
}

/// A flag that says which server is asked means nothing to a verb that asks none.
#[test]
fn flags_of_clients_are_shown_where_a_server_is_asked() {
    let mut command = styx_cli::command();
    command.build();
    let mut help = |path: &[&str]| {
        let verb = path.iter().fold(&mut command, |verb, name| verb.find_subcommand_mut(name).expect("there is one"));
        verb.render_long_help().to_string()
    };
    for alone in [
        &["server"][..],
        &["new"],
        &["editor"],
        &["test"],
        &["build"],
        &["cluster"],
        &["cluster", "init"],
        &["completions"],
    ] {
        let help = help(alone);
        assert!(help.contains("--json") && !help.contains("--admin-url") && !help.contains("--token-file"), "{help}");
    }
    for asking in [&["call"][..], &["deploy"], &["dev"], &["doctor"], &["snapshots", "list"]] {
        let help = help(asking);
        assert!(help.contains("--admin-url") && help.contains("--token-file"), "{help}");
    }
    // What was said before the verb is known to it.
    for words in [["styx", "--admin-url", "http://a", "apps"], ["styx", "apps", "--admin-url", "http://a"]] {
        let matches = styx_cli::command().try_get_matches_from(words).unwrap();
        assert_eq!(matches.get_one::<String>("admin_url").map(String::as_str), Some("http://a"), "{words:?}");
    }
}

#[test]
fn nothing_tells_people_to_use_what_does_not_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("docs/errors.md")];
    if !files[0].is_file() {
        files = vec![root.join("docs/reference/errors.md")];
    }
    for name in CRATES {
        sources(&root.join("host").join(name).join("src"), &mut files);
    }
    let mut wrong = Vec::new();
    for file in files {
        for name in texts(&file).iter().flat_map(|text| unknown(text)) {
            wrong.push(format!("{}: {name}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "texts name what does not exist:\n{}", wrong.join("\n"));
}
