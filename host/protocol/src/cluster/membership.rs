//! Who is a member and when a new generation begins: what the coordinator decides on heartbeats.
//!
//! A generation is one membership and one placement. Whatever changes either begins the next one:
//! a member is lost, or comes back as another life of itself, or has no way to another member;
//! somebody joins or wants to leave; there are to be fewer. Where nobody is lost, the generation comes
//! to a *rest* first: what is under way ends, and nobody notices but by waiting. Its number is durable before anybody hears of it, so that
//! it is never used twice, and whoever still speaks for a lower one is a zombie: what it sends is
//! dropped, what it appends is refused, and the next [`Beat`] tells it.
//!
//! A worker counts as reachable while both ways work: its [`Hello`] repeats the last beat that it
//! has heard of this coordinator, and that must be recent. While this coordinator stood still it said no beats: that time
//! is nobody's silence. Nothing here reads a clock or knows a
//! network: the driver carries hellos, beats and invitations, over channels that may lose them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use styx_planted::{Bug, planted};

use crate::ids::{EngineHash, Generation, WorkerId};

#[cfg(test)]
mod tests;

/// What a process runs. Workers that run anything else than their coordinator may come to other
/// outcomes.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Build {
    /// The version of the program.
    #[rkyv(with = crate::archive::Plain)]
    pub version: Arc<str>,
    /// Hash of the engine's configuration.
    pub engine: EngineHash,
}

/// A worker's heartbeat, to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Hello {
    /// Which life of its process this is: later lives have higher numbers.
    pub life: u64,
    /// What it runs.
    pub build: Build,
    /// The generation that it is a member of; 0 if none.
    pub generation: Generation,
    /// The number of the last beat that it has heard of this coordinator; 0 if none.
    pub heard: u64,
    /// Members of that generation that it waits for in vain.
    pub silent: Vec<WorkerId>,
    /// Whether it is to end, and asks to be let go.
    pub leaving: bool,
}

/// The coordinator's answer to a [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Beat {
    /// Its number: the coordinator's time, in µs.
    pub number: u64,
    /// The newest generation.
    pub generation: Generation,
    /// The last beat that the worker had heard when it said the hello which this answers.
    pub answers: u64,
}

/// How patient the coordinator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A worker is lost if no beat of the last so many µs came back.
    pub silent_us: u64,
    /// How long newcomers must have been reachable, in µs, before a running cluster takes them in,
    /// and how long a cluster without members waits for more of them.
    pub settle_us: u64,
    /// How long a generation may take to come to a rest, in µs, before the next one begins all the same.
    pub drain_us: u64,
}

/// A member of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seated<P> {
    /// Where.
    pub place: P,
    /// Which life of the process there: an invitation is for it alone.
    pub life: u64,
}

/// What happens to the membership. `P` names the place of a worker: its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<P> {
    Hello {
        from: P,
        /// What it says.
        hello: Hello,
    },
    /// The driver knows that a worker is lost: its connection is given up, or it was expelled.
    Lost(P),
    /// A worker is not to become a member yet, or may from now on: it gets ready. Without anybody else it has to.
    Hold(P, bool),
    /// The members are to begin anew, though nothing has changed: after a rest, as when somebody joins.
    Restart,
    /// [`Action::Persist`] is done.
    Persisted(Generation),
    /// In this generation the log is replayed: newcomers may come.
    Live(Generation),
    /// [`Action::Rest`] is done.
    Drained(Generation),
    /// Time goes on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<P> {
    /// Stop the generation that runs, if any: append nothing more. Make durable that lower generations
    /// may not append either, then say [`Input::Persisted`]. If another coordinator has taken the
    /// number, or a higher one, by then, stop for good.
    Persist(Generation),
    /// Begin a generation: read the log, invite the members, replay, go live.
    Begin {
        generation: Generation,
        /// Its workers, by [`WorkerId`].
        members: Vec<Seated<P>>,
    },
    /// Invite a member that is not yet part of its generation (again).
    Invite(Seated<P>),
    /// Bring what this generation has under way to its end, and have it take nothing more; then say
    /// [`Input::Drained`].
    Drain(Generation),
    /// Tell a worker that asked for it that nobody counts on it any more.
    Release(P),
    /// Answer a hello.
    Beat(P, Beat),
    /// Tell a worker that it cannot be a member, and why.
    Refuse(P, String),
    /// Nobody is left: stop the generation that runs.
    Suspend,
    /// Another coordinator has begun this generation: stop for good.
    Depose(Generation),
}

