//! Faults: what is done to the processes, drawn from the seed, every kind before any comes again.

use std::collections::VecDeque;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use styx_harness::{Cluster, Role};

#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Its kind, by which it is counted.
    pub(super) kind: &'static str,
    act: Act,
    /// How long what was killed stays away.
    away: Duration,
}

#[derive(Clone, Debug)]
enum Act {
    /// SIGKILL, all of them at once.
    Kill(Vec<Role>),
    /// SIGKILL to a server and to a process of Styx, which comes back first.
    Without(Role, Role),
    /// SIGKILL to one, and while others recover, to another.
    Interrupt(Role, Duration, Role),
    /// A snapshot is wanted, and then there is SIGKILL.
    AmidSnapshot(Role, Duration),
    Pause(Role, Duration),
    Stop(Role),
}

/// Kinds of faults in an order that the seed says.
pub(super) struct Deck {
    random: StdRng,
    kinds: VecDeque<&'static str>,
}

/// In order: those that need a broker, a server of snapshots or a second coordinator come last.
const KINDS: [&str; 23] = [
    "worker killed",
    "coordinator killed",
    "gateway killed",
    "all killed",
    "gateway paused",
    "worker paused",
    "worker stopped",
    "coordinator paused",
    "worker killed amid a snapshot",
    "coordinator killed amid a snapshot",
    "coordinator killed amid a recovery",
    "worker killed amid a recovery",
    "broker killed",
    "store killed",
    "worker killed while the broker is away",
    "worker killed while the store is away",
    "all and servers killed",
    "coordinator killed for longer",
    "coordinator paused for longer",
    "coordinator stopped",
    "standby killed",
    "standby paused",
    "both coordinators killed",
];

impl Deck {
    pub(super) fn new(random: StdRng) -> Deck {
        Deck { random, kinds: VecDeque::new() }
    }

    /// The next one, for these processes.
    pub(super) fn draw(&mut self, cluster: &Cluster) -> Fault {
        let has = |role| cluster.roles().any(|known| known == role);
        let (broker, store, standby) = (has(Role::Broker), has(Role::Store), has(Role::Standby));
        if self.kinds.is_empty() {
            let possible = |kind: &&str| match *kind {
                "broker killed" | "worker killed while the broker is away" => broker,
                "store killed" | "worker killed while the store is away" => store,
                "all and servers killed" => broker || store,
                "coordinator killed for longer" | "coordinator paused for longer" | "coordinator stopped" => standby,
                "standby killed" | "standby paused" | "both coordinators killed" => standby,
                _ => true,
            };
            let mut kinds: Vec<&str> = KINDS.into_iter().filter(possible).collect();
            kinds.shuffle(&mut self.random);
            self.kinds = kinds.into();
        }
        let kind = self.kinds.pop_front().expect("just filled");
        let worker = Role::Worker(self.random.random_range(0..cluster.workers()));
        let mut time = |most: u64| Duration::from_millis(self.random.random_range(0..=most));
        let (soon, moment, pause) = (time(60), time(1800), Duration::from_millis(200) + time(4800));
        let longer = Duration::from_secs(4) + time(4000);
        let act = match kind {
            "worker killed" => Act::Kill(vec![worker]),
            "coordinator killed" => Act::Kill(vec![Role::Coordinator]),
            "gateway killed" => Act::Kill(vec![Role::Gateway]),
            "all killed" => Act::Kill(cluster.own()),
            "gateway paused" => Act::Pause(Role::Gateway, pause),
            "worker stopped" => Act::Stop(worker),
            "worker paused" => Act::Pause(worker, pause),
            "coordinator paused" => Act::Pause(Role::Coordinator, pause),
            "worker killed amid a snapshot" => Act::AmidSnapshot(worker, soon),
            "coordinator killed amid a snapshot" => Act::AmidSnapshot(Role::Coordinator, soon),
            "coordinator killed amid a recovery" => Act::Interrupt(worker, moment, Role::Coordinator),
            "worker killed amid a recovery" => Act::Interrupt(Role::Coordinator, moment, worker),
            "broker killed" => Act::Kill(vec![Role::Broker]),
            "store killed" => Act::Kill(vec![Role::Store]),
            "worker killed while the broker is away" => Act::Without(Role::Broker, worker),
            "worker killed while the store is away" => Act::Without(Role::Store, worker),
            "all and servers killed" => Act::Kill(cluster.roles().collect()),
            "coordinator killed for longer" => Act::Kill(vec![Role::Coordinator]),
            "coordinator paused for longer" => Act::Pause(Role::Coordinator, longer),
            "coordinator stopped" => Act::Stop(Role::Coordinator),
            "standby killed" => Act::Kill(vec![Role::Standby]),
            "standby paused" => Act::Pause(Role::Standby, pause),
            "both coordinators killed" => Act::Kill(vec![Role::Coordinator, Role::Standby]),
            other => unreachable!("{other} is among the kinds"),
        };
        let away = if kind == "coordinator killed for longer" { longer } else { time(1500) };
        Fault { kind, act, away }
    }

