//! `[export.OPERATOR]` and `[import]`: calls between apps, as a manifest has them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{FILE_NAME, Manifest, check_name};
use crate::error::{BuildError, Code};

/// `[export.<operator>]`: other apps may call it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// Which of its functions. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<String>>,
    /// Which apps may. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
}

/// An operator of another app, written `app/operator`, as in a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignOperator {
    pub app: String,
    pub operator: String,
}

impl fmt::Display for ForeignOperator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.app, self.operator)
    }
}

impl Serialize for ForeignOperator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ForeignOperator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.split_once('/') {
            Some((app, operator)) => Ok(ForeignOperator { app: app.to_owned(), operator: operator.to_owned() }),
            None => Err(de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"an app and its operator such as \"billing/account\"",
            )),
        }
    }
}

impl Manifest {
    pub(super) fn check_interface(&self) -> Result<(), BuildError> {
        for (operator, Export { functions, to }) in &self.exports {
            check_name("an operator", operator)?;
            let path = format!("export.{operator}");
            check_list(&format!("{path}.functions"), "a function", functions.as_deref())?;
            check_list(&format!("{path}.to"), "an app", to.as_deref())?;
        }
        for (foreign, functions) in &self.imports {
            check_name("an app", &foreign.app)?;
            check_name("an operator", &foreign.operator)?;
            check_list(&format!("import.\"{foreign}\""), "a function", Some(functions))?;
            if self.app.name.as_ref() == Some(&foreign.app) {
                let message = format_args!("{FILE_NAME}: the app imports its own operator {}", foreign.operator);
                return Err(BuildError::new(Code::BadManifest, message)
                    .hint("an app calls its own operators by their names; leave it out"));
            }
        }
        Ok(())
    }
}

/// Refuses a list that says nothing, or one name twice.
fn check_list(path: &str, what: &str, names: Option<&[String]>) -> Result<(), BuildError> {
    let Some(names) = names else { return Ok(()) };
    if names.is_empty() {
        return Err(BuildError::new(
            Code::BadManifest,
            format_args!("{FILE_NAME}: {path} is empty, so that it says nothing"),
        )
        .hint("name something, or leave it out"));
    }
    for (at, name) in names.iter().enumerate() {
        check_name(what, name)?;
        if names[..at].contains(name) {
            return Err(BuildError::new(Code::BadManifest, format_args!("{FILE_NAME}: {path} names \"{name}\" twice")));
        }
    }
    Ok(())
}
