//! How a process is connected with the others of its cluster: by TLS, or plainly where nobody else can listen.

use std::net::IpAddr;

use styx_transport::{Certificates, NodeKind, Options};

use crate::cluster::COORDINATOR;
use crate::config::ServerConfig;
use crate::error::ServerError;

/// Options of the network of a node.
///
/// # Errors
/// Its certificate is of no use, or others could listen.
pub(super) fn network(config: &ServerConfig, kind: NodeKind) -> Result<Options, ServerError> {
    let listen = (kind != NodeKind::Gateway).then_some(config.cluster_addr);
    let certificates = match &config.cluster_tls {
        Some(directory) => {
            let failed = |message: String| {
                let hint = "make a directory for each process with `styx cluster certificate`";
                ServerError::new("TLS", format!("--cluster-tls {}: {message}", directory.display()), hint)
            };
            let certificates = Certificates::read(directory).map_err(failed)?;
            let node = if kind == NodeKind::Coordinator { COORDINATOR } else { certificates.node };
            certificates.check(kind, node).map_err(failed)?;
            Some(certificates)
        }
        None => {
            let listens = listen.map(|address| ("--cluster-addr", address.to_string()));
            let dials = config.coordinator.iter().map(|address| ("--coordinator", address.clone()));
            let open = listens.into_iter().chain(dials).find(|(_, address)| !is_loopback(address));
            if let Some((flag, address)) = open.filter(|_| !config.insecure_cluster) {
                let message = format!(
                    "{flag} {address} is reached over a network, without encryption, by whoever claims to be a node"
                );
                let hint = "give --cluster-tls DIR, made by `styx cluster certificate`, or --insecure-cluster";
                return Err(ServerError::usage("INSECURE", message, hint));
            }
            None
        }
    };
    Ok(Options { listen, certificates, compress: config.compress, ..Options::default() })
}

fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Flags;

    #[test]
    fn nothing_is_said_plainly_over_a_network_unless_it_is_said_aloud() {
        for (role, kind, key, address, admitted) in [
            ("coordinator", NodeKind::Coordinator, "cluster_addr", "127.0.0.1:7000", true),
            ("coordinator", NodeKind::Coordinator, "cluster_addr", "10.0.0.1:7000", false),
            ("worker", NodeKind::Worker, "coordinator", "localhost:7000", true),
            ("worker", NodeKind::Worker, "coordinator", "127.0.0.1:7000,10.0.0.1:7000", false),
            ("gateway", NodeKind::Gateway, "coordinator", "[::1]:7000", true),
            ("gateway", NodeKind::Gateway, "coordinator", "one.example:7000", false),
        ] {
            let flags = Flags::default().with("role", role).with(key, address);
            let config = |flags: Flags| ServerConfig::resolve(flags, Path::new("/nowhere")).unwrap();
            let checked = network(&config(flags.clone()), kind).map(|_| ()).map_err(|error| error.code);
            assert_eq!(checked, if admitted { Ok(()) } else { Err("INSECURE") }, "{role} {address}");
            assert!(network(&config(flags.with("insecure_cluster", "true")), kind).is_ok());
        }
    }
}
