//! TLS of the HTTP ports. Certificate and key are read again when their files change, so that they can be renewed while
//! the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use super::Shutdown;
use crate::error::ServerError;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Files with a certificate chain and its key, as PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The certificate in use.
#[derive(Debug)]
struct Certificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// TLS as a port speaks it.
pub struct Tls {
    files: TlsFiles,
    /// When the files had changed before they were read.
    seen: [Option<SystemTime>; 2],
    certificate: Arc<Certificate>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub fn open(files: TlsFiles) -> Result<Self, ServerError> {
        let seen = files.changed();
        let certificate = Arc::new(Certificate(ArcSwap::from_pointee(files.read()?)));
        Ok(Tls { files, seen, certificate })
    }

    /// What accepts connections, with the files' certificate of the moment for each, until `shutdown`.
    pub(super) fn accept(self, shutdown: &Shutdown) -> TlsAcceptor {
        let builder = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("the provider has them");
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.certificate.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let ended = shutdown.wait_owned();
        tokio::spawn(async move {
            tokio::select! {
                () = ended => {}
                () = self.watch() => {}
            }
        });
        TlsAcceptor::from(Arc::new(config))
    }

    async fn watch(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.files.changed();
            if now == self.seen {
                continue;
            }
            self.seen = now;
            match self.files.read() {
                Ok(read) => {
                    self.certificate.0.store(Arc::new(read));
                    tracing::info!(certificate = %self.files.certificate.display(), "a new certificate is in use");
                }
                Err(error) => tracing::warn!("{error}; the certificate that was read before is kept"),
            }
        }
    }
}

impl TlsFiles {
    fn changed(&self) -> [Option<SystemTime>; 2] {
        [&self.certificate, &self.key].map(|file| std::fs::metadata(file).and_then(|found| found.modified()).ok())
    }

    fn read(&self) -> Result<CertifiedKey, ServerError> {
        let failed = |file: &Path, error: &dyn std::fmt::Display| {
            ServerError::new(
                "TLS",
                format!("{}: {error}", file.display()),
                "give a certificate chain and its key, as PEM",
            )
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| failed(&self.certificate, &error))?;
        if chain.is_empty() {
            return Err(failed(&self.certificate, &"there is no certificate"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| failed(&self.key, &error))?;
        let key = any_supported_type(&key).map_err(|error| failed(&self.key, &error))?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|error| failed(&self.key, &error))?;
        Ok(certified)
    }
}
