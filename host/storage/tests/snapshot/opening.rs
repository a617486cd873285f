//! What is wrong with a place is said when it is opened, on one line, before anything is written.

use styx_storage::snapshot::{Memory, SnapshotError, SnapshotStore, StoreLocation};

use crate::support::{CLUSTER, at_once, on_each_location, open, runtime, s3};

/// The error's text, which says each of `words` on one line.
fn refused(location: &StoreLocation, words: &[&str]) {
    let started = std::time::Instant::now();
    let error = SnapshotStore::open(location, CLUSTER, runtime()).expect_err("that cannot be opened");
    let text = error.to_string();
    assert!(matches!(error, SnapshotError::Unusable { .. }), "{error:?}");
    assert!(!text.contains('\n'), "one line: {text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(started.elapsed().as_secs() < 30, "a wrong setting shows soon, not after {:?}", started.elapsed());
}

#[test]
fn what_is_no_place() {
    refused(&StoreLocation::new("ftp://host/directory"), &["ftp:", "file:///", "s3://"]);
    refused(&StoreLocation::new("file://data/snapshots"), &["three slashes"]);
    refused(&StoreLocation::new("s3:///prefix"), &[if cfg!(feature = "s3") { "bucket" } else { "has no S3" }]);
}

#[test]
fn directories_that_cannot_be() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    refused(&StoreLocation::new(file.to_str().unwrap()), &["not a directory"]);
    refused(&StoreLocation::new(file.join("below").to_str().unwrap()), &["create the directory"]);
    // Where even the superuser creates nothing.
    refused(&StoreLocation::new("file:///proc/styx/snapshots"), &["create the directory"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not a directory");
}

#[test]
fn buckets_that_cannot_be() {
    let Some(server) = s3::Server::start() else { return };
    let good = server.location("a");
    open(&good);
    refused(
        &good.clone().with("AWS_SECRET_ACCESS_KEY", "wrong"),
        &["refuses the credentials", "AWS_SECRET_ACCESS_KEY"],
    );
    refused(&good.clone().with("AWS_ACCESS_KEY_ID", "nobody"), &["refuses the credentials", "AWS_ACCESS_KEY_ID"]);
    let mut elsewhere = StoreLocation::new("s3://nosuchbucket/a");
    for (name, value) in [("AWS_ACCESS_KEY_ID", "styx"), ("AWS_SECRET_ACCESS_KEY", "styx-secret")] {
        elsewhere = elsewhere.with(name, value);
    }
    let elsewhere = elsewhere.with("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", server.port));
    refused(&elsewhere, &["no bucket nosuchbucket", "create it"]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut anonymous = StoreLocation::new("s3://styx/a");
    for name in ["AWS_ENDPOINT_URL", "AWS_METADATA_ENDPOINT"] {
        anonymous = anonymous.with(name, format!("http://127.0.0.1:{nobody}"));
    }
    refused(&anonymous, &["no credentials", "AWS_ACCESS_KEY_ID"]);
    let silent = good.with("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{nobody}"));
    refused(&silent, &["nobody answers", "AWS_ENDPOINT_URL"]);
}

#[test]
fn another_clusters_place() {
    on_each_location(|location| {
        open(&location);
        open(&location);
        let error = SnapshotStore::open(&location, 0xBAD, runtime()).unwrap_err();
        assert!(matches!(error, SnapshotError::OtherCluster { ours: 0xBAD, theirs: CLUSTER, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("{CLUSTER:032x}")) && text.contains(&format!("{:032x}", 0xBAD)), "{text}");
    });
}

#[test]
fn one_of_many_gets_an_empty_place() {
    let location = StoreLocation::in_memory(&Memory::default());
    let winners = at_once(1..=8, |cluster| SnapshotStore::open(&location, cluster, runtime()).is_ok());
    assert_eq!(winners.iter().filter(|won| **won).count(), 1, "{winners:?}");
}
