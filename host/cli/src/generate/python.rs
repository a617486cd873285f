//! A client in Python, on the package `styx-client`.

use std::fmt::Write as _;

use super::app::{App, Function, Operator, class, identifier};
use super::schema::Type;

/// Names that a parameter or a method may not have, or that the methods themselves use.
const TAKEN: [&str; 37] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "self", "try", "while", "with", "yield", "_MISSING",
];

/// The module, and the types that it declares before the classes.
struct Module<'a> {
    app: &'a App,
    asyncio: bool,
    types: String,
    classes: String,
}

pub(super) fn module(app: &App, asyncio: bool) -> String {
    let mut module = Module { app, asyncio, types: String::new(), classes: String::new() };
    module.write().expect("a String takes everything");
    let (client, flag) = if asyncio { ("AsyncClient", " --asyncio") } else { ("Client", "") };
    format!(
        "\"\"\"Made by `styx generate client {} --lang python{flag}` of {}: make it again after a deployment.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import Any, Literal, NotRequired, TypedDict, cast\n\n\
         from styx_client import {client}\n\n\
         __all__ = [{}]\n\n\
         _MISSING: Any = object()\n\n\n\
         def _named(**given: Any) -> dict[str, Any]:\n    \
         return {{name: value for name, value in given.items() if value is not _MISSING}}\n\n{}{}",
        app.name,
        app.deployment,
        module.exported(),
        module.types,
        module.classes
    )
}

impl Module<'_> {
    fn exported(&self) -> String {
        let entities = self.app.operators.iter().map(|operator| self.entity(operator));
        let names = [class(&self.app.name)].into_iter().chain(entities);
        names.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    }

    fn entity(&self, operator: &Operator) -> String {
        let name = class(&operator.name);
        if name == class(&self.app.name) || ["Any", "Client", "AsyncClient", "Literal"].contains(&&*name) {
            format!("{name}Entity")
        } else {
            name
        }
    }

    fn client(&self) -> &'static str {
        if self.asyncio { "AsyncClient" } else { "Client" }
    }

    fn write(&mut self) -> std::fmt::Result {
        let app = self.app;
        let mut text = String::new();
        writeln!(text, "\nclass {}:\n    \"\"\"The app {}.\"\"\"\n", class(&app.name), app.name)?;
        writeln!(text, "    def __init__(self, client: {}, app: str = \"{}\") -> None:", self.client(), app.name)?;
        writeln!(text, "        self._client = client\n        self._app = app")?;
        for operator in &app.operators {
            let (method, entity) = (identifier(&operator.name, &TAKEN), self.entity(operator));
            writeln!(text, "\n    def {method}(self, key: str) -> {entity}:")?;
            doc(&mut text, "        ", &operator.doc);
            writeln!(text, "        return {entity}(self._client, self._app, key)")?;
        }
        self.classes.push_str(&text);
        for operator in &app.operators {
            self.write_operator(operator)?;
        }
        Ok(())
    }

    fn write_operator(&mut self, operator: &Operator) -> std::fmt::Result {
        let mut text = String::new();
        writeln!(text, "\n\nclass {}:", self.entity(operator))?;
        doc(&mut text, "    ", &operator.doc);
        if !operator.doc.trim().is_empty() {
            text.push('\n');
        }
        writeln!(text, "    def __init__(self, client: {}, app: str, key: str) -> None:", self.client())?;
        writeln!(text, "        self._client = client\n        self._app = app\n        self.key = key")?;
        self.classes.push_str(&text);
        for function in &operator.functions {
            self.write_function(operator, function)?;
        }
        Ok(())
    }

    fn write_function(&mut self, operator: &Operator, function: &Function) -> std::fmt::Result {
        let hint = class(&operator.name) + &class(&function.name);
        let names: Vec<_> = function.parameters.iter().map(|parameter| identifier(&parameter.name, &TAKEN)).collect();
        let mut parameters = vec!["self".to_owned()];
        for is_required in [true, false] {
            for (parameter, name) in function.parameters.iter().zip(&names) {
                if parameter.required == is_required {
                    let of = self.written(&Type::of(&parameter.schema), &format!("{hint}{}", class(&parameter.name)));
                    parameters.push(if is_required {
                        format!("{name}: {of}")
                    } else {
                        format!("{name}: {of} = _MISSING")
                    });
                }
            }
        }
        let args = if function.has_optional() {
            let named = function.parameters.iter().zip(&names);
            let named = named.map(|(parameter, name)| format!("\"{}\": {name}", parameter.name));
            format!("_named(**{{{}}})", named.collect::<Vec<_>>().join(", "))
        } else {
            format!("[{}]", names.join(", "))
        };
        let returns = self.written(&Type::of(&function.returns), &format!("{hint}Result"));
        let (define, wait) = if self.asyncio { ("async def", "await ") } else { ("def", "") };
        let name = identifier(&function.name, &[&TAKEN[..], &["key"]].concat());
        let text = &mut self.classes;
        writeln!(text, "\n    {define} {name}({}) -> {returns}:", parameters.join(", "))?;
        doc(text, "        ", &function.doc);
        let called =
            format!("self._client.request(self._app, \"{}\", self.key, \"{}\", {args})", operator.name, function.name);
        writeln!(text, "        reply = {wait}{called}\n        return cast({}, reply.value)", quoted(&returns))
    }

    /// A type; objects with known properties are declared under a name.
    fn written(&mut self, of: &Type, hint: &str) -> String {
        match of {
            Type::Any => "Any".into(),
            Type::Null => "None".into(),
            Type::Boolean => "bool".into(),
            Type::Integer => "int".into(),
            Type::Number => "float".into(),
            Type::Text => "str".into(),
            Type::Literals(values) => literals(values),
            Type::List(item) => format!("list[{}]", self.written(item, hint)),
            Type::Map(value) => format!("dict[str, {}]", self.written(value, hint)),
            Type::Tuple(items) if items.is_empty() => "tuple[()]".into(),
            // What comes back is a list, and what is given may be one.
            Type::Tuple(items) => {
                let items = items.iter().enumerate().map(|(at, item)| self.written(item, &format!("{hint}{at}")));
                let mut different: Vec<String> = Vec::new();
                for item in items.collect::<Vec<_>>() {
                    if !different.contains(&item) {
                        different.push(item);
                    }
                }
                format!("list[{}]", different.join(" | "))
            }
            Type::Record(properties) => {
                let mut fields = Vec::new();
                for (name, required, of) in properties {
                    let of = self.written(of, &format!("{hint}{}", class(name)));
                    let of = if *required { of } else { format!("NotRequired[{of}]") };
                    fields.push(format!("{}: {}", quoted(name), quoted(&of)));
                }
                let declared = format!("\n{hint} = TypedDict(\"{hint}\", {{{}}})\n", fields.join(", "));
                self.types.push_str(&declared);
                hint.to_owned()
            }
            Type::Union(choices) => {
                let choices = choices.iter().enumerate();
                let written = choices.map(|(at, choice)| {
                    self.written(choice, &format!("{hint}{}", if at == 0 { String::new() } else { at.to_string() }))
                });
                written.collect::<Vec<_>>().join(" | ")
            }
        }
    }
}

