//! The text of a token: `styx_`, an id that may be shown, and a secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use styx_protocol::deployment::Digest;
use subtle::ConstantTimeEq;

const PREFIX: &str = "styx_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// A token as its holder sends it.
pub(super) struct Bearer<'a> {
    /// Names the token.
    pub(super) id: &'a str,
    secret: &'a str,
}

impl<'a> Bearer<'a> {
    /// The parts of a token's text; none if it is no token of this kind.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        Some(Bearer { id, secret })
    }

    /// Whether this is the secret behind a digest; tells nothing by the time that it takes.
    pub(super) fn has(&self, digest: &Digest) -> bool {
        is_same(&digest_of(self.secret), digest)
    }
}

/// A new token: its text, its id and the digest of its secret.
pub(crate) fn draw() -> (String, String, Digest) {
    let id: String = rand::random::<[u8; ID_BYTES]>().iter().map(|byte| format!("{byte:02x}")).collect();
    let secret = URL_SAFE_NO_PAD.encode(rand::random::<[u8; SECRET_BYTES]>());
    let digest = digest_of(&secret);
    (format!("{PREFIX}{id}_{secret}"), id, digest)
}

/// SHA-256: of what nobody can guess, no slower hash is needed.
pub(super) fn digest_of(secret: &str) -> Digest {
    Digest(Sha256::digest(secret).into())
}

pub(super) fn is_same(one: &Digest, other: &Digest) -> bool {
    one.0.ct_eq(&other.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_secret_alone() {
        let (text, id, digest) = draw();
        let (other, ..) = draw();
        let bearer = Bearer::parse(&text).unwrap();
        assert!(bearer.id == id && bearer.has(&digest) && !text.contains(&digest.to_string()));
        let stolen = format!("styx_{id}_{}", Bearer::parse(&other).unwrap().secret);
        assert!(!Bearer::parse(&stolen).unwrap().has(&digest));
        assert!(!Bearer::parse(&text[..text.len() - 1]).unwrap().has(&digest));
        for nonsense in ["", "styx_", "styx_0a", "0a_secret", &text[1..]] {
            assert!(Bearer::parse(nonsense).is_none_or(|bearer| !bearer.has(&digest)), "{nonsense}");
        }
    }
}
