//! Journal: what has happened since somebody began to watch, each with a number, so that whoever loses the connection goes
//! on where they were. One task looks, however many watch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use styx_driver::wire::{AdminQuery, Member, Overview, Response};
use styx_protocol::catalog::Catalog;
use styx_protocol::quarantine::Quarantine;
use tokio::time::{MissedTickBehavior, interval, timeout};
use utoipa::ToSchema;

use super::quarantine::QuarantinedView;
use super::queries::Queries;
use super::schemas;
use crate::clock::now;
use crate::snapshots::SnapshotSummary;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(250);
/// How often the coordinator is asked who is there, in looks; and how long it may take to say.
const ASK_LOOKS: u32 = 4;
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// What happened before that is forgotten.
const KEPT: usize = 512;

/// Something that has happened.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum News {
    Member(MemberNews),
    Deployment(DeploymentNews),
    Snapshot(SnapshotNews),
    Quarantine(QuarantineNews),
}

impl News {
    /// The name of its event.
    pub fn name(&self) -> &'static str {
        match self {
            News::Member(_) => "member",
            News::Deployment(_) => "deployment",
            News::Snapshot(_) => "snapshot",
            News::Quarantine(_) => "quarantine",
        }
    }
}

/// Data of the event `member`: a worker that has become a member of the cluster, or is none any more.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MemberNews {
    /// µs since 1970.
    at: u64,
    /// `joined` or `left`.
    change: &'static str,
    node: String,
    address: String,
    /// The generation in which it is so.
    generation: u64,
}

/// Data of the event `deployment`: another version of an app is live, or none is.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DeploymentNews {
    /// µs since 1970.
    at: u64,
    /// `deployed`, `activated` (a version that was there) or `removed`.
    change: &'static str,
    app: String,
    /// The version that is live; null if the app is removed.
    deployment: Option<String>,
}

/// Data of the event `snapshot`: one was taken.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SnapshotNews {
    /// µs since 1970.
    at: u64,
    #[schema(value_type = schemas::SnapshotSummary)]
    snapshot: SnapshotSummary,
}

/// Data of the event `quarantine`: something was set aside, or released.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QuarantineNews {
    /// µs since 1970.
    at: u64,
    /// `set-aside` or `released`.
    change: &'static str,
    subject: QuarantinedView,
}

/// See the module. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    begun: AtomicBool,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The number of the entry after the last.
    next: u64,
    kept: VecDeque<Arc<News>>,
    /// The cluster, as it was when it was asked last.
    overview: Option<Overview>,
}

impl Journal {
    /// Begins to look, unless it does.
    pub fn begin(&self, queries: &Queries) {
        if !self.0.begun.swap(true, Ordering::Relaxed) {
            let (journal, queries) = (self.clone(), queries.clone());
            let end = queries.shutdown.wait_owned();
            let keep = async move { journal.keep(queries).await };
            drop(tokio::spawn(async move {
                tokio::select! {
                    () = keep => {}
                    () = end => {}
                }
            }));
        }
    }

    async fn keep(self, queries: Queries) {
        let mut seen = Seen::of(&queries);
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in 0_u32.. {
            ticks.tick().await;
            let mut news = seen.look(&queries);
            if look.is_multiple_of(ASK_LOOKS)
                && let Ok(Ok(Response::Cluster(overview))) = timeout(ANSWER_MAX, queries.ask(AdminQuery::Cluster)).await
            {
                news.extend(seen.members(&overview));
                self.lock().overview = Some(overview);
            }
            self.lock().add(news);
        }
    }

    /// The number of what comes next.
    pub fn next(&self) -> u64 {
        self.lock().next
    }

    /// What has this number, or the first after it that is kept; and the number after it.
    pub fn entry(&self, number: u64) -> Option<(Arc<News>, u64)> {
        let entries = self.lock();
        let first = entries.next - entries.kept.len() as u64;
        let number = number.max(first);
        let news = entries.kept.get((number - first) as usize)?.clone();
        Some((news, number + 1))
    }

