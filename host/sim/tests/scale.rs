//! scratch
#[test]
fn explore() {
    use styx_sim::scale::{*, measured::*};
    let costs = costs();
    for m in CLUSTERS { let o = m.played(&costs); println!("{} {} {}: tps {} / {:.0} = {:.2}  coord {} / {:.2}   worker {} / {:.2}  limit2 {:.0}", m.workers, m.transactions, m.shared, m.rate, o.rate, m.rate/o.rate, m.coordinator_cpu, o.coordinator_cpu, m.worker_cpu, o.worker_cpu, 2e6/(o.worker_cpu+o.coordinator_cpu)); }
    for design in Design::ALL { for shared in study::SHARED { for w in study::WORKERS {
        let p = study::point(study::load(w, shared), Machines::ZONE, design, &costs);
        println!("{design:?} {shared} {w} tps {:.0} epoch {:.1} parts {:.1?} driver {:.2} net {:.2} log {:.2} | p50 {:.1} p99 {:.1} epoch {:.1}", p.peak.rate, p.peak.epoch, (p.peak.parts.work,p.peak.parts.slowest,p.peak.parts.trips,p.peak.parts.coordinator), p.peak.driver, p.peak.network, p.peak.log, p.below.p50, p.below.p99, p.below.epoch);
    }}}
}
