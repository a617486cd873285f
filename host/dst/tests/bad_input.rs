//! The program, asked for what is not there: it says so in a line, and runs nothing.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn simulator(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_styx-dst")).args(args).output().expect("it runs")
}

/// It refuses, in one line that says this.
#[track_caller]
fn refuses(args: &[&str], why: &str) {
    let output = simulator(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
    assert!(said.contains(why), "{args:?}: {said}");
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("styx-dst-{}-{name}", std::process::id()))
}

#[test]
fn a_world_that_is_not_of_this_run_or_this_simulator() {
    refuses(&["--seed", "7", "--world", "1"], "run 7 has no world 1 among its first");
    refuses(&["--world", "1", "--of", "0123456789abcdef"], "world 1 is of simulator 0123456789abcdef");
    refuses(&["--world", "1", "--with", "wheels=4"], "a world has no setting wheels");
}

#[test]
fn a_campaign_of_others_or_none() {
    let name = file("others.json");
    let campaign = name.to_str().expect("a name");
    std::fs::write(&name, "{}").expect("it is written");
    refuses(&["--campaign", campaign], "is no campaign");
    let made = simulator(&["--campaign", campaign.trim_end_matches(".json"), "--transactions", "1"]);
    assert!(made.status.success(), "{made:?}");
    let made = PathBuf::from(campaign.trim_end_matches(".json"));
    let text = std::fs::read_to_string(&made).expect("it is kept");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    value["simulator"] = "0123456789abcdef".into();
    std::fs::write(&made, value.to_string()).expect("it is written");
    let made_name = made.to_str().expect("a name");
    refuses(&["--campaign", made_name], "is of simulator 0123456789abcdef, and this is");
    std::fs::write(&made, &text).expect("it is written");
    refuses(&["--campaign", made_name, "--seed", "9"], "is of seed 1, not 9");
    for file in [name, made] {
        std::fs::remove_file(file).expect("it was there");
    }
}

#[test]
fn a_campaign_that_is_killed_goes_on_and_comes_to_the_same() {
    let (killed, whole) = (file("killed.json"), file("whole.json"));
    let args = |file: &PathBuf| {
        let name = file.to_str().expect("a name").to_owned();
        ["--seed".into(), "5".into(), "--transactions".into(), "30000".into(), "--campaign".into(), name]
    };
    let mut running = Command::new(env!("CARGO_BIN_EXE_styx-dst"))
        .args(args(&killed))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let started = Instant::now();
    while !killed.exists() && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    running.kill().expect("it may have ended by itself");
    running.wait().expect("it ends");
    let summary = |file: &PathBuf| -> serde_json::Value {
        let output = Command::new(env!("CARGO_BIN_EXE_styx-dst")).args(args(file)).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("its summary")
    };
    let (again, at_once) = (summary(&killed), summary(&whole));
    for same in ["trace", "worlds", "transactions"] {
        assert_eq!(again[same], at_once[same], "{same}");
    }
    for file in [killed, whole] {
        std::fs::remove_file(file).expect("it was there");
    }
}