/// The coordinator's view of its workers.
#[derive(Debug)]
pub struct Membership<P> {
    build: Build,
    patience: Patience,
    /// The highest generation that is durable.
    generation: Generation,
    phase: Phase<P>,
    peers: BTreeMap<P, Peer>,
    /// Workers that are not to become members yet.
    held: BTreeSet<P>,
    /// The next generation is to begin, whether or not anything has changed.
    restart: bool,
    /// When it was told something last: it is at least every quarter of what a worker may be silent, unless it stands still.
    told_us: u64,
    /// So many members the last generation had, or the first one shall have.
    expected: usize,
}

#[derive(Debug)]
enum Phase<P> {
    /// No generation runs, since then.
    Gathering(u64),
    Persisting(Vec<Seated<P>>),
    Running {
        members: Vec<Seated<P>>,
        live: bool,
        /// If it comes to a rest: how long that may take.
        draining: Option<u64>,
    },
}

/// A worker that was heard of.
#[derive(Debug)]
struct Peer {
    life: u64,
    /// Since when it is reachable without a break.
    since: u64,
    /// The last beat that came back.
    echo: u64,
    /// Not to be a member before.
    shunned_until: u64,
    shunned: u32,
    /// It wants to be none any more.
    leaving: bool,
}

impl<P: Ord + Clone> Membership<P> {
    /// A coordinator that knows nobody. `generation` is the highest one that was ever made durable;
    /// the first membership is awaited to have `expected` workers, for as long as newcomers must settle.
    pub fn new(build: Build, patience: Patience, generation: Generation, expected: usize, now_us: u64) -> Self {
        Membership {
            build,
            patience,
            generation,
            phase: Phase::Gathering(now_us),
            peers: BTreeMap::new(),
            held: BTreeSet::new(),
            restart: false,
            told_us: now_us,
            expected,
        }
    }

    /// The highest generation that is durable.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The members of the generation that runs, by [`WorkerId`].
    pub fn members(&self) -> &[Seated<P>] {
        match &self.phase {
            Phase::Running { members, .. } => members,
            _ => &[],
        }
    }

    /// Takes one input; pushes what is to be done.
    pub fn step(&mut self, now_us: u64, input: Input<P>, actions: &mut Vec<Action<P>>) {
        self.excuse(now_us);
        match input {
            Input::Hello { from, hello } => self.hello(now_us, from, hello, actions),
            Input::Lost(place) => drop(self.peers.remove(&place)),
            Input::Hold(place, true) => drop(self.held.insert(place)),
            Input::Hold(place, false) => drop(self.held.remove(&place)),
            Input::Restart => self.restart = matches!(self.phase, Phase::Running { .. }),
            Input::Persisted(generation) => self.persisted(generation, actions),
            Input::Live(generation) => {
                if let Phase::Running { live, .. } = &mut self.phase
                    && generation == self.generation
                {
                    *live = true;
                }
            }
            Input::Drained(generation) => {
                if let Phase::Running { draining, .. } = &mut self.phase
                    && generation == self.generation
                    && draining.is_some()
                {
                    *draining = Some(now_us);
                }
            }
            Input::Tick => {}
        }
        self.review(now_us, actions);
    }

    /// Whoever was reachable when this coordinator stood still is as reachable when it goes on.
    fn excuse(&mut self, now: u64) {
        let told = std::mem::replace(&mut self.told_us, now);
        let stood = now.saturating_sub(told);
        if stood > self.patience.silent_us / 4 && !planted(Bug::StandstillCounted) {
            let reachable = |peer: &&mut Peer| told.saturating_sub(peer.echo) < self.patience.silent_us;
            self.peers.values_mut().filter(reachable).for_each(|peer| peer.echo += stood);
        }
    }