fn literals(values: &[serde_json::Value]) -> String {
    let literal = |value: &serde_json::Value| match value {
        serde_json::Value::Null => Some("None".to_owned()),
        serde_json::Value::Bool(true) => Some("True".to_owned()),
        serde_json::Value::Bool(false) => Some("False".to_owned()),
        serde_json::Value::String(text) => Some(quoted(text)),
        serde_json::Value::Number(number) if number.is_i64() => Some(number.to_string()),
        _ => None,
    };
    match values.iter().map(literal).collect::<Option<Vec<_>>>() {
        Some(literals) if !literals.is_empty() => format!("Literal[{}]", literals.join(", ")),
        _ => "Any".into(),
    }
}

fn doc(text: &mut String, indent: &str, doc: &str) {
    let doc = doc.trim().replace('\\', "\\\\").replace("\"\"\"", "'''");
    if doc.is_empty() {
        return;
    }
    let lines: Vec<_> = doc.lines().map(str::trim_end).collect();
    let joined = lines.join(&format!("\n{indent}")).replace(&format!("\n{indent}\n"), "\n\n");
    let end = match lines[..] {
        [line] if line.ends_with('"') => " ".to_owned(),
        [_] => String::new(),
        _ => format!("\n{indent}"),
    };
    writeln!(text, "{indent}\"\"\"{joined}{end}\"\"\"").expect("a String takes everything");
}

/// A text as a literal: what JSON escapes, Python reads alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
