//! Generations and epochs as processes begin and end them: checked, traced and counted.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_driver::wire::Invite;
use styx_protocol::abort::Code;
use styx_protocol::control::Control;
use styx_protocol::ids::{Epoch, Generation, PlacementVersion, Tid};
use styx_protocol::machine::EpochSummary;
use styx_protocol::record::{Chain, EpochRecord};
use styx_protocol::transaction::Transaction;

use super::{Environment, GenerationView};
use crate::check::checker::{Ended, Outcome};
use crate::check::state::WorkerState;
use crate::check::{Checked, Failure, ensure};
use crate::event::{Event, Life};

/// The longest that a round takes until its record is there, in microseconds.
const ROUND_MAX: u64 = 60_000_000;

impl Environment {
    /// A process has opened its log, which holds these epochs, behind those that are trimmed.
    ///
    /// # Errors
    /// It does not hold what it held.
    pub fn opened(&mut self, life: Life, records: &[Arc<EpochRecord>], first: u64) -> Checked {
        if self.writer.is_some_and(|writer| writer != life) {
            // Another one's fence stands behind what it has read: it appends nothing more.
            return Ok(());
        }
        self.log_damaged = false;
        let held = records.last().map(|record| record.epoch);
        let durable = held.unwrap_or(if first > 1 { self.durable } else { Epoch(0) });
        ensure(durable >= self.durable, "log", || format!("epoch {} was durable, {durable} is", self.durable))?;
        let trimmed = records.first().map_or(durable, |record| Epoch(record.epoch.0 - 1));
        let now = self.queue.now();
        self.trace.event(now, [19, life.node as u64, durable.0], || {
            format!("{life} has opened its log: epochs {} to {durable}", trimmed.0 + 1)
        });
        if let Some(before) = self.owner.filter(|_| self.checker.epoch() > durable) {
            self.unheard.insert(before, true);
        }
        (self.durable, self.owner) = (durable, Some(life));
        // What others have cut since is nobody's.
        for (other, round) in &mut self.rounds {
            if round.take_if(|epoch| *epoch > durable).is_some() {
                self.unheard.entry(*other).or_default();
            }
        }
        self.checker.opened(records, trimmed)
    }

    /// A coordinator beside which others could lead holds the lease.
    pub fn leads(&mut self, life: Life) {
        let now = self.queue.now();
        self.trace.event(now, [26, life.node as u64], || format!("{life} leads"));
        self.figures.takeovers += u64::from(self.owner.is_some_and(|owner| owner.node != life.node));
    }

    /// Records up to an epoch's are durable.
    pub fn durable(&mut self, life: Life, epoch: Epoch) {
        self.durable = self.durable.max(epoch);
        let now = self.queue.now();
        self.trace.event(now, [25, life.node as u64, epoch.0], || {
            format!("{life} has synced its log: epoch {epoch} is durable")
        });
    }

    /// A coordinator begins a generation.
    pub fn begins(&mut self, life: Life, generation: Generation) -> Checked {
        let now = self.queue.now();
        self.trace
            .event(now, [13, life.node as u64, generation.0], || format!("{life} begins generation {generation}"));
        self.figures.generations += 1;
        self.causes.begins()?;
        self.poison.leads(life);
        if self.is_replaced(life) {
            return Ok(());
        }
        // What was cut and did not end has not happened.
        self.rounds.insert(life, None);
        self.checker.abandon()?;
        let newest = self.newest().unwrap_or_default();
        ensure(generation > newest, "membership", || format!("generation {generation} begins after {newest}"))
    }

