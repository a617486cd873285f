//! What an app declares, as far as a client needs it, and names that languages take.

use serde_json::Value;

pub(super) struct App {
    pub(super) name: String,
    pub(super) deployment: String,
    pub(super) operators: Vec<Operator>,
}

pub(super) struct Operator {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) functions: Vec<Function>,
}

pub(super) struct Function {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) returns: Value,
}

pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) schema: Value,
}

impl App {
    /// Reads the answer of `GET /v1/apps/{app}`.
    pub(super) fn read(told: &Value) -> Option<App> {
        let operators = list(&told["operators"], |operator| {
            let functions = list(&operator["functions"], |function| {
                let parameters = list(&function["parameters"], |parameter| {
                    let required = parameter["required"].as_bool()?;
                    Some(Parameter { name: text(&parameter["name"])?, required, schema: parameter["schema"].clone() })
                })?;
                let (name, doc) = (text(&function["name"])?, text(&function["doc"])?);
                Some(Function { name, doc, parameters, returns: function["returns"].clone() })
            })?;
            Some(Operator { name: text(&operator["name"])?, doc: text(&operator["doc"])?, functions })
        })?;
        Some(App { name: text(&told["name"])?, deployment: text(&told["active"])?, operators })
    }
}

impl Function {
    /// All that must be given comes first, so arguments are given in order; else by name.
    pub(super) fn has_optional(&self) -> bool {
        self.parameters.iter().any(|parameter| !parameter.required)
    }
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// A name of a class: `line-item` is `LineItem`.
pub(super) fn class(name: &str) -> String {
    let mut class = String::new();
    for part in name.split(|char: char| !char.is_alphanumeric()).filter(|part| !part.is_empty()) {
        let mut chars = part.chars();
        class.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        class.extend(chars);
    }
    if class.starts_with(|first: char| first.is_ascii_digit()) || class.is_empty() {
        format!("_{class}")
    } else {
        class
    }
}

/// A name of a method or a parameter: what no name may have is an underscore, and one that is taken ends with one.
pub(super) fn identifier(name: &str, taken: &[&str]) -> String {
    let mut identifier: String = name.chars().map(|char| if char.is_alphanumeric() { char } else { '_' }).collect();
    if identifier.starts_with(|first: char| first.is_ascii_digit()) || identifier.is_empty() {
        identifier.insert(0, '_');
    }
    if taken.contains(&&*identifier) {
        identifier.push('_');
    }
    identifier
}
