//! Single transactions: what a terminal shows is what was there before, changed by the transaction.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::fill::item_row;
use super::{DISTRICTS, Tpcc};
use crate::workload::{Call, Seen, number};

/// Calls that read what a transaction depends on, and what it changes.
pub fn witnesses(call: &Call) -> Vec<Call> {
    let read = |operator, key: &str, function, arguments: String| Call::read(operator, key, function, arguments);
    let audit = |operator, key: &str| read(operator, key, "audit", "[]".into());
    let warehouse = call.key.split(':').next().unwrap_or_default();
    let status = |key: &str, who: &Value| read("terminal", key, "order_status", json!([who]).to_string());
    let arguments: Vec<Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    match (call.function, &*arguments) {
        ("new_order", [customer, _]) => vec![
            audit("warehouse", warehouse),
            audit("district", &call.key),
            read("order", &call.key, "next", "[]".into()),
            status(&call.key, customer),
        ],
        ("payment", [home, district, who, _]) => {
            vec![
                audit("warehouse", warehouse),
                audit("district", &call.key),
                status(&format!("{home}:{district}"), who),
            ]
        }
        ("delivery", _) => {
            let oldest = |district| read("new_order", &format!("{warehouse}:{district}"), "audit", "[null,1]".into());
            (1..=DISTRICTS).map(oldest).collect()
        }
        // It only reads.
        _ => vec![call.clone()],
    }
}

/// Says whether a transaction was answered rightly, and did what it should.
pub fn judge(tpcc: &Tpcc, seen: &Seen<'_>) -> anyhow::Result<()> {
    let Some(answer) = &seen.answer else {
        let lines = seen.arguments.get(1).and_then(Value::as_array).context("only orders are refused")?;
        ensure!(lines.iter().any(|line| line[0] == tpcc.items + 1), "it was refused, and all its items exist");
        ensure!(seen.after == seen.before, "it was refused, and {:?} became {:?}", seen.before, seen.after);
        return Ok(());
    };
    match seen.call.function {
        "new_order" => ordered(tpcc, seen, answer),
        "payment" => paid(seen, answer),
        "delivery" => delivered(seen, answer),
        _ => {
            ensure!(*answer == seen.before[0], "it was answered by {answer}, and before by {}", seen.before[0]);
            Ok(())
        }
    }
}

fn ordered(tpcc: &Tpcc, seen: &Seen<'_>, answer: &Value) -> anyhow::Result<()> {
    let ([warehouse, district, next, _], [.., next_after, status]) = (&*seen.before, &*seen.after) else {
        anyhow::bail!("an order has four witnesses");
    };
    let lines = seen.arguments[1].as_array().context("an order has lines")?;
    let (mut sum, mut kept) = (0, Vec::new());
    for (line, shown) in lines.iter().zip(answer["lines"].as_array().context("an order shows lines")?) {
        let item = number(&line[0])?;
        ensure!(item <= tpcc.items.into(), "there is no item {item}");
        let (name, price, _) = item_row(item as u32);
        let amount = price * number(&line[2])?;
        ensure!(shown[0] == name && shown[3] == price && shown[4] == amount, "item {item} is shown as {shown}");
        ensure!((10..=100).contains(&number(&shown[1])?), "of item {item}, {} are left", shown[1]);
        kept.push(json!([line[0], line[1], line[2], amount, null]));
        sum += amount;
    }
    ensure!(kept.len() == lines.len(), "it shows {} lines of {}", kept.len(), lines.len());
    let taxes = number(&warehouse[0])? + number(&district[0])?;
    let total = sum * ((10_000 - number(&answer["discount"])?) * (10_000 + taxes)) / 100_000_000;
    ensure!(answer["total"] == total, "the total is {}, not {total}", answer["total"]);
    ensure!(answer["order"] == *next, "the order is {}, not {next}", answer["order"]);
    ensure!(number(next_after)? == number(next)? + 1, "the next is {next_after}");
    let newest = &status["order"];
    ensure!(newest["order"] == *next && newest["carrier"].is_null(), "the customer's newest is {newest}");
    ensure!(newest["lines"] == json!(kept), "the lines are {}, not {}", newest["lines"], json!(kept));
    Ok(())
}

fn paid(seen: &Seen<'_>, answer: &Value) -> anyhow::Result<()> {
    let amount = number(&seen.arguments[3])?;
    let (before, after) = (&seen.before, &seen.after);
    for (at, place) in ["warehouse", "district"].into_iter().enumerate() {
        let due = number(&before[at][1])? + amount;
        ensure!(after[at][1] == due, "the {place} was paid {}, not {due}", after[at][1]);
    }
    let balance = number(&before[2]["balance"])? - amount;
    let customer = &answer["customer"];
    ensure!(answer["amount"] == amount, "{} was paid, not {amount}", answer["amount"]);
    ensure!(customer["customer"] == before[2]["customer"], "customer {} paid", customer["customer"]);
    ensure!(customer["balance"] == balance, "the balance is shown as {}, not {balance}", customer["balance"]);
    ensure!(after[2]["balance"] == balance, "the balance is {}, not {balance}", after[2]["balance"]);
    Ok(())
}

/// Of each district, the oldest order before must not be the oldest afterwards.
fn delivered(seen: &Seen<'_>, answer: &Value) -> anyhow::Result<()> {
    let delivered = answer.as_array().context("a delivery shows a list")?;
    ensure!(delivered.len() == DISTRICTS as usize, "it shows {} districts", delivered.len());
    for (number, ((before, after), order)) in (1..).zip(seen.before.iter().zip(&seen.after).zip(delivered)) {
        ensure!(order.is_null() == (before[0] == 0), "of district {number}, {order} was delivered of {before}");
        ensure!(order.is_null() || after[1] != before[1], "of district {number}, {before} was not delivered");
    }
    Ok(())
}
