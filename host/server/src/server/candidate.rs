//! A coordinator beside which another one may be: it stands by until it holds the lease, leads for as long as it
//! does, and ends when another one leads.
//!
//! Only who leads opens the log: that takes it away from whoever had it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use styx_driver::leadership::LeaseEffect;
use styx_durability::lease::Claim;
use styx_engine::Engine;
use styx_storage::snapshot::{ClusterMetadata, Leases, Presence, Standbys};
use styx_transport::NodeId;
use tokio::sync::{Mutex, oneshot};

use super::coordinator::{api, own};
use super::node::Identity;
use super::parts::{failed, not_started, open_log, store_error};
use crate::admin::{Deploys, StandbyProxy, router};
use crate::clock::now;
use crate::cluster::coordinator::{CoordinatorNode, CoordinatorNodeOptions, Leadership, LeaseRenewal, Reception};
use crate::components::ComponentStore;
use crate::config::ServerConfig;
use crate::diagnostics;
use crate::error::ServerError;
use crate::fatal::fatal_on_panic;
use crate::http::Shutdown;
use crate::nodes::{GONE, Leads, Nodes, STANDBY_EVERY};

/// What a candidate needs to lead.
pub(super) struct Candidacy {
    pub(super) config: ServerConfig,
    pub(super) identity: Identity,
    pub(super) leadership: Leadership,
    pub(super) leases: Leases,
    pub(super) cluster_metadata: ClusterMetadata,
    pub(super) components: ComponentStore,
    pub(super) options: CoordinatorNodeOptions,
    pub(super) engine: Arc<Engine>,
    pub(super) reception: Reception,
    pub(super) proxy: StandbyProxy,
    pub(super) shutdown: Shutdown,
    /// Of its admin port.
    pub(super) admin: SocketAddr,
}

pub(super) struct Candidate {
    /// Whether another one led at the start.
    pub(super) standby: bool,
    stop: Sender<()>,
    thread: JoinHandle<()>,
    leadership: Leadership,
    failed: Mutex<oneshot::Receiver<ServerError>>,
}

impl Candidate {
    /// Starts it; returns once it leads, or another one is known to.
    ///
    /// # Errors
    /// The store does not answer, or this one should lead and cannot.
    pub(super) async fn start(candidacy: Candidacy) -> Result<Candidate, ServerError> {
        let (stop, stopped) = bounded(1);
        let (fail, failed_later) = oneshot::channel();
        let (say, said) = oneshot::channel();
        let leadership = candidacy.leadership.clone();
        let thread = std::thread::Builder::new().name("styx-candidate".into());
        let thread = thread.spawn(move || {
            fatal_on_panic("candidate", move || {
                let mut first = Some(say);
                if let Err(error) = candidacy.run(&stopped, &mut first) {
                    // Whoever would hear it may have ended.
                    let _ = match first {
                        Some(say) => say.send(Err(error)).is_ok(),
                        None => fail.send(error).is_ok(),
                    };
                }
            });
        });
        let thread = thread.map_err(failed)?;
        let standby = said.await.map_err(failed)??;
        Ok(Candidate { standby, stop, thread, leadership, failed: Mutex::new(failed_later) })
    }

    /// Waits until it can do nothing more, and says why.
    pub(super) async fn ended(&self) -> ServerError {
        let mut failed = self.failed.lock().await;
        tokio::select! {
            biased;
            Ok(error) = &mut *failed => error,
            who = self.leadership.lost() => ServerError::new(
                "LEASE_LOST",
                format!("{} leads the cluster now: this coordinator was paused, or could not reach the store", person(&who)),
                "start it again: it then stands by",
            ),
        }
    }

    /// Brings what is under way to its end, stops, and has another one lead at once.
    pub(super) fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join(); // A panic in it has ended the process.
    }
}

type First = Option<oneshot::Sender<Result<bool, ServerError>>>;

