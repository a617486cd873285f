//! A call graph as lines of text: each call below who made it, with its language.

use serde_json::Value;

use crate::journey::Leg;

/// The calls of a request, as its last attempt made them.
pub(super) fn calls(trace: &Value) -> &[Value] {
    let attempts = trace["attempts"].as_array().map_or(&[][..], Vec::as_slice);
    attempts.last().and_then(|attempt| attempt["calls"].as_array()).map_or(&[], Vec::as_slice)
}

/// The graph; the call that refused says so.
pub(super) fn lines(trace: &Value, legs: &[Leg]) -> Vec<String> {
    let calls = calls(trace);
    let mut rows = Vec::new();
    for root in calls.iter().filter(|call| call["parent"].is_null()) {
        branch(root, calls, 0, &mut rows);
    }
    // In these graphs a call that fails is the last that was made.
    let refused = trace["message"].as_str().map(|message| format!("  ✗ {message}"));
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let last = rows.len().saturating_sub(1);
    let row = |(at, (name, call)): (usize, &(String, &Value))| {
        let language = legs.iter().find(|leg| call["operator"] == leg.operator).map_or("", |leg| leg.language);
        let took = match (call["begun_us"].as_u64(), call["ended_us"].as_u64()) {
            (Some(begun), Some(ended)) => format!("{:.2} ms", ended.saturating_sub(begun) as f64 / 1e3),
            _ => "-".to_owned(),
        };
        let refused = if at == last { refused.as_deref().unwrap_or("") } else { "" };
        format!("    {name:width$}  {language:10} {took:>8}{refused}")
    };
    rows.iter().enumerate().map(row).collect()
}

fn branch<'a>(call: &'a Value, calls: &'a [Value], depth: usize, rows: &mut Vec<(String, &'a Value)>) {
    let text = |name: &str| call[name].as_str().unwrap_or("");
    let joint = if depth == 0 { String::new() } else { format!("{}└─ ", "   ".repeat(depth - 1)) };
    rows.push((format!("{joint}{}.{}({})", text("operator"), text("function"), text("key")), call));
    for child in calls.iter().filter(|child| child["parent"] == call["id"]) {
        branch(child, calls, depth + 1, rows);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_graph_is_a_tree_of_its_calls() {
        let call = |id: &str, parent: Value, operator: &str, took: u64| json!({"id": id, "parent": parent, "operator": operator, "function": "book", "key": "friday", "begun_us": 100, "ended_us": 100 + took});
        let calls = [call("1", Value::Null, "train", 1500), call("2", json!("1"), "bus", 700)];
        let trace = json!({"message": "full", "attempts": [{"calls": []}, {"calls": calls}]});
        let legs = crate::journey::LEGS;
        assert_eq!(
            lines(&trace, &legs),
            ["    train.book(friday)   Rust        1.50 ms", "    └─ bus.book(friday)  Python      0.70 ms  ✗ full",]
        );
    }
}
