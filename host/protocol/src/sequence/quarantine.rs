//! Quarantine: requests, transactions and apps that are not executed, because they ended their process. Sequenced in the log
//! beside what is deployed, so that every worker refuses the same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::abort::{Abort, Code};
use crate::ids::{RequestId, Tid, Timestamp};

/// What is not executed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Subject {
    /// A request, however often it is asked again.
    Request(RequestId),
    /// A transaction that the log carries from epoch to epoch.
    Transaction(Tid),
    /// All calls of an app, by its name.
    App(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Request(id) => write!(f, "request {id}"),
            Subject::Transaction(tid) => write!(f, "transaction {tid}"),
            Subject::App(app) => write!(f, "app \"{app}\""),
        }
    }
}

/// A subject, and why it is not executed.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Quarantined {
    pub subject: Subject,
    /// Its app, if it is known.
    pub app: Option<String>,
    /// The function that the request calls, if it is known.
    pub function: Option<String>,
    /// One line for people.
    pub reason: String,
    pub since: Timestamp,
}

impl Quarantined {
    /// Longest reason kept, in bytes.
    pub const REASON_MAX: usize = 512;

    fn refusal(&self) -> Abort {
        let message = format!("{} is set aside and is not executed: {}", self.subject, self.reason);
        Abort::new(Code::Quarantined, message)
    }
}

/// All subjects that are not executed.
#[derive(Clone, Debug, Default)]
pub struct Quarantine(BTreeMap<Subject, Arc<Quarantined>>);

impl Quarantine {
    /// Subjects that there can be; each is told to every gateway.
    pub const MAX: usize = 1024;

