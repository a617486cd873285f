//! Asks a component once what it implements, in a fresh instance without a transaction, and checks
//! the answer before it goes into the log.

use std::collections::BTreeSet;

use styx_protocol::deployment::{Consistency, Function, Isolation, OperatorSpec, Parameter, StateSpec};
use styx_protocol::system::{STATE, SystemFunction};
use wasmtime::Store;
use wasmtime::component::{ComponentType, Lift};

use super::error::{UploadCode, UploadError};
use crate::component::LinkedComponent;
use crate::guest::Guest;
use crate::instance;
use crate::limits;
use crate::outcome::{self, Bounds, FuelBound};

/// Fuel for `describe`.
const FUEL: u64 = 1_000_000_000;
/// Bytes that `describe` may return.
const BYTES_MAX: usize = 8 << 20;

const OPERATORS_MAX: usize = 256;
const FUNCTIONS_MAX: usize = 1024;
const PARAMETERS_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;
const SCHEMA_BYTES_MAX: usize = 64 << 10;
const DOC_BYTES_MAX: usize = 16 << 10;

#[derive(ComponentType, Lift)]
#[component(record)]
struct ParameterDescription {
    name: String,
    schema: String,
    required: bool,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct FunctionDescription {
    name: String,
    parameters: Vec<ParameterDescription>,
    returns: String,
    #[component(name = "read-only")]
    read_only: bool,
    doc: String,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct OperatorDescription {
    name: String,
    #[component(name = "key-prefix")]
    key_prefix: Option<String>,
    doc: String,
    functions: Vec<FunctionDescription>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct Description {
    sdk: String,
    operators: Vec<OperatorDescription>,
}

/// Description that a component gives of itself.
pub(super) struct Described {
    pub sdk: String,
    pub operators: Vec<OperatorSpec>,
    /// Linear memory after start-up, in bytes.
    pub memory: u64,
}

/// Runs `describe`.
pub(super) fn describe(component: &LinkedComponent) -> Result<Described, UploadError> {
    let memory_max = limits::MEMORY_BYTES_MAX as usize;
    let mut store = instance::new_store(component, memory_max, None);
    store.set_hostcall_fuel(BYTES_MAX);
    let mismatch = |error: wasmtime::Error| {
        let message = format!("an export has another type than the contract's: {}", crate::compiler::one_line(&error));
        UploadError::new(UploadCode::MissingExport, message, "build it for the world styx:guest/function@0.2.0")
    };
    let started = component.pre.instantiate(&mut store);
    let bounds = |store: &Store<Guest>, fuel| {
        let denied = store.data().memory.denied;
        Bounds { denied, memory_max, fuel: FuelBound::Host(fuel) }
    };
    let start = bounds(&store, limits::START_FUEL);
    let trapped = |store: &Store<Guest>, error, running, bounds| {
        let message = outcome::of_trap(&error, running, bounds).message;
        failed(match store.data().said() {
            Some(line) => format!("{message}: {line}"),
            None => message,
        })
    };
    let instance = started.map_err(|error| trapped(&store, error, "the component, starting,", start))?;
    let describe = instance.get_typed_func::<(), (Description,)>(&mut store, component.describe).map_err(mismatch)?;
    instance::Instance::check_type(&instance, &mut store, component).map_err(mismatch)?;
    let memory = store.data().memory.used as u64;
    store.set_fuel(FUEL).expect("fuel is on");
    let described = describe.call(&mut store, ());
    let end = bounds(&store, FUEL);
    let (description,) = described.map_err(|error| trapped(&store, error, "describe", end))?;
    let (sdk, operators) = check(description).map_err(failed)?;
    Ok(Described { sdk, operators, memory })
}

fn failed(message: String) -> UploadError {
    UploadError::new(
        UploadCode::DescribeFailed,
        message,
        "see what the project registers; describe() must work without any state",
    )
}

/// Checks a description and turns it into the catalog's words.
fn check(description: Description) -> Result<(String, Vec<OperatorSpec>), String> {
    if description.operators.is_empty() {
        return Err("the component describes no operator".into());
    }
    at_most("operators", description.operators.len(), OPERATORS_MAX)?;
    let mut names = BTreeSet::new();
    let mut operators = Vec::new();
    for operator in description.operators {
        check_name("operator", &operator.name)?;
        if !names.insert(operator.name.clone()) {
            return Err(format!("operator \"{}\" is described twice", operator.name));
        }
        if let Some(prefix) = &operator.key_prefix {
            check_name("key prefix", prefix)?;
        }
        let (functions, state) = check_functions(&operator.name, operator.functions)?;
        if functions.is_empty() && state.schema.is_none() {
            return Err(format!("operator \"{}\" has no function", operator.name));
        }
        operators.push(OperatorSpec {
            functions,
            state,
            name: operator.name,
            component: 0,
            key_prefix: operator.key_prefix,
            isolation: Isolation::default(),
            doc: clip(operator.doc),
        });
    }
    let sdk: String = description.sdk.chars().filter(|letter| !letter.is_control()).take(NAME_BYTES_MAX).collect();
    Ok((sdk, operators))
}

/// The functions of an operator, and what is described among them of its state.
fn check_functions(operator: &str, described: Vec<FunctionDescription>) -> Result<(Vec<Function>, StateSpec), String> {
    at_most(&format!("functions of operator \"{operator}\""), described.len(), FUNCTIONS_MAX)?;
    let mut names = BTreeSet::new();
    let mut functions = Vec::new();
    let mut state = StateSpec::default();
    for function in described {
        let called = format!("{operator}.{}", function.name);
        let is_state = function.name == STATE;
        let is_migration = function.name == SystemFunction::Migrate.name();
        if !is_state && !is_migration {
            check_name("function", &function.name)?;
        }
        if !names.insert(function.name.clone()) {
            return Err(format!("function \"{called}\" is described twice"));
        }
        if is_state || is_migration {
            at_most(&format!("parameters of \"{called}\""), function.parameters.len(), 0)?;
            if is_migration {
                state.migrates = true;
            } else {
                state.schema = Some(check_schema(&format!("the state of \"{operator}\""), function.returns)?);
            }
            continue;
        }
        at_most(&format!("parameters of \"{called}\""), function.parameters.len(), PARAMETERS_MAX)?;
        let mut parameters: Vec<Parameter> = Vec::new();
        for ParameterDescription { name, schema, required } in function.parameters {
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
                return Err(format!(
                    "\"{called}\" has a parameter without a name or with one of more than {NAME_BYTES_MAX} bytes"
                ));
            }
            if parameters.iter().any(|known| known.name == name) {
                return Err(format!("\"{called}\" has two parameters called \"{name}\""));
            }
            let schema = check_schema(&format!("parameter \"{name}\" of \"{called}\""), schema)?;
            parameters.push(Parameter { name, schema, required });
        }
        let returns = check_schema(&format!("the result of \"{called}\""), function.returns)?;
        functions.push(Function {
            name: function.name,
            parameters,
            returns,
            read_only: function.read_only,
            consistency: Consistency::default(),
            doc: clip(function.doc),
        });
    }
    if state.migrates && state.schema.is_none() {
        return Err(format!("operator \"{operator}\" migrates its entities, and does not say to what type"));
    }
    Ok((functions, state))
}

/// A letter, then letters, digits, `_` and `-`.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let mut letters = name.bytes();
    let begins = letters.next().is_some_and(|letter| letter.is_ascii_alphabetic());
    let goes_on = letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'-');
    if begins && goes_on && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    Err(format!("{what} name {shown:?} is not a letter followed by letters, digits, _ and -, {NAME_BYTES_MAX} in all"))
}

