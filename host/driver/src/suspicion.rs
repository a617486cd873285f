//! Suspicion: which requests were under way when processes ended that were not told to, and when that is enough to have one
//! executed no more.
//!
//! A process notes what its threads execute where that outlives it. A thread that panics or aborts says so: what it
//! executed is the *culprit*, and each such death counts. A process that is killed, or runs out of memory, says
//! nothing: then all that was under way is suspected, and only what was under way in each of several deaths, one after the other, stays
//! so. An end in good order clears all.

use styx_planted::{Bug, planted};
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::{Epoch, RequestId, Timestamp};
use styx_protocol::quarantine::{Quarantined, Subject};

/// A request that was under way when its process ended.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Suspect {
    pub request: RequestId,
    pub app: String,
    pub function: String,
    /// Lives of the process that ended so.
    pub lives: u32,
    /// What its thread said, if one of them ended because of it.
    pub said: Option<String>,
}

/// The most suspects that are kept, and told to a coordinator.
pub const SUSPECTS_MAX: usize = 256;

/// A process has ended while these were under way, each once: those that are suspected from then on. In `found`, `lives` says nothing,
/// and `said` is there for the culprits.
pub fn after_death(before: Vec<Suspect>, found: Vec<Suspect>) -> Vec<Suspect> {
    let is_known = found.iter().any(|suspect| suspect.said.is_some());
    let (mut suspects, mut others): (Vec<_>, Vec<_>) =
        before.into_iter().partition(|suspect| found.iter().any(|now| now.request == suspect.request));
    // A death whose culprit is known says nothing of others; another one clears those that had no part in it.
    others.retain(|suspect| is_known || suspect.said.is_some());
    for now in found.into_iter().filter(|now| !is_known || now.said.is_some()) {
        match suspects.iter_mut().find(|suspect| suspect.request == now.request) {
            Some(suspect) => {
                suspect.lives = suspect.lives.saturating_add(1);
                suspect.said = now.said.or(suspect.said.take());
            }
            None => suspects.push(Suspect { lives: 1, ..now }),
        }
    }
    suspects.append(&mut others);
    suspects.sort_by_key(|suspect| (std::cmp::Reverse(suspect.lives), suspect.request));
    suspects.truncate(SUSPECTS_MAX);
    suspects
}

/// Those that are suspected here, until their quarantine is durable: then, once released, they are as good as any.
#[derive(Debug)]
pub struct Suspects {
    all: Vec<Suspect>,
    /// Of each that is in quarantine, the epoch by which it is.
    settled: Vec<Option<Epoch>>,
}

impl Suspects {
    pub fn new(all: Vec<Suspect>) -> Self {
        let settled = vec![None; all.len()];
        Suspects { all, settled }
    }

    /// In the order in which they were given.
    pub fn all(&self) -> &[Suspect] {
        &self.all
    }

    /// Forgets those that are in quarantine by a catalog of an epoch, and for good. Gives those that are left, if any went.
    pub fn review(&mut self, catalog: &Catalog, epoch: Epoch, durable: Epoch) -> Option<Vec<Suspect>> {
        let before = self.all.len();
        for at in (0..before).rev() {
            // One that was seen in the midst of a round may be of the epoch before it.
            let settled =
                is_settled(&self.all[at], catalog).then(|| self.settled[at].map_or(epoch, |of| of.min(epoch)));
            self.settled[at] = settled;
            if settled.is_some_and(|epoch| epoch <= durable || planted(Bug::SuspectsForgottenEarly)) {
                self.all.remove(at);
                self.settled.remove(at);
            }
        }
        (self.all.len() < before).then(|| self.all.clone())
    }

    /// Another generation begins: what an epoch did that is not in the log has not happened.
    pub fn begin_again(&mut self) {
        self.settled.fill(None);
    }
}

/// Whether a suspect is dealt with: it is in quarantine.
pub fn is_settled(suspect: &Suspect, catalog: &Catalog) -> bool {
    let quarantine = catalog.quarantine();
    let is_in = |subject| quarantine.get(&subject).is_some();
    !quarantine.is_empty() && (is_in(Subject::Request(suspect.request)) || is_in(Subject::App(suspect.app.clone())))
}

