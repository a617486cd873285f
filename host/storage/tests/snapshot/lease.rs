//! The lease: one holder at a time, under a generation that only grows.

use styx_storage::snapshot::{Acquired, Lease, Leases, SnapshotError, StoreLocation};

use crate::support::*;

const TERM: u64 = 1000;

fn ours(acquired: Acquired) -> Lease {
    match acquired {
        Acquired::Ours(lease) => lease,
        Acquired::Theirs(record) => panic!("{record:?} has it"),
    }
}

fn theirs(acquired: Acquired) -> String {
    match acquired {
        Acquired::Ours(lease) => panic!("we got {lease:?}"),
        Acquired::Theirs(record) => record.holder,
    }
}

fn leases(location: &StoreLocation) -> Leases {
    Leases::open(location, runtime()).unwrap()
}

#[test]
fn it_changes_hands_when_it_ran_out() {
    on_each_location(|location| {
        let (a, b) = (leases(&location), leases(&location));
        assert!(a.read().unwrap().is_none());
        let mut lease = ours(a.acquire("a", TERM, 100).unwrap());
        assert_eq!((lease.generation(), lease.holds(1099), lease.holds(1100)), (1, true, false));
        // The other's clock is another one: it counts from when it has first seen a renewal.
        assert_eq!(theirs(b.acquire("b", TERM, 900_000).unwrap()), "a");
        lease.renew(1050).unwrap();
        assert!(lease.holds(2049));
        assert_eq!(theirs(b.acquire("b", TERM, 901_250).unwrap()), "a");
        assert_eq!(theirs(leases(&location).acquire("b", TERM, 999_999).unwrap()), "a");
        // A quarter of a term more, for clocks that run unevenly.
        assert_eq!(theirs(b.acquire("b", TERM, 902_499).unwrap()), "a");
        let mut taken = ours(b.acquire("b", TERM, 902_500).unwrap());
        assert_eq!(taken.generation(), 2);
        // Whoever slept meanwhile learns of it, however much was written and deleted since.
        for now in 0..40 {
            taken.renew(902_500 + now).unwrap();
        }
        let lost = lease.renew(2551).unwrap_err();
        assert!(matches!(lost, SnapshotError::LeaseLost { ours: 1, theirs: 2, .. }), "{lost:?}");
        assert!(matches!(lease.release(), Err(SnapshotError::LeaseLost { .. })));
        for now in 0..5 {
            taken.renew(902_600 + now).unwrap();
        }
        assert_eq!(b.read().unwrap().as_ref(), Some(taken.record()));
        // The same process, started again, does not wait for itself.
        let mut again = ours(leases(&location).acquire("b", TERM, 3).unwrap());
        assert_eq!(again.generation(), 3);
        assert!(taken.renew(902_701).is_err());
        again.renew(4).unwrap();
        again.release().unwrap();
        let lease = ours(a.acquire("a", TERM, 2703).unwrap());
        assert_eq!(lease.generation(), 4);
    });
}

#[test]
fn of_many_who_want_it_one_gets_it() {
    on_each_location(|location| {
        let all: Vec<Leases> = (0..4).map(|_| leases(&location)).collect();
        for round in 0..15_u64 {
            let now = round * 10 * TERM;
            // All have seen who had it last.
            if round > 0 {
                let before = now - 9 * TERM;
                all.iter().for_each(|leases| drop(theirs(leases.acquire("nobody", TERM, before).unwrap())));
            }
            let acquire =
                |(index, leases): (usize, &Leases)| leases.acquire(&format!("{round}/{index}"), TERM, now).unwrap();
            let acquired = at_once(all.iter().enumerate(), acquire).into_iter();
            let ours = |acquired| if let Acquired::Ours(lease) = acquired { Some(lease) } else { None };
            let taken: Vec<Lease> = acquired.filter_map(ours).collect();
            assert_eq!(taken.len(), 1, "in round {round}: {taken:?}");
            assert_eq!(taken[0].generation(), round + 1);
        }
    });
}

/// The other side of the test below: takes the lease again and again and counts in a file, read and written apart,
/// so that two at a time would lose counts.
fn contend(directory: &str, name: &str, turns: u64) {
    let leases = leases(&StoreLocation::new(directory));
    let file = std::path::Path::new(directory).join("counter");
    let mut done = 0;
    while done < turns {
        // Time stands still: only giving it back lets another have it.
        let Acquired::Ours(lease) = leases.acquire(name, TERM, 1).unwrap() else {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        };
        let count: u64 = std::fs::read_to_string(&file).map_or(0, |text| text.parse().unwrap());
        std::thread::sleep(std::time::Duration::from_micros(200));
        std::fs::write(&file, (count + 1).to_string()).unwrap();
        lease.release().unwrap();
        done += 1;
    }
}

#[test]
fn processes_exclude_each_other_in_a_directory() {
    const TURNS: u64 = 25;
    if let (Ok(directory), Ok(name)) = (std::env::var("STYX_TEST_LEASE"), std::env::var("STYX_TEST_HOLDER")) {
        return contend(&directory, &name, TURNS);
    }
    let directory = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let mut children: Vec<_> = (0..3)
        .map(|index| {
            std::process::Command::new(&this)
                .args(["--exact", "lease::processes_exclude_each_other_in_a_directory"])
                .env("STYX_TEST_LEASE", directory.path())
                .env("STYX_TEST_HOLDER", format!("process {index}"))
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let count = std::fs::read_to_string(directory.path().join("counter")).unwrap();
    assert_eq!(count, (3 * TURNS).to_string());
    let leases = leases(&StoreLocation::new(directory.path().to_str().unwrap()));
    assert_eq!(leases.read().unwrap().unwrap().generation, 3 * TURNS);
}
