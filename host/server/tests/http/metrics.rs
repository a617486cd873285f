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
    let text = document("reference/metrics.md");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let name = cells.next()?.trim().trim_end_matches('`').to_owned();
        Some((name, cells.next()?.trim().to_owned()))
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
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let traffic = server.get("/v1/traffic").await.json();
    assert_eq!(traffic["functions"].as_array().unwrap().len(), 2, "{traffic}");
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
    let dashboard: serde_json::Value = serde_json::from_str(&document("operate/monitoring/dashboard.json")).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}