    /// The cluster, as it was within the last second or so.
    pub fn overview(&self) -> Option<Overview> {
        self.lock().overview.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn add(&mut self, news: Vec<News>) {
        for news in news {
            self.kept.push_back(Arc::new(news));
            self.next += 1;
            if self.kept.len() > KEPT {
                self.kept.pop_front();
            }
        }
    }
}

/// What the last look has seen.
struct Seen {
    catalog: Arc<Catalog>,
    snapshots: u64,
    members: Option<Vec<Member>>,
}

impl Seen {
    fn of(queries: &Queries) -> Self {
        let snapshots = queries.handle.stats().snapshots.taken.load(Ordering::Relaxed);
        Seen { catalog: queries.handle.catalog(), snapshots, members: None }
    }

    fn look(&mut self, queries: &Queries) -> Vec<News> {
        let mut news = Vec::new();
        let catalog = queries.handle.catalog();
        // A generation begins without a catalog, until it has read the log.
        if !Arc::ptr_eq(&catalog, &self.catalog) && catalog.version() >= self.catalog.version() {
            news.extend(deployments(&self.catalog, &catalog).into_iter().map(News::Deployment));
            news.extend(quarantines(self.catalog.quarantine(), catalog.quarantine()).into_iter().map(News::Quarantine));
            self.catalog = catalog;
        }
        let stats = &queries.handle.stats().snapshots;
        let taken = stats.taken.load(Ordering::Relaxed);
        if let (true, Some(snapshot)) = (taken != self.snapshots, stats.last()) {
            self.snapshots = taken;
            news.push(News::Snapshot(SnapshotNews { at: now().0, snapshot }));
        }
        news
    }

