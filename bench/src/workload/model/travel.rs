//! Rooms and seats, and trips. What a search or a recommendation finds never changes.

use serde_json::{Value, json};

use super::{State, add, refused, whole, word};
use crate::workload::travel::{best, nearby};
use crate::workload::{Answer, Call};

pub fn call(state: &mut State, call: &Call, arguments: &[Value]) -> Answer {
    let Call { operator, key, .. } = call;
    let here = || {
        let place: Vec<i64> = arguments.iter().filter_map(Value::as_i64).collect();
        (place[0], place[1])
    };
    match call.function {
        "insert" | "register" => state.put(operator, key, arguments[0].clone()),
        "left" => Ok(state.at(operator, key).clone()),
        "login" => Ok(json!(state.get(operator, key) == arguments.first())),
        "nearby" => Ok(nearby(here())),
        "best" => Ok(best(word(&arguments[0]), here())),
        "reserve" => {
            let taken = [("hotel", word(&arguments[0])), ("flight", word(&arguments[1]))];
            for (operator, key) in taken {
                if whole(state.at(operator, key)) == 0 {
                    return refused(&format!("{operator} {key} is sold out"));
                }
            }
            taken.into_iter().for_each(|(operator, key)| add(state.at(operator, key), -1));
            state.put("order", key, json!(arguments))
        }
        _ => {
            let (page, last) = state.page("order", "", arguments);
            Ok(json!([page.into_iter().map(|(_, trip)| trip).collect::<Vec<_>>(), last]))
        }
    }
}
