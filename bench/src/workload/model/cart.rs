//! A shop: the credit of users, stock and price of items, checkouts, lines and user of orders.

use serde_json::{Value, json};

use super::{State, add, refused, whole, word};
use crate::workload::{Answer, Call};

pub fn call(state: &mut State, call: &Call, arguments: &[Value]) -> Answer {
    let Call { operator, key, .. } = call;
    match (*operator, call.function) {
        ("order", "insert") => state.put(operator, key, json!([0, arguments[1], arguments[0]])),
        (_, "insert") => state.put(operator, key, json!(arguments)),
        ("order", "checkout") => checkout(state, key),
        _ => {
            let (page, last) = state.page(operator, "", arguments);
            let sum = |figure: fn(&Value) -> i64| page.iter().map(|(_, entity)| figure(entity)).sum::<i64>();
            let first = sum(|entity| whole(&entity[0]));
            Ok(match *operator {
                "user" => json!([page.len(), first, last]),
                "item" => json!([page.len(), first, sum(|item| whole(&item[0]) * whole(&item[1])), last]),
                _ => {
                    let of = |order: &Value, figure: fn(&Value) -> i64| whole(&order[0]) * lines(order, figure);
                    let pieces: i64 = page.iter().map(|(_, order)| of(order, |line| whole(&line[1]))).sum();
                    let paid: i64 = page.iter().map(|(_, order)| of(order, cost)).sum();
                    json!([page.len(), first, pieces, paid, last])
                }
            })
        }
    }
}

fn lines(order: &Value, figure: fn(&Value) -> i64) -> i64 {
    order[1].as_array().into_iter().flatten().map(figure).sum()
}

fn cost(line: &Value) -> i64 {
    whole(&line[1]) * whole(&line[2])
}

fn checkout(state: &mut State, key: &str) -> Answer {
    let order = state.at("order", key).clone();
    let (user, cost) = (word(&order[2]), lines(&order, cost));
    for line in order[1].as_array().into_iter().flatten() {
        if whole(&state.at("item", word(&line[0]))[0]) < whole(&line[1]) {
            return refused(&format!("not enough of item {}", word(&line[0])));
        }
    }
    let credit = whole(&state.at("user", user)[0]);
    if credit < cost {
        return refused(&format!("user {user} has a credit of {credit}, but {cost} is due"));
    }
    for line in order[1].as_array().into_iter().flatten() {
        add(&mut state.at("item", word(&line[0]))[0], -whole(&line[1]));
    }
    add(&mut state.at("user", user)[0], -cost);
    add(&mut state.at("order", key)[0], 1);
    Ok(json!(cost))
}
