//! The verbs of an app's first days, each as somebody types it: new projects and their tests, what is deployed, going back,
//! what was sent, the state as lines.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Endpoints, Process, build, testkit};

/// Exit status, standard output and standard error of the program.
pub fn styx(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_styx"));
    let output = command.current_dir(directory).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The same for a server, as JSON.
pub fn asked(server: &impl Endpoints, arguments: &[&str]) -> (i32, Value) {
    // Without the scheme, as people type it.
    let (admin, ingress) = (server.admin().to_owned(), server.ingress().to_owned());
    let mut all = vec!["--json", "--admin-url", &admin, "--ingress-url", &ingress];
    all.extend(arguments);
    let (status, out, _) = styx(Path::new("/"), &all);
    (status, out.lines().next().map_or(Value::Null, |line| serde_json::from_str(line).unwrap()))
}

/// What was built with the first SDK: the same code as what is built now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn components_of_the_contract_before_run_and_give_way_to_newer_ones() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &["--determinism-check", "all"]).await;
    let kept = include_bytes!("../kept/testkit-0.1.zip");
    server.deploy("testkit", "application/zip", kept.to_vec()).await.is_deployed();
    let append = async |element: u64| server.call("testkit/a/k/append", format!("[{element}]")).await.body;
    assert_eq!(append(1).await, json!([1]));
    server.deploy("testkit", "application/zip", testkit().await).await.is_deployed();
    assert_eq!(append(2).await, json!([1, 2]));
    // Back again, and both are replayed.
    assert_eq!(asked(&server, &["apps", "rollback", "testkit"]).0, 0);
    assert_eq!(append(3).await, json!([1, 2, 3]));
    let server = server.kill_and_restart(&["--determinism-check", "all"]).await;
    assert_eq!(server.call("testkit/a/k/list", "[]").await.body, json!([1, 2, 3]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_are_listed_gone_back_to_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::with_testkit(directory.path(), &[]).await;
    server.deploy("testkit", "application/zip", testkit().await).await.is_deployed();
    let (status, versions) = asked(&server, &["apps", "versions", "testkit"]);
    assert_eq!(status, 0, "{versions}");
    let versions = versions["deployments"].as_array().unwrap().clone();
    assert_eq!(versions.len(), 2, "{versions:?}");
    let before = versions[1]["deployment"].as_str().unwrap();
    let (status, gone_back) = asked(&server, &["apps", "rollback", "testkit"]);
    assert_eq!((status, gone_back["deployment"].as_str()), (0, Some(before)));
    let (_, shown) = asked(&server, &["apps", "testkit"]);
    assert_eq!(shown["active"], before);
    let (status, refused) = asked(&server, &["apps", "rollback", "testkit"]);
    assert_eq!((status, refused["error"]["code"].as_str()), (2, Some("NOTHING_BEFORE")));

    assert_eq!(server.call("testkit/a/k/append", "[7]").await.body, json!([7]));
    let (status, usage) = asked(&server, &["apps", "usage", "testkit"]);
    assert_eq!((status, &usage["entities"]), (0, &json!(1)), "{usage}");
    let (status, refused) = asked(&server, &["apps", "delete", "testkit"]);
    assert_eq!((status, refused["error"]["code"].as_str()), (2, Some("NOT_CONFIRMED")));
    assert_eq!(asked(&server, &["apps", "delete", "testkit", "--yes"]).0, 0);
    assert_eq!(asked(&server, &["apps", "list"]).1, json!({ "apps": [] }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_is_asked_for_and_state_is_written_as_lines() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::with_testkit(directory.path(), &[]).await;
    let (_, sent) = asked(&server, &["send", "testkit/a/k/append", "[5]"]);
    let id = sent["request_id"].as_str().unwrap();
    assert_eq!(asked(&server, &["result", id, "--wait"]), (0, json!([5])));
    let (_, sent) = asked(&server, &["send", "testkit/a/k/fail", "[\"no\"]"]);
    let (status, refused) = asked(&server, &["result", sent["request_id"].as_str().unwrap(), "--wait", "30s"]);
    assert_eq!((status, refused["error"]["code"].as_str()), (1, Some("ABORTED")));

    for number in 0..1100 {
        // Longer than a page.
        assert_eq!(server.call(&format!("testkit/b/{number:04}/append"), "[1]").await.status, 200);
    }
    let file = directory.path().join("state.ndjson");
    let exported = |arguments: &[&str]| {
        let verb = ["state", "export", "testkit", "--output", file.to_str().unwrap()];
        assert_eq!(asked(&server, &[&verb, arguments].concat()).0, 0);
        let text = std::fs::read_to_string(&file).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let lines = exported(&["--live"]);
    assert_eq!(lines.len(), 1101);
    assert_eq!(lines[0], json!({ "operator": "a", "key": "k", "encoding": "json", "value": [5] }));
    assert_eq!(lines[1100], json!({ "operator": "b", "key": "1099", "encoding": "json", "value": [1] }));
    // The same of a snapshot that is taken for it, in the order of partitions; and of that once more.
    for more in [&[] as &[&str], &["--latest"]] {
        let mut of_snapshot = exported(more);
        of_snapshot.sort_by_key(|line| (line["operator"].to_string(), line["key"].to_string()));
        assert_eq!(of_snapshot, lines);
    }
    let (_, all) = asked(&server, &["state", "scan", "testkit/b", "--all"]);
    assert_eq!(all["entries"].as_array().unwrap().len(), 1100);
}

#[test]
fn a_server_says_how_its_log_is_filtered_and_shells_complete() {
    let directory = tempfile::tempdir().unwrap();
    let (status, _, said) = styx(directory.path(), &["server", "--log-level", "loud"]);
    assert_eq!(status, 2);
    assert!(said.contains("CONFIG_INVALID") && said.contains("levels are"), "{said}");
    for shell in ["bash", "zsh", "fish"] {
        let (status, script, _) = styx(directory.path(), &["completions", shell]);
        assert!(status == 0 && script.contains("rollback"), "{shell}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_is_told_at_once_and_by_whom() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(&directory.path().join("data"), &[]).await;
    let another = |ingress: &str, admin: &str| {
        let started = Instant::now();
        let verb = ["server", "--data-dir", "another", "--ingress-addr", ingress, "--admin-addr", admin];
        let (status, _, said) = styx(directory.path(), &verb);
        assert_eq!(status, 1, "{said}");
        assert!(started.elapsed() < Duration::from_millis(1500), "{:?}: {said}", started.elapsed());
        said
    };
    let holder = format!("styx (process {})", server.id());
    for (ingress, admin, taken, flag) in [
        (server.ingress(), "127.0.0.1:0", server.ingress(), "--ingress-addr"),
        ("127.0.0.1:0", server.admin(), server.admin(), "--admin-addr"),
    ] {
        let said = another(ingress, admin);
        assert!(said.contains("ADDRESS") && [taken, &holder, flag].iter().all(|part| said.contains(part)), "{said}");
    }
}

/// Whoever confuses the two ports is told which one it is, and where the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_the_other_port_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::with_testkit(directory.path(), &[]).await;
    let (admin, ingress) = (format!("http://{}", server.admin()), format!("http://{}", server.ingress()));
    let app = directory.path().to_str().unwrap();
    for verb in [&["apps"][..], &["logs"], &["state", "scan", "testkit/a"], &["dev", app], &["doctor"]] {
        let (status, out, said) = styx(directory.path(), &[&["--admin-url", &ingress], verb].concat());
        let said = format!("{out}{said}");
        assert!(status == 1 && said.contains("NOT_HERE") && said.contains("port of calls"), "{verb:?}: {said}");
        assert!(said.contains(&admin), "{verb:?}: {said}");
    }
    for verb in [&["send", "testkit/a/k/append", "[1]"][..], &["result", &"0".repeat(32)]] {
        let (status, _, said) = styx(directory.path(), &[&["--ingress-url", &admin], verb].concat());
        assert!(status == 1 && said.contains("NOT_HERE") && said.contains("admin port"), "{verb:?}: {said}");
        assert!(said.contains(&ingress), "{verb:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_asked_for_as_calls_are() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::with_testkit(directory.path(), &[]).await;
    assert_eq!(server.call("testkit/a/k/chatter", "[3]").await.status, 200);
    assert_eq!(server.call("testkit/b/k/chatter", "[2]").await.status, 200);
    let lines = |target: &str| {
        let (status, out, said) = styx(directory.path(), &["--admin-url", server.admin(), "logs", target]);
        assert_eq!(status, 0, "{target}: {said}");
        (out.lines().count(), said)
    };
    for (target, count) in [("testkit", 5), ("testkit/a", 3), ("testkit/b.chatter", 2), ("testkit/a.append", 0)] {
        let (found, said) = lines(target);
        assert_eq!(found, count, "{target}: {said}");
        assert_eq!(said.contains("no lines"), count == 0, "{target}: {said}");
    }
    let urls = ["--admin-url", server.admin(), "--ingress-url", server.ingress()];
    for (call, says) in [("testkit/a/k/list", "read as of epoch"), ("testkit/a/k/echo", "transaction ")] {
        let arguments = if call.ends_with("echo") { "[\"a\"]" } else { "[]" };
        let (_, _, said) = styx(directory.path(), &[&urls[..], &["call", call, arguments]].concat());
        assert!(said.starts_with(says), "{call}: {said}");
    }
    let (status, refused) = asked(&server, &["logs", "testkt"]);
    assert_eq!((status, refused["error"]["code"].as_str()), (1, Some("UNKNOWN_APP")), "{refused}");
}

/// As `head` does after some lines.
#[test]
fn whoever_reads_no_more_is_no_error() {
    for verb in [&["completions", "bash"][..], &["server", "--print-config"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_styx")).args(verb).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Those that need nothing but what builds Styx; the others are made alike, and `styx-build`'s tests look at them.
#[test]
fn new_projects_pass_their_tests() {
    let directory = tempfile::tempdir().unwrap();
    for (language, broken, says) in [
        ("python", ("test_account.py", "70", "71"), "71"),
        ("c", ("tests/account_test.c", "\"70\"", "\"71\""), "should be 71"),
    ] {
        let name = format!("bank-{language}");
        let (status, _, said) = styx(directory.path(), &["new", &name, "--lang", language]);
        assert_eq!(status, 0, "{said}");
        let (status, out, said) = styx(directory.path(), &["test", &name]);
        assert_eq!(status, 0, "{language}: {out}{said}");
        let (file, found, wrong) = broken;
        let file = directory.path().join(&name).join(file);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replacen(found, wrong, 1)).unwrap();
        let (status, out, said) = styx(directory.path(), &["test", &name]);
        assert!(status == 1 && said.contains("TESTS_FAILED"), "{language}: {out}{said}");
        assert!(format!("{out}{said}").contains(says), "{language}: {out}{said}");
        let (status, _, said) = styx(directory.path(), &["new", &name, "--lang", language]);
        assert!(status == 1 && said.contains("is there already"), "{said}");
    }
}

/// A refusal's own code and a bug's place, all the way from Python to a client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_told_refusals_and_bugs_of_an_app_apart() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(styx(directory.path(), &["new", "bank"]).0, 0);
    let source = directory.path().join("bank");
    let file = source.join("account.py");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("\n\n@account.register(read_only=True)\ndef look(ctx: Context) -> int:\n    print('looked')\n    return {}[\"price\"]\n");
    text.push_str("\n\n@account.register\ndef wrong(ctx: Context) -> int:\n    return {}[\"price\"]\n");
    let line = text.lines().count();
    std::fs::write(&file, text).unwrap();
    let bundle = build(source).await;
    let server = Process::start(&directory.path().join("data"), &[]).await;
    server.deploy("bank", "application/zip", bundle).await.is_deployed();

    let refused = server.call("bank/account/ann/transfer", "[\"bob\", 5]").await;
    assert_eq!((refused.status, refused.body["error"]["app_code"].as_str()), (422, Some("INSUFFICIENT_FUNDS")));
    let (status, told) = asked(&server, &["call", "bank/account/ann/transfer", "[\"bob\", 5]"]);
    assert_eq!((status, told["error"]["app_code"].as_str()), (1, Some("INSUFFICIENT_FUNDS")));
    let client = server.client();
    let error = client.call("bank", "account", "ann", "transfer", json!(["bob", 5])).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.app_code.as_deref()), ("ABORTED", Some("INSUFFICIENT_FUNDS")));

    let says = format!("account.wrong on \"ann\": KeyError: 'price' at account.py:{line} in wrong");
    server.call("bank/account/ann/wrong", "[]").await.is_error("a bug", 500, "GUEST_EXCEPTION", &says);

    // Also of what only reads, and has no place among the transactions.
    server.call("bank/account/ann/look", "[]").await.is_error("a bug", 500, "GUEST_EXCEPTION", "KeyError: 'price'");
    let (_, out, said) = styx(directory.path(), &["--admin-url", server.admin(), "logs", "bank/account.look"]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with("looked") && lines[1].contains("KeyError"), "{out}{said}");
}

/// Two addresses where nobody listens, for administrators and for calls.
fn free() -> [String; 2] {
    [(); 2].map(|()| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    })
}

/// As when `styx server &` is one line and `styx deploy` the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(styx(directory.path(), &["new", "bank", "--lang", "rust"]).0, 0);
    // Answered by the server, before anything is built.
    let file = directory.path().join("bank/styx.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}[limits]\nfuel = 1_000_000_000_000\n")).unwrap();
    let [admin, ingress] = free();
    let program = |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_styx"));
        command.args(arguments).current_dir(directory.path()).kill_on_drop(true);
        command
    };
    let mut deploy = program(&["--admin-url", &admin, "deploy", "bank"]);
    let deploying = deploy.stderr(std::process::Stdio::piped()).spawn().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let server = program(&["server", "--admin-addr", &admin, "--ingress-addr", &ingress]).spawn().unwrap();
    let told = deploying.wait_with_output().await.unwrap().stderr;
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("limits.fuel is 1000000000000"), "{told}");
    drop(server);
}

#[tokio::test]
async fn the_server_of_a_loop_ends_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let [admin, ingress] = free().map(|address| format!("http://{address}"));
    let mut dev = tokio::process::Command::new(env!("CARGO_BIN_EXE_styx"))
        .args(["--admin-url", &admin, "--ingress-url", &ingress, "dev", "."])
        .current_dir(directory.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let answers = async |expected: bool| {
        let until = Instant::now() + Duration::from_secs(60);
        while reqwest::get(format!("{admin}/readyz")).await.is_ok() != expected {
            assert!(Instant::now() < until, "a server answers: {}", !expected);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    answers(true).await;
    dev.kill().await.unwrap();
    answers(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_is_deployed_again_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(styx(directory.path(), &["new", "bank", "--lang", "c"]).0, 0);
    let server = Process::start(&directory.path().join("data"), &[]).await;
    let mut dev = tokio::process::Command::new(env!("CARGO_BIN_EXE_styx"))
        .args(["--admin-url", server.admin(), "--ingress-url", server.ingress(), "dev", "bank"])
        .current_dir(directory.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let becomes = async |expected: Value| {
        let until = Instant::now() + Duration::from_secs(300);
        loop {
            let told = server.call("bank/account/ann/balance", "[]").await;
            if told.body == expected {
                return;
            }
            assert!(Instant::now() < until, "{:?}, not {expected}", told.body);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    becomes(json!(0)).await;
    let file = directory.path().join("bank/account.c");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, balance) = text.split_at(text.find("STYX_READ_ONLY").unwrap());
    std::fs::write(&file, format!("{before}{}", balance.replace("styx_get(int64_t, result);", "*result = 77;")))
        .unwrap();
    becomes(json!(77)).await;
    assert!(dev.try_wait().unwrap().is_none(), "it goes on");
    dev.kill().await.unwrap();
}