    /// A worker is invited: with the first one, the generation is there.
    ///
    /// # Errors
    /// What it begins with was not there.
    pub fn invites(&mut self, life: Life, invite: &Invite) -> Checked {
        if self.is_replaced(life) || self.generations.contains_key(&invite.generation) {
            return Ok(());
        }
        let members: Vec<usize> =
            invite.members.iter().map(|member| member.address[1..].parse().expect("an address")).collect();
        let begin = invite.store.as_ref().and_then(|place| place.begin);
        let from = begin.map(|sequence| self.epoch_of(sequence)).transpose()?.unwrap_or_default();
        let now = self.queue.now();
        self.trace.event(now, [14, invite.generation.0, from.0], || {
            format!("generation {} is of {members:?}, from epoch {from}", invite.generation)
        });
        self.figures.restores += u64::from(from > Epoch(0));
        let before = self.generations.last_key_value().filter(|(_, before)| before.leader == life);
        self.causes.follows(now, before.map(|(_, before)| &before.members[..]), &members)?;
        self.placements.begins(life, &members, &invite.placement, self.durable)?;
        let placement = Arc::new(invite.placement.clone());
        self.checker.placed(placement.clone(), from);
        let summaries = members.iter().map(|_| VecDeque::new()).collect();
        let view = GenerationView { leader: life, placement, members, summaries, queries: Vec::new(), live: false };
        self.generations.insert(invite.generation, view);
        self.checker.begins_again();
        Ok(())
    }

    /// A worker has become a member.
    pub fn joined(&mut self, life: Life, generation: Generation) {
        let now = self.queue.now();
        self.trace.event(now, [11, life.node as u64, generation.0], || format!("{life} joins generation {generation}"));
    }

    /// A generation is live.
    pub fn live(&mut self, life: Life, epoch: Epoch) {
        let now = self.queue.now();
        let Some(generation) = self.led_by(life) else { return };
        self.trace.event(now, [15, generation.0], || format!("generation {generation} is live at epoch {epoch}"));
        if let Some(view) = self.generations.get_mut(&generation) {
            view.live = true;
            self.placements.live();
        }
    }

    /// Partitions have other owners from an epoch on.
    fn moves(&mut self, life: Life, record: &EpochRecord, control: &Control) {
        let Control::Place(placement) = control else { return };
        let Some(view) = self.generations.get_mut(&record.generation) else { return };
        self.placements.logged(placement, record.epoch);
        if placement.version() == PlacementVersion::FIRST || view.placement.version() == placement.version() {
            return;
        }
        let placement = Arc::new(placement.clone());
        view.placement = placement.clone();
        self.figures.migrations += 1;
        let now = self.queue.now();
        self.trace.event(now, [24, record.epoch.0], || {
            format!("{life} places partitions with epoch {}: {:?}", record.epoch, placement.owners())
        });
        self.checker.moves(placement);
    }

    /// Whether nobody will ever hear of a record, whose writer has been replaced and does not know it.
    fn is_unheard(&mut self, life: Life, record: &Arc<EpochRecord>) -> bool {
        let is_unheard = self.is_replaced(life) && !self.checker.knows(record);
        if is_unheard {
            self.rounds.insert(life, None);
            self.unheard.entry(life).or_default();
        }
        is_unheard
    }

    /// A round is known to be an epoch.
    pub fn cut(&mut self, life: Life, record: &Arc<EpochRecord>) -> Checked {
        if self.is_unheard(life, record) {
            return Ok(());
        }
        let requests = record.transactions().count();
        let numbers = [1, record.epoch.0, record.time.0, requests as u64];
        let now = self.queue.now();
        self.trace.event(now, numbers, || {
            format!(
                "{life} cuts epoch {}: {requests} requests from counter {} of {}, carried {:?}, {} controls",
                record.epoch,
                record.counter,
                record.sequencers,
                record.carried,
                record.controls.len()
            )
        });
        self.figures.deployments += record.controls.iter().filter(|control| control.is_deployment()).count() as u64;
        let (first, logged) = *self.cut_at.entry(life).or_insert((now, record.time));
        let (passed, counted) = (now - first, record.time.0.saturating_sub(logged.0));
        // A round may have begun a while before its record is there; a clock that jumps does so for longer.
        ensure(counted <= passed + passed / 4 + ROUND_MAX, "log time", || {
            format!("log time goes on by {counted} us at {life} while {passed} us pass")
        })?;
        self.rounds.insert(life, Some(record.epoch));
        if !self.checker.knows(record) {
            for control in &record.controls {
                self.moves(life, record, control);
            }
            for subject in self.poison.cut(record.epoch, &record.controls, self.plan.poison)? {
                self.trace.event(now, [36, record.epoch.0], || format!("{subject} is set aside"));
                if self.random.chance(500) {
                    let delay = self.random.between(0, 500_000);
                    self.after(delay, Event::Release(subject));
                }
            }
        }
        self.checker.cut(record)
    }

