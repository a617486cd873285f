//! JSON of values that have a form in it. `serde_json` writes `null` for a number that is none, which would be another value.

use std::cell::Cell;
use std::fmt;
use std::io;

use serde::Serialize;
use serde::ser::{self, Serializer};
use serde_json::ser::Formatter;

/// Encodes a value.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    encode_into(Vec::with_capacity(128), value)
}

/// Encodes a value behind what is there.
pub fn encode_into<T: Serialize + ?Sized>(mut bytes: Vec<u8>, value: &T) -> serde_json::Result<Vec<u8>> {
    let has_null = Cell::new(false);
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Watching(&has_null)))?;
    // Only then may it have been a number: most values need no second look.
    if has_null.get() {
        value.serialize(Finite).map_err(|error| ser::Error::custom(error.0))?;
    }
    Ok(bytes)
}

/// The compact form, which notes whether there is a null in it.
struct Watching<'a>(&'a Cell<bool>);

impl Formatter for Watching<'_> {
    fn write_null<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.set(true);
        writer.write_all(b"null")
    }
}

/// Looks for numbers that are none.
#[derive(Clone, Copy)]
struct Finite;

/// What is wrong with a value.
#[derive(Debug)]
struct NoForm(String);

impl fmt::Display for NoForm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for NoForm {}

impl ser::Error for NoForm {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

type Looked = Result<(), NoForm>;

fn finite(number: f64) -> Looked {
    if number.is_finite() { Ok(()) } else { Err(NoForm(format!("{number} has no JSON form"))) }
}

macro_rules! nothing_in {
    ($($name:ident($of:ty))*) => {$(
        fn $name(self, _: $of) -> Looked {
            Ok(())
        }
    )*};
}

impl Serializer for Finite {
    type Ok = ();
    type Error = NoForm;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    nothing_in! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_i128(i128) serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
        serialize_u128(u128) serialize_char(char) serialize_str(&str) serialize_bytes(&[u8]) serialize_unit_struct(&'static str)
    }

    fn serialize_f32(self, number: f32) -> Looked {
        finite(f64::from(number))
    }

    fn serialize_f64(self, number: f64) -> Looked {
        finite(number)
    }

    fn serialize_none(self) -> Looked {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Looked {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Looked {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Looked {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Looked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Looked {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, NoForm> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, NoForm> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, NoForm> {
        Ok(self)
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, NoForm> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, NoForm> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, NoForm> {
        Ok(self)
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, NoForm> {
        Ok(self)
    }
}

macro_rules! looks_into {
    ($($part:ident::$name:ident($($key:ty)?))*) => {$(
        impl ser::$part for Finite {
            type Ok = ();
            type Error = NoForm;

            fn $name<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> Looked {
                value.serialize(*self)
            }

            fn end(self) -> Looked {
                Ok(())
            }
        }
    )*};
}

looks_into! {
    SerializeSeq::serialize_element()
    SerializeTuple::serialize_element()
    SerializeTupleStruct::serialize_field()
    SerializeTupleVariant::serialize_field()
    SerializeStruct::serialize_field(&'static str)
    SerializeStructVariant::serialize_field(&'static str)
}

impl ser::SerializeMap for Finite {
    type Ok = ();
    type Error = NoForm;

    // A number that is none is no key for `serde_json` either.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Looked {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Looked {
        value.serialize(*self)
    }

    fn end(self) -> Looked {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    enum Shape {
        Empty,
        Circle(f64),
        Box { width: f64, height: Option<f32> },
        Pair(f64, f64),
    }

    fn said<T: Serialize>(value: T) -> String {
        match encode(&value) {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_number_that_is_none_is_refused_wherever_it_is() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert_eq!(said(nan), "NaN has no JSON form");
        assert_eq!(said(-inf), "-inf has no JSON form");
        assert_eq!(said(f32::NAN), "NaN has no JSON form");
        for value in [
            said(vec![Some(1.0), None, Some(inf)]),
            said((1, "a", inf)),
            said(BTreeMap::from([("a", [inf])])),
            said(Shape::Circle(inf)),
            said(Shape::Box { width: inf, height: None }),
            said(Shape::Box { width: 1.0, height: Some(f32::INFINITY) }),
            said(Shape::Pair(0.0, inf)),
        ] {
            assert_eq!(value, "inf has no JSON form");
        }
    }

    #[test]
    fn what_has_a_form_has_that_of_serde_json() {
        let shapes =
            [Shape::Empty, Shape::Circle(-0.0), Shape::Box { width: 0.5, height: None }, Shape::Pair(1.5, 2.0)];
        assert_eq!(said(&shapes), serde_json::to_string(&shapes).unwrap());
        assert_eq!(
            said(&shapes),
            r#"["Empty",{"Circle":-0.0},{"Box":{"width":0.5,"height":null}},{"Pair":[1.5,2.0]}]"#
        );
        assert_eq!(said(((), None::<u8>, "null", u64::MAX)), r#"[null,null,"null",18446744073709551615]"#);
        assert_eq!(encode_into(b"x".to_vec(), &1).unwrap(), b"x1");
    }
}
