//! A look at everything, while nobody asks: the state against the book, old answers asked for again,
//! the history of some lists, and the same state once more after everything was killed.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::ask::{Call, Told};
use super::book::{Append, Moved, Seen, Transfer, Way};
use super::check::{Findings, State, check, happened};
use super::history::{Verdict, judge};
use super::load::{Load, Shared};
use super::site::{RECOVERY_MAX, Site};
use super::trip::{self, Booked, Trip, Trips};

/// Requests that are asked again at each look.
const AGAIN: usize = 400;
/// Of so many at the same time.
const AT_ONCE: usize = 8;
/// Appends whose history is judged at each look.
const JUDGED: usize = 2_000;

/// The looks so far.
pub(super) struct Inspection {
    random: StdRng,
    pub(super) asked_again: usize,
    pub(super) judged: usize,
    pub(super) happened: usize,
}

/// Something that was answered, and may be asked again.
#[derive(Clone, Debug)]
enum Answered {
    Moved(Transfer, Moved),
    Appended(Append, [Seen; 2]),
    Went(Trip, Booked),
}

impl Answered {
    fn call(&self) -> Call {
        match self {
            Answered::Moved(transfer, _) => transfer.call(),
            Answered::Appended(append, _) => append.call(),
            Answered::Went(trip, _) => trip.call(),
        }
    }

    fn same(&self, again: &Told) -> bool {
        match (self, again) {
            (Answered::Moved(transfer, moved), _) => transfer.read(again) == Ok(Some(*moved)),
            (Answered::Went(trip, booked), _) => trip.read(again) == Ok(Some(*booked)),
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
        site: &mut Site,
        load: &Load,
        findings: &mut Findings,
    ) -> anyhow::Result<String> {
        let before = site.position().await?;
        let state = read(site).await?;
        let (history, lists, sizes) = {
            let mut book = load.shared.book();
            check(&book, &state, findings);
            self.happened = happened(&book.appends, &state);
            book.turn();
            let sizes = (book.transfers.len(), book.trips.len(), book.appends.len(), book.doubtful());
            (book.take_history(JUDGED), state.lists.clone(), sizes)
        };
        let mut judged = history.len();
        match tokio::task::spawn_blocking(move || judge(&history, &lists)).await?? {
            Verdict::Right => {}
            Verdict::Wrong(anomaly) => findings.other(anomaly),
            Verdict::Undecided => judged = 0,
        }
        self.judged += judged;

        // From what is durable, the same again.
        let own = site.own();
        site.kill(&own).await?;
        if let Some(damage) = site.damage().await? {
            findings.other(damage);
        }
        site.start_again(&own).await?;
        let after = site.position().await?;
        if after != before {
            let said = |(epoch, chain): &(u64, String)| format!("epoch {epoch}, chain {chain}");
            findings.changed(format!("killed at {}, back at {}", said(&before), said(&after)));
        }
        if read(site).await? != state {
            findings.changed("the state after a restart is not the state before it".to_owned());
        }
        let again = self.ask_again(&load.shared, findings).await?;
        let (transfers, trips, appends, doubtful) = sizes;
        Ok(format!(
            "{transfers} transfers, {trips} trips, {appends} appends to {} lists, {doubtful} doubtful; {judged} judged, {again} asked \
             again; epoch {} with the same hash after a restart",
            state.lists.len(),
            before.0
        ))
    }

    /// Whoever asks under an old key gets the old answer.
    async fn ask_again(&mut self, shared: &Arc<Shared>, findings: &mut Findings) -> anyhow::Result<usize> {
        let chosen = {
            let book = shared.book();
            let moved = book.transfers.iter().filter(|transfer| transfer.way == Way::Keyed);
            let moved: Vec<&Transfer> = moved.collect();
            let appended: Vec<&Append> = book.appends.values().filter(|append| append.is_named()).collect();
            let moved = moved.choose_multiple(&mut self.random, AGAIN / 3);
            let moved = moved.filter_map(|transfer| Some(Answered::Moved((*transfer).clone(), transfer.told?)));
            let mut chosen: Vec<Answered> = moved.collect();
            let appended = appended.choose_multiple(&mut self.random, AGAIN / 3);
            chosen.extend(appended.filter_map(|append| Some(Answered::Appended((*append).clone(), append.told?))));
            let went: Vec<&Trip> = book.trips.iter().filter(|trip| trip.way == Way::Keyed).collect();
            let went = went.choose_multiple(&mut self.random, AGAIN / 3);
            chosen.extend(went.filter_map(|trip| Some(Answered::Went((*trip).clone(), trip.told?))));
            chosen
        };
        let count = chosen.len();
        let tasks = chosen.chunks(count.div_ceil(AT_ONCE).max(1)).map(|share| {
            let (share, shared) = (share.to_vec(), shared.clone());
            tokio::spawn(async move {
                let mut different = Vec::new();
                for answered in share {
                    let told = shared.asker.insist(&answered.call(), RECOVERY_MAX).await;
                    if !told.as_ref().is_some_and(|told| answered.same(told)) {
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

async fn read(site: &Site) -> anyhow::Result<State> {
    let of_trips = async |operator: &str| site.state(&format!("{}/{operator}", trip::APP)).await;
    let trips = Trips::read(&of_trips("hotel").await?, &of_trips("flight").await?, of_trips("order").await?)?;
    State::read(&site.state("ycsb/account").await?, site.state("testkit/a").await?, trips)
}
