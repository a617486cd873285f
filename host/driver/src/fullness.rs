//! Fullness: how much state there is, of whom, and who may get no more of it.
//!
//! State is in memory, so that whoever writes without end would take the process along, and each that restores it after
//! that. Each worker says what it holds; nothing that may write is taken of an app that has as much as it may, and nothing
//! at all that may write while a worker holds as much as it may: what waits for a person is a refusal, and not a process
//! that ends. What was taken before is carried out, so that the bounds are those of memory that can be done without.

use std::collections::BTreeMap;
use std::time::Duration;

use styx_protocol::catalog::Catalog;
use styx_protocol::ids::NodeId;
use styx_protocol::state::State;

use crate::client::Failure;
use crate::time::Instant;

/// Pause between two looks at the state of a worker.
pub const LOOK: Duration = Duration::from_millis(250);

/// After so long it is looked at though nothing has changed: what was said may have been lost.
const AGAIN: Duration = Duration::from_secs(5);

/// What an entity takes in memory beside its key and its value, about.
pub const ENTITY_BYTES: u64 = 200;

/// Apps that a worker names: those of which it holds most.
const APPS: usize = 64;

/// Of a hundred parts of a bound, those below which who was full is not any more.
const ROOM_AGAIN: u64 = 95;

/// What a worker holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Holdings {
    /// Bytes in memory.
    pub bytes: u64,
    /// The most that it may hold.
    pub most: u64,
    /// Those of the apps of which it holds most.
    pub apps: Vec<(String, u64)>,
}

impl Holdings {
    /// What a worker holds that may hold so many bytes.
    pub fn of(state: &State, catalog: &Catalog, most: u64) -> Self {
        let mut of_apps: BTreeMap<&str, u64> = BTreeMap::new();
        let mut bytes = 0;
        for (operator, size) in state.sizes() {
            let here = size.bytes + size.entities * ENTITY_BYTES;
            bytes += here;
            // Of a removed one something may be left.
            if let Some(operator) = catalog.operator(operator) {
                *of_apps.entry(&operator.app).or_default() += here;
            }
        }
        let mut apps: Vec<(String, u64)> = of_apps.into_iter().map(|(app, bytes)| (app.to_owned(), bytes)).collect();
        apps.sort_by(|(a, a_bytes), (b, b_bytes)| b_bytes.cmp(a_bytes).then_with(|| a.cmp(b)));
        apps.truncate(APPS);
        Holdings { bytes, most, apps }
    }
}

/// Who gets no more state.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Full {
    /// A worker holds as much as it may: nobody does.
    pub all: bool,
    /// Apps that have as much as they may, in order.
    pub apps: Vec<String>,
}

impl Full {
    /// Who gets no more, after `before`, where these are all workers and an app may have so many bytes: otherwise half of
    /// what all of them may hold.
    fn of<'a>(before: &Full, workers: impl Iterator<Item = &'a Holdings>, app_most: Option<u64>) -> Self {
        let (mut all, mut together) = (false, 0u64);
        let mut of_apps: BTreeMap<&str, u64> = BTreeMap::new();
        for holdings in workers {
            all |= is_full(before.all, holdings.bytes, holdings.most);
            together = together.saturating_add(holdings.most);
            for (app, bytes) in &holdings.apps {
                *of_apps.entry(app).or_default() += bytes;
            }
        }
        let most = app_most.unwrap_or(together / 2);
        let full = |(app, bytes): (&str, u64)| is_full(before.holds(app), bytes, most).then(|| app.to_owned());
        Full { all, apps: of_apps.into_iter().filter_map(full).collect() }
    }

    /// Why a request that may write, of an app, is refused, if so. One whose calls may write to other apps counts as those.
    pub fn refuses(&self, app: Option<&str>, catalog: &Catalog) -> Option<Failure> {
        let holds = |app| self.holds(app) || catalog.written_by(app).into_iter().any(|app| self.holds(app));
        let of_app = || (!self.apps.is_empty() && app.is_some_and(holds)).then_some(Failure::AppStateFull);
        if self.all { Some(Failure::StateFull) } else { of_app() }
    }

    /// Whether an app gets no more.
    fn holds(&self, app: &str) -> bool {
        self.apps.binary_search_by(|full| full.as_str().cmp(app)).is_ok()
    }
}

fn is_full(before: bool, bytes: u64, most: u64) -> bool {
    bytes >= if before { most / 100 * ROOM_AGAIN } else { most }
}

/// What all workers hold, as far as they have said.
#[derive(Debug, Default)]
pub struct Fullness {
    workers: BTreeMap<NodeId, Holdings>,
    full: Full,
}

