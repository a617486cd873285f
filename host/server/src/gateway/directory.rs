//! What is deployed, ready for requests: names to operators and functions, parameters compiled.
//!
//! Built from the catalog once per change of it, and shared by all connections. An app that did
//! not change keeps its compiled part.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use styx_protocol::abort::Code;
use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::OperatorSpec;
use styx_protocol::ids::OperatorId;

use super::parameter::Parameter;
use super::state_schema::StateSchema;
use crate::http::{ApiError, FunctionStats, Functions, nearest::suggestion, shorten, status_of};

/// Functions by app, operator and name, at one version of the catalog.
/// A few names are found sooner by comparing than by hashing.
#[derive(Debug)]
pub struct Directory {
    catalog: Arc<Catalog>,
    apps: BTreeMap<Arc<str>, Arc<App>>,
}

/// An app's live deployment.
#[derive(Debug)]
pub struct App {
    name: Arc<str>,
    deployment: String,
    operators: BTreeMap<Arc<str>, Operator>,
}

/// A live operator.
#[derive(Debug)]
pub struct Operator {
    pub id: OperatorId,
    pub name: Arc<str>,
    /// Most bytes of arguments.
    pub payload: u32,
    /// Whether it has `styx.migrate`.
    pub migrates: bool,
    functions: BTreeMap<Arc<str>, Function>,
}

/// A function of a live operator.
#[derive(Debug)]
pub struct Function {
    pub name: Arc<str>,
    /// True if it neither writes nor calls one that does.
    pub read_only: bool,
    /// In order.
    pub parameters: Vec<Parameter>,
    pub stats: &'static FunctionStats,
}

/// Function that a request names, with its operator and app.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub app: &'a str,
    pub operator: &'a Operator,
    pub function: &'a Function,
}

impl Directory {
    fn build(catalog: Arc<Catalog>, before: Option<&Directory>, stats: &Functions) -> Self {
        let mut apps = BTreeMap::new();
        for app in catalog.apps() {
            let kept = before.and_then(|before| before.apps.get(&app.name)).filter(|kept| {
                kept.deployment == app.active
                    && kept.operators.values().all(|operator| {
                        catalog.find(&app.name, &operator.name).is_ok_and(|live| live.id == operator.id)
                    })
            });
            let compiled = kept.cloned().unwrap_or_else(|| {
                let live = app.live();
                let operators = live.operators.iter().filter_map(|spec| {
                    let found = catalog.find(&app.name, &spec.name).ok()?;
                    let functions = spec.functions.iter().map(|function| {
                        let name = found.function_index(&function.name).map_or_else(|| function.name.as_str().into(), |at| found.function(at).name.clone());
                        let compile = |declared| Parameter::compile(declared).unwrap_or_else(|why| {
                            tracing::warn!(app = %app.name, operator = spec.name, function = function.name, "{why}; arguments are left to the function to check");
                            Parameter::unchecked(declared)
                        });
                        let parameters = function.parameters.iter().map(compile).collect();
                        let stats = stats.get(&app.name, &spec.name, &name);
                        (Arc::clone(&name), Function { name, read_only: function.read_only, parameters, stats })
                    });
                    let operator = Operator { id: found.id, name: found.name.clone(), payload: live.limits.payload, migrates: spec.state.migrates, functions: functions.collect() };
                    Some((found.name.clone(), operator))
                });
                Arc::new(App { name: app.name.clone(), deployment: app.active.clone(), operators: operators.collect() })
            });
            apps.insert(app.name.clone(), compiled);
        }
        Directory { catalog, apps }
    }

    /// The function that a request names.
    ///
    /// # Errors
    /// There is none such; the hint names the nearest.
    pub fn resolve(&self, app: &str, operator: &str, function: &str) -> Result<Target<'_>, ApiError> {
        let (app, operator) = self.operator(app, operator)?;
        let Some(function) = operator.functions.get(function) else {
            let message = format!("operator \"{}\" has no function \"{}\"", operator.name, shorten(function));
            return Err(unknown(
                Code::UnknownFunction,
                message,
                suggestion(function, operator.functions.keys().map(|name| &**name), "the operator has none"),
            ));
        };
        Ok(Target { app, operator, function })
    }

    /// An operator, and the name of its app.
    ///
    /// # Errors
    /// There is none such; the hint names the nearest.
    pub fn operator(&self, app: &str, operator: &str) -> Result<(&str, &Operator), ApiError> {
        let Some(found) = self.apps.get(app) else {
            let known = self.catalog.apps().map(|app| &*app.name);
            return Err(unknown(
                Code::UnknownApp,
                format!("no app \"{}\"", shorten(app)),
                suggestion(app, known, "nothing is deployed: `styx deploy <dir>`"),
            ));
        };
        let Some(operator) = found.operators.get(operator) else {
            let message = format!("app \"{app}\" has no operator \"{}\"", shorten(operator));
            return Err(unknown(
                Code::UnknownOperator,
                message,
                suggestion(operator, found.operators.keys().map(|name| &**name), "the app has none"),
            ));
        };
        Ok((&found.name, operator))
    }
}

pub(super) fn unknown(code: Code, message: String, hint: std::borrow::Cow<'static, str>) -> ApiError {
    ApiError::new(status_of(code), code.as_str(), message).hint(hint)
}

/// The directory in force.
#[derive(Debug)]
pub struct Directories {
    current: ArcSwap<Directory>,
    /// Held while a new one is built, so that it is built once.
    building: Mutex<()>,
    functions: Arc<Functions>,
}

impl Default for Directories {
    fn default() -> Self {
        Directories::counted_by(Arc::default())
    }
}

impl Directories {
    /// Nothing deployed yet; calls are counted there.
    pub fn counted_by(functions: Arc<Functions>) -> Self {
        let current = ArcSwap::from_pointee(Directory::build(Arc::default(), None, &functions));
        Directories { current, building: Mutex::new(()), functions }
    }

    /// The directory of `catalog`, compiled now if it is new.
    pub fn of(&self, catalog: Arc<Catalog>) -> Arc<Directory> {
        let current = self.current.load();
        if Arc::ptr_eq(&current.catalog, &catalog) {
            return Arc::clone(&current);
        }
        drop(current);
        let _building = self.building.lock().expect("nothing panics while holding this lock");
        let before = self.current.load_full();
        if Arc::ptr_eq(&before.catalog, &catalog) {
            return before;
        }
        // A request that loaded its catalog before a change does not undo the change.
        let newer = before.catalog.version() > catalog.version();
        let built = Arc::new(Directory::build(catalog, Some(&before), &self.functions));
        if !newer {
            self.current.store(built.clone());
        }
        built
    }
}

/// Returns true if every schema of an operator compiles. For uploads.
///
/// # Errors
/// One does not; the text says which and why.
pub fn check_schemas(operator: &OperatorSpec) -> Result<(), String> {
    for function in &operator.functions {
        for parameter in &function.parameters {
            Parameter::compile(parameter).map_err(|why| format!("{}.{}: {why}", operator.name, function.name))?;
        }
        let returns = super::json::strict(&function.returns)
            .map_err(|error| error.to_string())
            .and_then(|schema| super::schema::Schema::compile(&schema));
        returns.map_err(|why| {
            format!("{}.{}: the schema of its result is no JSON Schema: {why}", operator.name, function.name)
        })?;
    }
    StateSchema::of(operator).map(drop)
}
