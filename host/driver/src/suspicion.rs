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
    /// Its app has been set aside since, for good: what it ended counts for itself as before, and against the app no more.
    pub app_set_aside: bool,
}

/// The most suspects that are kept, and told to a coordinator.
pub const SUSPECTS_MAX: usize = 256;

/// A process has ended while these were under way, each once: those that are suspected from then on. In `found`, `lives` and
/// `app_set_aside` say nothing, and `said` is there for the culprits.
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
                suspect.app_set_aside = false;
            }
            None => suspects.push(Suspect { lives: 1, app_set_aside: false, ..now }),
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
    seen: Vec<Seen>,
}

/// By which epoch something was seen in quarantine, of which the record may not be durable.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    request: Option<Epoch>,
    app: Option<Epoch>,
}

impl Suspects {
    pub fn new(all: Vec<Suspect>) -> Self {
        let seen = vec![Seen::default(); all.len()];
        Suspects { all, seen }
    }

    /// In the order in which they were given.
    pub fn all(&self) -> &[Suspect] {
        &self.all
    }

    /// Forgets those that are in quarantine by a catalog of an epoch, and for good. Those whose app is are not forgotten: until its
    /// release is durable, an epoch that releases it may have it executed again in each life. Gives all, if any changed.
    pub fn review(&mut self, catalog: &Catalog, epoch: Epoch, durable: Epoch) -> Option<Vec<Suspect>> {
        let mut changed = false;
        for at in (0..self.all.len()).rev() {
            let (suspect, seen) = (&mut self.all[at], &mut self.seen[at]);
            let is_durable = |seen: &mut Option<Epoch>, is_in: bool| {
                // One that was seen in the midst of a round may be of the epoch before it.
                *seen = is_in.then(|| seen.map_or(epoch, |of| of.min(epoch)));
                seen.is_some_and(|epoch| epoch <= durable || planted(Bug::SuspectsForgottenEarly))
            };
            if is_durable(&mut seen.request, is_set_aside(suspect, catalog)) {
                self.all.remove(at);
                self.seen.remove(at);
                changed = true;
            } else if is_durable(&mut seen.app, !suspect.app_set_aside && is_app_set_aside(&suspect.app, catalog)) {
                suspect.app_set_aside = true;
                changed = true;
            }
        }
        changed.then(|| self.all.clone())
    }

    /// Another generation begins: what an epoch did that is not in the log has not happened.
    pub fn begin_again(&mut self) {
        self.seen.fill(Seen::default());
    }
}

/// Whether a suspect is dealt with: it is in quarantine.
pub fn is_set_aside(suspect: &Suspect, catalog: &Catalog) -> bool {
    catalog.quarantine().get(&Subject::Request(suspect.request)).is_some()
}

fn is_app_set_aside(app: &str, catalog: &Catalog) -> bool {
    let quarantine = catalog.quarantine();
    !quarantine.is_empty() && quarantine.get(&Subject::App(app.to_owned())).is_some()
}

/// What is to be set aside that is not by now: requests that ended `after` lives, all processes together; and apps of which as many
/// different requests ended one each, since they were set aside last. 0: nothing ever is.
pub fn judge<'a>(
    suspects: impl Iterator<Item = &'a Suspect>,
    catalog: &Catalog,
    after: u32,
    since: Timestamp,
) -> Vec<Quarantined> {
    if after == 0 {
        return Vec::new();
    }
    let mut together: Vec<Suspect> = Vec::new();
    for suspect in suspects.filter(|suspect| !is_set_aside(suspect, catalog)) {
        match together.iter_mut().find(|known| known.request == suspect.request) {
            Some(_) if planted(Bug::DeathsCountedApart) => {}
            Some(known) => {
                known.lives = known.lives.saturating_add(suspect.lives);
                known.said = known.said.take().or_else(|| suspect.said.clone());
                known.app_set_aside &= suspect.app_set_aside;
            }
            None => together.push(suspect.clone()),
        }
    }
    let (guilty, others): (Vec<Suspect>, Vec<Suspect>) =
        together.into_iter().partition(|suspect| suspect.lives >= after);
    let mut quarantined: Vec<Quarantined> = guilty.into_iter().map(|suspect| of_request(suspect, since)).collect();
    // What was killed from outside had something of a busy app under way each time: only what threads said counts.
    let counts = |suspect: &Suspect| {
        suspect.said.is_some() && !suspect.app_set_aside && !is_app_set_aside(&suspect.app, catalog)
    };
    let mut culprits: Vec<Suspect> = others.into_iter().filter(counts).collect();
    culprits.sort_by(|a, b| a.app.cmp(&b.app));
    for of_app in culprits.chunk_by(|a, b| a.app == b.app).filter(|of_app| of_app.len() >= after as usize) {
        quarantined.push(self::of_app(of_app, since));
    }
    quarantined
}