impl Fullness {
    /// A worker has said what it holds. Those that are no members any more count no more.
    pub fn told(&mut self, from: NodeId, holdings: Holdings, is_member: impl Fn(NodeId) -> bool) {
        self.workers.insert(from, holdings);
        self.workers.retain(|worker, _| is_member(*worker));
    }

    /// Who gets no more, if that is not who got no more before; an app may have so many bytes.
    pub fn review(&mut self, app_most: Option<u64>) -> Option<&Full> {
        let full = Full::of(&self.full, self.workers.values(), app_most);
        (full != self.full).then(|| {
            self.full = full;
            &self.full
        })
    }

    pub fn full(&self) -> &Full {
        &self.full
    }

    /// Whoever of these would be full, with so many bytes more; those, and what it may hold.
    pub fn overfilled_by(&self, gains: &[(NodeId, u64)]) -> Option<(NodeId, u64, u64)> {
        gains.iter().find_map(|(node, more)| {
            let holdings = self.workers.get(node)?;
            let bytes = holdings.bytes.saturating_add(*more);
            (bytes >= holdings.most).then_some((*node, bytes, holdings.most))
        })
    }
}

/// When a worker's state is to be looked at: it has changed, and it was not looked at just now.
#[derive(Debug, Default)]
pub struct Looks {
    last: Option<(Instant, u64)>,
}

impl Looks {
    /// Whether to look, at a state after so many changes.
    pub fn take(&mut self, now: Instant, changes: u64) -> bool {
        let pause = |seen: u64| if changes == seen { AGAIN } else { LOOK };
        let due = self.last.is_none_or(|(at, seen)| now.since(at) >= pause(seen));
        if due {
            self.last = Some((now, changes));
        }
        due
    }

