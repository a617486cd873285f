//! Arguments as clients send them, brought into the one form that guests get: a compact JSON
//! array in the order of the declared parameters, every element checked against its schema.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::directory::Function;
use crate::http::{ApiError, nearest::suggestion, shorten};

/// Appends the normal form of `body`: an array (by position), an object (by name), `null` or
/// nothing. Optional parameters at the end that are not given stay out.
///
/// # Errors
/// 400 `BAD_ARGUMENTS`, with the parameter and the reason.
pub fn normalise(function: &Function, body: &[u8], out: &mut Vec<u8>) -> Result<(), ApiError> {
    let refused = |why: &dyn fmt::Display| refuse(function, format!("arguments {why}"));
    let text = std::str::from_utf8(body)
        .map_err(|error| refused(&format_args!("are not UTF-8: byte {} is wrong", error.valid_up_to())))?;
    let text = text.trim_matches([' ', '\n', '\r', '\t']);
    let mut fault = None;
    let reader = &mut serde_json::Deserializer::from_str(text);
    let read = match text.as_bytes().first() {
        None => Positional { function, out, fault: &mut fault }
            .finish(0)
            .map_err(|Reported| serde_json::Error::custom("reported")),
        _ if text == "null" => Positional { function, out, fault: &mut fault }
            .finish(0)
            .map_err(|Reported| serde_json::Error::custom("reported")),
        Some(b'[') => {
            reader.deserialize_seq(Positional { function, out, fault: &mut fault }).and_then(|()| reader.end())
        }
        Some(b'{') => reader.deserialize_map(Named { function, out, fault: &mut fault }).and_then(|()| reader.end()),
        Some(_) => {
            let hint = if serde_json::from_str::<&RawValue>(text).is_ok() {
                format!("; for one argument: [{}]", shorten(text))
            } else {
                String::new()
            };
            return Err(refused(&format_args!("must be a JSON array (by position) or object (by name){hint}")));
        }
    };
    match (fault, read) {
        (Some(fault), _) => Err(refuse(function, fault)),
        (None, Err(error)) => Err(refused(&format_args!("are not valid JSON: {error}"))),
        (None, Ok(())) => Ok(()),
    }
}

/// The error, with the function's signature as its hint.
fn refuse(function: &Function, message: String) -> ApiError {
    let parameters: Vec<String> = function
        .parameters
        .iter()
        .map(|parameter| format!("{}{}: {}", parameter.name, if parameter.required { "" } else { "?" }, parameter.kind))
        .collect();
    ApiError::bad_arguments(message).hint(format!("it takes {}({})", function.name, parameters.join(", ")))
}

/// Error whose text is in `fault`.
struct Reported;

/// Arguments by position, written as they are read.
struct Positional<'a> {
    function: &'a Function,
    out: &'a mut Vec<u8>,
    fault: &'a mut Option<String>,
}

impl Positional<'_> {
    fn finish(self, given: usize) -> Result<(), Reported> {
        if let Some(missing) = self.function.parameters[given..].iter().find(|parameter| parameter.required) {
            *self.fault = Some(format!("parameter `{}` is missing", missing.name));
            return Err(Reported);
        }
        self.out.extend_from_slice(if given == 0 { b"[]" } else { b"]" });
        Ok(())
    }
}

impl<'de> Visitor<'de> for Positional<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of arguments")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let mut given = 0;
        while let Some(element) = elements.next_element::<&RawValue>()? {
            let Some(parameter) = self.function.parameters.get(given) else {
                let takes = self.function.parameters.len();
                *self.fault = Some(format!(
                    "{} takes {takes} argument{}, and there are more",
                    self.function.name,
                    if takes == 1 { "" } else { "s" }
                ));
                return Err(A::Error::custom("reported"));
            };
            self.out.push(if given == 0 { b'[' } else { b',' });
            if let Err(why) = parameter.take(element.get(), self.out) {
                *self.fault = Some(format!("parameter `{}` {why}", parameter.name));
                return Err(A::Error::custom("reported"));
            }
            given += 1;
        }
        self.finish(given).map_err(|Reported| A::Error::custom("reported"))
    }
}

/// Arguments by name.
struct Named<'a> {
    function: &'a Function,
    out: &'a mut Vec<u8>,
    fault: &'a mut Option<String>,
}

impl<'de> Visitor<'de> for Named<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of arguments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let parameters = &self.function.parameters;
        let mut given: Vec<Option<&RawValue>> = vec![None; parameters.len()];
        while let Some(name) = entries.next_key::<Name<'de>>()? {
            let Some(at) = parameters.iter().position(|parameter| parameter.name == name.0) else {
                let known = parameters.iter().map(|parameter| parameter.name.as_str());
                let suggestion = suggestion(&name.0, known, "it takes none");
                *self.fault =
                    Some(format!("{} has no parameter `{}`; {suggestion}", self.function.name, shorten(&name.0)));
                return Err(A::Error::custom("reported"));
            };
            if given[at].replace(entries.next_value()?).is_some() {
                *self.fault = Some(format!("parameter `{}` is given twice", parameters[at].name));
                return Err(A::Error::custom("reported"));
            }
        }
        let last = given.iter().rposition(Option::is_some).map_or(0, |at| at + 1);
        for (at, (parameter, argument)) in parameters.iter().zip(&given).enumerate() {
            if at >= last && !parameter.required {
                continue;
            }
            self.out.push(if at == 0 { b'[' } else { b',' });
            let taken = match argument {
                Some(argument) => parameter.take(argument.get(), self.out),
                None if parameter.required => Err(String::from("is missing")),
                // An array has no gaps: what is left out before what is given gets its default.
                None => match &parameter.default {
                    Some(default) => {
                        self.out.extend_from_slice(default);
                        Ok(())
                    }
                    None => parameter.take("null", self.out).map_err(|_| {
                        format!("has no default, so it must be given along with `{}`", parameters[last - 1].name)
                    }),
                },
            };
            if let Err(why) = taken {
                *self.fault = Some(format!("parameter `{}` {why}", parameter.name));
                return Err(A::Error::custom("reported"));
            }
        }
        let empty = last == 0 && !parameters.iter().any(|parameter| parameter.required);
        self.out.extend_from_slice(if empty { b"[]" } else { b"]" });
        Ok(())
    }
}

/// A key of an object, borrowed unless it has escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