    /// A record is about to be appended: its epoch is about to end.
    pub fn appends(&mut self, life: Life, record: &Arc<EpochRecord>) -> Checked {
        if !self.checker.is_cut(record) {
            // An epoch that executes nothing ends at once.
            self.cut(life, &Arc::new(EpochRecord { outcome: None, ..(**record).clone() }))?;
        }
        if self.is_replaced(life) && !self.checker.is_cut(record) { Ok(()) } else { self.checker.appends(record) }
    }

    /// A record has been read again.
    pub fn replayed(&mut self, life: Life, record: &Arc<EpochRecord>) -> Checked {
        if self.is_unheard(life, record) {
            return Ok(());
        }
        self.figures.replayed += 1;
        self.rounds.insert(life, Some(record.epoch));
        self.checker.cut(record)
    }

    /// A worker executes something.
    pub fn executes(&self, generation: Generation) -> Checked {
        let live = self.generations.get(&generation).is_none_or(|view| view.live);
        ensure(live, "recovery", || format!("a function runs while generation {generation} recovers"))
    }

    /// A worker begins a run of a long transaction. Those of a generation that was replaced do not know what has ended
    /// since, and run what nobody waits for.
    ///
    /// # Errors
    /// As of [`Checker::long_begins`](crate::check::checker::Checker::long_begins).
    pub fn long_begins(&mut self, generation: Generation, tid: Tid) -> Checked {
        if self.newest().is_some_and(|newest| newest > generation) { Ok(()) } else { self.checker.long_begins(tid) }
    }

    /// A worker executes read-only requests in the round under way.
    pub fn queries(&mut self, generation: Generation, queries: &[Transaction]) {
        if let Some(view) = self.generations.get_mut(&generation) {
            view.queries.extend(queries.iter().cloned());
        }
    }

    /// All workers have executed: what queries come to rests on the state of now.
    pub fn settles(&mut self, life: Life) {
        let Some((generation, view)) = self.generations.iter_mut().rfind(|(_, view)| view.leader == life) else {
            return;
        };
        let (generation, queries) = (*generation, std::mem::take(&mut view.queries));
        if self.led_by(life) == Some(generation) && self.unheard.get(&life) != Some(&true) {
            self.expect_queries(queries);
        } else {
            queries.iter().for_each(|query| self.history.overtaken(query.request.id));
        }
    }

    /// A query begins to run beside the epochs of a generation: it reads the state of now.
    pub fn expect_long_query(&mut self, generation: Generation, query: &Transaction) {
        let Some(leader) = self.generations.get(&generation).map(|view| view.leader) else { return };
        if self.led_by(leader) == Some(generation) && self.unheard.get(&leader) != Some(&true) {
            self.expect_queries([query.clone()]);
        } else {
            self.history.overtaken(query.request.id);
        }
    }

    /// Works out what read-only requests must come to that are executed now.
    pub fn expect_queries(&mut self, queries: impl IntoIterator<Item = Transaction>) {
        let next = self.checker.epoch().0 + 1;
        for query in queries {
            let expected = self.checker.query(query.time, &query.request);
            let base = self.checker.query_base();
            self.history.queried(query.request.id, expected, base, next);
        }
    }

    /// A worker has ended a round.
    pub fn worker_ended(&mut self, life: Life, generation: Generation, summary: EpochSummary) {
        let Some(view) = self.generations.get_mut(&generation) else { return };
        if let Some(worker) = view.worker_on(life.node) {
            view.summaries[usize::from(worker.0)].push_back(summary);
        }
    }

