//! Listening on an address that may have had an owner a moment ago.
//!
//! A process that was killed holds its addresses until the operating system has taken it apart, which
//! for gigabytes of memory lasts a moment. Whoever starts the next one at once must not be told that
//! the address is taken.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

/// Time for which an address that is in use is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Listens on `address`; if it is in use, for up to two seconds until it is not.
///
/// # Errors
/// It still is, or it cannot be listened on for another reason.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let until = Instant::now() + RETRY_TIMEOUT;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => sleep(PAUSE).await,
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_is_awaited_for_a_moment_and_only_if_it_is_in_use() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        let started = Instant::now();
        assert_eq!(listen(address).await.unwrap_err().kind(), ErrorKind::AddrInUse);
        let waited = started.elapsed();
        assert!(waited >= RETRY_TIMEOUT && waited < 3 * RETRY_TIMEOUT, "{waited:?}");

        let freed = tokio::spawn(async move {
            sleep(RETRY_TIMEOUT / 4).await;
            drop(held);
        });
        assert_eq!(listen(address).await.unwrap().local_addr().unwrap(), address);
        freed.await.unwrap();

        // No machine has an address of the block that is for documentation.
        let started = Instant::now();
        assert_eq!(listen("192.0.2.1:0".parse().unwrap()).await.unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        assert!(started.elapsed() < RETRY_TIMEOUT / 2, "{:?}", started.elapsed());
    }
}
