//! Listening on an address that may have had an owner a moment ago.
//!
//! A process that was killed holds its addresses until the operating system has taken it apart, which
//! for gigabytes of memory lasts a moment. Whoever starts the next one at once must not be told that
//! the address is taken. Whoever meets a process that lives is told so without that wait.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::holder::{Holder, holder};

/// Time for which an address that is in use is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);
/// The same if a process has it that is not ending. It may have been told to, just now.
const HELD_TIMEOUT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Listens on `address`; if it is in use, for up to two seconds until it is not, unless a process that lives has it.
///
/// # Errors
/// It still is, or it cannot be listened on for another reason.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listen_unless(address, || holder(address)).await
}

async fn listen_unless(address: SocketAddr, held: impl Fn() -> Option<Holder>) -> io::Result<TcpListener> {
    let started = Instant::now();
    let mut alive_since = None;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let holder = held();
                if let Some(holder) = &holder
                    && alive_since.get_or_insert_with(Instant::now).elapsed() >= HELD_TIMEOUT
                {
                    return Err(io::Error::new(ErrorKind::AddrInUse, format!("{holder} listens there")));
                }
                if holder.is_none() {
                    alive_since = None;
                    if started.elapsed() >= RETRY_TIMEOUT {
                        let message =
                            "a process listens there that is not seen from here: another user's or container's";
                        return Err(io::Error::new(ErrorKind::AddrInUse, message));
                    }
                }
                sleep(PAUSE).await;
            }
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
        let unseen = || None;
        assert_eq!(listen_unless(address, unseen).await.unwrap_err().kind(), ErrorKind::AddrInUse);
        let waited = started.elapsed();
        assert!(waited >= RETRY_TIMEOUT && waited < 3 * RETRY_TIMEOUT, "{waited:?}");

        let freed = tokio::spawn(async move {
            sleep(RETRY_TIMEOUT / 4).await;
            drop(held);
        });
        assert_eq!(listen_unless(address, unseen).await.unwrap().local_addr().unwrap(), address);
        freed.await.unwrap();

        // No machine has an address of the block that is for documentation.
        let started = Instant::now();
        assert_eq!(listen("192.0.2.1:0".parse().unwrap()).await.unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        assert!(started.elapsed() < RETRY_TIMEOUT / 2, "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn who_lives_and_has_the_address_is_named_at_once() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        let started = Instant::now();
        let refused = listen(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        assert!(refused.to_string().contains(&format!("(process {})", std::process::id())), "{refused}");
        assert!(started.elapsed() < RETRY_TIMEOUT, "{:?}", started.elapsed());

        // One that was told to end lets it go.
        let freed = tokio::spawn(async move {
            sleep(HELD_TIMEOUT / 4).await;
            drop(held);
        });
        assert_eq!(listen(address).await.unwrap().local_addr().unwrap(), address);
        freed.await.unwrap();
    }
}