    /// Who has joined or left. Between two generations nobody has.
    fn members(&mut self, overview: &Overview) -> Vec<News> {
        if !overview.live || overview.single {
            return Vec::new();
        }
        let Some(before) = self.members.replace(overview.members.clone()) else { return Vec::new() };
        let is_in = |members: &[Member], one: &Member| members.iter().any(|other| other.node == one.node);
        let news = |member: &Member, change| {
            News::Member(MemberNews {
                at: now().0,
                change,
                node: format!("{:016x}", member.node.0),
                address: member.address.clone(),
                generation: overview.generation.0,
            })
        };
        let left = before.iter().filter(|one| !is_in(&overview.members, one)).map(|one| news(one, "left"));
        let joined = overview.members.iter().filter(|one| !is_in(&before, one)).map(|one| news(one, "joined"));
        left.chain(joined).collect()
    }
}

fn deployments(before: &Catalog, after: &Catalog) -> Vec<DeploymentNews> {
    let versions = |catalog: &Catalog| -> BTreeMap<String, (String, Vec<String>)> {
        let ids = |app: &styx_protocol::catalog::App| app.deployments.iter().map(|one| one.id.clone()).collect();
        catalog.apps().map(|app| (app.name.to_string(), (app.active.clone(), ids(app)))).collect()
    };
    let (before, after) = (versions(before), versions(after));
    let mut news = Vec::new();
    for (app, (active, _)) in &after {
        let known = before.get(app);
        if known.is_none_or(|(live, _)| live != active) {
            let was_there = known.is_some_and(|(_, ids)| ids.contains(active));
            let change = if was_there { "activated" } else { "deployed" };
            news.push(DeploymentNews { at: now().0, change, app: app.clone(), deployment: Some(active.clone()) });
        }
    }
    for app in before.keys().filter(|app| !after.contains_key(*app)) {
        news.push(DeploymentNews { at: now().0, change: "removed", app: app.clone(), deployment: None });
    }
    news
}

fn quarantines(before: &Quarantine, after: &Quarantine) -> Vec<QuarantineNews> {
    let news = |change, subject: QuarantinedView| QuarantineNews { at: now().0, change, subject };
    let set_aside = after.iter().filter(|one| before.get(&one.subject).is_none());
    let released = before.iter().filter(|one| after.get(&one.subject).is_none());
    set_aside
        .map(|one| news("set-aside", (&**one).into()))
        .chain(released.map(|one| news("released", (&**one).into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use styx_protocol::control::{Activation, Control};
    use styx_protocol::ids::{EngineHash, Epoch, Generation, NodeId, PlacementVersion};
    use styx_protocol::record::Chain;

    use super::*;

    fn entry(app: &str) -> News {
        News::Deployment(DeploymentNews { at: 1, change: "removed", app: app.into(), deployment: None })
    }

    fn app(news: &News) -> &str {
        match news {
            News::Deployment(news) => &news.app,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn whoever_comes_back_goes_on_where_they_were() {
        let journal = Journal::default();
        assert!(journal.entry(0).is_none());
        journal.lock().add((0..5).map(|n| entry(&format!("app{n}"))).collect());
        let (news, next) = journal.entry(3).unwrap();
        assert_eq!((app(&news), next), ("app3", 4));
        assert_eq!((journal.next(), journal.entry(5).is_none(), journal.entry(9).is_none()), (5, true, true));
        // What is forgotten is passed over.
        journal.lock().add((5..5 + KEPT).map(|n| entry(&format!("app{n}"))).collect());
        let (news, next) = journal.entry(3).unwrap();
        assert_eq!((app(&news), next), ("app5", 6));
    }

    #[test]
    fn a_version_is_deployed_then_activated_then_removed() {
        let catalogs: Vec<Catalog> = {
            let mut catalog = crate::gateway::tests::shop();
            let mut all = vec![Catalog::default(), catalog.clone()];
            let live = catalog.apps().next().unwrap().live().clone();
            let second = styx_protocol::deployment::Deployment { id: "dp_second".into(), ..(*live).clone() };
            for control in [
                Control::Deploy(second),
                Control::Activate(Activation { app: live.app.clone(), deployment: live.id.clone() }),
                Control::Remove(live.app.clone()),
            ] {
                catalog.apply(&control);
                all.push(catalog.clone());
            }
            all
        };
        let told: Vec<_> = catalogs.windows(2).flat_map(|pair| deployments(&pair[0], &pair[1])).collect();
        let changes: Vec<_> = told.iter().map(|news| (news.change, news.deployment.is_some())).collect();
        assert_eq!(changes, [("deployed", true), ("deployed", true), ("activated", true), ("removed", false)]);
        assert_eq!(told[1].deployment.as_deref(), Some("dp_second"));
    }

    #[test]
    fn members_join_and_leave_between_generations_that_serve() {
        let overview = |nodes: &[u64], live| Overview {
            single: false,
            generation: Generation(3),
            live,
            epoch: Epoch(1),
            chain: Chain::default(),
            members: nodes.iter().map(|node| Member { node: NodeId(*node), address: "a".into() }).collect(),
            placement: PlacementVersion::FIRST,
            partitions: 4,
            created: 4,
            engine: EngineHash(1),
            admin: None,
        };
        let mut seen = Seen { catalog: Arc::default(), snapshots: 0, members: None };
        let mut told = |nodes: &[u64], live| -> Vec<(&'static str, String)> {
            let news = seen.members(&overview(nodes, live));
            let of = |news: &News| match news {
                News::Member(member) => (member.change, member.node.trim_start_matches('0').to_owned()),
                other => panic!("{other:?}"),
            };
            news.iter().map(of).collect()
        };
        assert_eq!(told(&[5, 6], true), [], "who was there is no news");
        assert_eq!(told(&[], false), [], "it is between two generations");
        assert_eq!(told(&[6, 7], true), [("left", "5".into()), ("joined", "7".into())]);
    }
}
