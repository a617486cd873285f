//! Requests that end whoever executes them, as a mistake of the host does that one request meets: how often they may,
//! until they are set aside; and who may be set aside at all.

use std::collections::{BTreeMap, BTreeSet};

use styx_driver::suspicion::Suspect;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::ids::{Epoch, RequestId, Timestamp};
use styx_protocol::quarantine::{Quarantined, Subject};
use styx_protocol::transaction::{Request, Transaction};

use crate::check::{Checked, ensure};
use crate::event::Life;
use crate::random::Random;

/// What a thread says that a request ends.
const SAID: &str = "poisoned";

/// Why something is set aside that has ended nothing.
const BY_HAND: &str = "by hand";

/// Requests of a world that end processes.
#[derive(Clone, Copy, Debug)]
pub struct PoisonPlan {
    /// The most there are.
    pub count: usize,
    /// Of a thousand requests that come, those that are such, as long as there are fewer.
    pub share: u32,
    /// Deaths after which one is set aside.
    pub after: u32,
    /// Deaths of which nobody says why, in a thousand.
    pub silent: u32,
    /// What ends a process that a first call does not.
    pub other: Part,
}

impl PoisonPlan {
    /// Those of some worlds.
    pub fn draw(random: &mut Random, workers: usize, long: u32) -> Option<Self> {
        let other = match (workers, long) {
            (0 | 1, 0) => Part::Root,
            (0 | 1, _) => Part::Long,
            (_, 0) => Part::Call,
            _ => random.pick(&[Part::Call, Part::Long]),
        };
        random.chance(150).then(|| PoisonPlan {
            count: random.between(1, 4) as usize,
            share: random.pick(&[50, 300]),
            after: random.pick(&[1, 2, 3, 3]),
            silent: random.pick(&[0, 0, 200]),
            other,
        })
    }
}

/// What of a request ends its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its first call.
    Root,
    /// A call of it at another worker.
    Call,
    /// A run of it beside the epochs.
    Long,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Poison {
    /// Deaths after which one is set aside; 0: nothing ever is.
    after: u32,
    /// Those that are not mended.
    requests: BTreeMap<RequestId, Part>,
    made: usize,
    /// Deaths in which each request was under way, ever.
    deaths: BTreeMap<RequestId, u32>,
    /// Requests because of which a process ended that said so, ever.
    culprits: BTreeSet<RequestId>,
    /// Deaths that were noted as the fault of each, by node, since it was released or another has come to lead.
    noted: BTreeMap<(RequestId, usize), u32>,
    /// Who leads, where somebody does.
    leads: Option<Life>,
    /// Somebody has set something aside by hand.
    is_by_hand: bool,
    /// What was set aside, and the last epoch that did.
    aside: BTreeMap<Subject, Epoch>,
}

impl Poison {
    /// A request comes, which may be one of these.
    pub fn may_be(&mut self, plan: Option<PoisonPlan>, request: &Request, random: &mut Random) {
        let Some(plan) = plan.filter(|plan| self.made < plan.count) else { return };
        self.after = plan.after;
        // Without a key nobody asks again, and one death is all.
        let share = if request.retained { plan.share } else { plan.share / 10 };
        if random.chance(share) {
            self.made += 1;
            self.requests.insert(request.id, random.pick(&[Part::Root, Part::Root, plan.other]));
        }
    }

    /// Whether a part of a transaction ends the process that runs it.
    pub fn ends(&self, part: Part, transaction: &Transaction, catalog: &Catalog) -> bool {
        let Transaction { tid, request, .. } = transaction;
        if self.requests.get(&request.id) != Some(&part) {
            return false;
        }
        let Some(operator) = catalog.operator(request.operator) else { return false };
        operator.requested_index(&request.function).is_some()
            && catalog.quarantine().refusal(request.id, Some(*tid), &operator.app).is_none()
    }

