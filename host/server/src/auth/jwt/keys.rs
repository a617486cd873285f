//! Public keys of an identity provider (a JSON Web Key Set), from a file or a URL.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Client, Url};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::error::ServerError;
use crate::http::outgoing;

/// How long a provider may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
const BYTES_MAX: usize = 1 << 20;
/// How often it is asked for keys that are not known: anybody can make such tokens.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// A key that signatures are checked by.
#[derive(Clone, Debug)]
pub(super) struct Key {
    id: Option<String>,
    public: Public,
}

/// A key's kind decides what it is good for: what a token says of its algorithm is not believed.
#[derive(Clone, Debug)]
enum Public {
    Rs256 { n: Vec<u8>, e: Vec<u8> },
    Es256(Vec<u8>),
    EdDsa(Vec<u8>),
}

/// A JSON Web Key (RFC 7517), as far as it is one of these.
#[derive(Deserialize)]
struct Jwk {
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    #[serde(flatten)]
    public: Encoded,
}

#[derive(Deserialize)]
#[serde(tag = "kty")]
enum Encoded {
    #[serde(rename = "RSA")]
    Rsa { n: String, e: String },
    #[serde(rename = "EC")]
    Curve { crv: String, x: String, y: String },
    #[serde(rename = "OKP")]
    Pair { crv: String, x: String },
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

#[derive(Debug)]
pub(super) struct Keys {
    place: Place,
    known: ArcSwap<Vec<Key>>,
    /// When somebody last asked for a key that was not known.
    asked: Mutex<Option<Instant>>,
}

#[derive(Debug)]
enum Place {
    File(PathBuf),
    Url(Url, Client),
}

impl fmt::Display for Keys {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File(file) => file.display().fmt(to),
            Place::Url(url, _) => url.fmt(to),
        }
    }
}

impl Keys {
    /// Keys that are at a place; none is known yet.
    ///
    /// # Errors
    /// It is a URL that is not asked: whoever changes the answer on its way comes in.
    pub(super) fn at(place: &str) -> Result<Self, ServerError> {
        let invalid = |why: &str, hint| ServerError::usage("CONFIG_INVALID", format!("jwt_keys {place}: {why}"), hint);
        let place = match Url::parse(place) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {
                if url.scheme() == "http" && !is_here(&url) {
                    return Err(invalid(
                        "anybody on the way could change the keys",
                        "give a URL with https, or a file",
                    ));
                }
                let client =
                    outgoing(&url, PATIENCE).map_err(|error| invalid(&error.to_string(), "give the keys as a file"))?;
                Place::Url(url, client)
            }
            _ => Place::File(place.into()),
        };
        Ok(Keys { place, known: ArcSwap::default(), asked: Mutex::default() })
    }

    /// The key that a token names; where there is one only, a token need not.
    pub(super) fn find(&self, id: Option<&str>) -> Option<Key> {
        let known = self.known.load();
        match (id, known.as_slice()) {
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
            (Some(_), keys) => keys.iter().find(|key| key.id.as_deref() == id).cloned(),
        }
    }

    /// Reads the keys again for one that is not known, unless that was done a moment ago.
    pub(super) async fn look_for(&self, id: Option<&str>) {
        let mut asked = self.asked.lock().await;
        if self.find(id).is_none() && asked.is_none_or(|when| when.elapsed() >= ASK_EVERY) {
            self.read_again().await;
            *asked = Some(Instant::now());
        }
    }

    /// Reads the keys again; while they cannot be read, those of before are kept.
    pub(super) async fn read_again(&self) {
        if let Err(why) = self.read().await {
            tracing::warn!("the keys at {self} cannot be read: {why}; those that were read before are kept");
        }
    }

    pub(super) async fn read(&self) -> Result<(), String> {
        let bytes = self.bytes().await.map_err(|error| format!("{error:#}"))?;
        let set: Set = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::usable).collect();
        if keys.is_empty() {
            return Err("there is no key for RS256, ES256 or EdDSA".into());
        }
        self.known.store(Arc::new(keys));
        Ok(())
    }

    async fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        let (url, client) = match &self.place {
            Place::File(file) => return Ok(tokio::fs::read(file).await?),
            Place::Url(url, client) => (url, client),
        };
        let mut answer = client.get(url.clone()).send().await?.error_for_status()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            bytes.extend_from_slice(&chunk);
            anyhow::ensure!(bytes.len() <= BYTES_MAX, "the answer has more than {BYTES_MAX} bytes");
        }
        Ok(bytes)
    }
}

impl Key {
    /// A key of a set; none if it is for something else.
    fn usable(jwk: Value) -> Option<Key> {
        let jwk = Jwk::deserialize(jwk).ok()?;
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let public = match jwk.public {
            Encoded::Rsa { n, e } => Public::Rs256 { n: bytes(&n)?, e: bytes(&e)? },
            // A point, not compressed.
            Encoded::Curve { crv, x, y } if crv == "P-256" => Public::Es256([vec![4], bytes(&x)?, bytes(&y)?].concat()),
            Encoded::Pair { crv, x } if crv == "Ed25519" => Public::EdDsa(bytes(&x)?),
            _ => return None,
        };
        let key = Key { id: jwk.kid, public };
        let signs = jwk.r#use.is_none_or(|of| of == "sig") && jwk.alg.is_none_or(|of| of == key.algorithm());
        signs.then_some(key)
    }

    /// The name of its algorithm in tokens.
    pub(super) fn algorithm(&self) -> &'static str {
        match self.public {
            Public::Rs256 { .. } => "RS256",
            Public::Es256(_) => "ES256",
            Public::EdDsa(_) => "EdDSA",
        }
    }

    pub(super) fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.public {
            Public::Rs256 { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Public::Es256(key) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature),
            Public::EdDsa(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

/// Whether a URL is of this machine.
fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rfcs_rsa_signature_is_good_and_no_other_is() {
        let modulus = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        let message = b"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
        let key = Key::usable(json!({ "kty": "RSA", "n": modulus, "e": "AQAB" })).unwrap();
        let mut signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert!(key.algorithm() == "RS256" && key.signed(message, &signature));
        signature[100] ^= 1;
        assert!(!key.signed(message, &signature));
        for other in [json!({ "use": "enc" }), json!({ "alg": "RS512" }), json!({ "kty": "oct" }), json!({ "n": "?" })]
        {
            let mut jwk = json!({ "kty": "RSA", "n": modulus, "e": "AQAB" });
            jwk.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
            assert!(Key::usable(jwk).is_none(), "{other}");
        }
    }
}
