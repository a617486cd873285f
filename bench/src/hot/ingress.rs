//! The ingress: JSON of calls in, JSON of replies out.

use bytes::Bytes;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{Digest, Parameter};
use styx_protocol::entity::Value;
use styx_server::gateway::Loopback;

use super::Work;
use super::transfers::{Transfer, Transfers, deployment};

/// Calls in one message of a client.
const LINES: usize = 50;

/// Calls before those that are counted.
const WARM_UP: usize = 1000;

pub fn ingress(calls: usize) -> anyhow::Result<Work> {
    let mut loopback = Loopback::new(catalog());
    let mut transfers = Transfers::new()?;
    let value = Value::from(&b"999999"[..]);
    let mut out = Vec::new();
    exchange(&mut loopback, messages(&mut transfers, WARM_UP), &value, &mut out);
    let mut counted = messages(&mut transfers, calls);
    Ok(Box::new(move || exchange(&mut loopback, std::mem::take(&mut counted), &value, &mut out)))
}

fn exchange(loopback: &mut Loopback, messages: Vec<Bytes>, value: &Value, out: &mut Vec<u8>) -> usize {
    let exchange = |message| {
        out.clear();
        loopback.exchange(message, value, out)
    };
    messages.into_iter().map(exchange).sum()
}

/// The accounts with what a transfer takes, as the guest declares it.
fn catalog() -> Catalog {
    let mut deployment = deployment(Digest([0; 32]));
    let functions = &mut deployment.operators[0].functions;
    let transfer = functions.iter_mut().find(|function| function.name == "transfer").expect("accounts have it");
    transfer.parameters = vec![Parameter { name: "to".into(), schema: r#"{"type":"string"}"#.into(), required: true }];
    let mut catalog = Catalog::default();
    catalog.apply(&Control::Deploy(deployment));
    catalog
}

fn messages(transfers: &mut Transfers, calls: usize) -> Vec<Bytes> {
    let line = |(id, Transfer { from, arguments }): (usize, Transfer)| {
        format!(
            r#"{{"id":{id},"app":"bench","operator":"account","key":"{from}","function":"transfer","args":{arguments}}}"#
        )
    };
    let lines: Vec<String> = transfers.take(calls).enumerate().map(line).collect();
    lines.chunks(LINES).map(|lines| lines.join("\n").into()).collect()
}
