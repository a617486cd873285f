//! Worlds that are known: what happens in them, to the last message, is what it was. Whoever changes what a driver, a
//! machine or the storage does sees that it shows, and in which worlds; a change that is to change nothing shows nothing.

use styx_dst::run::{simulate, world_seed};
use styx_dst::world::World;
use styx_transcript::{Digest, did, scenario};

const SEED: u64 = 26;
const WORLDS: u64 = 60;

#[test]
fn worlds_are_as_they_were() {
    let _transcript = scenario!("worlds");
    for at in 0..WORLDS {
        let mut world = World::new(world_seed(SEED, at), true);
        let report = simulate(&mut world).expect("nothing breaks");
        let figures = world.figures();
        let mut digest = Digest::default();
        digest.take(&report.trace);
        world.moments().iter().for_each(|moment| digest.take(&(moment.time, &moment.text)));
        did(&format_args!(
            "world {at} of seed {SEED}: {} workers, {} transactions, {} generations, {} snapshots: {digest}",
            world.plan().cluster.workers,
            figures.transactions,
            figures.generations,
            figures.snapshots
        ));
    }
}
