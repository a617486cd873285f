//! A supplier's rows, as arrays of what the checks and the terminals need.

use serde_json::{Value, json};

use super::{State, add, refused, whole, word};
use crate::workload::{Answer, Call};

pub fn call(state: &mut State, call: &Call, arguments: &[Value]) -> Answer {
    let Call { operator, key, .. } = call;
    match (*operator, call.function) {
        ("terminal", "new_order") => new_order(state, key, arguments),
        ("terminal", "payment") => payment(state, key, arguments),
        ("terminal", "order_status") => Ok(order_status(state, key, &arguments[0])),
        ("terminal", "delivery") => Ok(delivery(state, key, &arguments[0])),
        ("terminal", _) => Ok(json!(0)),
        (_, "insert" | "fill" | "start") => {
            fill(state, call, arguments);
            Ok(Value::Null)
        }
        ("order", "next") => Ok(state.at("next", key).clone()),
        ("warehouse" | "district", _) => Ok(state.at(operator, key).clone()),
        _ => Ok(audit(state, call, arguments)),
    }
}

fn fill(state: &mut State, call: &Call, arguments: &[Value]) {
    let Call { operator, key, .. } = call;
    let rows = arguments.iter().filter_map(Value::as_array).next_back();
    // The key ends with the number of the first row.
    let (place, first) = key.rsplit_once(':').unwrap_or(("", key));
    let first: usize = first.parse().expect("a number");
    let keyed = |row: usize| format!("{place}:{}", row + first);
    let mut put = |key: String, row: Value| state.put(operator, key, row).map(drop);
    let result = match (*operator, arguments) {
        ("item", [name, price, _]) => put(key.clone(), json!([name, price])),
        ("warehouse" | "district", [_, _, tax, paid]) => put(key.clone(), json!([tax, paid])),
        ("order", [next]) if next.is_number() => state.put("next", key, next.clone()).map(drop),
        ("new_order", [last]) => {
            (first..=whole(last) as usize).try_for_each(|number| put(ordered(place, number), json!(number)))
        }
        ("history", [from, paid, _]) => {
            let payments = rows.into_iter().flatten().enumerate();
            let mut number = payments.map(|(row, _)| whole(from) + row as i64);
            number.try_for_each(|number| put(format!("{key}:{number:08}"), paid.clone()))
        }
        ("customer_name", _) => {
            let mut names = rows.into_iter().flatten();
            names.try_for_each(|name| put(format!("{key}:{}", word(&name[0])), name[1].clone()))
        }
        ("order_line", [orders, is_delivered]) => {
            let orders = orders.as_array().into_iter().flatten().enumerate();
            let mut lines = orders.flat_map(|(row, lines)| {
                lines.as_array().into_iter().flatten().enumerate().map(move |(at, line)| (row + first, at, line))
            });
            lines.try_for_each(|(order, at, line)| {
                let delivered = is_delivered.as_bool().filter(|is| *is);
                put(lined(&ordered(place, order), at), json!([line[0], line[1], line[2], line[3], delivered]))
            })
        }
        _ => rows.into_iter().flatten().enumerate().try_for_each(|(at, row)| match *operator {
            "stock" => put(keyed(at), json!([row[0], 0, 0, 0])),
            "customer" => put(keyed(at), json!([-1000, 1000, 1, 0, row["discount"]])),
            // Number, customer, carrier, lines.
            _ => put(ordered(place, at + first), json!([at + first, row[0], row[1], row[2]])),
        }),
    };
    result.expect("what is filled in is taken");
}

/// The key of an order, in the order of numbers.
fn ordered(district: &str, number: usize) -> String {
    format!("{district}:{number:08}")
}

fn lined(order: &str, line: usize) -> String {
    format!("{order}:{line:02}")
}

fn new_order(state: &mut State, district: &str, arguments: &[Value]) -> Answer {
    let (warehouse, lines) = (district.split(':').next().unwrap_or_default(), arguments[1].as_array().unwrap());
    if lines.iter().any(|line| state.get("item", &line[0].to_string()).is_none()) {
        return refused("item number is not valid");
    }
    let number = whole(state.at("next", district));
    let order = ordered(district, number as usize);
    add(state.at("next", district), 1);
    state.put("order", &*order, json!([number, arguments[0], null, lines.len()]))?;
    state.put("new_order", &*order, json!(number))?;
    let (mut sum, mut shown) = (0, Vec::new());
    for (at, line) in lines.iter().enumerate() {
        let [item, supplier, quantity] = [0, 1, 2].map(|part| whole(&line[part]));
        let price = whole(&state.at("item", &item.to_string())[1]);
        let name = state.at("item", &item.to_string())[0].clone();
        let stock = state.at("stock", &format!("{supplier}:{item}"));
        let refill = if whole(&stock[0]) < quantity + 10 { 91 } else { 0 };
        [refill - quantity, quantity, 1]
            .into_iter()
            .enumerate()
            .for_each(|(figure, more)| add(&mut stock[figure], more));
        shown.push(json!([name, stock[0], "G", price, price * quantity]));
        sum += price * quantity;
        state.put("order_line", lined(&order, at), json!([item, supplier, quantity, price * quantity, null]))?;
    }
    let discount = whole(&state.at("customer", &format!("{district}:{}", arguments[0]))[4]);
    let taxes = whole(&state.at("warehouse", warehouse)[0]) + whole(&state.at("district", district)[0]);
    let total = sum * ((10_000 - discount) * (10_000 + taxes)) / 100_000_000;
    Ok(json!({"order": number, "discount": discount, "total": total, "lines": shown}))
}

