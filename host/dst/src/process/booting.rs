//! The beginning of a process with a log: opens it, finds the snapshot to begin with, and looks through what follows.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use styx_durability::log::{replay, survey};
use styx_durability::recovery::{Found, RecoveryPoint, SnapshotSource, open_embedded};
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, Generation, LogPosition, Timestamp};
use styx_protocol::placement::Seating;
use styx_protocol::record::{EpochRecord, Genesis};
use styx_protocol::snapshot::RestoredState;
use styx_storage::log::shared::SharedLog;
use styx_storage::log::{EmbeddedOptions, Log};
use styx_storage::snapshot::{ClusterMetadata, SnapshotError, SnapshotStore};

use super::around::Around;
use super::coordinator::Coordinator;
use super::directory::Directory;
use super::leasing::LeaseThread;
use super::single::Single;
use super::{Process, Role};
use crate::check::Checked;
use crate::topic;

/// What a process begins with.
pub struct Booted {
    pub log: Box<dyn Log>,
    /// What was decided when the cluster was created.
    pub genesis: Genesis,
    /// How keys are spread now.
    pub layout: Layout,
    pub store: Option<SnapshotStore>,
    /// The snapshot to begin with.
    pub found: Option<Box<Found>>,
    /// What it holds, of a single process.
    pub restored: Option<Box<RestoredState>>,
    pub end: LogPosition,
    /// The highest generation that there was.
    pub generation: Generation,
    /// Who had which partition last.
    pub seating: Option<Seating>,
}

/// All of it, and the epochs in the log for who checks them.
type Result = anyhow::Result<(Booted, Vec<Arc<EpochRecord>>)>;

pub struct Booting {
    role: Role,
    lease: Option<LeaseThread>,
    result: Rc<RefCell<Option<Result>>>,
}

impl std::fmt::Debug for Booting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Booting").field("role", &self.role).finish_non_exhaustive()
    }
}

impl Booting {
    /// Starts a thread that does it; for a coordinator beside which others may lead, while it holds the lease.
    pub fn start(role: Role, lease: Option<LeaseThread>, around: &mut Around<'_>) -> Self {
        let result = Rc::new(RefCell::new(None));
        let (directory, told) = (around.own.directory.clone(), result.clone());
        let plan = &around.environment.plan;
        let (layout, snapshots) = (plan.config.layout, plan.config.snapshots);
        // Who is alone is started with a number, and everybody else is told one.
        let asked = match role {
            Role::Single => around.environment.random.pick(&plan.repartitions),
            _ => layout.partitions,
        };
        let place = if plan.shared_log {
            let (topic, limit) = (around.environment.topic.clone(), plan.config.record_bytes_max);
            let random = &mut around.environment.random;
            LogPlace::Topic(topic::Client::new(topic, random.number(), limit), random.number().into())
        } else {
            LogPlace::Disk(plan.log_options())
        };
        let now = around.now().wall;
        around.spawn(move || {
            let booted = boot(role, &directory, (layout.seed, layout.partitions, asked), snapshots, place, now);
            *told.borrow_mut() = Some(booted);
        });
        Booting { role, lease, result }
    }

    /// Whether it is known what follows.
    pub fn is_done(&self) -> bool {
        self.result.borrow().is_some()
    }

    /// Whether others may lead.
    pub fn is_candidate(&self) -> bool {
        self.lease.is_some()
    }

    /// The process that follows, once that is known.
    ///
    /// # Errors
    /// What was found contradicts what was there.
    pub fn finish(&mut self, around: &mut Around<'_>) -> Checked<Option<Process>> {
        let Some(result) = self.result.borrow_mut().take() else { return Ok(None) };
        let life = around.own.life;
        let (booted, records) = match result {
            Ok(booted) => booted,
            Err(error) => {
                if let Some(SnapshotError::Store { .. } | SnapshotError::Unusable { .. }) = error.downcast_ref() {
                    // Whoever starts it tries again.
                    around.environment.excuse(life);
                }
                around.environment.halts(life, &format!("{error:#}"))?;
                return Ok(None);
            }
        };
        around.environment.opened(life, &records, booted.log.first())?;
        Ok(Some(match self.role {
            Role::Single => Process::Single(Box::new(Single::new(booted, around)?)),
            _ => Process::Coordinator(Box::new(Coordinator::new(booted, self.lease.take(), around))),
        }))
    }
}

/// Where the log is.
enum LogPlace {
    Disk(EmbeddedOptions),
    /// The id of a cluster that has none yet.
    Topic(topic::Client, u128),
}

fn boot(
    role: Role,
    directory: &Directory,
    (seed, created, asked): (u64, u32, u32),
    snapshots: bool,
    place: LogPlace,
    now: Timestamp,
) -> Result {
    let mut log: Box<dyn Log> = match place {
        LogPlace::Disk(options) => {
            let store = snapshots.then_some((&directory.place, &directory.runtime));
            Box::new(open_embedded(&mut |needed| directory.disk.open(options, needed), store)?)
        }
        LogPlace::Topic(client, proposal) => {
            let owner = ClusterMetadata::open(&directory.place, &directory.runtime)?.cluster(proposal)?;
            Box::new(SharedLog::on(client, owner, None)?)
        }
    };
    let source = snapshots.then_some(SnapshotSource {
        place: &directory.place,
        runtime: &directory.runtime,
        components: directory.components(),
    });
    let mut restored = None;
    let partitions = if log.next() == 0 { created } else { asked };
    let alone = role == Role::Single;
    let point = RecoveryPoint::find(log.as_mut(), Some(partitions), now, seed, source, &mut |store, found, layout| {
        if alone {
            restored = Some(Box::new(found.restore(store, 1, (layout, &|_| true), None)?));
        }
        Ok(())
    })?;
    let known = survey(log.as_mut(), LogPosition(point.position().0))?;
    let generation = known.generation.max(point.generation());
    let mut records = Vec::new();
    let first = LogPosition(log.first());
    replay(log.as_mut(), first, Epoch(0), &mut |_, record| {
        records.push(record);
        Ok(true)
    })?;
    let seating = known.seating.or_else(|| point.seating().cloned());
    let layout = if alone { point.layout } else { point.layout_after(Some(asked), known.partitions)? };
    let RecoveryPoint { genesis, store, found, .. } = point;
    let end = LogPosition(log.next());
    Ok((
        Booted { log, genesis, layout, store, found: found.map(Box::new), restored, end, generation, seating },
        records,
    ))
}
