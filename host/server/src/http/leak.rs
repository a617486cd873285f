//! Leaks on purpose, so that it is seen that a soak finds them: where assertions are compiled in, and `STYX_TEST_LEAK`
//! names one. A product has none of it.

use std::os::fd::AsFd;
use std::sync::LazyLock;

use tokio::net::TcpStream;

#[expect(clippy::disallowed_methods, reason = "no setting: it is not there in a product")]
static PLANTED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("STYX_TEST_LEAK").ok());

fn is_planted(leak: &str) -> bool {
    PLANTED.as_deref() == Some(leak)
}

/// `descriptors`: each connection leaves one behind.
pub(super) fn connection(stream: &TcpStream) {
    if is_planted("descriptors") {
        std::mem::forget(stream.as_fd().try_clone_to_owned());
    }
}

/// `memory`: each request leaves some behind.
pub(super) fn request() {
    if is_planted("memory") {
        std::mem::forget(vec![1u8; 16 << 10]);
    }
}
