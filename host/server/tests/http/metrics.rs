//! What is measured is what is described: names, types, and what the dashboard and the alerts ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use styx_server::http::HttpOptions;

use crate::server::Server;

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// Types by name, as the table has them.
fn described() -> BTreeMap<String, String> {
    table().into_iter().map(|(name, (kind, _))| (name, kind)).collect()
}

/// Types and labels by name.
fn table() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = document("reference/metrics.md");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let name = cells.next()?.trim().trim_end_matches('`').to_owned();
        let kind = cells.next()?.trim().to_owned();
        let labels = cells.next()?.split(',').map(|label| label.trim().trim_matches('`').to_owned());
        Some((name, (kind, labels.filter(|label| !label.is_empty()).collect())))
    };
    text.lines().filter_map(row).collect()
}

/// Absent where there is no disk of a log, no snapshot yet, no collector of traces, or no autoscaler.
const NOT_ALWAYS: [&str; 7] = [
    "styx_disk_free_bytes",
    "styx_snapshot_epoch",
    "styx_snapshot_duration_seconds",
    "styx_traces",
    "styx_workers",
    "styx_workers_wanted",
    "styx_workers_busy",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_measured_is_described() {
    let server = Server::with_item(HttpOptions::default()).await;
    assert_eq!(server.call("a", "store", "[1]").await.status, 200);
    assert_eq!(server.call("a", "fail", "[1]").await.status, 422);
    let text = server.get("/metrics").await.text();
    let kind = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), kind.to_owned()))
    };
    let mut measured: BTreeMap<String, String> = text.lines().filter_map(kind).collect();
    let described = described();
    for name in NOT_ALWAYS {
        measured.insert(name.into(), described[name].clone());
    }
    assert_eq!(measured, described);
    for line in [
        "styx_function_calls_total{app=\"app\",operator=\"item\",function=\"store\",outcome=\"committed\"} 1",
        "styx_function_calls_total{app=\"app\",operator=\"item\",function=\"fail\",outcome=\"aborted\"} 1",
        "styx_function_duration_seconds_count{app=\"app\",operator=\"item\",function=\"store\"} 1",
        "styx_function_invocations_total{app=\"app\",operator=\"item\",function=\"store\"} 1",
        "styx_function_invocations_total{app=\"app\",operator=\"item\",function=\"fail\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let traffic = server.get("/v1/traffic").await.json();
    let functions = traffic["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 2, "{traffic}");
    for function in functions {
        let (name, fuel) = (function["function"].as_str().unwrap(), function["fuel"].as_u64().unwrap());
        assert!(fuel > 0 && function["invocations"] == 1, "{function}");
        let line = format!("styx_function_fuel_total{{app=\"app\",operator=\"item\",function=\"{name}\"}} {fuel}");
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

/// Names of metrics in a text: what begins as ours do.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| word.starts_with("styx_") || word.starts_with("process_")).collect()
}

#[test]
fn dashboard_and_alerts_ask_for_what_there_is() {
    let described = described();
    for file in ["operate/monitoring/dashboard.json", "operate/monitoring/alerts.yaml"] {
        let text = document(file);
        let names = names(&text);
        assert!(names.len() > 5, "{file}");
        for name in names {
            let known = described.iter().any(|(known, kind)| match kind.as_str() {
                "counter" => name.strip_suffix("_total") == Some(known),
                "histogram" => ["_bucket", "_count", "_sum"].iter().any(|end| name.strip_suffix(end) == Some(known)),
                _ => name == known,
            });
            assert!(known, "{file}: {name}");
        }
    }
    assert!(dashboard().len() > 10);
}

/// What the panels of the dashboard ask for.
fn dashboard() -> Vec<String> {
    let dashboard: serde_json::Value = serde_json::from_str(&document("operate/monitoring/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// An alert: what it asks for, how bad it is, what it says.
struct Alert {
    name: String,
    expression: String,
    severity: String,
    summary: String,
}

fn alerts() -> Vec<Alert> {
    let text = document("operate/monitoring/alerts.yaml");
    let field = |rule: &str, name: &str| {
        let found = rule.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
        found.unwrap_or_else(|| panic!("{name} of {rule}")).to_owned()
    };
    let alert = |rule: &str| Alert {
        name: rule.lines().next().unwrap().trim().to_owned(),
        expression: field(rule, "expr:"),
        severity: field(rule, "labels:").trim_matches(['{', '}', ' ']).replace("severity: ", ""),
        summary: field(rule, "summary:"),
    };
    text.split("- alert:").skip(1).map(alert).collect()
}

/// Why an expression of PromQL cannot be what was meant, as far as names, labels and types tell.
fn wrong(expression: &str, table: &BTreeMap<String, (String, BTreeSet<String>)>) -> Option<String> {
    let mut open = Vec::new();
    for char in expression.chars() {
        match char {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(char) => return Some(format!("{char} closes nothing")),
            _ => {}
        }
    }
    if !open.is_empty() {
        return Some("something is not closed".into());
    }
    // What scraping adds.
    let mut grouped: BTreeSet<String> = ["job", "instance"].map(str::to_owned).into();
    for name in names(expression) {
        let ends = ["_total", "_bucket", "_count", "_sum"];
        let metric =
            ends.iter().find_map(|end| table.get_key_value(name.strip_suffix(end)?)).or(table.get_key_value(name));
        let Some((_, (kind, labels))) = metric else { return Some(format!("there is no {name}")) };
        let mut labels: BTreeSet<String> =
            labels.iter().cloned().chain(["job", "instance"].map(str::to_owned)).collect();
        labels.extend(name.ends_with("_bucket").then(|| "le".to_owned()));
        let at = expression.find(name).unwrap() + name.len();
        let (selector, after) = match expression[at..].strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((selector, after)) => (selector, after),
            None => ("", &expression[at..]),
        };
        for matcher in selector.split(',').filter(|matcher| !matcher.is_empty()) {
            let label = matcher.split(['=', '!']).next().unwrap().trim();
            if !labels.contains(label) {
                return Some(format!("{name} has no label {label}"));
            }
        }
        if (kind == "gauge") == after.starts_with('[') {
            return Some(format!("{name} is a {kind}: counters are asked for over a time, gauges are not"));
        }
        grouped.extend(labels);
    }
    for group in expression.split(" by (").skip(1) {
        let by = group.split(')').next().unwrap();
        if let Some(label) = by.split(',').map(str::trim).find(|label| !grouped.contains(*label)) {
            return Some(format!("nothing has a label {label}"));
        }
    }
    None
}

#[test]
fn dashboard_and_alerts_ask_for_labels_that_there_are_and_in_the_way_of_their_types() {
    let table = table();
    let alerts = alerts();
    assert!(alerts.len() > 10);
    let asked = alerts.iter().map(|alert| alert.expression.clone()).chain(dashboard());
    for expression in asked {
        assert_eq!(wrong(&expression, &table), None, "{expression}");
    }
    let names: BTreeSet<&str> = alerts.iter().map(|alert| &*alert.name).collect();
    assert_eq!(names.len(), alerts.len(), "each has a name of its own");
    for Alert { name, expression, severity, summary } in &alerts {
        assert!(["critical", "warning"].contains(&&**severity), "{name}: {severity}");
        // What is summed up over all processes cannot say of which it is.
        assert!(!(expression.contains("sum(") && summary.contains("$labels.")), "{name}: {summary}");
    }
    for bad in [
        "rate(styx_epochs_total[5m]",
        "styx_epochs_total > 3",
        "rate(styx_entities[5m])",
        "rate(styx_transactions_total{stage=\"fallback\"}[5m])",
        "sum by (app) (rate(styx_epochs_total[5m]))",
        "styx_nothing == 1",
    ] {
        assert!(wrong(bad, &table).is_some(), "{bad}");
    }
}
