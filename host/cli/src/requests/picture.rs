//! A request as lines of text: its time as a bar, its call graphs as trees.

use serde_json::Value;

/// Characters of the bar.
const BAR: u64 = 50;
/// Lines of a tree, of an RW set and of conflicts; what is more is counted.
const ITEMS_MAX: usize = 40;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("")
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Microseconds as people read them.
pub(super) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

/// What the server tells of a request, as lines.
pub(super) fn lines(trace: &Value) -> Vec<String> {
    let mut lines = vec![format!(
        "{}/{}/{}/{}  {}{}",
        text(trace, "app"),
        text(trace, "operator"),
        text(trace, "key"),
        text(trace, "function"),
        text(trace, "status"),
        trace["code"].as_str().map(|code| format!(", {code}: {}", text(trace, "message"))).unwrap_or_default(),
    )];
    let known = |name: &str| trace[name].as_u64().map_or_else(|| "-".into(), |known| known.to_string());
    let took = trace["ended_us"].as_u64().map(|ended| duration(ended.saturating_sub(number(trace, "begun_us"))));
    lines.push(format!(
        "request {}  TID {}  epoch {}  {}",
        text(trace, "request_id"),
        known("tid"),
        known("epoch"),
        took.unwrap_or_default()
    ));
    bar(trace, &mut lines);
    for (at, attempt) in list(trace, "attempts").iter().enumerate() {
        lines.push(String::new());
        execution(at + 1, attempt, &mut lines);
    }
    let logs = list(trace, "logs");
    if !logs.is_empty() {
        lines.extend([String::new(), "log".into()]);
        lines.extend(logs.iter().flat_map(|line| {
            let origin = format!("  {:5} {}.{} ", text(line, "level"), text(line, "operator"), text(line, "function"));
            text(line, "message").lines().map(move |message| format!("{origin}{message}")).collect::<Vec<_>>()
        }));
    }
    lines
}

fn bar(trace: &Value, lines: &mut Vec<String>) {
    let phases = list(trace, "phases");
    let (Some(first), Some(last)) = (phases.first(), phases.last()) else { return };
    let (begun, whole) =
        (number(first, "begun_us"), number(last, "ended_us").saturating_sub(number(first, "begun_us")));
    lines.push(String::new());
    for phase in phases {
        let (from, to) = (number(phase, "begun_us") - begun, number(phase, "ended_us") - begun);
        let at = |us: u64| us * BAR / whole.max(1);
        let filled = (at(to) - at(from)).max(1);
        let (before, filled) = (" ".repeat(at(from).min(BAR - 1) as usize), "█".repeat(filled as usize));
        lines.push(format!("  {:9}{:>9}  {before}{filled}", text(phase, "name"), duration(to - from)));
    }
}

fn execution(number_of_it: usize, attempt: &Value, lines: &mut Vec<String>) {
    let took = duration(number(attempt, "ended_us").saturating_sub(number(attempt, "begun_us")));
    let kind = text(attempt, "kind").replace('_', "-");
    let end = match (text(attempt, "outcome"), attempt["code"].as_str()) {
        ("drifted", _) => "left its footprint, and was moved to the next epoch".to_owned(),
        ("postponed", _) => "needs more fuel than an epoch has, and was run beside the epochs".to_owned(),
        (_, Some(code)) => format!("{code}: {}", text(attempt, "message")),
        (outcome, None) => outcome.to_owned(),
    };
    lines.push(format!("{number_of_it}. {kind}, {took}, fuel {}: {end}", number(attempt, "fuel")));
    tree(list(attempt, "calls"), lines);
    let accesses = list(attempt, "accesses");
    if !accesses.is_empty() {
        lines.push("  RW set".into());
        for access in accesses.iter().take(ITEMS_MAX) {
            let is = |name: &str| access[name].as_bool() == Some(true);
            let did = match (is("read"), is("written"), is("deleted")) {
                (_, _, true) => "delete",
                (true, true, _) => "read, write",
                (false, true, _) => "write",
                _ => "read",
            };
            lines.push(format!("    {did:12}{}/{}", text(access, "operator"), text(access, "key")));
        }
        more(accesses.len(), lines);
    }
    for conflict in list(attempt, "conflicts").iter().take(ITEMS_MAX) {
        let entity = format!("{}/{}", text(conflict, "operator"), text(conflict, "key"));
        let (did, tid) = (text(conflict, "did"), number(conflict, "tid"));
        lines
            .push(format!("  conflict: TID {tid} before it {did} {entity} (request {})", text(conflict, "request_id")));
    }
    if attempt["cut"].as_bool() == Some(true) {
        lines.push("  there was more than is kept".into());
    }
}

