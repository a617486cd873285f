//! Accounts: balances.

use serde_json::{Value, json};

use super::{State, add, refused, whole, word};
use crate::workload::{Answer, Call};

pub fn call(state: &mut State, call: &Call, arguments: &[Value]) -> Answer {
    let Call { operator, key, .. } = call;
    match call.function {
        "insert" => state.put(operator, key, arguments[0].clone()),
        "read" => Ok(state.at(operator, key).clone()),
        "update" => {
            add(state.at(operator, key), 1);
            Ok(state.at(operator, key).clone())
        }
        "transfer" => {
            if whole(state.at(operator, key)) <= 0 {
                return refused(&format!("account {key} has nothing left"));
            }
            add(state.at(operator, word(&arguments[0])), 1);
            add(state.at(operator, key), -1);
            Ok(state.at(operator, key).clone())
        }
        _ => {
            let prefix = if *operator == "member" { &**key } else { "" };
            let (page, last) = state.page(operator, prefix, arguments);
            Ok(json!([page.len(), page.iter().map(|(_, balance)| whole(balance)).sum::<i64>(), last]))
        }
    }
}
