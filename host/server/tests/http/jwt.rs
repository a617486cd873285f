//! Tokens of an identity provider: which are taken, what they cover, and what becomes of them when its keys change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use styx_server::auth::{Access, Provider};
use styx_server::http::HttpOptions;
use tokio::net::TcpListener;

use crate::server::{Server, item, told};

const ISSUER: &str = "https://login.example";
const AUDIENCE: &str = "styx";

/// A key of a provider, with its name.
enum Signer {
    Es256(&'static str, EcdsaKeyPair),
    EdDsa(&'static str, Ed25519KeyPair),
}

impl Signer {
    fn es256(id: &'static str) -> Self {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let drawn = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Signer::Es256(id, EcdsaKeyPair::from_pkcs8(kind, drawn.as_ref(), &random).unwrap())
    }

    fn ed_dsa(id: &'static str) -> Self {
        let drawn = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Signer::EdDsa(id, Ed25519KeyPair::from_pkcs8(drawn.as_ref()).unwrap())
    }

    fn public(&self) -> &[u8] {
        match self {
            Signer::Es256(_, pair) => pair.public_key().as_ref(),
            Signer::EdDsa(_, pair) => pair.public_key().as_ref(),
        }
    }

    fn jwk(&self) -> Value {
        let (id, key) = (self.header()["kid"].clone(), self.public());
        match self {
            Signer::Es256(..) => {
                let (x, y) = (encoded(&key[1..33]), encoded(&key[33..]));
                json!({ "kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": x, "y": y })
            }
            Signer::EdDsa(..) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "alg": "EdDSA", "x": encoded(key) })
            }
        }
    }

    fn header(&self) -> Value {
        match self {
            Signer::Es256(id, _) => json!({ "alg": "ES256", "kid": id }),
            Signer::EdDsa(id, _) => json!({ "alg": "EdDSA", "kid": id }),
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Signer::Es256(_, pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Signer::EdDsa(_, pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    fn token(&self, claims: &Value) -> String {
        token(&self.header(), claims, |message| self.sign(message))
    }
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn token(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = encoded(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// The time in so many seconds.
fn at(seconds: i64) -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 + seconds
}

/// Claims that are good for an hour, with some of them replaced; without those that are null.
fn claims(replaced: Value) -> Value {
    let good = json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": at(3600), "scope": "openid styx:invoke" });
    let (Value::Object(mut claims), Value::Object(replaced)) = (good, replaced) else { unreachable!() };
    claims.extend(replaced);
    claims.retain(|_, claim| !claim.is_null());
    Value::Object(claims)
}

fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// A place on HTTP where keys are, what is there, and how often it was asked.
struct Published {
    url: String,
    keys: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Published {
    async fn new(keys: String) -> Self {
        let (keys, asked) = (Arc::new(Mutex::new(keys)), Arc::<AtomicUsize>::default());
        let answer = {
            let (keys, asked) = (keys.clone(), asked.clone());
            move || async move {
                asked.fetch_add(1, Ordering::Relaxed);
                keys.lock().unwrap().clone()
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, Router::new().route("/keys", get(answer))).into_future());
        Published { url, keys, asked }
    }
}

async fn server_for(keys: &str) -> Server {
    server_with(keys, |access| access).await
}

async fn server_with(keys: &str, change: impl FnOnce(Access) -> Access) -> Server {
    let provider = Arc::new(Provider::new(ISSUER, AUDIENCE, keys).unwrap());
    let access = Access::configured(None, Some(OPERATOR.into()), false, false).unwrap().believing(provider);
    let access = change(access);
    access.open().await.unwrap();
    let server = Server::with(HttpOptions { access, ..HttpOptions::default() }).await;
    for app in ["app", "other"] {
        let deploy = server.to_admin(Method::POST, &format!("/v1/apps/{app}/deployments"));
        let deploy = deploy.header("content-type", "application/wasm").bearer_auth(OPERATOR).body(item().bytes());
        assert_eq!(told(deploy).await.status, 201);
    }
    server
}

const OPERATOR: &str = "the-operators-own-token";

/// What a call of an app with a token comes to.
async fn call(server: &Server, app: &str, token: &str) -> (u16, String) {
    let call = server.to_ingress(Method::POST, &format!("/v1/call/{app}/item/a/store")).body("[1]");
    let told = told(call.bearer_auth(token)).await;
    assert!(!told.text().contains(token));
    (told.status, if told.status == 200 { String::new() } else { told.json()["error"]["message"].to_string() })
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_the_provider_let_in_and_those_of_nobody_else() {
    let (one, two, thief) = (Signer::es256("one"), Signer::ed_dsa("two"), Signer::es256("one"));
    let encryption = json!({ "kty": "EC", "crv": "P-256", "kid": "enc", "use": "enc", "x": "AA", "y": "AA" });
    let strange = json!({ "kty": "oct", "kid": "oct", "k": encoded("secret") });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), set(&[one.jwk(), two.jwk(), encryption, strange])).unwrap();
    let server = server_for(file.path().to_str().unwrap()).await;

    let hmac_by = |header: Value, key: &[u8]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        token(&header, &claims(json!({})), |message| hmac::sign(&key, message).as_ref().to_vec())
    };
    let good = claims(json!({}));
    let signature_of_another = {
        let (mine, other) = (one.token(&good), one.token(&claims(json!({ "sub": "bob" }))));
        let (message, _) = other.rsplit_once('.').unwrap();
        format!("{message}.{}", mine.rsplit_once('.').unwrap().1)
    };
    for (what, token, status, why) in [
        ("good", one.token(&good), 200, ""),
        ("another algorithm", two.token(&good), 200, ""),
        ("several audiences", one.token(&claims(json!({ "aud": ["a", AUDIENCE] }))), 200, ""),
        ("a clock that is a bit late", one.token(&claims(json!({ "exp": at(-10) }))), 200, ""),
        ("a clock that is a bit early", one.token(&claims(json!({ "nbf": at(10) }))), 200, ""),
        ("scopes as a list", one.token(&claims(json!({ "scope": null, "scp": ["styx:invoke"] }))), 200, ""),
        ("its app", one.token(&claims(json!({ "styx_apps": ["app"] }))), 200, ""),
        ("another app", one.token(&claims(json!({ "styx_apps": ["other"] }))), 403, "no scope"),
        ("no app", one.token(&claims(json!({ "styx_apps": [] }))), 403, "no scope"),
        ("no scope", one.token(&claims(json!({ "scope": null }))), 403, "no scope"),
        ("another scope", one.token(&claims(json!({ "scope": "styx:read invoke" }))), 403, "no scope"),
        ("apps that are no list", one.token(&claims(json!({ "styx_apps": "app" }))), 401, "cannot be read"),
        ("another issuer", one.token(&claims(json!({ "iss": "https://evil.example" }))), 401, "another issuer"),
        ("no issuer", one.token(&claims(json!({ "iss": null }))), 401, "iss"),
        ("another audience", one.token(&claims(json!({ "aud": ["shop"] }))), 401, "somebody else"),
        ("no audience", one.token(&claims(json!({ "aud": null }))), 401, "aud"),
        ("expired", one.token(&claims(json!({ "exp": at(-60) }))), 401, "expired"),
        ("no end", one.token(&claims(json!({ "exp": null }))), 401, "exp"),
        ("an end that is no number", one.token(&claims(json!({ "exp": "tomorrow" }))), 401, "read"),
        ("not yet valid", one.token(&claims(json!({ "nbf": at(60) }))), 401, "not good yet"),
        ("nobody", one.token(&claims(json!({ "sub": null }))), 401, "cannot be read"),
        ("unknown key", Signer::es256("three").token(&good), 401, "no key of the provider's"),
        ("a key of the same name", thief.token(&good), 401, "not signed by the provider"),
        ("no key named", token(&json!({ "alg": "ES256" }), &good, |it| one.sign(it)), 401, "no key of the provider's"),
        ("unsigned", token(&json!({ "alg": "none", "kid": "one" }), &good, |_| Vec::new()), 401, "not signed"),
        (
            "the public key as a secret",
            hmac_by(json!({ "alg": "HS256", "kid": "one" }), one.public()),
            401,
            "not signed",
        ),
        (
            "a shared secret",
            hmac_by(json!({ "alg": "HS256", "kid": "oct" }), b"secret"),
            401,
            "no key of the provider's",
        ),
        (
            "another claim of algorithm",
            token(&json!({ "alg": "EdDSA", "kid": "one" }), &good, |it| one.sign(it)),
            401,
            "not signed",
        ),
        ("a signature of something else", signature_of_another, 401, "not signed"),
        (
            "critical",
            token(&json!({ "alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false }), &good, |it| one.sign(it)),
            401,
            "crit",
        ),
        ("huge", one.token(&claims(json!({ "more": "x".repeat(20_000) }))), 401, "not known here"),
        ("dots", "..".into(), 401, "cannot be read"),
    ] {
        let (answered, message) = call(&server, "app", &token).await;
        assert!(answered == status && message.contains(why), "{what}: {answered} {message}");
    }
    assert_eq!(call(&server, "app", OPERATOR).await.0, 200, "other tokens are taken as before");

    // Deployments are for whoever may deploy.
    let remove = |token: String| told(server.to_admin(Method::DELETE, "/v1/apps/other").bearer_auth(token));
    assert_eq!(remove(one.token(&good)).await.status, 403);
    assert_eq!(remove(one.token(&claims(json!({ "scope": "styx:deploy" })))).await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_asked_for_once_and_old_ones_are_kept_while_nobody_answers() {
    let (old, new) = (Signer::es256("old"), Signer::ed_dsa("new"));
    let published = Published::new(set(&[old.jwk()])).await;
    let server = server_for(&published.url).await;
    let publish = |keys: String| *published.keys.lock().unwrap() = keys;
    let good = claims(json!({}));
    assert_eq!(call(&server, "app", &old.token(&good)).await.0, 200);
    assert_eq!(published.asked.load(Ordering::Relaxed), 1);

    // The provider's keys cannot be read, or are too many bytes: those that are known go on.
    publish("x".repeat(2 << 20));
    let started = Instant::now();
    for _ in 0..5 {
        assert_eq!(call(&server, "app", &new.token(&good)).await.0, 401);
        assert_eq!(call(&server, "app", &old.token(&good)).await.0, 200);
    }
    let most = 2 + started.elapsed().as_secs() as usize / 10;
    assert!(
        (2..=most).contains(&published.asked.load(Ordering::Relaxed)),
        "who makes up keys has nobody asked each time"
    );
    server.stop().await;

    // It has another key.
    let server = server_for(&{
        publish(set(&[old.jwk()]));
        published.url.clone()
    })
    .await;
    publish(set(&[new.jwk()]));
    assert_eq!(call(&server, "app", &new.token(&good)).await.0, 200);
    assert_eq!(call(&server, "app", &old.token(&good)).await.0, 401, "it was withdrawn");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_makes_tokens_up_is_not_listened_to_for_long() {
    let (one, thief) = (Signer::es256("one"), Signer::es256("one"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), set(&[one.jwk()])).unwrap();
    let limited = |access: Access| access.limited(5.try_into().unwrap());
    let server = server_with(file.path().to_str().unwrap(), limited).await;
    let good = claims(json!({}));
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let mut answered = Vec::new();
    while answered.last() != Some(&429) && answered.len() < 1000 {
        answered.push(call(&server, "app", &thief.token(&good)).await.0);
    }
    assert!(answered.len() > 1 && answered[..answered.len() - 1].iter().all(|status| *status == 401), "{answered:?}");
    assert_eq!(
        call(&server, "app", &one.token(&good)).await.0,
        429,
        "no signature from there is looked at for a moment"
    );
    assert_eq!(call(&server, "app", OPERATOR).await.0, 200, "other tokens cost nothing");
    let elsewhere = reqwest::Client::builder().local_address(std::net::IpAddr::from([127, 0, 0, 2])).build().unwrap();
    let url = format!("http://{}/v1/call/app/item/a/store", server.ingress);
    assert_eq!(told(elsewhere.post(url).bearer_auth(one.token(&good)).body("[1]")).await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_cannot_be_read_at_the_start_are_refused_in_one_line() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let empty = Published::new(set(&[json!({ "kty": "oct", "k": "AA" })])).await;
    for (keys, why) in [
        ("/nowhere/keys.json".to_owned(), "No such file"),
        (format!("http://{closed}/keys"), "refused"),
        (empty.url.replace("/keys", "/elsewhere"), "404"),
        (empty.url, "no key for RS256, ES256 or EdDSA"),
        (Published::new("{}".into()).await.url, "keys"),
    ] {
        let error = Arc::new(Provider::new(ISSUER, AUDIENCE, &keys).unwrap()).open().await.unwrap_err();
        assert!(error.code == "JWT_KEYS" && error.message.contains(why), "{error}");
        assert!(!error.to_string().contains('\n') && error.message.contains(&keys), "{error}");
    }
    for keys in ["http://login.example/keys", "http://10.0.0.1/keys"] {
        assert_eq!(Provider::new(ISSUER, AUDIENCE, keys).unwrap_err().code, "CONFIG_INVALID", "{keys}");
    }
}