fn more(all: usize, lines: &mut Vec<String>) {
    if all > ITEMS_MAX {
        lines.push(format!("    and {} more", all - ITEMS_MAX));
    }
}

/// Calls, each below who made it.
fn tree(calls: &[Value], lines: &mut Vec<String>) {
    let end = lines.len() + ITEMS_MAX;
    let known = |call: &Value| {
        call["parent"].as_str().is_some_and(|parent| calls.iter().any(|other| text(other, "id") == parent))
    };
    for root in calls.iter().filter(|call| !known(call)) {
        branch(root, calls, "  ", "", lines, end);
    }
    more(calls.len(), lines);
}

fn branch(call: &Value, calls: &[Value], indent: &str, joint: &str, lines: &mut Vec<String>, end: usize) {
    if lines.len() >= end {
        return;
    }
    let took = match (call["begun_us"].as_u64(), call["ended_us"].as_u64()) {
        (Some(begun), Some(ended)) => format!("  {}", duration(ended.saturating_sub(begun))),
        _ => String::new(),
    };
    let fuel = call["fuel"].as_u64().map(|fuel| format!("  fuel {fuel}")).unwrap_or_default();
    let how = if call["asynchronous"].as_bool() == Some(true) { "⇢ " } else { "" };
    lines.push(format!(
        "{indent}{joint}{how}{}.{}({})  worker {}{took}{fuel}",
        text(call, "operator"),
        text(call, "function"),
        text(call, "key"),
        number(call, "worker")
    ));
    let below: Vec<&Value> = calls.iter().filter(|other| other["parent"].as_str() == call["id"].as_str()).collect();
    let indent = match joint {
        "" => indent.to_owned(),
        "└─ " => format!("{indent}   "),
        _ => format!("{indent}│  "),
    };
    for (at, child) in below.iter().enumerate() {
        let joint = if at + 1 == below.len() { "└─ " } else { "├─ " };
        branch(child, calls, &indent, joint, lines, end);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_stand_below_who_made_them() {
        let call = |id: &str, parent: Option<&str>, key: &str, asynchronous: bool| json!({ "id": id, "parent": parent, "operator": "o", "function": "f", "key": key, "worker": 1, "asynchronous": asynchronous });
        let calls = [
            call("1", None, "a", false),
            call("2", Some("1"), "b", false),
            call("3", Some("2"), "c", false),
            call("4", Some("1"), "d", true),
        ];
        let mut lines = Vec::new();
        tree(&calls, &mut lines);
        assert_eq!(
            lines,
            ["  o.f(a)  worker 1", "  ├─ o.f(b)  worker 1", "  │  └─ o.f(c)  worker 1", "  └─ ⇢ o.f(d)  worker 1",]
        );
    }

    #[test]
    fn phases_stand_one_after_the_other() {
        let phase = |name: &str, begun: u64, ended: u64| json!({ "name": name, "begun_us": begun, "ended_us": ended });
        let mut lines = Vec::new();
        bar(&json!({ "phases": [phase("queued", 100, 150), phase("execute", 150, 200)] }), &mut lines);
        assert_eq!(lines[1], format!("  queued       50 µs  {}", "█".repeat(25)));
        assert_eq!(lines[2], format!("  execute      50 µs  {}{}", " ".repeat(25), "█".repeat(25)));
    }
}
