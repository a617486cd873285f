//! What starts servers elsewhere starts them with what there is: `packaging/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file of the directory.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

/// What the program says of its configuration, with these arguments.
fn configured(arguments: &[String]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut styx = Command::new(env!("CARGO_BIN_EXE_styx"));
    styx.current_dir(directory.path()).env("STYX_ADMIN_TOKEN", "0123456789abcdef0123456789abcdef");
    styx.args(arguments).arg("--print-config").output().unwrap()
}

/// The list of strings behind a word, on each line that has one.
fn lists(text: &str, behind: &str) -> Vec<Vec<String>> {
    let lists = text.lines().filter_map(|line| line.trim().strip_prefix(behind));
    lists.map(|list| serde_json::from_str(list).unwrap()).collect()
}

#[test]
fn containers_and_units_start_what_there_is() {
    let mut all = lists(&read("Dockerfile"), "CMD ");
    all.extend(lists(&read("kubernetes.yaml"), "args: "));
    let unit = read("styx.service");
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/styx ")).unwrap();
    all.push(started.split(' ').map(str::to_owned).collect());
    assert_eq!(all.len(), 5);
    for arguments in all {
        assert_eq!(arguments[0], "server");
        let arguments: Vec<_> = arguments.iter().map(|one| one.replace("$(POD_IP)", "10.0.0.1")).collect();
        let said = configured(&arguments);
        assert!(said.status.success() && !said.stdout.is_empty(), "{arguments:?}: {said:?}");
    }
}

#[test]
fn systemd_understands_the_unit() {
    let directory = tempfile::tempdir().unwrap();
    let unit = directory.path().join("styx.service");
    // Wherever the program is here.
    std::fs::write(&unit, read("styx.service").replace("/usr/bin/styx", env!("CARGO_BIN_EXE_styx"))).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output();
    // Not every machine has it.
    let Ok(said) = verified else { return };
    assert!(said.status.success() && said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
}
