//! Records: fields.

use serde_json::{Value, json};

use super::{State, whole, word};
use crate::workload::{Answer, Call};

pub fn call(state: &mut State, call: &Call, arguments: &[Value]) -> Answer {
    match call.function {
        "insert" => state.put("record", &call.key, arguments[0].clone()),
        "read" => Ok(state.at("record", &call.key).clone()),
        "update" => {
            state.at("record", &call.key)[whole(&arguments[0]) as usize] = arguments[1].clone();
            Ok(Value::Null)
        }
        _ => {
            let (page, last) = state.page("record", "", arguments);
            let fields = page.iter().filter_map(|(_, record)| record.as_array()).flatten();
            Ok(json!([page.len(), fields.map(|text| word(text).len()).sum::<usize>(), last]))
        }
    }
}