/// What is to be set aside: requests that ended `after` lives, all processes together; and apps of which as many different
/// requests ended one each. 0: nothing ever is.
pub fn judge<'a>(suspects: impl Iterator<Item = &'a Suspect>, after: u32, since: Timestamp) -> Vec<Quarantined> {
    if after == 0 {
        return Vec::new();
    }
    let mut together: Vec<Suspect> = Vec::new();
    for suspect in suspects {
        match together.iter_mut().find(|known| known.request == suspect.request) {
            Some(_) if planted(Bug::DeathsCountedApart) => {}
            Some(known) => {
                known.lives = known.lives.saturating_add(suspect.lives);
                known.said = known.said.take().or_else(|| suspect.said.clone());
            }
            None => together.push(suspect.clone()),
        }
    }
    let (guilty, others): (Vec<Suspect>, Vec<Suspect>) =
        together.into_iter().partition(|suspect| suspect.lives >= after);
    let mut quarantined: Vec<Quarantined> = guilty.into_iter().map(|suspect| of_request(suspect, since)).collect();
    // What was killed from outside had something of a busy app under way each time: only what threads said counts.
    let mut culprits: Vec<Suspect> = others.into_iter().filter(|suspect| suspect.said.is_some()).collect();
    culprits.sort_by(|a, b| a.app.cmp(&b.app));
    for of_app in culprits.chunk_by(|a, b| a.app == b.app).filter(|of_app| of_app.len() >= after as usize) {
        quarantined.push(self::of_app(of_app, since));
    }
    quarantined
}

fn of_request(suspect: Suspect, since: Timestamp) -> Quarantined {
    let Suspect { request, app, function, lives, said } = suspect;
    let reason = match said {
        Some(said) => format!("it ended its process {lives} times: {said}"),
        None => format!("{lives} processes, one after the other, ended while it was under way"),
    };
    let (subject, reason) = (Subject::Request(request), short(reason));
    Quarantined { subject, app: known(app), function: known(function), reason, since }
}

fn of_app(culprits: &[Suspect], since: Timestamp) -> Quarantined {
    let (lives, first) = (culprits.len(), &culprits[0]);
    let said = first.said.as_deref().unwrap_or_default();
    let reason = short(format!("{lives} of its requests ended their processes, one of {}: {said}", first.function));
    let subject = Subject::App(first.app.clone());
    Quarantined { subject, app: known(first.app.clone()), function: None, reason, since }
}

fn known(name: String) -> Option<String> {
    Some(name).filter(|name| !name.is_empty())
}

/// One line of bounded length.
fn short(reason: String) -> String {
    let mut line: String = reason.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    while line.len() > Quarantined::REASON_MAX {
        line.pop();
    }
    line
}

#[cfg(test)]
mod tests {
    use styx_protocol::catalog::Control;

    use super::*;

    fn found(request: u128, app: &str, said: Option<&str>) -> Suspect {
        let (app, function) = (app.to_owned(), "pay".to_owned());
        Suspect { request: RequestId(request), app, function, lives: 0, said: said.map(str::to_owned) }
    }

    fn lives(deaths: &[&[(u128, bool)]]) -> Vec<Suspect> {
        deaths.iter().fold(Vec::new(), |before, death| {
            let found = death.iter().map(|&(id, culprit)| found(id, "shop", culprit.then_some("boom"))).collect();
            after_death(before, found)
        })
    }

    fn subjects(suspects: &[Suspect], after: u32) -> Vec<Subject> {
        judge(suspects.iter(), after, Timestamp(1)).into_iter().map(|quarantined| quarantined.subject).collect()
    }

    fn request(id: u128) -> Subject {
        Subject::Request(RequestId(id))
    }

    #[test]
    fn what_was_under_way_in_each_of_several_deaths_is_set_aside() {
        let mut deaths: Vec<&[(u128, bool)]> = vec![&[(1, false), (2, false)], &[(2, false), (3, false)]];
        assert_eq!(subjects(&lives(&deaths), 3), []);
        deaths.push(&[(2, false), (1, false)]);
        assert_eq!(subjects(&lives(&deaths), 3), [request(2)]);
        assert_eq!(subjects(&lives(&deaths), 0), []);
    }

    #[test]
    fn one_death_without_it_clears_what_was_only_under_way() {
        for between in [&[(9, false)][..], &[]] {
            let deaths = [&[(2, false)][..], &[(2, false)], between, &[(2, false)]];
            assert_eq!(subjects(&lives(&deaths), 3), [], "{between:?}");
        }
        // A culprit is known: that death clears nobody.
        let deaths = [&[(2, false)][..], &[(2, false)], &[(9, true), (2, false)], &[(2, false)]];
        assert_eq!(subjects(&lives(&deaths), 3), [request(2)]);
    }

    #[test]
    fn a_culprit_counts_alone_and_whenever_it_comes_back() {
        let deaths = [&[(1, true), (2, false)][..], &[(3, true), (2, false)], &[(1, true), (2, false)], &[(4, false)]];
        let mut deaths = deaths.to_vec();
        assert_eq!(subjects(&lives(&deaths), 3), []);
        deaths.push(&[(1, true), (2, false)]);
        let suspects = lives(&deaths);
        assert_eq!(subjects(&suspects, 3), [request(1)]);
        let told = judge(suspects.iter(), 3, Timestamp(1)).remove(0);
        assert_eq!((told.app.as_deref(), told.function.as_deref()), (Some("shop"), Some("pay")));
        assert_eq!(told.reason, "it ended its process 3 times: boom");
    }

