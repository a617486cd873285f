//! The layers that settings come from, as text, before any of it is read: flags, environment, `styx.toml`.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::path::Path;

use clap::error::ContextKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::environment::variables;
use super::{ServerConfig, invalid};
use crate::error::ServerError;

const FILE: &str = "styx.toml";
const SECTION: &str = "server";
const PREFIX: &str = "STYX__SERVER__";

/// Settings that were given as flags, by key.
#[derive(Clone, Debug, Default)]
pub struct Flags(BTreeMap<String, Vec<OsString>>);

impl Flags {
    /// The same, and one more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<OsString>) -> Self {
        self.0.entry(key.to_owned()).or_default().push(value.into());
        self
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Flags::default();
        for key in ServerConfig::keys() {
            if matches.value_source(&key) == Some(ValueSource::CommandLine) {
                let values = matches.get_raw(&key).into_iter().flatten();
                flags.0.insert(key, values.map(OsString::from).collect());
            }
        }
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        ServerConfig::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        ServerConfig::augment_args_for_update(command)
    }
}

/// Settings below the flags, by key: their origin and values.
pub(super) struct Layers {
    found: BTreeMap<String, (String, Vec<String>)>,
    /// Keys whose values add up over the layers.
    lists: Vec<String>,
}

impl Layers {
    /// Reads the file in a directory, and the environment over it.
    ///
    /// # Errors
    /// The file is no TOML, or one of them has a key that is unknown.
    pub(super) fn read(settings: &Command, directory: &Path) -> Result<Layers, ServerError> {
        let mut found = BTreeMap::new();
        for (key, value) in file(&directory.join(FILE))? {
            let texts = match value {
                toml::Value::Array(values) => values.iter().map(text).collect(),
                value => text(&value).map(|text| vec![text]),
            };
            let texts = texts.ok_or_else(|| invalid(format!("{FILE}: {key} is no value, nor a list of values")))?;
            found.insert(key, (FILE.to_owned(), texts));
        }
        for (name, value) in variables() {
            if let Some(key) = name.strip_prefix(PREFIX) {
                found.insert(key.to_lowercase(), (name, vec![value]));
            }
        }
        let known = || settings.get_arguments().map(|argument| argument.get_id().as_str());
        if let Some(unknown) = found.keys().find(|key| !known().any(|known| known == *key)) {
            let similarity = |key: &&str| strsim::jaro_winkler(key, unknown);
            let nearest = known().max_by(|one, other| similarity(one).total_cmp(&similarity(other)));
            return Err(ServerError::usage(
                "CONFIG_UNKNOWN_KEY",
                format!("[{SECTION}] has no key \"{unknown}\""),
                format!("did you mean \"{}\"?", nearest.expect("there are settings")),
            ));
        }
        let is_list = |argument: &&clap::Arg| {
            matches!(argument.get_action(), ArgAction::Append) && argument.get_value_delimiter().is_none()
        };
        let lists = settings.get_arguments().filter(is_list).map(|argument| argument.get_id().to_string()).collect();
        Ok(Layers { found, lists })
    }

    /// Arguments that mean the same as the flags above these layers.
    pub(super) fn under(&self, flags: &Flags) -> Vec<OsString> {
        let below = self.found.iter().filter(|(key, _)| !flags.has(key) || self.lists.contains(*key));
        let below = below.flat_map(|(key, (_, values))| values.iter().map(move |value| (key, OsString::from(value))));
        let flags = flags.0.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value.clone())));
        let argument = |(key, value): (&String, OsString)| {
            let mut argument = OsString::from(format!("--{}=", key.replace('_', "-")));
            argument.push(value);
            argument
        };
        below.chain(flags).map(argument).collect()
    }

    /// The error for a value that does not fit, which names the place that it is from.
    pub(super) fn refused(&self, flags: &Flags, error: &clap::Error) -> ServerError {
        match refused_value(error) {
            Some((key, refused)) if !flags.has(&key) => {
                let place = self.found.get(&key).map_or("the defaults", |(place, _)| place);
                ServerError { message: format!("{place}: {}", refused.message), ..refused }
            }
            Some((_, refused)) => refused,
            None => invalid(error.to_string().lines().next().unwrap_or_default()),
        }
    }
}

/// The setting whose value does not fit, and the error that says so, if that is what is wrong.
pub fn refused_value(error: &clap::Error) -> Option<(String, ServerError)> {
    let context = |kind| error.get(kind).map(ToString::to_string);
    let flag = context(ContextKind::InvalidArg)?;
    let key = flag.strip_prefix("--")?.split([' ', '=']).next()?.replace('-', "_");
    if !ServerConfig::keys().contains(&key) {
        return None;
    }
    let value = context(ContextKind::InvalidValue)?;
    let reason = match (error.source(), context(ContextKind::ValidValue)) {
        (Some(source), _) => source.to_string(),
        (None, Some(valid)) if !valid.is_empty() => format!("it can be {valid}"),
        (None, _) => "it does not fit".to_owned(),
    };
    let message = if reason.starts_with("must ") {
        format!("{key} {reason}")
    } else {
        format!("{key} cannot be \"{value}\": {reason}")
    };
    Some((key, invalid(message)))
}

/// The section of the file; empty if there is none.
fn file(path: &Path) -> Result<toml::Table, ServerError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(toml::Table::new()),
        Err(error) => return Err(invalid(format!("{}: {error}", path.display()))),
    };
    let mut file: toml::Table = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        invalid(format!("{FILE}, line {line}: {}", error.message().replace('\n', ", ")))
    })?;
    match file.remove(SECTION) {
        None => Ok(toml::Table::new()),
        Some(toml::Value::Table(section)) => Ok(section),
        Some(_) => Err(invalid(format!("{FILE}: {SECTION} is no section; begin it with [{SECTION}]"))),
    }
}

/// A value as one would give it to a flag.
fn text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Array(_) | toml::Value::Table(_) => None,
        value => Some(value.to_string()),
    }
}