    /// When to look, if nothing changes any more before that.
    pub fn due(&self, changes: u64) -> Option<Instant> {
        self.last.filter(|(_, seen)| changes != *seen).map(|(at, _)| at.after(LOOK))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use styx_protocol::control::Control;
    use styx_protocol::deployment::{Deployment, Digest, Function};
    use styx_protocol::entity::{Entity, Layout};
    use styx_protocol::ids::OperatorId;
    use styx_protocol::interface::{Import, ImportedFunction};

    use super::*;
    use crate::testing::shop;

    fn holdings(bytes: u64, most: u64, apps: &[(&str, u64)]) -> Holdings {
        Holdings { bytes, most, apps: apps.iter().map(|(app, bytes)| ((*app).to_owned(), *bytes)).collect() }
    }

    fn full(before: &Full, workers: &[Holdings], app_most: Option<u64>) -> Full {
        Full::of(before, workers.iter(), app_most)
    }

    fn apps(full: &Full) -> Vec<&str> {
        full.apps.iter().map(String::as_str).collect()
    }

    #[test]
    fn an_app_is_full_by_what_all_workers_hold_of_it_until_there_is_room_again() {
        let none = Full::default();
        let two = |a, b| [holdings(0, 1 << 40, &[("a", a), ("b", 1)]), holdings(0, 1 << 40, &[("a", b)])];
        assert_eq!(apps(&full(&none, &two(500, 499), Some(1000))), [""; 0]);
        let now = full(&none, &two(500, 500), Some(1000));
        assert_eq!((apps(&now), now.all), (vec!["a"], false));
        assert_eq!(apps(&full(&now, &two(500, 450), Some(1000))), ["a"], "nobody is let in and out all the time");
        assert_eq!(full(&now, &two(500, 449), Some(1000)), none);
        let refusals = ["a", "b"].map(|app| now.refuses(Some(app), &Catalog::default()));
        assert_eq!(refusals, [Some(Failure::AppStateFull), None]);
        assert_eq!(now.refuses(None, &Catalog::default()), None);
    }

    #[test]
    fn one_app_gets_half_of_what_all_may_hold_unless_it_is_said() {
        let none = Full::default();
        let two = |bytes| [holdings(0, 600, &[("a", bytes)]), holdings(0, 400, &[])];
        assert_eq!(apps(&full(&none, &two(499), None)), [""; 0]);
        assert_eq!(apps(&full(&none, &two(500), None)), ["a"]);
    }

    #[test]
    fn a_worker_that_is_full_lets_nobody_write() {
        let none = Full::default();
        let two = |bytes| [holdings(bytes, 1000, &[]), holdings(0, 1000, &[])];
        assert!(!full(&none, &two(999), None).all);
        let now = full(&none, &two(1000), None);
        let refusals = [Some("a"), None].map(|app| now.refuses(app, &Catalog::default()));
        assert_eq!(refusals, [Some(Failure::StateFull), Some(Failure::StateFull)]);
        assert!(full(&now, &two(950), None).all);
        assert!(!full(&now, &two(949), None).all);
    }

    #[test]
    fn whoever_may_write_to_a_full_app_by_its_calls_is_refused_as_that_app_is() {
        let function = |name: &str| Function {
            name: name.into(),
            parameters: Vec::new(),
            returns: "{}".into(),
            read_only: name == "read",
            consistency: Default::default(),
            doc: String::new(),
        };
        let imports = |of: &str| Import {
            app: "full".into(),
            operator: "stock".into(),
            functions: vec![ImportedFunction { name: of.into(), signature: None }],
        };
        let mut catalog = Catalog::default();
        for (app, imports) in
            [("full", vec![]), ("writer", vec![imports("write")]), ("reader", vec![imports("read")]), ("other", vec![])]
        {
            let mut deployment = Deployment { id: format!("dp_{app}"), app: app.into(), ..shop(Digest([7; 32])) };
            deployment.operators[0].functions = ["read", "write"].map(function).into();
            deployment.interface.imports = imports;
            catalog.apply(&Control::Deploy(deployment));
        }
        let full = Full { all: false, apps: vec!["full".into()] };
        let refused = ["full", "writer", "reader", "other"].map(|app| full.refuses(Some(app), &catalog).is_some());
        assert_eq!(refused, [true, true, false, false]);
    }

    #[test]
    fn who_is_no_member_counts_no_more() {
        let mut fullness = Fullness::default();
        let everybody = |_| true;
        fullness.told(NodeId(1), holdings(0, 1000, &[("a", 600)]), everybody);
        assert_eq!(fullness.review(Some(1000)), None);
        fullness.told(NodeId(2), holdings(0, 1000, &[("a", 600)]), everybody);
        assert_eq!(fullness.review(Some(1000)).map(|full| full.apps.len()), Some(1));
        assert_eq!(fullness.review(Some(1000)), None, "nothing new");
        fullness.told(NodeId(2), holdings(0, 1000, &[("a", 600)]), |worker| worker == NodeId(2));
        assert_eq!(fullness.review(Some(1000)), Some(&Full::default()));
    }

    #[test]
    fn what_a_worker_holds_is_told_by_app_the_largest_first() {
        let layout = Layout::new(1, 4);
        let mut state = State::new(layout);
        let mut catalog = Arc::<Catalog>::default();
        for app in 0..APPS + 2 {
            let deployment = Deployment { id: format!("dp_{app}"), app: format!("app{app}"), ..shop(Digest([7; 32])) };
            Arc::make_mut(&mut catalog).apply(&Control::Deploy(deployment));
        }
        let operator_of = |app: usize| {
            let is_its = |id: &u32| catalog.operator(OperatorId(*id)).is_some_and(|o| *o.app == *format!("app{app}"));
            OperatorId((0..1000).find(is_its).expect("it is deployed"))
        };
        for app in 0..APPS + 2 {
            let value = vec![0; app];
            state.apply((Entity::new(&layout, operator_of(app), false, "k".into()), Some(value.into())));
        }
        // Nobody's any more.
        state.apply((Entity::new(&layout, OperatorId(900_000), false, "k".into()), Some(b"1234"[..].into())));
        let holdings = Holdings::of(&state, &catalog, 7);
        let each = ENTITY_BYTES + 1;
        assert_eq!(holdings.apps.len(), APPS);
        assert_eq!(holdings.apps[0], (format!("app{}", APPS + 1), each + APPS as u64 + 1));
        assert_eq!(holdings.apps[APPS - 1], ("app2".to_owned(), each + 2));
        let all: u64 = (0..APPS as u64 + 2).map(|app| each + app).sum();
        assert_eq!((holdings.bytes, holdings.most), (all + each + 4, 7));
    }

    #[test]
    fn a_state_is_looked_at_when_it_has_changed_and_not_all_the_time() {
        let mut looks = Looks::default();
        assert!(looks.take(Instant(5), 0));
        assert_eq!(looks.due(0), None);
        let next = Instant(5).after(LOOK);
        assert_eq!(looks.due(1), Some(next));
        assert!(!looks.take(Instant(next.0 - 1), 1));
        assert!(looks.take(next, 1));
        assert!(!looks.take(next.after(LOOK), 1), "nothing has changed");
        assert!(looks.take(next.after(AGAIN), 1));
    }
}