    fn hello(&mut self, now: u64, from: P, hello: Hello, actions: &mut Vec<Action<P>>) {
        if hello.generation > self.generation {
            return actions.push(Action::Depose(hello.generation));
        }
        if hello.build != self.build {
            return actions.push(Action::Refuse(from, refusal(&hello.build, &self.build)));
        }
        actions
            .push(Action::Beat(from.clone(), Beat { number: now, generation: self.generation, answers: hello.heard }));
        let lost_before = now.saturating_sub(self.patience.silent_us);
        match self.peers.get_mut(&from) {
            // Delayed: the process has died since.
            Some(peer) if hello.life < peer.life && peer.echo >= lost_before => return,
            Some(peer) => {
                if hello.life != peer.life || peer.echo < lost_before {
                    (peer.life, peer.since) = (hello.life, now);
                }
                if hello.heard <= now {
                    peer.echo = peer.echo.max(hello.heard);
                }
                peer.leaving = hello.leaving;
            }
            None => {
                let echo = if hello.heard <= now { hello.heard } else { 0 };
                let Hello { life, leaving, .. } = hello;
                self.peers.insert(from.clone(), Peer { life, since: now, echo, shunned_until: 0, shunned: 0, leaving });
            }
        }
        if hello.leaving && !self.counts_on(&from) {
            actions.push(Action::Release(from.clone()));
        }
        let Phase::Running { members, .. } = &self.phase else { return };
        let Some(at) = members.iter().position(|member| member.place == from) else { return };
        if hello.generation < self.generation && members[at].life == hello.life {
            actions.push(Action::Invite(members[at].clone()));
        } else if let Some(silent) = hello.silent.iter().map(|worker| usize::from(worker.0)).find(|other| *other != at)
        {
            // Between two that do not reach each other, the later one goes, for a while.
            let later = members.get(at.max(silent));
            if let Some(peer) = later.and_then(|later| self.peers.get_mut(&later.place)) {
                peer.shunned = (peer.shunned + 1).min(8);
                peer.shunned_until = now + (self.patience.settle_us << peer.shunned);
            }
        }
    }

    fn persisted(&mut self, generation: Generation, actions: &mut Vec<Action<P>>) {
        let Phase::Persisting(members) = &mut self.phase else { return };
        if generation != self.generation.next() {
            return;
        }
        let members = std::mem::take(members);
        self.begin(generation, members, actions);
    }

    fn begin(&mut self, generation: Generation, members: Vec<Seated<P>>, actions: &mut Vec<Action<P>>) {
        self.generation = generation;
        self.expected = members.len();
        self.restart = false;
        actions.push(Action::Begin { generation, members: members.clone() });
        self.phase = Phase::Running { members, live: false, draining: None };
    }

    /// Whether a worker is part of the generation that runs, or of the one that is about to.
    fn counts_on(&self, place: &P) -> bool {
        let (Phase::Running { members, .. } | Phase::Persisting(members)) = &self.phase else { return false };
        members.iter().any(|member| member.place == *place)
    }

    /// Whether the membership is still as it should be.
    fn review(&mut self, now: u64, actions: &mut Vec<Action<P>>) {
        let able = self.able(now);
        let mut rest = false;
        let start = match &self.phase {
            Phase::Persisting(_) => false,
            Phase::Gathering(since) => {
                let complete = able.len() >= self.expected;
                // The others have as long as the first one, whoever waits for how long.
                let first = able.iter().map(|able| self.peers[&able.place].since).min().unwrap_or_default();
                let since = first.max(*since);
                !able.is_empty() && (complete || now.saturating_sub(since) >= self.patience.settle_us)
            }
            Phase::Running { members, live, draining } => {
                let there = |member: &Seated<P>| {
                    self.peers
                        .get(&member.place)
                        .is_some_and(|peer| peer.life == member.life && self.reaches(peer, now))
                };
                let all_there = members.iter().all(there);
                let place_taken = |able: &Seated<P>| members.iter().any(|member| member.place == able.place);
                let settled =
                    |able: &Seated<P>| now.saturating_sub(self.peers[&able.place].since) >= self.patience.settle_us;
                let newcomers = able.iter().any(|able| !place_taken(able) && settled(able));
                let leavers = members.iter().any(|member| !able.contains(member));
                match *draining {
                    _ if !all_there => true,
                    Some(until) => now >= until,
                    None if *live && (newcomers || leavers || self.restart) => {
                        actions.push(Action::Drain(self.generation));
                        rest = true;
                        false
                    }
                    None => false,
                }
            }
        };
        if rest && let Phase::Running { draining, .. } = &mut self.phase {
            *draining = Some(now + self.patience.drain_us);
        }
        if !start {
            return;
        }
        if able.is_empty() {
            self.phase = Phase::Gathering(now);
            return actions.push(Action::Suspend);
        }
        actions.push(Action::Persist(self.generation.next()));
        if planted(Bug::GenerationNotDurable) {
            self.begin(self.generation.next(), able, actions)
        } else {
            self.phase = Phase::Persisting(able)
        }
    }