impl Candidacy {
    fn run(self, stopped: &Receiver<()>, first: &mut First) -> Result<(), ServerError> {
        let mut leads = Leads { since_us: 0, only: false, from: None };
        let Some(renewal) = self.stand_by(stopped, first, &mut leads.from)? else { return Ok(()) };
        leads.since_us = now().0;
        let Candidacy {
            config,
            identity,
            leadership,
            leases,
            cluster_metadata,
            components,
            options,
            engine,
            reception,
            proxy,
            shutdown,
            admin,
        } = self;
        let led = open_log(&config, Some(&cluster_metadata)).and_then(|log| {
            let led = CoordinatorNode::lead(reception, options, log, engine.clone(), components.clone());
            led.map_err(|error| not_started(&error, config.cluster_addr))
        });
        let node = match led {
            Ok(node) => node,
            Err(error) => {
                renewal.release();
                return Err(error);
            }
        };
        let api = api(&config, &node, Deploys { engine, components }, &shutdown, admin, leads);
        proxy.lead(router(api));
        tracing::info!("leads now");
        say(first, false);
        let mut standbys = leases.standbys();
        // Until the other end is dropped.
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(STANDBY_EVERY) {
            look(&mut standbys, identity.node, &node.handle().stats().nodes);
        }
        if leadership.is_lost() {
            // Nothing may be done in its name, and so nothing need be waited for: the process ends.
            std::mem::forget(node);
        } else {
            node.stop();
            renewal.release();
        }
        drop(identity);
        Ok(())
    }

    /// Until it holds the lease, or is told to stop.
    /// `before`: who leads meanwhile.
    fn stand_by(
        &self,
        stopped: &Receiver<()>,
        first: &mut First,
        before: &mut Option<String>,
    ) -> Result<Option<LeaseRenewal>, ServerError> {
        let Candidacy { config, leadership, .. } = self;
        let admin = self.options.admin.as_deref().unwrap_or_default();
        let holder = format!("{}@{admin}#{}", self.options.name, self.identity.name());
        let own = own(config, self.admin);
        let (mut presence, mut due) = (None::<Presence>, Instant::now());
        let mut claim = Claim::new(self.leases.clone(), holder, config.lease_term, leadership.now());
        loop {
            for effect in claim.step(&|| leadership.now()).map_err(|error| store_error(&error))? {
                match effect {
                    LeaseEffect::Lead(until) => {
                        // What it has said is deleted when it looks for others.
                        return LeaseRenewal::start(leadership.clone(), claim, until).map(Some).map_err(failed);
                    }
                    LeaseEffect::StandBy(holder) => {
                        let who = person(&holder);
                        tracing::info!("standing by; {who} leads");
                        if !who.is_empty() {
                            *before = Some(who.clone());
                        }
                        self.proxy.point_to(who);
                        presence.get_or_insert_with(|| self.leases.presence(self.identity.node.0));
                        say(first, true);
                    }
                    LeaseEffect::Diagnostic(diagnostic) => diagnostics::show(&diagnostic),
                    other => unreachable!("{other:?} of one that stands by"),
                }
            }
            if let Some(presence) = presence.as_mut().filter(|_| due <= Instant::now()) {
                presence.say(serde_json::to_vec(&own.report()).expect("a report can be written as JSON"));
                due = Instant::now() + STANDBY_EVERY;
            }
            let pause = claim.due().map_or(Duration::ZERO, |due| due.since(leadership.now()));
            match stopped.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => {
                    // Whoever leads finds out by itself, later.
                    let _ = presence.map(Presence::end);
                    return Ok(None);
                }
            }
        }
    }
}

/// Looks for those who stand by. While the store does not answer, whoever leads has other worries.
fn look(standbys: &mut Standbys, own: NodeId, nodes: &Nodes) {
    const LOOKS: u32 = (GONE.as_secs() / STANDBY_EVERY.as_secs()) as u32;
    let Ok(look) = standbys.look(own.0, LOOKS) else { return };
    for present in look.present {
        nodes.heard(NodeId(present.node), present.report);
    }
    look.ended.into_iter().for_each(|node| nodes.left(NodeId(node)));
}

fn say(first: &mut First, standby: bool) {
    if let Some(first) = first.take() {
        let _ = first.send(Ok(standby));
    }
}

/// The holder of a lease, for people.
fn person(holder: &str) -> String {
    let named = holder.rsplit_once('#').map_or(holder, |(named, _)| named);
    match named.rsplit_once('@') {
        Some((name, admin)) => format!("{name} at http://{admin}"),
        None => named.to_owned(),
    }
}