    /// How long it is quiet before.
    pub(super) fn quiet(&mut self) -> Duration {
        Duration::from_millis(self.random.random_range(200..800))
    }
}

impl Fault {
    /// Does it, and starts what was killed again. Returns what was done, for people.
    pub(super) async fn inflict(&self, cluster: &mut Cluster) -> anyhow::Result<String> {
        let away = self.away;
        // Who was replaced since the last time is there again.
        cluster.check().await?;
        match &self.act {
            Act::Kill(roles) => {
                cluster.kill(roles).await?;
                tokio::time::sleep(away).await;
                cluster.start_again(roles).await?;
                Ok(match roles[..] {
                    [role] => format!("{} killed, back after {}", cluster.process(role).name(), ms(away)),
                    _ => format!("{} processes killed at once, back after {}", roles.len(), ms(away)),
                })
            }
            Act::Without(server, role) => {
                cluster.kill(&[*server, *role]).await?;
                cluster.start_again(&[*role]).await?;
                tokio::time::sleep(away * 2).await;
                cluster.start_again(&[*server]).await?;
                let (server, role) =
                    (cluster.process(*server).name().to_owned(), cluster.process(*role).name().to_owned());
                Ok(format!("{role} killed, {server} away for {}", ms(away * 2)))
            }
            Act::Interrupt(first, moment, second) => {
                cluster.kill(&[*first]).await?;
                // Who recovers needs the first one back, or the others.
                let early = matches!(first, Role::Coordinator);
                if early {
                    cluster.start_again(&[*first]).await?;
                }
                tokio::time::sleep(*moment).await;
                cluster.kill(&[*second]).await?;
                tokio::time::sleep(away).await;
                cluster.start_again(if early { std::slice::from_ref(second) } else { &[] }).await?;
                if !early {
                    cluster.start_again(&[*second, *first]).await?;
                }
                let (first, second) =
                    (cluster.process(*first).name().to_owned(), cluster.process(*second).name().to_owned());
                Ok(format!("{first} killed, and {} later {second}", ms(*moment)))
            }
            Act::AmidSnapshot(role, moment) => {
                cluster.begin_snapshot();
                tokio::time::sleep(*moment).await;
                cluster.kill(&[*role]).await?;
                tokio::time::sleep(away).await;
                cluster.start_again(&[*role]).await?;
                Ok(format!("{} killed {} into a snapshot", cluster.process(*role).name(), ms(*moment)))
            }
            Act::Pause(role, time) => {
                cluster.process(*role).pause()?;
                tokio::time::sleep(*time).await;
                cluster.process(*role).resume()?;
                Ok(format!("{} paused for {}", cluster.process(*role).name(), ms(*time)))
            }
            Act::Stop(role) => {
                cluster.process_mut(*role).stop().await?;
                tokio::time::sleep(away).await;
                cluster.start_again(&[*role]).await?;
                Ok(format!("{} stopped, back after {}", cluster.process(*role).name(), ms(away)))
            }
        }
    }
}

pub(super) fn ms(time: Duration) -> String {
    match time.as_millis() {
        short @ ..1000 => format!("{short} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
