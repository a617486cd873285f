//! A look at everything, while nobody asks: the state against the ledger, old answers asked for again,
//! the history of some lists, and the same state once more after everything was killed.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::Value;

use super::ask::{Told, insist};
use super::check::{Findings, State, check, happened};
use super::history::{Verdict, judge};
use super::ledger::{Append, Seen, Way};
use super::load::{Load, Shared};
use super::operation::{End, Operation, Places};
use styx_client::Request;
use styx_harness::{Cluster, RECOVERY_MAX};

/// Requests that are asked again at each look.
const AGAIN: usize = 400;
/// Requests under way at a time meanwhile.
const AT_ONCE: usize = 8;
/// Appends whose history is judged at each look.
const JUDGED: usize = 2_000;

pub(super) struct Inspection {
    random: StdRng,
    pub(super) asked_again: usize,
    pub(super) judged: usize,
    pub(super) happened: usize,
}

/// Something that was answered, and may be asked again.
#[derive(Clone, Debug)]
enum Answered {
    Operated(Operation, End),
    Appended(Append, [Seen; 2]),
}

impl Answered {
    fn call(&self) -> Request {
        match self {
            Answered::Operated(operation, _) => operation.call(),
            Answered::Appended(append, _) => append.call(),
        }
    }

    fn same(&self, again: &Told) -> bool {
        match (self, again) {
            (Answered::Operated(operation, end), _) => operation.read(again) == Ok(Some(*end)),
            (Answered::Appended(append, seen), Told::Done(reply)) => append.read(reply) == Ok(*seen),
            _ => false,
        }
    }
}

impl Inspection {
    pub(super) fn new(random: StdRng) -> Inspection {
        Inspection { random, asked_again: 0, judged: 0, happened: 0 }
    }

    /// Looks; says for people what was looked at. No client may ask meanwhile.
    pub(super) async fn inspect(
        &mut self,
        cluster: &mut Cluster,
        load: &Load,
        findings: &mut Findings,
    ) -> anyhow::Result<String> {
        let before = cluster.position().await?;
        let state = read(cluster).await?;
        let (history, lists, sizes) = {
            let mut ledger = load.shared.ledger();
            check(&ledger, &state, findings);
            self.happened = happened(&ledger.appends, &state);
            ledger.turn();
            let sizes = (ledger.operations.len(), ledger.appends.len(), ledger.doubtful());
            (ledger.take_history(JUDGED), state.lists.clone(), sizes)
        };
        let mut judged = history.len();
        match tokio::task::spawn_blocking(move || judge(&history, &lists)).await?? {
            Verdict::Right => {}
            Verdict::Wrong(anomaly) => findings.other(anomaly),
            Verdict::Undecided => judged = 0,
        }
        self.judged += judged;

        // From what is durable, the same again.
        let own = cluster.own();
        cluster.kill(&own).await?;
        if let Some(damage) = cluster.snapshot_damage().await? {
            findings.other(damage);
        }
        cluster.start_again(&own).await?;
        let after = cluster.position().await?;
        if after != before {
            let said = |(epoch, chain): &(u64, String)| format!("epoch {epoch}, chain {chain}");
            findings.changed(format!("killed at {}, back at {}", said(&before), said(&after)));
        }
        if read(cluster).await? != state {
            findings.changed("the state after a restart is not the state before it".to_owned());
        }
        let again = self.ask_again(&load.shared, findings).await?;
        let (operations, appends, doubtful) = sizes;
        Ok(format!(
            "{operations} transfers and bookings, {appends} appends to {} lists, {doubtful} doubtful; {judged} judged, {again} asked \
             again; epoch {} with the same hash after a restart",
            state.lists.len(),
            before.0
        ))
    }

    /// Asks again under old keys: the answers must be the old ones.
    async fn ask_again(&mut self, shared: &Arc<Shared>, findings: &mut Findings) -> anyhow::Result<usize> {
        let chosen = {
            let ledger = shared.ledger();
            let operated = ledger.operations.iter().filter(|operation| operation.way == Way::Keyed);
            let operated: Vec<&Operation> = operated.collect();
            let operated = operated.choose_multiple(&mut self.random, AGAIN * 2 / 3);
            let operated =
                operated.filter_map(|operation| Some(Answered::Operated((*operation).clone(), operation.told?)));
            let appended: Vec<&Append> = ledger.appends.values().filter(|append| append.is_named()).collect();
            let appended = appended.choose_multiple(&mut self.random, AGAIN / 3);
            let appended = appended.filter_map(|append| Some(Answered::Appended((*append).clone(), append.told?)));
            operated.chain(appended).collect::<Vec<_>>()
        };
        let count = chosen.len();
        let tasks = chosen.chunks(count.div_ceil(AT_ONCE).max(1)).map(|share| {
            let (share, shared) = (share.to_vec(), shared.clone());
            tokio::spawn(async move {
                let mut different = Vec::new();
                for answered in share {
                    let told = insist(&shared.client, answered.call(), RECOVERY_MAX).await;
                    if !answered.same(&told) {
                        different.push(format!("{answered:?} was asked again and answered with {told:?}"));
                    }
                }
                different
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await?.into_iter().for_each(|line| findings.changed(line));
        }
        self.asked_again += count;
        Ok(count)
    }
}

async fn read(cluster: &Cluster) -> anyhow::Result<State> {
    let entities = async |app: &str, operator: &str| -> anyhow::Result<BTreeMap<String, Value>> {
        let all = cluster.client().scan(app, operator, "").await?;
        Ok(all.into_iter().map(|entity| (entity.key, entity.value)).collect())
    };
    let mut held = entities("ycsb", "account").await?;
    held.append(&mut entities("deathstar-travel", "hotel").await?);
    held.append(&mut entities("deathstar-travel", "flight").await?);
    let places = Places::read(held, entities("deathstar-travel", "order").await?)?;
    let list = |(name, value)| Ok((name, serde_json::from_value(value)?));
    let lists = entities("testkit", "a").await?.into_iter().map(list).collect::<anyhow::Result<_>>()?;
    Ok(State { lists, places })
}
