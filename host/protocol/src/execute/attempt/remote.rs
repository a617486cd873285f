//! An attempt among several workers: what it asks of others, does for others, and has to tell them.

use super::site::{Entry, Operation, RemoteRequest, RemoteRequests, RemoteResponse};
use super::{Attempt, Finding, Mode, Report, Stamp, Target, Usage};
use crate::cluster::worker_set::WorkerSet;
use crate::ids::WorkerId;
use crate::state::entity::{Entity, Payload};

impl Attempt {
    /// Whether the whole attempt ran here and is over: nobody else was asked or called.
    pub fn is_local(&self) -> bool {
        self.site
            .as_ref()
            .is_none_or(|site| site.outgoing.is_empty() && site.report.workers == WorkerSet::only(site.me))
    }

    /// How the graph is run; the default where one worker owns everything.
    pub fn mode(&self) -> Mode {
        self.site.as_ref().map_or_else(Mode::default, |site| site.mode)
    }

    /// Takes what is to be told to whoever waits for this part.
    pub fn take_report(&mut self) -> Report {
        let Some(site) = &mut self.site else { return Report::default() };
        let mut report = std::mem::take(&mut site.report);
        report.workers.merge(&WorkerSet::only(site.me));
        report
    }

    /// Goes on with what happened elsewhere meanwhile. In strict mode `used` is what the transaction
    /// has used up to now, wherever.
    pub fn resume(&mut self, used: Usage, drifted: bool) {
        if self.mode().is_strict() {
            self.quota.used = used;
        }
        self.execution.drifted |= drifted;
    }

    /// Takes the asynchronous calls that other workers have to be told.
    pub fn take_outgoing(&mut self) -> Vec<(WorkerId, Target)> {
        self.site.as_mut().map_or_else(Vec::new, |site| std::mem::take(&mut site.outgoing))
    }

    /// Says that the outcome may be due to the past of an instance, so that it must not be believed.
    pub fn suspect(&mut self) {
        if let Some(site) = &mut self.site {
            site.report.add(Finding::Suspect);
        }
    }

    /// Says that there was no room for another suspended instance.
    pub fn refuse(&mut self) {
        if let Some(site) = &mut self.site {
            site.report.add(Finding::Refused);
        }
    }

    /// Does for a function elsewhere what needs no function here.
    ///
    /// # Panics
    /// With a call.
    pub fn serve(&mut self, asked: RemoteRequest) -> RemoteResponse {
        let stamp = Some(asked.stamp);
        let answer = match asked.operation {
            Operation::Call(_) => panic!("a call needs an executor"),
            Operation::Get(entity) => RemoteResponse::Value(self.read(&entity, stamp.as_ref()).map(Payload)),
            Operation::Put(entity, value) => {
                self.write(entity, value, stamp.as_ref());
                RemoteResponse::Noted
            }
            Operation::Scan(scan) => {
                let entries = self.find(&scan, stamp.as_ref());
                RemoteResponse::Entries(entries.into_iter().map(|(key, value)| Entry(key, value)).collect())
            }
            Operation::Observe(read) => {
                self.observe(read);
                RemoteResponse::Noted
            }
        };
        match &self.doom {
            Some(doom) => RemoteResponse::Failed(doom.clone()),
            None => answer,
        }
    }

    /// Whether the running function may touch state elsewhere. A graph that did so is not invoked
    /// again from its cached parameters; one that is and does may keep to its locks all the same,
    /// so it stops here and runs strictly.
    pub(super) fn may_reach(&mut self) -> bool {
        if self.mode().is_cached() {
            self.drift();
            self.site.as_mut().expect("there is an elsewhere").report.add(Finding::Reached);
        }
        !self.execution.drifted
    }

    /// A question of the running function that touches state elsewhere.
    pub(super) fn ask(&mut self, to: WorkerId, operation: Operation) -> RemoteRequests {
        if let Some(site) = &mut self.site {
            site.report.add(Finding::Reached);
        }
        RemoteRequests { operations: vec![(to, self.asked(operation))] }
    }

    pub(super) fn asked(&self, operation: Operation) -> RemoteRequest {
        let stamp = self.stamp().expect("who asks others has a site");
        RemoteRequest { operation, stamp, used: self.quota.used }
    }

    /// When the running function does what it does now.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let frame = self.fragment.frames.last()?;
        Some(Stamp::new(frame.path.clone()?, frame.synchronous))
    }

    pub(super) fn elsewhere(&self, entity: &Entity) -> Option<WorkerId> {
        self.site.as_ref().and_then(|site| site.elsewhere(entity))
    }

    /// The single answer to a single question; a bound met elsewhere dooms the transaction here.
    pub(super) fn single(&mut self, answers: Vec<RemoteResponse>) -> RemoteResponse {
        let [answer] = <[RemoteResponse; 1]>::try_from(answers).expect("one answer to one question");
        if let RemoteResponse::Failed(abort) = &answer {
            self.doom(abort.clone());
        }
        answer
    }
}
