//! State from outside: exported as of one epoch, imported, and removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::process::cluster::Cluster;
use crate::process::{Endpoints, Process, testkit};
use crate::verbs::asked;

/// What an export holds can be written into another app, and entities removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_is_exported_as_of_one_epoch_and_imported_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &[]).await;
    for app in ["from", "to"] {
        server.deploy(app, "application/zip", testkit().await).await.is_deployed();
    }
    for number in 0..50 {
        assert_eq!(server.call(&format!("from/a/{number:02}/append"), "[1]").await.status, 200);
    }
    let file = directory.path().join("state.ndjson");
    let path = file.to_str().unwrap();
    assert_eq!(asked(&server, &["state", "export", "from", "-o", path]).0, 0);
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let first = std::fs::read_to_string(&file).unwrap();
    assert_eq!(lines(&first).len(), 50);

    // Into the other app, over what is there and beside it, with one that goes.
    assert_eq!(server.call("to/a/00/append", "[7]").await.status, 200);
    assert_eq!(server.call("to/a/gone/append", "[7]").await.status, 200);
    assert_eq!(server.call("to/a/stays/append", "[7]").await.status, 200);
    let odd = "{\"operator\":\"b\",\"key\":\"bytes\",\"encoding\":\"base64\",\"value\":\"AP8=\"}\n\n";
    std::fs::write(&file, format!("{first}{odd}{{\"operator\":\"a\",\"key\":\"gone\",\"delete\":true}}\n")).unwrap();
    assert_eq!(asked(&server, &["state", "import", "to", path]), (0, json!({ "written": 51, "removed": 1 })));
    assert_eq!(asked(&server, &["state", "import", "to", path]), (0, json!({ "written": 51, "removed": 1 })), "again");
    let server = server.kill_and_restart(&[]).await;
    assert_eq!(server.call("to/a/00/list", "[]").await.body, json!([1]));
    assert_eq!(server.call("to/a/00/append", "[2]").await.body, json!([1, 2]), "functions go on with what was written");
    let (_, bytes) = asked(&server, &["state", "get", "to/b/bytes"]);
    assert_eq!(bytes, json!("AP8="));
    let (_, scanned) = asked(&server, &["state", "scan", "to/a", "--all"]);
    assert_eq!(scanned["entries"].as_array().unwrap().len(), 51, "those of the file, and one that stays");

    // One by one, and many at once.
    assert_eq!(asked(&server, &["state", "put", "to/a/one", "[9, 9]"]).0, 0);
    assert_eq!(server.call("to/a/one/list", "[]").await.body, json!([9, 9]));
    assert_eq!(asked(&server, &["state", "delete", "to/a/one"]).0, 0);
    assert_eq!(server.call("to/a/one/list", "[]").await.body, json!([]));
    assert_eq!(
        asked(&server, &["state", "delete", "to/a", "--prefix", "1", "--yes"]),
        (0, json!({ "written": 0, "removed": 10 }))
    );
    assert_eq!(
        asked(&server, &["state", "delete", "to/a", "--all", "--yes"]),
        (0, json!({ "written": 0, "removed": 41 }))
    );
    let (_, scanned) = asked(&server, &["state", "scan", "to/a"]);
    assert_eq!(scanned["entries"], json!([]));

    // What is wrong is told with its line.
    let refused = |arguments: &[&str]| {
        let (status, body) = asked(&server, arguments);
        let text = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
        (status, text("code"), text("message"))
    };
    for (text, status, code, says) in [
        ("{\"operator\":\"a\",\"key\":\"x\",\"value\":1}\nno line\n", 2, "BAD_LINE", "line 2: "),
        ("{\"operator\":\"none\",\"key\":\"x\",\"value\":1}\n", 1, "UNKNOWN_OPERATOR", "line 1, none/x: "),
        ("{\"operator\":\"a\",\"key\":\"\",\"value\":1}\n", 1, "BAD_ARGUMENTS", "line 1, a/: the key is empty"),
    ] {
        std::fs::write(&file, text).unwrap();
        let (found, its_code, message) = refused(&["state", "import", "to", path]);
        assert_eq!((found, its_code.as_str()), (status, code), "{message}");
        assert!(message.starts_with(says), "{message}");
    }
    for (arguments, code) in [
        (&["state", "import", "none", path][..], "UNKNOWN_APP"),
        (&["state", "import", "to", "/no/such/file"], "IO"),
        (&["state", "put", "to/a/k", "{"], "BAD_VALUE"),
        (&["state", "put", "to/a", "1"], "BAD_TARGET"),
        (&["state", "delete", "to/a", "--all"], "NOT_CONFIRMED"),
        (&["state", "export", "none"], "UNKNOWN_APP"),
        (&["state", "export", "to/none"], "UNKNOWN_OPERATOR"),
        (&["call", "to/a/k/get", "5", "30"], "BAD_ARGUMENTS"),
    ] {
        if code == "UNKNOWN_APP" {
            std::fs::write(&file, "{\"operator\":\"a\",\"key\":\"x\",\"value\":1}\n").unwrap();
        }
        assert_eq!(refused(arguments).1, code, "{arguments:?}");
    }
}

/// Calls that write three lists at a time never show one of them alone in what is exported, however busy the workers are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_exported_of_a_cluster_is_one_state() {
    const WRITERS: usize = 4;
    let cluster = Cluster::with_testkit(2).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, stop) = (cluster.client(), stop.clone());
            tokio::spawn(async move {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let others = [format!("{writer}-1"), format!("{writer}-2")];
                    let arguments = json!([others, number]);
                    client.call("testkit", "a", &format!("{writer}-0"), "append_all", arguments).await.unwrap();
                    number += 1;
                }
                number
            })
        })
        .collect();
    let file = cluster.directory().join("state.ndjson");
    let mut lengths = Vec::new();
    while lengths.len() < 5 {
        let verb = ["state", "export", "testkit", "-o", file.to_str().unwrap()];
        assert_eq!(tokio::task::block_in_place(|| asked(&cluster, &verb)).0, 0);
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for writer in 0..WRITERS {
            let list = |number: usize| {
                let key = format!("{writer}-{number}");
                lines.iter().find(|line| line["key"] == *key).map(|line| line["value"].clone())
            };
            assert_eq!((list(0), list(0)), (list(1), list(2)), "writer {writer}, export {}", lengths.len());
        }
        lengths.push(text.len());
    }
    assert!(lengths.is_sorted() && lengths[0] < lengths[4], "calls went on: {lengths:?}");
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.unwrap() > 0);
    }
    // Through the gateway, to entities of both workers.
    let number = std::fs::read_to_string(&file).unwrap().lines().count();
    let imported =
        tokio::task::block_in_place(|| asked(&cluster, &["state", "import", "testkit", file.to_str().unwrap()]));
    assert_eq!(imported, (0, json!({ "written": number, "removed": 0 })));
    let all = json!({ "written": 0, "removed": number });
    assert_eq!(
        tokio::task::block_in_place(|| asked(&cluster, &["state", "delete", "testkit/a", "--all", "--yes"])),
        (0, all)
    );
    assert_eq!(cluster.get("/v1/state/testkit/a").await["entries"], json!([]));
}
