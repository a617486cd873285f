//! Free ports.

use anyhow::bail;

/// A port of loopback that nobody listens on, nor a hundred above (where brokers meet their controllers), outside of
/// what systems give to outgoing connections: it is still free when a process comes back to it.
pub fn free_port() -> anyhow::Result<u16> {
    let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..1000 {
        let port = rand::random_range(10_000..32_000u16);
        if free(port) && free(port + 100) {
            return Ok(port);
        }
    }
    bail!("there is no free port on loopback between 10000 and 32000")
}
