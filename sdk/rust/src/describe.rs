//! What an operator tells about itself at upload: the gateway validates by it, and
//! the app's OpenAPI page is made of it.

use crate::{Context, Result};

/// A kind of entity. Implemented by `#[operator]`.
pub trait Operator {
    /// The name by which it is called.
    const NAME: &'static str;

    /// Its functions, their parameters and results.
    fn describe() -> OperatorDescription;

    /// Runs a function on JSON arguments.
    fn invoke(function: &str, context: &mut Context, arguments: &[u8]) -> Result<Vec<u8>>;
}

/// An operator, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorDescription {
    /// A letter, then letters, digits, `_` and `-`.
    pub name: &'static str,
    /// With a prefix, keys read `prefix:rest` and those of one prefix live together.
    pub key_prefix: Option<&'static str>,
    /// Documentation, possibly empty.
    pub doc: &'static str,
    /// In the order of the source.
    pub functions: Vec<FunctionDescription>,
}

/// A function, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDescription {
    /// The name by which it is called.
    pub name: &'static str,
    /// After the key, in the declared order.
    pub parameters: Vec<ParameterDescription>,
    /// JSON Schema of the result.
    pub returns: String,
    /// Writes nothing and calls nothing that does.
    pub read_only: bool,
    /// Documentation, possibly empty.
    pub doc: &'static str,
}

/// A parameter, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterDescription {
    /// The name by which it may be passed.
    pub name: &'static str,
    /// JSON Schema of the value.
    pub schema: String,
    /// False if it may be left out (an `Option`).
    pub required: bool,
}
