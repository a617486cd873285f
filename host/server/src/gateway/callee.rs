//! Callee: the function that a client calls, an app's or the system's.

use styx_protocol::abort::Code;
use styx_protocol::catalog::Catalog;
use styx_protocol::system::SystemFunction;
use styx_protocol::token::Scope;
use styx_protocol::transaction::Request;

use super::directory::{Directory, Operator, Target, unknown};
use super::request::{Call, check_key, prepare, request_id};
use super::system::arguments;
use crate::auth::Visitor;
use crate::http::{ApiError, FunctionStats};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub enum Callee<'a> {
    /// What the app declares.
    Declared(Target<'a>),
    /// What every operator has.
    System { app: &'a str, operator: &'a Operator, function: SystemFunction },
}

/// Checks that somebody may call the function of this name.
///
/// # Errors
/// 401 or 403.
pub fn admit(visitor: &mut Visitor, app: &str, function: &str, catalog: &Catalog) -> Result<(), ApiError> {
    match SystemFunction::named(function) {
        None => visitor.may(Scope::Invoke, Some(app), catalog),
        Some(_) => visitor.may_change(app, catalog),
    }
}

impl Directory {
    /// The function that a client calls.
    ///
    /// # Errors
    /// There is none such; the hint names the nearest.
    pub fn callee(&self, app: &str, operator: &str, function: &str) -> Result<Callee<'_>, ApiError> {
        let Some(function) = SystemFunction::named(function) else {
            return self.resolve(app, operator, function).map(Callee::Declared);
        };
        let (app, operator) = self.operator(app, operator)?;
        if function == SystemFunction::Migrate && !operator.migrates {
            let message = format!("operator \"{}\" has no migration", operator.name);
            return Err(unknown(
                Code::UnknownFunction,
                message,
                "its app brings one with the type of its state".into(),
            ));
        }
        Ok(Callee::System { app, operator, function })
    }
}

impl Callee<'_> {
    /// Most bytes of arguments.
    pub fn payload(&self) -> u32 {
        match self {
            Callee::Declared(Target { operator, .. }) | Callee::System { operator, .. } => operator.payload,
        }
    }

    pub fn is_read_only(&self) -> bool {
        matches!(self, Callee::Declared(target) if target.function.read_only)
    }

    /// Counters; there are none of system functions.
    pub fn stats(&self) -> Option<&'static FunctionStats> {
        match self {
            Callee::Declared(target) => Some(target.function.stats),
            Callee::System { .. } => None,
        }
    }

    /// Validates a call. `scratch` is memory to be used again; what it held is lost.
    ///
    /// # Errors
    /// 400 or 413, with the reason.
    pub fn prepare(self, call: Call<'_>, scratch: &mut Vec<u8>) -> Result<Request, ApiError> {
        let (app, operator, function) = match self {
            Callee::Declared(target) => return prepare(target, call, scratch),
            Callee::System { app, operator, function } => (app, operator, function),
        };
        check_key(call.key)?;
        let args = arguments(function, call.args)?;
        let payload = u64::from(operator.payload);
        if args.len() as u64 > payload {
            return Err(ApiError::too_large("the value", payload)
                .hint("write less, or raise `payload` in [limits] of styx.toml"));
        }
        Ok(call.request(request_id(app, &call)?, operator.id, function.name().into(), args.into()))
    }
}
