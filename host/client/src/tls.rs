//! Whom a client believes, and what it shows.

use std::sync::Arc;

use reqwest::header::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::Error;

/// A token, and the authorities whose certificates are believed.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) token: Option<String>,
    pub(crate) tls: Arc<ClientConfig>,
}

/// Without secrets.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Credentials").field("token", &self.token.as_ref().map(|_| "…")).finish_non_exhaustive()
    }
}

/// Whether an address is asked over TLS.
pub(crate) fn is_https(url: &str) -> bool {
    url.starts_with("https://")
}

/// The header that shows a token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let bad = |_| Error::new("BAD_TOKEN", "the token has characters that no token has");
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(bad)?;
    value.set_sensitive(true);
    Ok(value)
}

/// What TLS needs to know: `ca` as PEM, or the system's authorities if it is absent; none if nothing is asked over TLS.
pub(crate) fn config(ca: Option<&[u8]>, is_used: bool) -> Result<ClientConfig, Error> {
    let bad = |error: &dyn std::fmt::Display| Error::new("BAD_CA", error.to_string()).hint("give certificates as PEM");
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| bad(&error))?;
    let builder = match ca {
        None if is_used => builder.with_platform_verifier().map_err(|error| bad(&error))?,
        ca => {
            let mut roots = RootCertStore::empty();
            for certificate in ca.into_iter().flat_map(CertificateDer::pem_slice_iter) {
                roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
            }
            if ca.is_some() && roots.is_empty() {
                return Err(bad(&"there is no certificate"));
            }
            builder.with_root_certificates(roots)
        }
    };
    Ok(builder.with_no_client_auth())
}
