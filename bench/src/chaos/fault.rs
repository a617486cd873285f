//! Faults: what is done to the processes, drawn from the seed, every kind before any comes again.

use std::collections::VecDeque;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};

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
    /// Partitions are to migrate, and a moment later something else happens.
    AmidMigration(Value, Duration, Amid),
}

#[derive(Clone, Debug)]
enum Amid {
    Nothing,
    Kill(Vec<Role>),
    Stop(Role),
    Cancel,
}

/// So long that the other one takes over.
const LONGER: &str = "coordinator killed for longer";

/// Kinds of faults in an order that the seed says.
pub(super) struct Deck {
    random: StdRng,
    /// Partitions migrate, too.
    migrations: bool,
    kinds: VecDeque<&'static str>,
}

impl Deck {
    pub(super) fn new(random: StdRng, migrations: bool) -> Deck {
        Deck { random, migrations, kinds: VecDeque::new() }
    }

    /// What a migration may be asked for.
    fn migration(&mut self, workers: usize) -> Value {
        let worker = self.random.random_range(1..=workers);
        let mode = ["stop-and-restart", "online", "immediate", "immediate"][self.random.random_range(0..4)];
        match self.random.random_range(0..4) {
            // As many as there are is refused; fewer in place as well, if some have moved meanwhile.
            3 => {
                let partitions = 1024 * self.random.random_range(1..=4);
                json!({ "partitions": partitions, "wait": false, "mode": mode })
            }
            0 => json!({ "empty": worker, "wait": false, "mode": mode }),
            1 => json!({ "balance": true, "by": "partitions", "wait": false, "mode": mode }),
            _ => {
                let mode = ["online", "immediate"][self.random.random_range(0..2)];
                let one = |_| json!({ "partition": self.random.random_range(0..1024), "worker": worker });
                // A few kilobytes a second: most that happens finds it under way.
                json!({ "moves": (0..200).map(one).collect::<Vec<_>>(), "wait": false, "rate": 1 << 20, "mode": mode })
            }
        }
    }

    /// The next one, for these processes.
    pub(super) fn draw(&mut self, cluster: &Cluster) -> Fault {
        use Role::{Broker, Coordinator, Gateway, Standby, Store};
        let has = |role| cluster.roles().any(|known| known == role);
        let (broker, store, standby) = (has(Broker), has(Store), has(Standby));
        let worker = Role::Worker(self.random.random_range(0..cluster.workers()));
        let mut time = |most: u64| Duration::from_millis(self.random.random_range(0..=most));
        let (soon, moment, pause) = (time(60), time(1800), Duration::from_millis(200) + time(4800));
        let (longer, away) = (Duration::from_secs(4) + time(4000), time(1500));
        let kill = |roles: &[Role]| Act::Kill(roles.to_vec());
        let migrates = self.migrations && cluster.workers() > 1;
        let (migration, own) = (self.migration(cluster.workers()), cluster.own());
        let amid = |amid| Act::AmidMigration(migration.clone(), soon * 4, amid);
        // Its kind, whether these processes can have it, and what is done.
        let all = [
            ("worker killed", true, kill(&[worker])),
            ("coordinator killed", true, kill(&[Coordinator])),
            ("gateway killed", true, kill(&[Gateway])),
            ("all killed", true, kill(&cluster.own())),
            ("gateway paused", true, Act::Pause(Gateway, pause)),
            ("worker paused", true, Act::Pause(worker, pause)),
            ("worker stopped", true, Act::Stop(worker)),
            ("coordinator paused", true, Act::Pause(Coordinator, pause)),
            ("worker killed amid a snapshot", true, Act::AmidSnapshot(worker, soon)),
            ("coordinator killed amid a snapshot", true, Act::AmidSnapshot(Coordinator, soon)),
            ("coordinator killed amid a recovery", true, Act::Interrupt(worker, moment, Coordinator)),
            ("worker killed amid a recovery", true, Act::Interrupt(Coordinator, moment, worker)),
            ("migration", migrates, amid(Amid::Nothing)),
            ("migration cancelled", migrates, amid(Amid::Cancel)),
            ("worker killed amid a migration", migrates, amid(Amid::Kill(vec![worker]))),
            ("worker stopped amid a migration", migrates, amid(Amid::Stop(worker))),
            ("coordinator killed amid a migration", migrates, amid(Amid::Kill(vec![Coordinator]))),
            ("all killed amid a migration", migrates, amid(Amid::Kill(own))),
            ("broker killed", broker, kill(&[Broker])),
            ("store killed", store, kill(&[Store])),
            ("worker killed while the broker is away", broker, Act::Without(Broker, worker)),
            ("worker killed while the store is away", store, Act::Without(Store, worker)),
            ("all and servers killed", broker || store, Act::Kill(cluster.roles().collect())),
            (LONGER, standby, kill(&[Coordinator])),
            ("coordinator paused for longer", standby, Act::Pause(Coordinator, longer)),
            ("coordinator stopped", standby, Act::Stop(Coordinator)),
            ("standby killed", standby, kill(&[Standby])),
            ("standby paused", standby, Act::Pause(Standby, pause)),
            ("both coordinators killed", standby, kill(&[Coordinator, Standby])),
        ];
        if self.kinds.is_empty() {
            let mut kinds: Vec<&str> = all.iter().filter(|(_, can, _)| *can).map(|(kind, ..)| *kind).collect();
            kinds.shuffle(&mut self.random);
            self.kinds = kinds.into();
        }
        let next = self.kinds.pop_front().expect("just filled");
        let (kind, _, act) = all.into_iter().find(|(kind, ..)| *kind == next).expect("it is of these");
        Fault { kind, act, away: if kind == LONGER { longer } else { away } }
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
            Act::AmidMigration(request, moment, amid) => {
                cluster.begin_migration(Some(request.clone()));
                tokio::time::sleep(*moment).await;
                let what = match amid {
                    Amid::Nothing => "nothing else".to_owned(),
                    Amid::Cancel => {
                        cluster.begin_migration(None);
                        "cancelled".to_owned()
                    }
                    Amid::Kill(roles) => {
                        cluster.kill(roles).await?;
                        tokio::time::sleep(away).await;
                        cluster.start_again(roles).await?;
                        format!("{} killed", roles.len())
                    }
                    Amid::Stop(role) => {
                        cluster.process_mut(*role).stop().await?;
                        tokio::time::sleep(away).await;
                        cluster.start_again(&[*role]).await?;
                        format!("{} stopped", cluster.process(*role).name())
                    }
                };
                Ok(format!("migration, and {} later {what}", ms(*moment)))
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