fn of_request(suspect: Suspect, since: Timestamp) -> Quarantined {
    let Suspect { request, app, function, lives, said, app_set_aside: _ } = suspect;
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
    use styx_protocol::control::Control;
    use styx_protocol::deployment::Digest;

    use super::*;

    fn found(request: u128, app: &str, said: Option<&str>) -> Suspect {
        let (app, function) = (app.to_owned(), "pay".to_owned());
        let said = said.map(str::to_owned);
        Suspect { request: RequestId(request), app, function, lives: 0, said, app_set_aside: false }
    }

    fn lives(deaths: &[&[(u128, bool)]]) -> Vec<Suspect> {
        deaths.iter().fold(Vec::new(), |before, death| {
            let found = death.iter().map(|&(id, culprit)| found(id, "shop", culprit.then_some("boom"))).collect();
            after_death(before, found)
        })
    }

    fn subjects(suspects: &[Suspect], after: u32) -> Vec<Subject> {
        judge(suspects.iter(), &Catalog::default(), after, Timestamp(1))
            .into_iter()
            .map(|quarantined| quarantined.subject)
            .collect()
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
        let told = judge(suspects.iter(), &Catalog::default(), 3, Timestamp(1)).remove(0);
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
        for set_aside in judge([suspect(1), suspect(3)].iter(), &Catalog::default(), 3, Timestamp(1)) {
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
    fn a_request_counts_although_its_app_is_set_aside_and_an_app_only_for_what_ended_since() {
        let mut catalog = Catalog::default();
        let app = Subject::App("shop".into());
        let (subject, app_of, function) = (app.clone(), None, None);
        let by_hand = Quarantined { subject, app: app_of, function, reason: String::new(), since: Timestamp(1) };
        catalog.apply(&Control::Deploy(crate::testing::shop(Digest([1; 32]))));
        catalog.apply(&Control::Quarantine(by_hand));
        let judged = |suspects: &[Suspect], catalog: &Catalog| -> Vec<Subject> {
            let judged = judge(suspects.iter(), catalog, 3, Timestamp(1));
            judged.into_iter().map(|quarantined| quarantined.subject).collect()
        };
        // An epoch that is lost releases the app and executes the request, in each of three lives.
        let mut all = Vec::new();
        for life in 1..=3 {
            all = after_death(all, vec![found(7, "shop", Some("boom"))]);
            let mut suspects = Suspects::new(all);
            assert_eq!(suspects.review(&catalog, Epoch(4), Epoch(3)), None);
            all = suspects.review(&catalog, Epoch(4), Epoch(4)).expect("its app is set aside, durably");
            assert!(all[0].app_set_aside && all[0].lives == life);
            assert_eq!(suspects.review(&catalog, Epoch(5), Epoch(5)), None, "it is said once");
            assert_eq!(judged(&all, &catalog), if life < 3 { vec![] } else { vec![request(7)] });
        }
        // Three others: they are no reason to set aside what is set aside, nor, by themselves, once it is released.
        let others = lives(&[&[(1, true)], &[(2, true)], &[(3, true)]]);
        assert_eq!(judged(&others, &catalog), []);
        let mut suspects = Suspects::new(others);
        let others = suspects.review(&catalog, Epoch(6), Epoch(6)).expect("they have counted against the app");
        catalog.apply(&Control::Release(app.clone()));
        assert_eq!(judged(&others, &catalog), []);
        let again = after_death(others, vec![found(1, "shop", Some("boom"))]);
        assert_eq!(judged(&again, &catalog), [], "one has ended since");
        let again = [found(2, "shop", Some("boom")), found(4, "shop", Some("boom"))]
            .into_iter()
            .fold(again, |before, culprit| after_death(before, vec![culprit]));
        assert_eq!(judged(&again, &catalog), [app]);
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
                styx_transcript::did(&judge(one.iter().chain(&other), &Catalog::default(), after, Timestamp(1)));
            }
        }
    }

    #[test]
    fn deaths_of_several_processes_add_up() {
        let (one, two) = (lives(&[&[(1, true)], &[(1, true)]]), lives(&[&[(1, true)]]));
        assert_eq!(judge(one.iter().chain(&two), &Catalog::default(), 3, Timestamp(1)).len(), 1);
        assert_eq!(judge(one.iter().chain(&one[..0]), &Catalog::default(), 3, Timestamp(1)).len(), 0);
    }

    #[test]
    fn what_is_kept_and_told_is_bounded() {
        let all = (0..1000).map(|id| found(id, "shop", Some("boom"))).collect();
        assert_eq!(after_death(Vec::new(), all).len(), SUSPECTS_MAX);
        let long = "é\n".repeat(1000);
        let told =
            judge([Suspect { lives: 1, ..found(1, "shop", Some(&long)) }].iter(), &Catalog::default(), 1, Timestamp(1))
                .remove(0);
        assert!(told.reason.len() <= Quarantined::REASON_MAX && !told.reason.contains('\n'));
        let kept = |more| short("x".repeat(Quarantined::REASON_MAX - 1 + more)).len();
        assert_eq!([0, 1, 2].map(kept), [511, 512, 512]);
    }
}
