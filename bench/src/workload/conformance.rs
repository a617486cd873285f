//! The same functions in every language, in one app: each answers the same cases and comes to the same state, and one
//! transaction goes through all of them, whoever begins it.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use styx_client::{Client, Error, Request};
use styx_harness::Cluster;

const APP: &str = "conformance";
const LANGUAGES: [&str; 5] = ["python", "rust", "typescript", "go", "c"];

/// Deploys the app and asks it; returns how many calls were made.
pub async fn run(server: &Cluster, guests: &Path) -> anyhow::Result<usize> {
    let directory = guests.join(APP);
    let file = directory.join("cases.tsv");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let cases: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    server.deploy(&directory, None, true).await?;
    let client = server.client();
    let mut states = Vec::new();
    for language in LANGUAGES {
        for case in &cases {
            let [key, function, arguments, expected] = case[..] else { anyhow::bail!("{case:?} is no case") };
            let found = told(call(client, language, key, function, arguments).await);
            let matches = found == expected || !expected.contains(':') && found.starts_with(&format!("{expected}:"));
            ensure!(matches, "{language}: {key}.{function}{arguments} is answered by {found}, not by {expected}");
        }
        states.push(state(client, language).await?);
    }
    for (language, state) in LANGUAGES.iter().zip(&states) {
        ensure!(*state == states[0], "the state differs: {} in {}, {state} in {language}", states[0], LANGUAGES[0]);
    }
    let mut calls = LANGUAGES.len() * cases.len();
    for round in 1..=LANGUAGES.len() {
        let mut languages = LANGUAGES;
        languages.rotate_left(round);
        let (first, rest) = languages.split_first().context("there are languages")?;
        // Each has had its one of every round before.
        let found = told(call(client, first, "k", "through", &json!([rest, 1]).to_string()).await);
        let expected = (LANGUAGES.len() * round).to_string();
        ensure!(found == expected, "through {languages:?}: {found}, not {expected}");
        // The last of them calls nobody: nothing of it has happened, in any language.
        let nowhere: Vec<&str> = rest.iter().copied().chain(["nowhere"]).collect();
        let found = told(call(client, first, "k", "through", &json!([nowhere, 1]).to_string()).await);
        ensure!(found.starts_with("GUEST_EXCEPTION: "), "through {languages:?} to nowhere: {found}");
        calls += 2;
    }
    for language in LANGUAGES {
        let found = state(client, language).await?;
        // Each was called by another in all rounds but the one that it began.
        let expected = json!({ "k": LANGUAGES.len(), "later": LANGUAGES.len() - 1 });
        ensure!(found["k"] == expected["k"] && found["later"] == expected["later"], "{language} has {found}");
    }
    Ok(calls)
}

async fn call(client: &Client, operator: &str, key: &str, function: &str, arguments: &str) -> Result<String, Error> {
    let request = Request::new(APP, operator, key, function, Value::Null).arguments_text(arguments)?.without_key();
    let reply = client.request(request).reply().await?;
    Ok(String::from_utf8_lossy(&reply.bytes).into_owned())
}

/// As the cases have it: the reply, or `CODE: message`, or `CODE:APP_CODE: message`.
fn told(end: Result<String, Error>) -> String {
    match end {
        Ok(reply) => reply,
        Err(Error { code, app_code: Some(app_code), message, .. }) => format!("{code}:{app_code}: {message}"),
        Err(Error { code, message, .. }) => format!("{code}: {message}"),
    }
}

/// All entities of an operator by key.
async fn state(client: &Client, operator: &str) -> anyhow::Result<Value> {
    let page = client.admin(&format!("/v1/state/{APP}/{operator}?limit=1000")).await?;
    let entries = page["entries"].as_array().context("a page has entries")?;
    Ok(entries
        .iter()
        .map(|entry| (entry["key"].as_str().unwrap_or_default().to_owned(), entry["value"].clone()))
        .collect())
}
