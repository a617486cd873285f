//! What coordinators share: put once, found by all, and left alone by collections.

use styx_storage::snapshot::{ClusterMetadata, Retention};

use crate::support::*;

#[test]
fn who_comes_second_takes_what_is_there() {
    on_each_location(|location| {
        let metadata = || ClusterMetadata::open(&location, runtime()).unwrap();
        let (first, second) = (metadata(), metadata());
        let agreed = at_once([(&first, 1), (&second, 2)], |(metadata, proposal)| metadata.cluster(proposal).unwrap());
        assert!(agreed[0] == agreed[1] && (1..=2).contains(&agreed[0]), "{agreed:?}");
        assert_eq!(metadata().cluster(3).unwrap(), agreed[0]);

        assert_eq!(first.component("ab").unwrap(), None);
        first.put_component("ab", b"one").unwrap();
        second.put_component("ab", b"one").unwrap();
        let large = vec![7; 3 << 20];
        second.put_component("cd", &large).unwrap();

        // It is nobody's garbage.
        let store = open(&location);
        for epoch in 1..5 {
            store.commit(whole(&store, &sample(1, 1, 1), epoch, epoch)).unwrap();
            let retention = Retention { epochs_min: 1, age_us: 0, grace_us: 0 };
            store.collect(retention, u64::MAX / 2).unwrap();
        }
        assert_eq!(first.component("ab").unwrap().unwrap(), b"one");
        assert!(first.component("cd").unwrap().unwrap() == large);
        assert_eq!(metadata().cluster(3).unwrap(), agreed[0]);
    });
}
