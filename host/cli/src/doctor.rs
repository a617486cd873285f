//! `styx doctor`: what this machine can do, and whether a server answers.

use std::process::Command;

use reqwest::Method;
use serde_json::json;

use crate::client::Client;
use crate::error::CliError;
use crate::output::Output;

struct Check {
    what: &'static str,
    found: Result<String, String>,
}

pub(crate) fn run(client: &Client, output: &Output) -> Result<(), CliError> {
    let server = server(client);
    // One that does not answer is said once.
    let quarantine = server.is_ok().then(|| Check { what: "quarantine", found: quarantine(client) });
    let languages = [
        Check { what: "python guests", found: version("python3", &["--version"], "install Python 3.11 or newer") },
        Check { what: "rust guests", found: rust() },
        Check { what: "go guests", found: go() },
        Check { what: "c guests", found: c() },
        Check { what: "typescript guests", found: typescript() },
        Check { what: "disk", found: disk() },
    ];
    let mut checks = vec![Check { what: "server", found: server }];
    checks.extend(quarantine);
    checks.extend(languages);
    let rows = checks.iter().map(|check| match &check.found {
        Ok(found) => vec!["✓".into(), check.what.into(), found.clone()],
        Err(advice) => vec!["✗".into(), check.what.into(), advice.clone()],
    });
    let value = checks.iter().map(|check| json!({"check": check.what, "ok": check.found.is_ok(), "detail": check.found.as_ref().unwrap_or_else(|advice| advice)})).collect();
    output.table(&["", "check", "detail"], rows.collect(), &value);
    let wrong: Vec<&str> = checks.iter().filter(|check| check.found.is_err()).map(|check| check.what).collect();
    match wrong.len() {
        0 => Ok(()),
        1 => Err(CliError::new("DOCTOR", format!("{} needs attention", wrong[0]), "see the table")),
        _ => Err(CliError::new("DOCTOR", format!("{} need attention", wrong.join(", ")), "see the table")),
    }
}

fn server(client: &Client) -> Result<String, String> {
    match client.send(client.admin(Method::GET, "/readyz")) {
        Ok(_) => Ok(format!("answers at {}", client.admin_url())),
        Err(error) => Err(error.to_string()),
    }
}

fn quarantine(client: &Client) -> Result<String, String> {
    match client.send(client.admin(Method::GET, "/v1/quarantine")) {
        Ok(answer) => match answer.body["quarantined"].as_array().map_or(0, Vec::len) {
            0 => Ok("nothing is set aside".to_owned()),
            many => Err(format!("{many} requests or apps are set aside: see `styx requests quarantine list`")),
        },
        Err(error) => Err(error.to_string()),
    }
}

fn version(program: &str, args: &[&str], advice: &str) -> Result<String, String> {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
        _ => Err(format!("{program} does not run: {advice}")),
    }
}

fn rust() -> Result<String, String> {
    let cargo = version("cargo", &["--version"], "install Rust, or write guests in another language")?;
    let target = Command::new("rustup").args(["target", "list", "--installed"]).output();
    if target.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("wasm32-unknown-unknown")) {
        return Ok(format!("{cargo} with wasm32-unknown-unknown"));
    }
    if std::path::Path::new("/usr/lib/rustlib").exists() || std::path::Path::new("/usr/bin/wasm-ld-22").exists() {
        return Ok(format!("{cargo}; guests by the distribution's rustc"));
    }
    Ok(format!("{cargo}; `styx build` will add the target wasm32-unknown-unknown"))
}

/// Go may lie where its makers' packages put it; without any, `styx build` gets one.
fn go() -> Result<String, String> {
    let found = ["go", "/usr/local/go/bin/go"].into_iter().find_map(|go| version(go, &["version"], "").ok());
    match found {
        Some(found) => Ok(found.trim_start_matches("go version ").to_owned()),
        None => version("python3", &["-m", "pip", "--version"], "install Go 1.24 or newer")
            .map(|_| "`styx build` will get Go from PyPI".to_owned()),
    }
}

fn c() -> Result<String, String> {
    let python = version("python3", &["--version"], "install Python 3.11 or newer: it fetches zig's C compiler")?;
    Ok(format!("{python}; `styx build` fetches zig's C compiler from PyPI"))
}

fn typescript() -> Result<String, String> {
    let advice = "install Node.js 20 or newer, or write guests in another language";
    let node = version("node", &["--version"], advice)?;
    let major = node.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 20) {
        return Err(format!("Node.js {node} is too old: {advice}"));
    }
    let npm = version("npm", &["--version"], "install npm, which comes with Node.js")?;
    Ok(format!("node {node} with npm {npm}; `styx build` fetches the rest"))
}

fn disk() -> Result<String, String> {
    let directory = std::env::current_dir().map_err(|error| error.to_string())?;
    let file = tempfile::tempfile_in(&directory)
        .map_err(|error| format!("{} cannot be written: {error}", directory.display()))?;
    let mut samples: Vec<_> = (0..20)
        .map(|_| {
            let started = std::time::Instant::now();
            std::os::unix::fs::FileExt::write_all_at(&file, &[0u8; 4096], 0)
                .and_then(|()| file.sync_data())
                .map(|()| started.elapsed())
        })
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    samples.sort();
    Ok(format!(
        "4 KiB made durable in {:.2} ms (median of {})",
        samples[samples.len() / 2].as_secs_f64() * 1e3,
        samples.len()
    ))
}