/// A JSON Schema: an object or a boolean. Nothing at all stands for anything.
fn check_schema(whose: &str, schema: String) -> Result<String, String> {
    if schema.trim().is_empty() {
        return Ok("{}".into());
    }
    if schema.len() > SCHEMA_BYTES_MAX {
        return Err(format!(
            "the schema of {whose} has {} bytes, and at most {SCHEMA_BYTES_MAX} are allowed",
            schema.len()
        ));
    }
    match serde_json::from_str::<serde_json::Value>(&schema) {
        Ok(serde_json::Value::Object(_) | serde_json::Value::Bool(_)) => Ok(schema),
        Ok(_) => Err(format!("the schema of {whose} is neither an object nor a boolean")),
        Err(error) => Err(format!("the schema of {whose} is not JSON: {error}")),
    }
}

fn at_most(what: &str, count: usize, max: usize) -> Result<(), String> {
    if count <= max { Ok(()) } else { Err(format!("there are {count} {what}, and at most {max} are allowed")) }
}

fn clip(mut doc: String) -> String {
    doc.truncate(doc.floor_char_boundary(DOC_BYTES_MAX));
    doc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(names: &[&str], schema: &str) -> Result<(String, Vec<OperatorSpec>), String> {
        let function = |name: &&str| FunctionDescription {
            name: name.to_string(),
            parameters: vec![ParameterDescription { name: "n".into(), schema: schema.into(), required: true }],
            returns: String::new(),
            read_only: false,
            doc: "ü".repeat(DOC_BYTES_MAX),
        };
        let functions = names.iter().map(function).collect();
        check(Description {
            sdk: "test\n1".into(),
            operators: vec![OperatorDescription {
                name: "item".into(),
                key_prefix: None,
                doc: String::new(),
                functions,
            }],
        })
    }

    #[test]
    fn descriptions_are_checked() {
        let (sdk, operators) = described(&["get", "put-2_x"], "{\"type\":\"integer\"}").unwrap();
        assert_eq!((sdk.as_str(), operators[0].functions.len()), ("test1", 2));
        assert_eq!(operators[0].functions[0].returns, "{}");
        assert!(operators[0].functions[0].doc.len() <= DOC_BYTES_MAX);
        let long = "x".repeat(65);
        for (names, schema, says) in [
            (&["get", "get"][..], "{}", "twice"),
            (&["1get"], "{}", "1get"),
            (&[""], "{}", "\"\""),
            (&["a.b"], "{}", "a.b"),
            (&[&long], "{}", "64"),
            (&["get"], "{", "not JSON"),
            (&["get"], "3", "neither"),
        ] {
            let error = described(names, schema).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let (_, operators) = described(&["get"], "{}").unwrap();
        assert_eq!(operators[0].state, StateSpec::default());
        assert!(check(Description { sdk: String::new(), operators: Vec::new() }).unwrap_err().contains("no operator"));
    }

    #[test]
    fn what_is_described_of_state_is_no_function() {
        const INT: &str = r#"{"type":"integer"}"#;
        let operator = |functions: &[(&str, bool, &str)]| {
            let function = |&(name, takes, returns): &(&str, bool, &str)| FunctionDescription {
                name: name.to_string(),
                parameters: takes
                    .then(|| ParameterDescription { name: "n".into(), schema: String::new(), required: false })
                    .into_iter()
                    .collect(),
                returns: returns.into(),
                read_only: false,
                doc: String::new(),
            };
            let functions = functions.iter().map(function).collect();
            check_functions("item", functions)
                .map(|(functions, state)| (functions.into_iter().map(|known| known.name).collect::<Vec<_>>(), state))
        };
        let state = |schema: &str, migrates| StateSpec { schema: Some(schema.into()), migrates };
        for (functions, expected) in [
            (&[("get", true, ""), ("styx.state", false, INT)][..], state(INT, false)),
            (&[("styx.state", false, ""), ("get", false, "")], state("{}", false)),
            (
                &[("styx.migrate", false, "{\"type\":\"boolean\"}"), ("get", false, ""), ("styx.state", false, INT)],
                state(INT, true),
            ),
        ] {
            assert_eq!(operator(functions), Ok((vec!["get".to_owned()], expected)));
        }
        for (functions, says) in [
            (&[("styx.state", false, "{")][..], "the schema of the state of \"item\" is not JSON"),
            (&[("styx.state", false, "[]")], "neither an object"),
            (&[("styx.state", true, INT)], "1 parameters of \"item.styx.state\", and at most 0"),
            (&[("styx.state", false, INT), ("styx.migrate", true, "")], "item.styx.migrate"),
            (&[("styx.state", false, INT), ("styx.state", false, INT)], "twice"),
            (&[("styx.migrate", false, "")], "does not say to what type"),
            (&[("styx.put", false, "")], "styx.put"),
            (&[("styx.", false, "")], "styx."),
        ] {
            let error = operator(functions).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
