//! TLS between nodes: who has no certificate, or not the one for what it says it is, is refused, and both sides say why.

use std::path::Path;
use std::time::{Duration, SystemTime};

use styx_transport::authority::Authority;
use styx_transport::{Certificates, Incoming, NodeId, NodeKind, Options, Reason};

use crate::support::{Node, eventually, hello, options, pair};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The authority of a cluster, in a directory of its own.
struct Cluster {
    directory: tempfile::TempDir,
    authority: Authority,
}

impl Cluster {
    fn new() -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::create(&directory.path().join("ca"), DAY).unwrap();
        Cluster { directory, authority }
    }

    fn certificates(&self, kind: NodeKind, node: u64, from: SystemTime) -> Certificates {
        let directory = self.directory.path().join(format!("{kind:?}-{node}"));
        self.authority.certify(kind, NodeId(node), from, DAY, &directory).unwrap();
        Certificates::read(&directory).unwrap()
    }

    /// A worker as its own certificate has it.
    async fn worker(&self, node: u64) -> Node {
        with(node, self.certificates(NodeKind::Worker, node, SystemTime::now())).await
    }
}

/// A worker with any certificate.
async fn with(node: u64, certificates: Certificates) -> Node {
    Node::with(hello(node), Options { certificates: Some(certificates), ..options() }).await
}

/// Dials in vain: what the dialing side says, while the other one counts `reason`.
async fn refused(dialer: &Node, other: &Node, reason: Reason) -> String {
    dialer.dial(other);
    let why = dialer
        .until("refusal", |incoming| match incoming {
            Incoming::Unreached { why, .. } => Some(why),
            Incoming::Refused { message, .. } => Some(message),
            Incoming::Connected { .. } => panic!("connected"),
            _ => None,
        })
        .await;
    eventually("counted", || other.network.counters().refused(reason) > 0).await;
    assert!(other.inbox.try_iter().all(|incoming| !matches!(incoming, Incoming::Connected { .. })));
    assert!(!why.contains('\n'), "{why}");
    why
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_one_authority_exchange_messages() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.worker(1).await, cluster.worker(2).await);
    pair(&a, &b).await;
    // More than TLS and the system keep between them, and then little, which nothing pushes.
    let large = vec![7; 900 << 10];
    for _ in 0..40 {
        a.network.send(b.id, large.clone()).unwrap();
    }
    a.network.send(b.id, "end").unwrap();
    for _ in 0..40 {
        assert!(b.message().await == large);
    }
    assert_eq!(b.message().await, "end");
    b.network.send(a.id, "and back").unwrap();
    assert_eq!(a.message().await, "and back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_another_authority_and_old_ones_are_refused() {
    let (cluster, foreign) = (Cluster::new(), Cluster::new());
    let b = cluster.worker(2).await;
    let why = refused(&foreign.worker(1).await, &b, Reason::BadCertificate).await;
    assert!(why.contains("TLS handshake failed: invalid peer certificate: UnknownIssuer"), "{why}");

    let before = SystemTime::now() - 3 * DAY;
    let expired = with(1, cluster.certificates(NodeKind::Worker, 1, before)).await;
    let why = refused(&expired, &b, Reason::BadCertificate).await;
    assert!(why.contains("received fatal alert: CertificateExpired"), "{why}");
    // And the other way round.
    let expired = with(3, cluster.certificates(NodeKind::Worker, 3, before)).await;
    let why = refused(&cluster.worker(4).await, &expired, Reason::BadCertificate).await;
    assert!(why.contains("invalid peer certificate: certificate expired"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_cannot_be_taken_over() {
    let cluster = Cluster::new();
    let now = SystemTime::now();
    let b = cluster.worker(2).await;
    let thief = with(1, cluster.certificates(NodeKind::Worker, 3, now)).await;
    let why = refused(&thief, &b, Reason::OtherCertificate).await;
    assert!(why.contains("it is not for worker-0000000000000001.styx"), "{why}");
    // Nor by who is dialed.
    let dialer = cluster.worker(4).await;
    dialer.network.connect(NodeId(1), thief.address());
    let why = dialer
        .until("refusal", |incoming| match incoming {
            Incoming::Unreached { why, .. } => Some(why),
            _ => None,
        })
        .await;
    assert!(why.contains("not valid for name"), "{why}");
    // Nor by who is another kind of node.
    let gateway = with(5, cluster.certificates(NodeKind::Gateway, 5, now)).await;
    let why = refused(&gateway, &b, Reason::OtherCertificate).await;
    assert!(why.contains("worker-0000000000000005.styx"), "{why}");
    let own = cluster.certificates(NodeKind::Gateway, 6, now);
    assert!(own.check(NodeKind::Gateway, NodeId(6)).is_ok());
    assert!(own.check(NodeKind::Worker, NodeId(6)).is_err() && own.check(NodeKind::Gateway, NodeId(7)).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_goes_back_to_plain_connections() {
    let cluster = Cluster::new();
    let (plain, b) = (Node::start(1).await, cluster.worker(2).await);
    let why = refused(&plain, &b, Reason::NotEncrypted).await;
    assert!(why.contains("--cluster-tls"), "{why}");
    let why = refused(&cluster.worker(3).await, &plain, Reason::BadMagic).await;
    assert!(why.contains("TLS handshake failed"), "{why}");
}

#[test]
fn what_is_there_is_not_overwritten_and_keys_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let cluster = Cluster::new();
    let ca = cluster.directory.path().join("ca");
    assert!(Authority::create(&ca, DAY).is_err());
    let again = Authority::open(&ca).unwrap();
    let node = cluster.directory.path().join("node");
    let certify = || again.certify(NodeKind::Worker, NodeId(6), SystemTime::now(), DAY, &node);
    certify().unwrap();
    assert!(certify().is_err());
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&ca.join("ca.key")), mode(&node.join("node.key"))), (0o600, 0o600));
    std::fs::write(node.join("node.pem"), "nonsense").unwrap();
    assert!(Certificates::read(&node).unwrap_err().contains("node.pem"));
    let forever = again.certify(NodeKind::Worker, NodeId(6), SystemTime::now(), Duration::MAX, &ca.join("other"));
    assert!(forever.is_err());
}