    #[test]
    fn different_culprits_of_an_app_set_the_app_aside_and_processes_that_were_killed_do_not() {
        assert_eq!(subjects(&lives(&[&[(1, true)], &[(2, true)], &[(3, true)]]), 3), [Subject::App("shop".into())]);
        assert_eq!(subjects(&lives(&[&[(1, true)], &[(1, true)], &[(2, true)]]), 3), []);
        let busy = |id| found(id, "shop", None);
        let killed = (0..30).fold(Vec::new(), |before, life| after_death(before, vec![busy(life), busy(life + 100)]));
        assert_eq!(subjects(&killed, 3), []);
        let of_two = [found(1, "shop", Some("a")), found(2, "bank", Some("b")), found(3, "shop", Some("c"))];
        let suspects = of_two.into_iter().fold(Vec::new(), |before, culprit| after_death(before, vec![culprit]));
        assert_eq!(subjects(&suspects, 3), []);
        assert_eq!(subjects(&suspects, 2), [Subject::App("shop".into())]);
    }

    #[test]
    fn a_suspect_is_kept_until_its_quarantine_is_durable() {
        let mut catalog = Catalog::default();
        let suspect = |id| Suspect { lives: 3, ..found(id, "shop", Some("boom")) };
        let mut suspects = Suspects::new(vec![suspect(1), suspect(2), suspect(3)]);
        let left = |suspects: &Suspects| suspects.all().iter().map(|one| one.request.0).collect::<Vec<_>>();
        assert_eq!(suspects.review(&catalog, Epoch(4), Epoch(4)), None);
        for set_aside in judge([suspect(1), suspect(3)].iter(), 3, Timestamp(1)) {
            catalog.apply(&Control::Quarantine(set_aside));
        }
        // The epoch is lost, and another one sets the same aside.
        assert_eq!(suspects.review(&catalog, Epoch(5), Epoch(4)), None);
        suspects.begin_again();
        assert_eq!(suspects.review(&catalog, Epoch(7), Epoch(6)), None);
        // It was the epoch before, whose record is written.
        assert_eq!(suspects.review(&catalog, Epoch(6), Epoch(6)), Some(vec![suspect(2)]));
        assert_eq!((left(&suspects), suspects.review(&catalog, Epoch(9), Epoch(9))), (vec![2], None));
        // Somebody who is released before that stays suspected.
        let mut suspects = Suspects::new(vec![suspect(1)]);
        assert_eq!(suspects.review(&catalog, Epoch(7), Epoch(6)), None);
        catalog.apply(&Control::Release(Subject::Request(RequestId(1))));
        assert_eq!((suspects.review(&catalog, Epoch(8), Epoch(8)), left(&suspects)), (None, vec![1]));
    }

    #[test]
    fn what_is_suspected_and_set_aside_is_known() {
        let _transcript = styx_transcript::scenario!("policies");
        let mut draw = crate::testing::draws(3);
        let mut died = |before: Vec<Suspect>| {
            let mut found: Vec<Suspect> = Vec::new();
            for id in [3, 2, 5, 1, 4] {
                let said = [None, None, None, Some("boom"), Some("bang")][draw(&[0, 1, 2, 3, 4]) as usize];
                if draw(&[0, 0, 1]) == 1 {
                    found.push(self::found(id, ["shop", "bank", ""][id as usize % 3], said));
                }
            }
            styx_transcript::told(&found.iter().map(|one| (one.request, one.said.as_deref())).collect::<Vec<_>>());
            let suspects = after_death(before, found);
            styx_transcript::did(&suspects);
            suspects
        };
        for _ in 0..6 {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            for _ in 0..6 {
                (one, other) = (died(one), died(other));
                let after = one.len() as u32 % 4;
                styx_transcript::did(&judge(one.iter().chain(&other), after, Timestamp(1)));
            }
        }
    }

    #[test]
    fn deaths_of_several_processes_add_up() {
        let (one, two) = (lives(&[&[(1, true)], &[(1, true)]]), lives(&[&[(1, true)]]));
        assert_eq!(judge(one.iter().chain(&two), 3, Timestamp(1)).len(), 1);
        assert_eq!(judge(one.iter().chain(&one[..0]), 3, Timestamp(1)).len(), 0);
    }

    #[test]
    fn what_is_kept_and_told_is_bounded() {
        let all = (0..1000).map(|id| found(id, "shop", Some("boom"))).collect();
        assert_eq!(after_death(Vec::new(), all).len(), SUSPECTS_MAX);
        let long = "é\n".repeat(1000);
        let told = judge([Suspect { lives: 1, ..found(1, "shop", Some(&long)) }].iter(), 1, Timestamp(1)).remove(0);
        assert!(told.reason.len() <= Quarantined::REASON_MAX && !told.reason.contains('\n'));
        let kept = |more| short("x".repeat(Quarantined::REASON_MAX - 1 + more)).len();
        assert_eq!([0, 1, 2].map(kept), [511, 512, 512]);
    }
}