/// The number of a customer of a district, who may be named.
fn customer(state: &State, district: &str, who: &Value) -> Value {
    let Some(name) = who.as_str() else { return who.clone() };
    let named = state.get("customer_name", &format!("{district}:{name}")).and_then(Value::as_array);
    let named = named.expect("somebody has the name");
    named[named.len().div_ceil(2) - 1].clone()
}

fn payment(state: &mut State, district: &str, arguments: &[Value]) -> Answer {
    let [home, home_district, who, amount] = arguments else { panic!("a payment has four arguments") };
    let (home, paid) = (format!("{home}:{home_district}"), whole(amount));
    add(&mut state.at("warehouse", district.split(':').next().unwrap_or_default())[1], paid);
    add(&mut state.at("district", district)[1], paid);
    let customer = customer(state, &home, who);
    let account = state.at("customer", &format!("{home}:{customer}"));
    [-paid, paid, 1].into_iter().enumerate().for_each(|(figure, more)| add(&mut account[figure], more));
    let balance = account[0].clone();
    let payments = state.all("history", &format!("{district}:")).len();
    state.put("history", format!("{district}:t{payments:08}"), amount.clone())?;
    Ok(json!({"amount": amount, "customer": {"customer": customer, "balance": balance}}))
}

fn order_status(state: &mut State, district: &str, who: &Value) -> Value {
    let customer = customer(state, district, who);
    let balance = state.at("customer", &format!("{district}:{customer}"))[0].clone();
    let newest = state.all("order", &format!("{district}:")).into_iter().rev().find(|(_, order)| order[1] == customer);
    let order = newest.map(|(key, order)| {
        let lines: Vec<&Value> =
            state.all("order_line", &format!("{key}:")).into_iter().map(|(_, line)| line).collect();
        json!({"order": order[0], "carrier": order[2], "lines": lines})
    });
    json!({"customer": customer, "balance": balance, "order": order})
}

fn delivery(state: &mut State, terminal: &str, carrier: &Value) -> Value {
    let warehouse = terminal.split(':').next().unwrap_or_default();
    let mut delivered = Vec::new();
    for district in (1..=10).map(|district| format!("{warehouse}:{district}")) {
        let oldest = state.all("new_order", &format!("{district}:")).first().map(|(key, number)| {
            delivered.push((*number).clone());
            (*key).to_owned()
        });
        let Some(order) = oldest else {
            delivered.push(Value::Null);
            continue;
        };
        state.remove("new_order", &order);
        state.at("order", &order)[2] = carrier.clone();
        let customer = state.at("order", &order)[1].clone();
        let lines: Vec<String> =
            state.all("order_line", &format!("{order}:")).into_iter().map(|(key, _)| key.to_owned()).collect();
        let mut cost = 0;
        for line in lines {
            let line = state.at("order_line", &line);
            line[4] = json!(true);
            cost += whole(&line[3]);
        }
        let account = state.at("customer", &format!("{district}:{customer}"));
        add(&mut account[0], cost);
        add(&mut account[3], 1);
    }
    json!(delivered)
}

fn audit(state: &State, call: &Call, arguments: &[Value]) -> Value {
    let (page, last) = state.page(call.operator, &format!("{}:", call.key), arguments);
    let sum = |figure: fn(&Value) -> i64| page.iter().map(|(_, row)| figure(row)).sum::<i64>();
    let count = page.len();
    match call.operator {
        "stock" => {
            json!([count, [sum(|row| whole(&row[0])), sum(|row| whole(&row[1])), sum(|row| whole(&row[2])), 0], last])
        }
        "customer" => {
            let sums = [sum(|row| whole(&row[0])), sum(|row| whole(&row[1])), sum(|row| whole(&row[2]))];
            json!([count, [sums[0], sums[1], sums[2], sum(|row| whole(&row[3])), 0], last])
        }
        "history" => json!([count, sum(whole), 0, last]),
        "new_order" => json!([count, last]),
        "order_line" => {
            let (pieces, cost) = (sum(|row| whole(&row[2])), sum(|row| whole(&row[3])));
            let delivered = sum(|row| if row[4].is_null() { 0 } else { whole(&row[3]) });
            json!([count, [0, 0, pieces, cost, sum(|row| i64::from(!row[4].is_null())), delivered], last])
        }
        _ => {
            let range = |open: bool| {
                let numbers = page.iter().filter(|(_, row)| !open || row[2].is_null()).map(|(_, row)| whole(&row[0]));
                json!([numbers.clone().min(), numbers.max()])
            };
            let waiting = sum(|row| i64::from(row[2].is_null()));
            json!([count, [sum(|row| whole(&row[3])), 0, 0, 0], range(false), waiting, range(true), last])
        }
    }
}
