//! Brokers that are killed and come back.

use super::*;

/// Appends and syncs in a thread until told to stop; returns what was acknowledged.
fn load(
    mut log: KafkaLog,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> std::thread::JoinHandle<(KafkaLog, Vec<Vec<u8>>)> {
    std::thread::spawn(move || {
        let mut acknowledged = Vec::new();
        let mut n = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            let some = (0..1 + n % 7).map(|extra| [n.to_be_bytes().to_vec(), vec![extra as u8; 20_000]].concat());
            let some = some.collect::<Vec<_>>();
            for record in &some {
                log.append(record).unwrap();
            }
            log.sync().unwrap();
            acknowledged.extend(some);
            n += 1;
        }
        (log, acknowledged)
    })
}

#[test]
fn a_broker_killed_under_load_is_waited_for_and_loses_nothing() {
    if !broker::available() {
        return;
    }
    let mut broker = Broker::start();
    let options = KafkaOptions { stalled_after: Duration::from_millis(500), ..options(&broker) };
    let log = KafkaLog::open(options.clone()).unwrap();
    let stall = log.stall();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = load(log, stop.clone());
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(1000));
        assert!(!stall.is_stalled());
        broker.kill();
        let started = Instant::now();
        while !stall.is_stalled() {
            assert!(started.elapsed() < Duration::from_secs(10), "a log whose broker is away says so");
            std::thread::sleep(Duration::from_millis(20));
        }
        broker.restart();
        broker.wait();
        let started = Instant::now();
        while stall.is_stalled() {
            assert!(started.elapsed() < Duration::from_secs(60), "and goes on when it is back");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    stop.store(true, Ordering::Relaxed);
    let (mut log, acknowledged) = writer.join().unwrap();
    assert!(acknowledged.len() > 20);
    assert_eq!(records(&mut log), acknowledged);
    let half = acknowledged.len() as u64 / 2;
    log.trim(half).unwrap();
    drop(log);
    // Kafka may forget in a crash what it deleted; the log does not.
    broker.kill();
    broker.restart();
    broker.wait();
    let mut log = KafkaLog::open(options).unwrap();
    assert_eq!(log.first(), half);
    assert_eq!(records(&mut log), acknowledged[half as usize..]);
}

#[test]
fn a_wait_that_is_too_long_ends() {
    if !broker::available() {
        return;
    }
    let mut broker = Broker::start();
    let options = KafkaOptions { stall_wait_max: Duration::from_secs(2), ..options(&broker) };
    let mut log = KafkaLog::open(options).unwrap();
    log.append(b"kept").unwrap();
    log.sync().unwrap();
    broker.kill();
    log.append(b"in vain").unwrap();
    assert!(matches!(log.sync(), Err(LogError::Kafka(KafkaProblem::Stalled { .. }))));
    assert!(matches!(log.append(b"more"), Err(LogError::Failed)));
    assert_eq!(log.durable(), 1);
}

#[test]
#[ignore = "three brokers, half a minute: cargo test -p styx-storage -- --ignored three_brokers"]
fn three_brokers_of_which_one_is_killed() {
    if !broker::available() {
        return;
    }
    let mut brokers = Broker::start_three();
    let addresses = brokers.each_ref().map(|broker| broker.address.clone()).join(",");
    let options = KafkaOptions {
        replication: 3,
        open_wait: Duration::from_secs(60),
        ..KafkaOptions::new(addresses, "replicated", CLUSTER)
    };
    let log = KafkaLog::open(options.clone()).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = load(log, stop.clone());
    for victim in &mut brokers {
        std::thread::sleep(Duration::from_secs(2));
        victim.kill();
        std::thread::sleep(Duration::from_secs(6));
        victim.restart();
        victim.wait();
        std::thread::sleep(Duration::from_secs(3));
    }
    stop.store(true, Ordering::Relaxed);
    let (mut log, acknowledged) = writer.join().unwrap();
    assert_eq!(records(&mut log), acknowledged);
    drop(log);
    assert_eq!(reopened(&options), acknowledged);
}
