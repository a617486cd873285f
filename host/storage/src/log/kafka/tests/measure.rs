//! How fast it is: `cargo test --release -p styx-storage -- --ignored --nocapture kafka::tests::measure`.

use super::*;

#[test]
#[ignore = "a measurement"]
fn measure() {
    let Some(broker) = broker::shared() else { return };
    let percentile = |times: &mut Vec<Duration>, percent: usize| {
        times.sort();
        times[times.len() * percent / 100].as_secs_f64() * 1e3
    };
    for flush in [true, false] {
        let mut options = options(broker);
        if !flush {
            // Without a sync of the broker's disk for every message, as with three replicas.
            let topic = Topic { settings: Vec::new(), ..log_topic(&options) };
            let settings = vec![("max.message.bytes", "80000000".to_owned())];
            Topic { settings, ..topic }.ensure(&options.client(), options.open_wait).unwrap();
        }
        options.record_bytes_max = 32 << 20;
        let mut log = KafkaLog::open(options.clone()).unwrap();
        let mut times = (0..200)
            .map(|_| {
                let started = Instant::now();
                log.append(&[1; 1000]).unwrap();
                log.sync().unwrap();
                started.elapsed()
            })
            .collect();
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        println!("broker syncs: {flush}; append and sync of 1 kB, one at a time: p50 {p50:.2} ms, p99 {p99:.2} ms");
        let record = (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>();
        for batch in [1, 8] {
            let started = Instant::now();
            for _ in 0..800 / batch {
                for _ in 0..batch {
                    log.append(&record).unwrap();
                }
                log.sync().unwrap();
            }
            let rate = 160.0 / started.elapsed().as_secs_f64();
            println!("broker syncs: {flush}; records of 200 kB, {batch} for a sync: {rate:.0} MB/s");
        }
        let started = Instant::now();
        let mut bytes = 0;
        log.replay(0, &mut |_, record| {
            bytes += record.len();
            Ok(())
        })
        .unwrap();
        println!("replay: {:.0} MB/s", bytes as f64 / 1e6 / started.elapsed().as_secs_f64());
        drop(log);
        let started = Instant::now();
        let log = KafkaLog::open(options).unwrap();
        println!("opening with {} records, 320 MB: {:?}", log.next(), started.elapsed());
    }
    let mut times = (0..10)
        .map(|_| {
            let started = Instant::now();
            drop(KafkaLog::open(options(broker)).unwrap());
            started.elapsed()
        })
        .collect();
    println!("opening a new topic and closing it: p50 {:.0} ms", percentile(&mut times, 50));
}