    /// Who can be a member now: those that are, then those that have been reachable longest.
    fn able(&self, now: u64) -> Vec<Seated<P>> {
        let members = self.members();
        let place_of = |place: &P| members.iter().position(|member| member.place == *place).unwrap_or(usize::MAX);
        let mut able: Vec<_> = self.peers.iter().filter(|(_, peer)| self.reaches(peer, now) && !peer.leaving).collect();
        if able.iter().any(|(place, _)| !self.held.contains(*place)) {
            able.retain(|(place, _)| !self.held.contains(*place));
        }
        able.sort_by_key(|(place, peer)| (place_of(place), peer.since));
        let seated = |(place, peer): (&P, &Peer)| Seated { place: place.clone(), life: peer.life };
        able.into_iter().map(seated).collect()
    }

    /// Whether a worker and this coordinator hear each other, and it may be a member.
    fn reaches(&self, peer: &Peer, now: u64) -> bool {
        peer.echo > 0 && now.saturating_sub(peer.echo) < self.patience.silent_us && peer.shunned_until <= now
    }
}

fn refusal(found: &Build, own: &Build) -> String {
    format!(
        "this worker runs version {} with engine {}, its coordinator version {} with engine {}: install the same release on both",
        found.version, found.engine, own.version, own.engine
    )
}

/// A worker's own view: which generation it is a member of, and what it says of itself.
#[derive(Debug)]
pub struct Member {
    life: u64,
    build: Build,
    /// The one that it is a member of; 0 if none.
    generation: Generation,
    /// The newest that it has been a member of.
    entered: Generation,
    /// The newest that it has heard of.
    newest: Generation,
    heard: u64,
    leaving: bool,
}

impl Member {
    /// A process that has just started and knows nobody.
    pub fn new(life: u64, build: Build) -> Self {
        Member {
            life,
            build,
            generation: Generation(0),
            entered: Generation(0),
            newest: Generation(0),
            heard: 0,
            leaving: false,
        }
    }

    /// The generation that it is a member of; 0 if none.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// What it has to say. `silent` are the members that it waits for in vain.
    pub fn hello(&self, silent: Vec<WorkerId>) -> Hello {
        Hello {
            life: self.life,
            build: self.build.clone(),
            generation: self.generation,
            heard: self.heard,
            silent,
            leaving: self.leaving,
        }
    }

    /// Asks to be let go, from the next [`Self::hello`] on.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// A beat has come. If it is of a later generation, everything of the own one is to be dropped.
    pub fn beat(&mut self, beat: Beat) -> bool {
        if beat.generation < self.newest {
            return false; // Of a coordinator that was replaced, or delayed.
        }
        (self.newest, self.heard) = (beat.generation, beat.number);
        let stale = self.generation > Generation(0) && beat.generation > self.generation;
        if stale {
            self.generation = Generation(0);
        }
        stale
    }

    /// An invitation has come; whether to follow it, and so to drop everything and begin anew.
    pub fn invited(&mut self, generation: Generation, life: u64) -> bool {
        let old = generation <= self.entered || generation < self.newest;
        if life != self.life || old {
            return false;
        }
        self.newest = self.newest.max(generation);
        (self.generation, self.entered) = (generation, generation);
        true
    }
}

/// Whether a worker's generation was still the newest when something happened there: what it does
/// not know may have been told to another one since. Two beats later it is sure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubt {
    /// A beat that was heard since.
    heard: Option<u64>,
}

impl Doubt {
    /// A beat has come to a member of `generation`. Gives whether the doubt is over.
    pub fn hear(&mut self, beat: Beat, generation: Generation) -> bool {
        match self.heard {
            _ if beat.generation != generation => false,
            // It may have been on its way before.
            None => {
                self.heard = Some(beat.number);
                false
            }
            // It answers what was said since.
            Some(heard) => beat.answers >= heard,
        }
    }
}
