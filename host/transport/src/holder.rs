//! Who has an address: looked up in `/proc`, so that whoever finds it taken is told by whom, at once.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// Of a process that is ending, among the flags in its `stat`.
const EXITING: u64 = 4;
/// SIGKILL among signals that wait.
const KILL: u64 = 1 << 8;
/// A socket that listens, in the tables of sockets.
const LISTENING: &str = "0A";

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    process: u32,
    name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.process)
    }
}

/// The process that has `address`, unless it cannot be seen from here or is ending, which frees the address in a moment.
pub(crate) fn holder(address: SocketAddr) -> Option<Holder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets: Vec<String> =
        tables.iter().flat_map(|table| listening(table, address)).map(|inode| format!("socket:[{inode}]")).collect();
    if sockets.is_empty() {
        return None;
    }
    let has = |process: &Path| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut open = files.filter_map(|file| fs::read_link(file.path()).ok());
        open.any(|file| sockets.iter().any(|socket| file.as_os_str() == socket.as_str()))
    };
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let stays = || Some(!is_ending(&read("stat")?, &read("status")?));
        let found = has(&entry.path()) && stays()?;
        found.then(|| Holder { process, name: read("comm").unwrap_or_default().trim().to_owned() })
    })
}

/// Numbers of the sockets in a table that keep others from listening on `address`.
fn listening(table: &str, address: SocketAddr) -> impl Iterator<Item = &str> {
    table.lines().filter_map(move |line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state, inode) = (fields.next()?, fields.nth(1)?, fields.nth(5)?);
        let (ip, port) = local.split_once(':')?;
        let is_same = || {
            let ip = parse(ip)?;
            Some(ip == address.ip() || ip.is_unspecified() || address.ip().is_unspecified())
        };
        let taken = state == LISTENING && u16::from_str_radix(port, 16).ok()? == address.port() && is_same()?;
        taken.then_some(inode)
    })
}

/// An address as the tables have it: words of this machine in hexadecimal.
fn parse(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(8 * at..8 * (at + 1))?, 16).ok()?.to_ne_bytes());
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let mut bytes = [0; 16];
    for (at, bytes) in bytes.chunks_mut(4).enumerate() {
        bytes.copy_from_slice(&word(at)?);
    }
    Some(Ipv6Addr::from(bytes).to_canonical())
}

/// Whether a process is coming to its end, by its `stat` and `status`: killed, or writing what is left of it.
fn is_ending(stat: &str, status: &str) -> bool {
    // Its name stands in parentheses, and may have any characters.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let is_dead = fields.first().is_none_or(|state| ["Z", "X", "x"].contains(state));
    let flags = fields.get(6).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or_default();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim);
    let waits = |name: &str| u64::from_str_radix(line(name), 16).is_ok_and(|signals| signals & KILL != 0);
    is_dead || flags & EXITING != 0 || waits("SigPnd:") || waits("ShdPnd:") || line("CoreDumping:") == "1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_found_by_the_address() {
        for (listens, asks) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.1"), ("[::1]:0", "::1")] {
            // Not every machine has the newer protocol.
            let Ok(held) = std::net::TcpListener::bind(listens) else { continue };
            let port = held.local_addr().unwrap().port();
            let address = SocketAddr::new(asks.parse().unwrap(), port);
            let found = holder(address).unwrap_or_else(|| panic!("{listens} is held"));
            assert_eq!(found.process, std::process::id());
            drop(held);
            assert_eq!(holder(address), None, "{listens}");
        }
    }

    #[test]
    fn sockets_are_told_apart_by_address_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:236E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0000 100 0 0 10 0
   1: 0200007F:236E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 0000 100 0 0 10 0
   2: 0100007F:236E 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 333 1 0000 100 0 0 10 0
   3: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 444 1 0000 100 0 0 10 0
";
        for (address, expect) in [
            ("127.0.0.1:9070", &["111"][..]),
            ("0.0.0.0:9070", &["111", "222"]),
            ("127.0.0.1:8080", &["444"]),
            ("127.0.0.1:9071", &[]),
        ] {
            let found: Vec<&str> = listening(table, address.parse().unwrap()).collect();
            assert_eq!(found, expect, "{address}");
        }
    }

    #[test]
    fn a_process_that_was_killed_is_not_in_the_way() {
        let stat = |state: &str, flags: u64| format!("7 (a) b) {state} 1 7 7 0 -1 {flags} 0 0");
        let status = |pending: u64, dumps: u8| {
            format!("Name:\tstyx\nSigPnd:\t{pending:016x}\nShdPnd:\t0000000000000000\nCoreDumping:\t{dumps}\n")
        };
        assert!(!is_ending(&stat("S", 0x0040_0100), &status(0x4002, 0)), "SIGTERM may be ignored");
        for (stat, status) in [
            (stat("Z", 0), status(0, 0)),
            (stat("R", 0x0040_0104), status(0, 0)),
            (stat("D", 0), status(0x100, 0)),
            (stat("D", 0), status(0, 1)),
        ] {
            assert!(is_ending(&stat, &status), "{stat} {status}");
        }
    }
}
