//! TLS between nodes: both sides show a certificate of their cluster's authority, which names the node that it is for.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::reason::{Reason, Refusal};
use super::{NodeId, NodeKind};

/// First byte of a connection that begins with TLS.
pub(super) const FIRST_BYTE: u8 = 22;

/// What is encrypted before the system is asked to take it: by itself TLS hands on 64 KiB at a time.
pub(super) const WRITE_BYTES: Option<usize> = Some(512 << 10);

/// By itself TLS asks the system for one record at a time, 16 KiB.
const READ_BYTES: usize = 128 << 10;

/// A stream that is read for TLS in large pieces.
pub(super) fn read_ahead(stream: TcpStream) -> BufReader<TcpStream> {
    BufReader::with_capacity(READ_BYTES, stream)
}

/// A node's certificate, and the authority that it believes.
#[derive(Clone)]
pub struct Certificates {
    /// The node that the certificate is for.
    pub node: NodeId,
    own: CertificateDer<'static>,
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Certificates").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Names of the files in a node's directory: the authority's certificate, the node's own, its key, its id.
pub const FILES: [&str; 4] = ["ca.pem", "node.pem", "node.key", "node"];

/// Name that a certificate has for a node of any kind: whoever dials knows no more.
pub fn node_name(node: NodeId) -> String {
    format!("node-{:016x}.styx", node.0)
}

/// Name that a certificate has for a node of one kind.
pub fn kind_name(kind: NodeKind, node: NodeId) -> String {
    let kind = match kind {
        NodeKind::Coordinator => "coordinator",
        NodeKind::Worker => "worker",
        NodeKind::Gateway => "gateway",
    };
    format!("{kind}-{:016x}.styx", node.0)
}

impl Certificates {
    /// Reads a node's directory.
    ///
    /// # Errors
    /// A file is missing or unusable; the message, one line, names it.
    pub fn read(directory: &Path) -> Result<Self, String> {
        let [ca, certificate, key, id] = FILES.map(|name| directory.join(name));
        let of = |file: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let own = CertificateDer::from_pem_file(&certificate).map_err(|error| of(&certificate, &error))?;
        let key_der = PrivateKeyDer::from_pem_file(&key).map_err(|error| of(&key, &error))?;
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(&ca).map_err(|error| of(&ca, &error))?;
        roots.add(authority).map_err(|error| of(&ca, &error))?;
        let node = std::fs::read_to_string(&id).map_err(|error| of(&id, &error))?;
        let node = u64::from_str_radix(node.trim(), 16).map_err(|error| of(&id, &error))?;

        // The first of them is what two nodes of one release agree on.
        let cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
        let (roots, provider) = (Arc::new(roots), Arc::new(CryptoProvider { cipher_suites, ..default_provider() }));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let verifier = verifier.map_err(|error| of(&ca, &error))?;
        let newest: &[_] = &[&rustls::version::TLS13];
        let server = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(newest);
        let server = server.expect("the provider has it").with_client_cert_verifier(verifier);
        let server = server.with_single_cert(vec![own.clone()], key_der.clone_key());
        let server = server.map_err(|error| of(&certificate, &error))?;
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(newest);
        let client = client.expect("the provider has it").with_root_certificates(roots);
        let client = client.with_client_auth_cert(vec![own.clone()], key_der);
        let client = client.map_err(|error| of(&certificate, &error))?;
        let (acceptor, connector) = (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)));
        Ok(Certificates { node: NodeId(node), own, acceptor, connector })
    }

    /// Checks that the node itself is what its certificate says.
    ///
    /// # Errors
    /// The certificate is for another node, or another kind of node.
    pub fn check(&self, kind: NodeKind, node: NodeId) -> Result<(), String> {
        certified(&self.own, kind, node).map_err(|refusal| refusal.message)
    }
}

/// The name under which a node is dialed.
pub(super) fn server_name(node: NodeId) -> ServerName<'static> {
    node_name(node).try_into().expect("it is a name")
}

/// Checks that a certificate, which the authority has signed, is for the node that has greeted.
pub(super) fn certified(certificate: &CertificateDer<'_>, kind: NodeKind, node: NodeId) -> Result<(), Refusal> {
    let name = kind_name(kind, node);
    let valid = ParsedCertificate::try_from(certificate)
        .and_then(|parsed| verify_server_name(&parsed, &name.clone().try_into().expect("it is a name")));
    valid.map_err(|_| {
        let message = format!("certificate: it is not for {name}; every node needs a certificate of its own");
        Refusal::new(Reason::OtherCertificate, message)
    })
}
