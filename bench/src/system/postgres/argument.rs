//! A part of a call's key or an argument of it, on its way to a parameter of whichever type.

use std::error::Error;

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

#[derive(Debug, Deserialize)]
pub struct Argument(pub Value);

type Failure = Box<dyn Error + Sync + Send>;

impl ToSql for Argument {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        let Argument(value) = self;
        if value.is_null() {
            return Ok(IsNull::Yes);
        }
        match *kind {
            Type::BOOL => {
                value.as_bool().ok_or_else(|| format!("{value} is neither true nor false"))?.to_sql(kind, out)
            }
            Type::INT4 => i32::try_from(whole(value)?)?.to_sql(kind, out),
            Type::INT8 => whole(value)?.to_sql(kind, out),
            Type::INT4_ARRAY => {
                let mut numbers = Vec::new();
                flatten(value, &mut numbers)?;
                numbers.to_sql(kind, out)
            }
            Type::TEXT => value.as_str().map_or_else(|| value.to_string(), str::to_owned).to_sql(kind, out),
            // JSON is sent as its text.
            _ => {
                out.extend_from_slice(value.to_string().as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::BOOL | Type::INT4 | Type::INT8 | Type::INT4_ARRAY | Type::TEXT | Type::JSON)
    }

    to_sql_checked!();
}

/// Keys are text, and so are numbers of them among the arguments.
fn whole(value: &Value) -> Result<i64, Failure> {
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
    number.ok_or_else(|| format!("{value} is no whole number").into())
}

/// The numbers of arrays in arrays, one after the other.
fn flatten(value: &Value, numbers: &mut Vec<i32>) -> Result<(), Failure> {
    match value.as_array() {
        Some(values) => values.iter().try_for_each(|value| flatten(value, numbers)),
        None => {
            numbers.push(i32::try_from(whole(value)?)?);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(value: Value, kind: &Type) -> Result<Vec<u8>, Failure> {
        let mut out = BytesMut::new();
        Argument(value).to_sql(kind, &mut out)?;
        Ok(out.to_vec())
    }

    #[test]
    fn a_value_becomes_what_the_parameter_is() {
        assert_eq!(sent(json!("7"), &Type::INT4).unwrap(), [0, 0, 0, 7]);
        assert_eq!(sent(json!(7), &Type::INT8).unwrap(), [0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(sent(json!(42), &Type::TEXT).unwrap(), b"42");
        assert_eq!(sent(json!("BARBAR"), &Type::TEXT).unwrap(), b"BARBAR");
        assert_eq!(sent(json!([1, "x"]), &Type::JSON).unwrap(), br#"[1,"x"]"#);
        let nested = sent(json!([[1, 2], [3, 4]]), &Type::INT4_ARRAY).unwrap();
        assert_eq!(nested, sent(json!([1, 2, 3, 4]), &Type::INT4_ARRAY).unwrap());
        assert!(sent(json!("5:7"), &Type::INT8).is_err());
        assert!(sent(json!(1u64 << 40), &Type::INT4).is_err());
    }
}
