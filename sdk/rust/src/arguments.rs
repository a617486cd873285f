//! Arguments and results as JSON: an array in the order of the declared parameters.
//!
//! Decoding is positional and goes straight from the text into the parameters'
//! types, without a tree in between. What is left out at the end is handed to the
//! parameter's type as a missing field would be: an `Option` becomes `None`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::Error as ValueError;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};

use crate::{Abort, Result, json};

/// Arguments of a call: a tuple, `()` for none; `&[u8]` passes JSON text as it is.
pub trait Arguments {
    /// The JSON array.
    fn encode(&self) -> Result<Vec<u8>>;
}

impl Arguments for () {
    fn encode(&self) -> Result<Vec<u8>> {
        Ok(b"[]".to_vec())
    }
}

impl Arguments for [u8] {
    fn encode(&self) -> Result<Vec<u8>> {
        Ok(self.to_vec())
    }
}

impl<T: Arguments + ?Sized> Arguments for &T {
    fn encode(&self) -> Result<Vec<u8>> {
        (**self).encode()
    }
}

/// Tuples of parameters that can be read from a JSON array.
pub trait Decode: Sized {
    /// Reads one element per parameter.
    fn read<'de, A: SeqAccess<'de>>(elements: &mut Elements<A>) -> Result<Self, A::Error>;
}

impl Decode for () {
    fn read<'de, A: SeqAccess<'de>>(_: &mut Elements<A>) -> Result<Self, A::Error> {
        Ok(())
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)+) => {$(
        impl<$($name: Serialize),+> Arguments for ($($name,)+) {
            fn encode(&self) -> Result<Vec<u8>> {
                json::encode(self).map_err(Abort::bug)
            }
        }

        impl<$($name: for<'any> Deserialize<'any>),+> Decode for ($($name,)+) {
            fn read<'de, Access: SeqAccess<'de>>(elements: &mut Elements<Access>) -> Result<Self, Access::Error> {
                Ok(($(elements.next::<$name>()?,)+))
            }
        }
    )+};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
}

/// The elements of the array, with the parameters' names for the messages.
pub struct Elements<A> {
    access: A,
    names: std::slice::Iter<'static, &'static str>,
}

impl<A> Elements<A> {
    fn next<'de, T: Deserialize<'de>>(&mut self) -> Result<T, A::Error>
    where
        A: SeqAccess<'de>,
    {
        let name = self.names.next().copied().unwrap_or_default();
        match self.access.next_element::<T>() {
            Ok(Some(value)) => Ok(value),
            Ok(None) => {
                T::deserialize(Missing).map_err(|_| Error::custom(format_args!("argument `{name}` is missing")))
            }
            Err(error) => {
                let text = error.to_string();
                // The place within the array's text means nothing to a caller.
                let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
                Err(Error::custom(format_args!("argument `{name}`: {text}")))
            }
        }
    }
}

/// Reads the arguments of a function; no text at all stands for no arguments.
pub fn decode<T: Decode>(json: &[u8], names: &'static [&'static str]) -> Result<T> {
    let json = if json.is_empty() { b"[]" } else { json };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Array { names, tuple: PhantomData }
        .deserialize(&mut deserializer)
        .and_then(|arguments| deserializer.end().map(|()| arguments))
        .map_err(|error| {
            let text = error.to_string();
            // As above, but text that is no JSON needs the place.
            Abort::bad_arguments(match error.classify() {
                serde_json::error::Category::Data => {
                    text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text)
                }
                _ => &text,
            })
        })
}

/// Encodes a result.
pub fn reply<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    // Most replies are a number, a word or null; serde_json would reserve 128 bytes,
    // which the bindings then have to cut down by another allocation.
    json::encode_into(Vec::with_capacity(16), value).map_err(|error| Abort::bug(error).context("result"))
}

/// Whether a parameter of this type must be given.
pub fn is_required<T: for<'de> Deserialize<'de>>() -> bool {
    T::deserialize(Missing).is_err()
}

struct Array<T> {
    names: &'static [&'static str],
    tuple: PhantomData<T>,
}

impl<'de, T: Decode> DeserializeSeed<'de> for Array<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Decode> Visitor<'de> for Array<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an array of arguments: [{}]", self.names.join(", "))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<T, A::Error> {
        let mut elements = Elements { access, names: self.names.iter() };
        let tuple = T::read(&mut elements)?;
        if elements.access.next_element::<IgnoredAny>()?.is_some() {
            return Err(Error::custom(format_args!("too many arguments, it takes [{}]", self.names.join(", "))));
        }
        Ok(tuple)
    }
}

/// What is handed to the type of an argument that was left out.
struct Missing;

impl<'de> Deserializer<'de> for Missing {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ValueError> {
        Err(ValueError::custom("missing"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes
        byte_buf unit unit_struct newtype_struct seq tuple tuple_struct map struct
        enum identifier ignored_any
    }
}