    pub(super) fn restored(all: &[Arc<Quarantined>]) -> Self {
        Quarantine(all.iter().map(|one| (one.subject.clone(), one.clone())).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of their subjects.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Quarantined>> {
        self.0.values()
    }

    pub fn get(&self, subject: &Subject) -> Option<&Arc<Quarantined>> {
        self.0.get(subject)
    }

    pub(super) fn add(&mut self, quarantined: &Quarantined) {
        self.0.insert(quarantined.subject.clone(), Arc::new(quarantined.clone()));
    }

    pub(super) fn release(&mut self, subject: &Subject) {
        self.0.remove(subject);
    }

    /// An app is removed, and whatever is of it.
    pub(super) fn forget(&mut self, app: &str) {
        self.0.retain(|_, quarantined| quarantined.app.as_deref() != Some(app));
    }

    /// Why a request of an app is not executed, if it is not. `tid` is there once it is sequenced.
    #[inline]
    pub fn refusal(&self, id: RequestId, tid: Option<Tid>, app: &str) -> Option<Abort> {
        if self.0.is_empty() { None } else { self.find(id, tid, app) }
    }

    #[cold]
    fn find(&self, id: RequestId, tid: Option<Tid>, app: &str) -> Option<Abort> {
        let own = self.of_request(id, tid).or_else(|| self.get(&Subject::App(app.to_owned())))?;
        Some(own.refusal())
    }

    /// Why an app is not called by another one, if it is not.
    pub fn refusal_of_app(&self, app: &str) -> Option<Abort> {
        if self.0.is_empty() {
            return None;
        }
        self.get(&Subject::App(app.to_owned())).map(|own| own.refusal())
    }

    /// What says that this very request is not executed.
    pub fn of_request(&self, id: RequestId, tid: Option<Tid>) -> Option<&Arc<Quarantined>> {
        let by_tid = || self.get(&Subject::Transaction(tid?));
        self.get(&Subject::Request(id)).or_else(by_tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::control::{Activation, Control};
    use crate::deployment::{Component, Deployment, Digest, Limits};

    fn quarantined(subject: Subject, app: &str) -> Quarantined {
        let (app, function) = (Some(app.to_owned()), Some("pay".to_owned()));
        Quarantined { subject, app, function, reason: "it ended the process".into(), since: Timestamp(5) }
    }

    fn deployment(id: &str, app: &str) -> Control {
        let component = Component { name: "c".into(), digest: Digest([1; 32]), size: 1, sdk: String::new() };
        Control::Deploy(Deployment {
            id: id.into(),
            app: app.into(),
            created: Timestamp(1),
            components: vec![component],
            operators: vec![],
            limits: Limits::default(),
            interface: Default::default(),
        })
    }

    fn refuses(catalog: &Catalog, id: u128, tid: Option<u64>, app: &str) -> bool {
        let refusal = catalog.quarantine().refusal(RequestId(id), tid.map(Tid), app);
        assert!(refusal.as_ref().is_none_or(|abort| abort.code == Code::Quarantined));
        refusal.is_some()
    }

    #[test]
    fn what_is_quarantined_is_refused_kept_by_snapshots_and_released() {
        let mut catalog = Catalog::default();
        catalog.apply(&deployment("d1", "shop"));
        let subjects = [Subject::Request(RequestId(7)), Subject::Transaction(Tid(9)), Subject::App("shop".into())];
        for subject in &subjects {
            let add = Control::Quarantine(quarantined(subject.clone(), "shop"));
            assert_eq!(catalog.check(&Control::Release(subject.clone())).unwrap_err().code, Code::BadArguments);
            assert!(!refuses(&catalog, 7, Some(9), "shop"));
            catalog.apply(&add);
            let (version, hash) = (catalog.version(), catalog.hash());
            catalog.apply(&add);
            assert_eq!((catalog.version(), catalog.hash()), (version, hash), "what is refused changes nothing");
            let restored = Catalog::restored(&catalog.image());
            assert_eq!(restored.image(), catalog.image());
            for catalog in [&catalog, &restored] {
                assert!(refuses(catalog, 7, Some(9), "shop"));
                assert_eq!(refuses(catalog, 7, None, "shop"), !matches!(subject, Subject::Transaction(_)));
                assert_eq!(refuses(catalog, 8, Some(8), "shop"), matches!(subject, Subject::App(_)));
                assert!(!refuses(catalog, 8, Some(8), "bank"));
            }
            catalog.apply(&Control::Release(subject.clone()));
            assert!(!refuses(&catalog, 7, Some(9), "shop") && catalog.hash() != hash);
        }
    }

    #[test]
    fn an_app_is_released_by_what_makes_another_version_live_and_its_requests_are_not() {
        let app = || Control::Quarantine(quarantined(Subject::App("shop".into()), "shop"));
        let request = Control::Quarantine(quarantined(Subject::Request(RequestId(7)), "shop"));
        let mut catalog = Catalog::default();
        assert_eq!(catalog.check(&app()).unwrap_err().code, Code::UnknownApp);
        catalog.apply(&deployment("d1", "shop"));
        catalog.apply(&deployment("b1", "bank"));
        let activation = Activation { app: "shop".into(), deployment: "d1".into() };
        for release in [deployment("d2", "shop"), Control::Activate(activation)] {
            catalog.apply(&app());
            catalog.apply(&request);
            catalog.apply(&deployment("b2", "bank"));
            assert!(refuses(&catalog, 8, None, "shop"));
            catalog.apply(&release);
            assert!(!refuses(&catalog, 8, None, "shop") && refuses(&catalog, 7, None, "shop"));
        }
        catalog.apply(&Control::Remove("shop".into()));
        assert!(catalog.quarantine().is_empty());
    }

    #[test]
    fn there_is_a_bound_on_what_is_quarantined() {
        let mut catalog = Catalog::default();
        let add = |number: usize| Control::Quarantine(quarantined(Subject::Request(RequestId(number as u128)), "shop"));
        for number in 0..Quarantine::MAX {
            catalog.apply(&add(number));
        }
        assert_eq!(catalog.check(&add(Quarantine::MAX)).unwrap_err().code, Code::LimitExceeded);
        catalog.apply(&Control::Release(Subject::Request(RequestId(0))));
        assert_eq!(catalog.check(&add(Quarantine::MAX)), Ok(()));
    }
}
