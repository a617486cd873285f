//! JSON Schemas of parameters and results.
//!
//! A schema is written as text, by a trait with a few lines per type: it runs once,
//! at upload, and should cost a guest next to no code. A type that does not
//! implement [`Schema`] is described as `{}`, anything.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::marker::PhantomData;

/// Types that know their JSON Schema; derive it beside `Serialize` and `Deserialize`.
pub trait Schema {
    /// Appends the schema.
    fn write(out: &mut Schemas);
}

/// The text of a schema in the making.
#[derive(Default)]
pub struct Schemas {
    text: String,
    open: Vec<&'static str>,
}

impl Schemas {
    /// The schema of `T` as text.
    pub fn of<T: Schema + ?Sized>() -> String {
        let mut schemas = Self::default();
        T::write(&mut schemas);
        schemas.finish()
    }

    /// Appends text as it is.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Appends the schema of `T` between two pieces of text.
    pub fn wrap<T: Schema + ?Sized>(&mut self, before: &str, after: &str) {
        self.text.push_str(before);
        T::write(self);
        self.text.push_str(after);
    }

    /// Appends the schema of a type that may contain itself; the inner occurrence is anything.
    pub fn named(&mut self, name: &'static str, write: impl FnOnce(&mut Self)) {
        if self.open.contains(&name) {
            self.text.push_str("{}");
        } else {
            self.open.push(name);
            write(self);
            self.open.pop();
        }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Picks between a type's own schema and `{}` by method resolution: for a type
/// with a schema [`WriteSchema`] is found first, for any other [`WriteAny`].
pub struct Probe<T: ?Sized>(pub PhantomData<T>);

/// The first choice of [`Probe`].
pub trait WriteSchema {
    /// Appends the type's schema.
    fn write_schema(&self, out: &mut Schemas);
}

impl<T: Schema + ?Sized> WriteSchema for Probe<T> {
    fn write_schema(&self, out: &mut Schemas) {
        T::write(out);
    }
}

/// The second choice of [`Probe`].
pub trait WriteAny {
    /// Appends `{}`.
    fn write_schema(&self, out: &mut Schemas);
}

impl<T: ?Sized> WriteAny for &Probe<T> {
    fn write_schema(&self, out: &mut Schemas) {
        out.text("{}");
    }
}

macro_rules! constant {
    ($($text:literal: $($type:ty)+;)+) => {$($(
        impl Schema for $type {
            fn write(out: &mut Schemas) {
                out.text($text);
            }
        }
    )+)+};
}

constant! {
    r#"{"type":"null"}"#: ();
    r#"{"type":"boolean"}"#: bool;
    r#"{"type":"string"}"#: str String;
    r#"{"type":"string","minLength":1,"maxLength":1}"#: char;
    r#"{"type":"number"}"#: f32 f64;
    r#"{"type":"integer","minimum":0,"maximum":255}"#: u8;
    r#"{"type":"integer","minimum":0,"maximum":65535}"#: u16;
    r#"{"type":"integer","minimum":0,"maximum":4294967295}"#: u32;
    r#"{"type":"integer","minimum":0}"#: u64 u128 usize;
    r#"{"type":"integer","minimum":-128,"maximum":127}"#: i8;
    r#"{"type":"integer","minimum":-32768,"maximum":32767}"#: i16;
    r#"{"type":"integer","minimum":-2147483648,"maximum":2147483647}"#: i32;
    r#"{"type":"integer"}"#: i64 i128 isize;
    "{}": serde_json::Value;
    r#"{"type":"object"}"#: serde_json::Map<String, serde_json::Value>;
}

impl<T: Schema> Schema for Option<T> {
    fn write(out: &mut Schemas) {
        out.wrap::<T>(r#"{"anyOf":["#, r#",{"type":"null"}]}"#);
    }
}

macro_rules! wrapped {
    ($before:literal, $after:literal: $([$($generics:tt)+] $type:ty;)+) => {$(
        impl<$($generics)+> Schema for $type {
            fn write(out: &mut Schemas) {
                out.wrap::<T>($before, $after);
            }
        }
    )+};
}

wrapped! { "", "":
    [T: Schema + ?Sized] &T;
    [T: Schema + ?Sized] Box<T>;
    [T: Schema + ?Sized] std::rc::Rc<T>;
    [T: Schema + ?Sized] std::sync::Arc<T>;
    [T: Schema + ?Sized + ToOwned] std::borrow::Cow<'_, T>;
}
wrapped! { r#"{"type":"array","items":"#, "}":
    [T: Schema] Vec<T>;
    [T: Schema] [T];
    [T: Schema] VecDeque<T>;
}
wrapped! { r#"{"type":"array","uniqueItems":true,"items":"#, "}":
    [T: Schema] BTreeSet<T>;
    [T: Schema, S] HashSet<T, S>;
}
// Keys of JSON objects are strings, whatever serde makes them of.
wrapped! { r#"{"type":"object","additionalProperties":"#, "}":
    [K, T: Schema] BTreeMap<K, T>;
    [K, T: Schema, S] HashMap<K, T, S>;
}

impl<T: Schema, const N: usize> Schema for [T; N] {
    fn write(out: &mut Schemas) {
        out.wrap::<T>(r#"{"type":"array","items":"#, &format!(r#","minItems":{N},"maxItems":{N}}}"#));
    }
}

macro_rules! tuples {
    ($($count:literal: $first:ident $($rest:ident)*;)+) => {$(
        impl<$first: Schema, $($rest: Schema),*> Schema for ($first, $($rest,)*) {
            fn write(out: &mut Schemas) {
                out.wrap::<$first>(r#"{"type":"array","prefixItems":["#, "");
                $(out.wrap::<$rest>(",", "");)*
                out.text(concat!(r#"],"minItems":"#, $count, r#","maxItems":"#, $count, "}"));
            }
        }
    )+};
}

tuples! {
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
}
