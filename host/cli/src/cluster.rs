//! `styx cluster`: the certificates by which the processes of a cluster know each other.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use serde_json::json;
use styx_server::cluster::COORDINATOR;
use styx_transport::authority::Authority;
use styx_transport::{NodeId, NodeKind};

use crate::error::CliError;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterVerb {
    /// Make the authority of a new cluster; keep its directory away from the nodes
    Init {
        /// Its directory
        directory: PathBuf,
        /// How long it is valid
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10years")]
        valid: Duration,
    },
    /// Make the directory of one process, for its --cluster-tls
    Certificate {
        /// The authority's directory
        authority: PathBuf,
        /// The process's directory, to be made
        directory: PathBuf,
        /// What it is to be; several coordinators each have a certificate
        #[arg(long, value_enum)]
        role: Member,
        /// Id of a worker that has been in the cluster before, from the file `node` in its data directory [default: a new one]
        #[arg(long, value_name = "ID", value_parser = id)]
        node: Option<u64>,
        /// How long it is valid
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1year")]
        valid: Duration,
    },
}

/// A role in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Member {
    Coordinator,
    Worker,
    Gateway,
}

fn id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16)
        .ok()
        .filter(|id| *id != COORDINATOR.0)
        .ok_or_else(|| "must be up to 16 hexadecimal digits, and not the coordinator's".to_owned())
}

pub(crate) fn run(verb: ClusterVerb, output: &Output) -> Result<(), CliError> {
    let failed = |directory: &Path, error: std::io::Error| {
        CliError::new("IO", format!("{}: {error}", directory.display()), "nothing that was there has been changed")
    };
    match verb {
        ClusterVerb::Init { directory, valid } => {
            Authority::create(&directory, valid).map_err(|error| failed(&directory, error))?;
            let line = format!("the authority of a new cluster is in {}", directory.display());
            output.did(&line, &json!({ "directory": directory }));
            output.note("make a certificate for each process with `styx cluster certificate`");
        }
        ClusterVerb::Certificate { authority, directory, role, node, valid } => {
            let (kind, node) = match role {
                Member::Coordinator => (NodeKind::Coordinator, COORDINATOR),
                Member::Worker => (NodeKind::Worker, NodeId(node.unwrap_or_else(fresh))),
                Member::Gateway => (NodeKind::Gateway, NodeId(node.unwrap_or_else(fresh))),
            };
            let made = Authority::open(&authority).map_err(|error| failed(&authority, error))?;
            let certified = made.certify(kind, node, SystemTime::now(), valid, &directory);
            certified.map_err(|error| failed(&directory, error))?;
            let line = format!("node {:016x} is certified: --cluster-tls {}", node.0, directory.display());
            output.did(&line, &json!({ "directory": directory, "node": format!("{:016x}", node.0) }));
        }
    }
    Ok(())
}

/// An id that is not the coordinator's.
fn fresh() -> u64 {
    rand::random::<u64>() | 2
}
