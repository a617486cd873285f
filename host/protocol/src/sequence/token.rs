//! API tokens: who may do what over HTTP. Sequenced in the log beside what is deployed, so that every gateway knows them and
//! every snapshot holds them; their secrets are nowhere, only digests.

use serde::{Deserialize, Serialize};

use super::deployment::Digest;
use crate::ids::Timestamp;

/// A kind of request over HTTP.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Calls of functions.
    Invoke,
    /// Looks at state, deployments and the cluster.
    Read,
    /// Changes of what is deployed.
    Deploy,
    /// Everything else that changes something, tokens included.
    Operate,
}

impl Scope {
    pub const ALL: [Scope; 4] = [Scope::Invoke, Scope::Read, Scope::Deploy, Scope::Operate];

    /// The name that people write.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Invoke => "invoke",
            Scope::Read => "read",
            Scope::Deploy => "deploy",
            Scope::Operate => "operate",
        }
    }
}

/// What somebody may do, and to which apps.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Grant {
    /// The kinds of requests.
    pub scopes: Vec<Scope>,
    /// Apps by name; `None` for all, and for what concerns no single app.
    pub apps: Option<Vec<String>>,
}

impl Grant {
    /// Everything.
    pub fn all() -> Self {
        Grant { scopes: Scope::ALL.to_vec(), apps: None }
    }

    /// Whether it covers a request that concerns an app, or no single one.
    pub fn covers(&self, scope: Scope, app: Option<&str>) -> bool {
        let covers = |apps: &Vec<String>| app.is_some_and(|app| apps.iter().any(|known| known == app));
        self.scopes.contains(&scope) && self.apps.as_ref().is_none_or(covers)
    }
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Token {
    /// The public part of its text, by which it is found and revoked.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// SHA-256 of the secret part of its text, which nobody can guess.
    pub digest: Digest,
    /// What its holder may do.
    pub grant: Grant,
    /// When it was issued.
    pub created: Timestamp,
    /// From when on it is worth nothing.
    pub expires: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abort::Code;
    use crate::catalog::Catalog;
    use crate::control::Control;

    fn token(id: &str) -> Token {
        let (name, digest, created) = ("till".to_owned(), Digest([1; 32]), Timestamp(5));
        Token { id: id.into(), name, digest, grant: Grant::all(), created, expires: Some(Timestamp(9)) }
    }

    #[test]
    fn tokens_are_issued_once_kept_by_snapshots_and_revoked_for_ever() {
        let mut catalog = Catalog::default();
        let (issue, revoke) = (Control::Issue(token("a")), Control::Revoke("a".into()));
        assert_eq!(catalog.check(&revoke).unwrap_err().code, Code::BadArguments);
        catalog.apply(&issue);
        let (version, hash) = (catalog.version(), catalog.hash());
        assert_eq!(catalog.check(&issue).unwrap_err().code, Code::BadArguments);
        catalog.apply(&issue);
        assert_eq!((catalog.version(), catalog.hash()), (version, hash), "what is refused changes nothing");

        let mut restored = Catalog::restored(&catalog.image());
        assert_eq!((restored.version(), restored.hash(), restored.image()), (version, hash, catalog.image()));
        assert_eq!(restored.token("a").map(|token| &**token), Some(&token("a")));
        restored.apply(&revoke);
        assert!(restored.token("a").is_none() && restored.tokens().next().is_none());
        assert!(restored.version() > version && restored.hash() != hash);
    }

    #[test]
    fn there_is_a_bound_on_tokens() {
        let mut catalog = Catalog::default();
        for number in 0..Catalog::TOKENS_MAX {
            catalog.apply(&Control::Issue(token(&number.to_string())));
        }
        let one_more = Control::Issue(token("more"));
        assert_eq!(catalog.check(&one_more).unwrap_err().code, Code::LimitExceeded);
        catalog.apply(&Control::Revoke("0".into()));
        assert_eq!(catalog.check(&one_more), Ok(()));
    }

    #[test]
    fn a_grant_for_some_apps_covers_nothing_that_concerns_all() {
        let one = Grant { scopes: vec![Scope::Read], apps: Some(vec!["shop".into()]) };
        assert!(one.covers(Scope::Read, Some("shop")));
        assert!(!one.covers(Scope::Read, Some("bank")) && !one.covers(Scope::Invoke, Some("shop")));
        assert!(!one.covers(Scope::Read, None));
        let two = Grant { scopes: vec![Scope::Read], apps: Some(vec!["shop".into(), "bank".into()]) };
        assert!(two.covers(Scope::Read, Some("bank")) && !two.covers(Scope::Read, Some("till")));
        assert!(
            Scope::ALL.iter().all(|scope| Grant::all().covers(*scope, None) && Grant::all().covers(*scope, Some("x")))
        );
        assert!(!Grant { scopes: Scope::ALL.to_vec(), apps: Some(vec![]) }.covers(Scope::Read, None));
    }
}
