//! A world that fails, made as small as it can be: faults, requests, nodes and settings go as long as the same check
//! fails.
//!
//! A smaller plan draws other numbers, and chance may have it pass. So each is tried with several streams of them.

use crate::check::Failure;
use crate::plan::{ALL_FAULTS, Plan, RecordsPlan};
use crate::poison::PoisonPlan;
use crate::random::Random;
use crate::run::simulate;
use crate::world::World;

/// Streams of random numbers that each smaller plan is tried with.
const STREAMS: u64 = 6;

/// Something of a plan that can be made less.
struct Setting {
    name: &'static str,
    get: fn(&Plan) -> u64,
    set: fn(&mut Plan, u64),
    least: u64,
}

/// A number of a plan: its name, its place and sort, and the least that it can be.
macro_rules! setting {
    ($name:literal, $($field:ident).+ as $sort:ty, $least:literal) => {
        Setting {
            name: $name,
            get: |plan| plan.$($field).+ as u64,
            set: |plan, to| plan.$($field).+ = to as $sort,
            least: $least,
        }
    };
}

/// Those besides faults, by how much simpler a world is without them.
const SETTINGS: &[Setting] = &[
    setting!("requests", requests as u64, 1),
    setting!("slots", slots as usize, 1),
    setting!("workers", cluster.workers as usize, 1),
    setting!("gateways", cluster.gateways as usize, 1),
    setting!("coordinators", cluster.coordinators as usize, 1),
    Setting {
        name: "foreign-engine",
        get: |plan| plan.cluster.foreign_engine.into(),
        set: |plan, to| plan.cluster.foreign_engine = to > 0,
        least: 0,
    },
    Setting {
        name: "records",
        get: |plan| plan.records.map_or(0, |records| records.count),
        set: |plan, to| {
            plan.records = plan.records.map(|records| RecordsPlan { count: to, ..records }).filter(|_| to > 0)
        },
        least: 0,
    },
    Setting {
        name: "poison",
        get: |plan| plan.poison.map_or(0, |poison| poison.count as u64),
        set: |plan, to| {
            plan.poison = plan.poison.map(|poison| PoisonPlan { count: to as usize, ..poison }).filter(|_| to > 0)
        },
        least: 0,
    },
    setting!("loss", loss as u32, 0),
    setting!("spikes", cluster.spikes as u32, 0),
    setting!("looks", looks as u32, 0),
    setting!("threads", threads as u64, 1),
    setting!("unconfirmed", unconfirmed as u32, 0),
    setting!("sync-failures", sync_failures as u32, 0),
    setting!("store-failures", snapshotting.failures as u32, 0),
];

/// Settings by name in which a world differs from the one of its seed, and the stream of its random numbers.
pub type Changes = Vec<(String, u64)>;

pub fn changed(seed: u64, changes: &Changes, notes: bool) -> Result<World, String> {
    let mut random = Random::new(seed);
    let mut plan = Plan::draw(&mut random);
    for (name, to) in changes {
        if name == "stream" {
            random = Random::new(seed ^ to);
        } else if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) {
            (setting.set)(&mut plan, *to);
        } else if let Some(kind) = ALL_FAULTS.iter().position(|fault| format!("{fault:?}") == *name) {
            plan.faults_max[kind] = *to as u32;
        } else {
            return Err(format!("a world has no setting {name}"));
        }
    }
    Ok(World::of(plan, random, notes))
}

/// Makes the world of a seed smaller as long as it fails alike: its changes, and how it fails; nothing, if it does not.
/// Tells of each step.
pub fn minimise(seed: u64, mut tell: impl FnMut(&Changes)) -> Option<(Changes, Failure)> {
    let mut failure = simulate(&mut World::new(seed, false)).err()?;
    let mut changes = Changes::new();
    loop {
        let mut smaller = None;
        for (name, value, least) in left(seed, &changes) {
            // As little as possible first; then half, and one less.
            let mut tries = vec![least, least.midpoint(value), value - 1];
            tries.dedup();
            smaller = tries.iter().find_map(|to| fails_alike(seed, &with(&changes, &name, *to), &failure));
            if smaller.is_some() {
                break;
            }
        }
        let Some(next) = smaller else { return Some((changes, failure)) };
        (changes, failure) = next;
        tell(&changes);
    }
}

/// What can still be made less: its name, what it is and the least that it can be.
fn left(seed: u64, changes: &Changes) -> Vec<(String, u64, u64)> {
    let world = changed(seed, changes, false).expect("these settings were taken from it");
    let plan = world.plan();
    let faults = ALL_FAULTS.iter().enumerate().filter(|(kind, _)| plan.faults[*kind] > 0);
    let faults = faults.map(|(kind, fault)| (format!("{fault:?}"), u64::from(plan.faults_max[kind]), 0));
    let settings = SETTINGS.iter().map(|setting| (setting.name.to_owned(), (setting.get)(plan), setting.least));
    faults.chain(settings).filter(|(_, value, least)| value > least).collect()
}

fn with(changes: &Changes, name: &str, to: u64) -> Changes {
    let mut changes = changes.clone();
    changes.retain(|(of, _)| of != name);
    changes.push((name.to_owned(), to));
    changes
}

/// The changes, with a stream with which the same check fails.
fn fails_alike(seed: u64, changes: &Changes, failure: &Failure) -> Option<(Changes, Failure)> {
    let kept = changes.iter().find(|(name, _)| name == "stream").map_or(0, |(_, stream)| *stream);
    (kept..kept + STREAMS).find_map(|stream| {
        let changes = if stream > 0 { with(changes, "stream", stream) } else { changes.clone() };
        let mut world = changed(seed, &changes, false).ok()?;
        let now = simulate(&mut world).err()?;
        (now.check == failure.check).then_some((changes, now))
    })
}
