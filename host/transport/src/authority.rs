//! The authority of a cluster: makes the certificates by which its nodes know each other.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use xxhash_rust::xxh3::xxh3_64;

use super::tls::{FILES, kind_name, node_name};
use super::{NodeId, NodeKind};

const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";

/// Clocks of machines differ by less.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// See the module. Its directory is to be kept where no node runs.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new one, and its directory.
    ///
    /// # Errors
    /// There is one already, or the directory cannot be written.
    pub fn create(directory: &Path, valid: Duration) -> io::Result<Authority> {
        fs::create_dir_all(directory)?;
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut own = params(&key);
        between(&mut own, SystemTime::now(), valid)?;
        let certificate = own.self_signed(&key).map_err(io::Error::other)?.pem();
        write(&directory.join(KEY), &key.serialize_pem(), 0o600)?;
        write(&directory.join(CERTIFICATE), &certificate, 0o644)?;
        Ok(Authority { certificate, issuer: Issuer::new(params(&key), key) })
    }

    pub fn open(directory: &Path) -> io::Result<Authority> {
        let certificate = fs::read_to_string(directory.join(CERTIFICATE))?;
        let key = KeyPair::from_pem(&fs::read_to_string(directory.join(KEY))?).map_err(io::Error::other)?;
        Ok(Authority { certificate, issuer: Issuer::new(params(&key), key) })
    }

    /// Makes a node's directory: its certificate, valid from `from` on for some time, its key and its id.
    ///
    /// # Errors
    /// There is one already, or it cannot be written.
    pub fn certify(
        &self,
        kind: NodeKind,
        node: NodeId,
        from: SystemTime,
        valid: Duration,
        directory: &Path,
    ) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut own = CertificateParams::new([node_name(node), kind_name(kind, node)]).map_err(io::Error::other)?;
        own.distinguished_name.push(DnType::CommonName, kind_name(kind, node));
        own.use_authority_key_identifier_extension = true;
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        between(&mut own, from, valid)?;
        let certificate = own.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        let id = format!("{:016x}\n", node.0);
        let contents =
            [(&self.certificate, 0o644), (&certificate.pem(), 0o644), (&key.serialize_pem(), 0o600), (&id, 0o644)];
        for (name, (content, mode)) in FILES.into_iter().zip(contents) {
            write(&directory.join(name), content, mode)?;
        }
        Ok(())
    }
}

/// What follows from an authority's key: each has a name of its own.
fn params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let name = format!("Styx cluster {:016x}", xxh3_64(key.public_key_raw()));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn between(params: &mut CertificateParams, from: SystemTime, valid: Duration) -> io::Result<()> {
    let beyond = || io::Error::other("it would be valid for longer than there are dates");
    // Dates of certificates end with the year 9999.
    let until = from.checked_add(valid).filter(|_| valid < Duration::from_secs(1000 * 365 * 24 * 60 * 60));
    params.not_before = from.checked_sub(SKEW).ok_or_else(beyond)?.into();
    params.not_after = until.ok_or_else(beyond)?.into();
    Ok(())
}

/// Writes a new file; one that is there is kept.
fn write(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(content.as_bytes()))
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