    /// A process has died while these were under way, which was noted.
    ///
    /// # Errors
    /// One of them has ended more processes than it may.
    pub fn died(&mut self, node: usize, found: &[Suspect], plan: PoisonPlan, workers: usize) -> Checked {
        for suspect in found {
            *self.deaths.entry(suspect.request).or_default() += 1;
            if suspect.said.is_none() {
                continue;
            }
            self.culprits.insert(suspect.request);
            *self.noted.entry((suspect.request, node)).or_default() += 1;
            let of = (suspect.request, 0)..=(suspect.request, usize::MAX);
            let noted: u32 = self.noted.range(of).map(|(_, deaths)| *deaths).sum();
            // Of several workers each may end while nobody has been told of it yet.
            let most = plan.after + (workers as u32).saturating_sub(1);
            ensure(noted <= most, "set aside", || {
                format!("request {} has ended {noted} processes, and {most} are enough", suspect.request)
            })?;
        }
        Ok(())
    }

    /// What was noted on a node is lost, or of no account.
    pub fn forgotten(&mut self, node: usize) {
        self.noted.retain(|(_, of), _| *of != node);
    }

    /// Somebody leads, who knows only what it is told.
    pub fn leads(&mut self, life: Life) {
        if self.leads.replace(life) != Some(life) {
            self.noted.clear();
        }
    }

    /// An epoch is cut. Gives what it is the first to set aside.
    ///
    /// # Errors
    /// It sets aside what has not ended enough processes.
    pub fn cut(&mut self, epoch: Epoch, controls: &[Control], plan: Option<PoisonPlan>) -> Checked<Vec<Subject>> {
        let mut new = Vec::new();
        for control in controls {
            if control.may_release() {
                self.noted.clear();
            }
            let Control::Quarantine(Quarantined { subject, reason, .. }) = control else { continue };
            if reason == BY_HAND {
                continue;
            }
            let after = plan.map_or(u32::MAX, |plan| plan.after);
            let deaths = match subject {
                Subject::Request(id) => self.deaths.get(id).copied().unwrap_or_default(),
                Subject::App(_) => self.culprits.len() as u32,
                Subject::Transaction(_) => 0,
            };
            ensure(deaths >= after, "set aside", || {
                format!("{subject} is set aside after {deaths} deaths; {after} are enough")
            })?;
            let known = self.aside.entry(subject.clone()).or_insert_with(|| {
                new.push(subject.clone());
                epoch
            });
            *known = epoch.max(*known);
        }
        Ok(new)
    }

    /// Somebody has forgotten a suspect, since it is set aside.
    ///
    /// # Errors
    /// The epoch that does so is not durable.
    pub fn settled(&self, suspect: &Suspect, durable: Epoch) -> Checked {
        if self.is_by_hand {
            return Ok(());
        }
        let subjects = [Subject::Request(suspect.request), Subject::App(suspect.app.clone())];
        let epochs: Vec<Epoch> = subjects.iter().filter_map(|subject| self.aside.get(subject).copied()).collect();
        ensure(epochs.iter().any(|epoch| *epoch <= durable), "set aside", || {
            format!(
                "request {} is suspected no more, as it is set aside by epochs {epochs:?}; durable is {durable}",
                suspect.request
            )
        })
    }

    /// Whether a request may have been refused because it is set aside, or all of its app: a worker knows of it before
    /// the epoch ends that does so.
    pub fn may_refuse(&self, id: RequestId) -> bool {
        let deaths = self.deaths.get(&id).copied().unwrap_or_default();
        self.is_by_hand || self.after > 0 && deaths.max(self.culprits.len() as u32) >= self.after
    }

    /// The mistake is mended that a request met. Those of an app that is released go on.
    pub fn mend(&mut self, subject: &Subject) {
        if let Subject::Request(id) = subject {
            self.requests.remove(id);
        }
    }

    /// Somebody sets an app aside by hand, for which there is no reason.
    pub fn set_aside(&mut self, app: &str) -> Quarantined {
        self.is_by_hand = true;
        let (subject, reason) = (Subject::App(app.to_owned()), BY_HAND.to_owned());
        Quarantined { subject, app: Some(app.to_owned()), function: None, reason, since: Timestamp(0) }
    }
}

/// A request of an app that is under way, and what its thread says if it ends its process.
pub fn suspect(transaction: &Transaction, catalog: &Catalog, is_culprit: bool) -> Suspect {
    let request = &transaction.request;
    Suspect {
        request: request.id,
        app: catalog.operator(request.operator).map(|operator| operator.app.to_string()).unwrap_or_default(),
        function: request.function.to_string(),
        lives: 0,
        said: is_culprit.then(|| SAID.to_owned()),
        app_set_aside: false,
    }
}
