//! Requests to other systems: an identity provider, a collector of traces.

use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rustls_platform_verifier::BuilderVerifierExt;

/// A client that asks nobody but the place it is given; the system's authorities say who that is.
pub fn outgoing(url: &Url, patience: Duration) -> anyhow::Result<Client> {
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    let tls = if url.scheme() == "https" {
        builder.with_platform_verifier()?
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty())
    };
    let client = Client::builder().tls_backend_preconfigured(tls.with_no_client_auth());
    Ok(client.timeout(patience).redirect(Policy::none()).no_proxy().build()?)
}
