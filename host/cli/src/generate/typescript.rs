//! A client in TypeScript, on the package `styx-client`.

use std::fmt::Write as _;

use super::app::{App, Function, Operator, class, identifier};
use super::schema::Type;

/// Names that a parameter may not have, or that the methods themselves use.
const TAKEN: [&str; 40] = [
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "interface",
    "let",
    "new",
    "null",
    "options",
    "package",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "var",
    "void",
];

pub(super) fn module(app: &App) -> String {
    let mut text = format!(
        "// Made by `styx generate client {0} --lang typescript` of {1}: make it again after a deployment.\n\
         import {{ type CallOptions, Client }} from 'styx-client';\n",
        app.name, app.deployment
    );
    let name = class(&app.name);
    let write = |text: &mut String| -> std::fmt::Result {
        writeln!(text, "\n/** The app {}. */\nexport class {name} {{", app.name)?;
        writeln!(text, "  constructor(\n    readonly client: Client,\n    readonly app = '{}',\n  ) {{}}", app.name)?;
        for operator in &app.operators {
            let (method, entity) =
                (identifier(&operator.name, &["app", "client", "constructor"]), entity(app, operator));
            text.push('\n');
            doc(text, "  ", &operator.doc);
            writeln!(
                text,
                "  {method}(key: string): {entity} {{\n    return new {entity}(this.client, this.app, key);\n  }}"
            )?;
        }
        writeln!(text, "}}")?;
        for operator in &app.operators {
            write_operator(text, app, operator)?;
        }
        Ok(())
    };
    write(&mut text).expect("a String takes everything");
    text
}

fn entity(app: &App, operator: &Operator) -> String {
    let (name, of_app) = (class(&operator.name), class(&app.name));
    if name == of_app || name == "Client" { format!("{name}Entity") } else { name }
}

fn write_operator(text: &mut String, app: &App, operator: &Operator) -> std::fmt::Result {
    text.push('\n');
    doc(text, "", &operator.doc);
    writeln!(text, "export class {} {{", entity(app, operator))?;
    writeln!(
        text,
        "  constructor(\n    readonly client: Client,\n    readonly app: string,\n    readonly key: string,\n  ) {{}}"
    )?;
    for function in &operator.functions {
        write_function(text, operator, function)?;
    }
    writeln!(text, "}}")
}

fn write_function(text: &mut String, operator: &Operator, function: &Function) -> std::fmt::Result {
    text.push('\n');
    doc(text, "  ", &function.doc);
    let names: Vec<_> = function.parameters.iter().map(|parameter| identifier(&parameter.name, &TAKEN)).collect();
    let mut parameters = Vec::new();
    // What may be left out comes last, as the language wants it.
    for is_required in [true, false] {
        for (parameter, name) in function.parameters.iter().zip(&names) {
            if parameter.required == is_required {
                let optional = if is_required { "" } else { "?" };
                parameters.push(format!("{name}{optional}: {}", written(&Type::of(&parameter.schema), true)));
            }
        }
    }
    parameters.push("options?: CallOptions".to_owned());
    let args = if function.has_optional() {
        let named = function
            .parameters
            .iter()
            .zip(&names)
            .map(|(parameter, name)| format!("{}: {name}", quoted(&parameter.name)));
        format!("{{ {} }}", named.collect::<Vec<_>>().join(", "))
    } else {
        format!("[{}]", names.join(", "))
    };
    let method = identifier(&function.name, &["app", "client", "constructor", "key"]);
    let returns = written(&Type::of(&function.returns), false);
    writeln!(text, "  {method}({}): Promise<{returns}> {{", parameters.join(", "))?;
    let called =
        format!("this.client.call(this.app, '{}', this.key, '{}', {args}, options)", operator.name, function.name);
    writeln!(text, "    return {called} as Promise<{returns}>;\n  }}")
}

/// A comment, which nothing in it ends.
fn doc(text: &mut String, indent: &str, doc: &str) {
    let doc = doc.replace("*/", "* /");
    let lines: Vec<_> = doc.trim().lines().map(str::trim_end).collect();
    match lines[..] {
        [] => {}
        [line] => writeln!(text, "{indent}/** {line} */").expect("a String takes everything"),
        _ => {
            writeln!(text, "{indent}/**").expect("a String takes everything");
            for line in lines {
                writeln!(text, "{}", format!("{indent} * {line}").trim_end()).expect("a String takes everything");
            }
            writeln!(text, "{indent} */").expect("a String takes everything");
        }
    }
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// A type. Integers that a number cannot hold are bigints: they may be given; where one comes back, it is declared as a number.
fn written(of: &Type, given: bool) -> String {
    match of {
        Type::Any => "unknown".into(),
        Type::Null => "null".into(),
        Type::Boolean => "boolean".into(),
        Type::Integer if given => "number | bigint".into(),
        Type::Integer | Type::Number => "number".into(),
        Type::Text => "string".into(),
        Type::Literals(values) => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "),
        Type::List(item) => format!("Array<{}>", written(item, given)),
        Type::Tuple(items) => {
            format!("[{}]", items.iter().map(|item| written(item, given)).collect::<Vec<_>>().join(", "))
        }
        Type::Map(value) => format!("Record<string, {}>", written(value, given)),
        Type::Record(properties) => {
            let property = |(name, required, of): &(String, bool, Type)| {
                format!("{}{}: {}", quoted(name), if *required { "" } else { "?" }, written(of, given))
            };
            format!("{{ {} }}", properties.iter().map(property).collect::<Vec<_>>().join("; "))
        }
        Type::Union(choices) => choices.iter().map(|choice| written(choice, given)).collect::<Vec<_>>().join(" | "),
    }
}