    /// A coordinator has ended a round.
    ///
    /// # Errors
    /// It did not end as it must.
    pub fn ended(&mut self, life: Life, summary: &EpochSummary) -> Checked {
        let round = self.rounds.insert(life, None).flatten();
        let Some(generation) = self.led_by(life) else { return Ok(()) };
        let Some(view) = self.generations.get_mut(&generation) else { return Ok(()) };
        let summaries: Option<Vec<EpochSummary>> = view.summaries.iter_mut().map(VecDeque::pop_front).collect();
        let Some(summaries) = summaries else {
            if self.is_replaced(life) {
                // Its generation is not the log's: it began after another process had opened that.
                return Ok(());
            }
            return Err(Failure::new("log", "a round has ended at the coordinator, and not at all workers"));
        };
        if round.is_none() && self.is_replaced(life) {
            self.unheard.entry(life).and_modify(|ended| *ended = true);
            return Ok(());
        }
        let Some(view) = self.generations.get(&generation) else { return Ok(()) };
        let (live, several) = (view.live, view.members.len() > 1);
        if live {
            self.count(&summaries, several);
        }
        self.finished(life, generation, round, Ended::of(summaries, summary.chain))?;
        // In a replay only its end can be compared.
        if round.is_none_or(|round| round == self.checker.epoch()) {
            self.round_ended = Some(generation);
        }
        Ok(())
    }

    /// A single process has ended a round.
    ///
    /// # Errors
    /// It did not end as it must.
    pub fn ended_alone(&mut self, life: Life, round: Option<Epoch>, summary: EpochSummary, replays: bool) -> Checked {
        let chain = summary.chain;
        let summaries = [summary];
        if !replays {
            self.count(&summaries, false);
        }
        self.finished(life, Generation(life.number.into()), round, Ended::of(summaries, chain))
    }

    fn finished(&mut self, life: Life, generation: Generation, epoch: Option<Epoch>, ended: Ended) -> Checked {
        let numbers = [6, epoch.map_or(0, |epoch| epoch.0), ended.chain.0 as u64, ended.order.len() as u64];
        let now = self.queue.now();
        self.trace.event(now, numbers, || match epoch {
            Some(epoch) => format!(
                "{life} ends epoch {epoch}: order {:?}, {} rescheduled, chain {}",
                ended.order, ended.rescheduled, ended.chain
            ),
            None => format!("{life} ends a round of read-only requests"),
        });
        let by_itself = |outcome: &Outcome| outcome.as_ref().err().is_none_or(|abort| abort.code == Code::Aborted);
        let outcomes: Vec<(Tid, bool)> =
            ended.outcomes.iter().map(|(tid, outcome)| (*tid, by_itself(outcome))).collect();
        self.checker.finished(epoch, ended)?;
        if self.checker.is_lenient() {
            return Ok(());
        }
        self.checker.lines.ended(generation, outcomes.iter().map(|(tid, by_itself)| (tid, *by_itself)))
    }

    /// Compares workers that have just ended a round with what they must be.
    pub fn compare(&self, workers: &[WorkerState<'_>]) -> Checked {
        let position = (self.checker.epoch(), self.checker.chain());
        if !self.checker.is_between_epochs() {
            return Ok(());
        }
        self.checker.compare(position, workers, position.0.0.is_multiple_of(8))
    }

    /// Compares a single process.
    pub fn compare_alone(&self, position: (Epoch, Chain), state: WorkerState<'_>) -> Checked {
        if position.0 < Epoch(self.checker.records.len() as u64) {
            return Ok(()); // In a replay.
        }
        self.checker.compare(position, &[state], position.0.0.is_multiple_of(8))
    }

    /// A single process begins after an epoch.
    pub fn begins_alone(&mut self, _: Life, after: Epoch) -> Checked {
        let alone = self.checker.remembered.placement().clone();
        self.figures.restores += u64::from(after > Epoch(0));
        self.checker.begins_again();
        self.checker.placed(alone, after);
        Ok(())
    }

    /// A single process has replayed its log.
    pub fn recovered_alone(&mut self, position: (Epoch, Chain), state: &[WorkerState<'_>]) -> Checked {
        self.checker.compare(position, state, true)
    }

    /// An epoch has ended, for the first time.
    fn count(&mut self, summaries: &[EpochSummary], several: bool) {
        let figures = &mut self.figures;
        figures.epochs += 1;
        for summary in summaries {
            let transactions = summary.order.len() as u64 + summary.counts.queries;
            figures.transactions += transactions;
            figures.clustered += if several { transactions } else { 0 };
            figures.queries += summary.counts.queries;
            figures.shared += summary.shared as u64;
            figures.fell_back += summary.counts.fell_back;
            figures.rescheduled += summary.counts.rescheduled;
            figures.aborted += summary.counts.aborted;
        }
    }
}
