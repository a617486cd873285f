//! What is deployed, and who may use it: apps, their operators and functions, and tokens, as sequenced in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rkyv::with::{Map, Unshare};
use serde::Serialize;

use crate::abort::{Abort, Code};
use crate::ids::OperatorId;
use crate::sequence::control::{Activation, Control};
use crate::sequence::deployment::{Consistency, Deployment, Digest, Isolation, Limits, OperatorSpec};
use crate::sequence::quarantine::{Quarantine, Quarantined, Subject};
use crate::sequence::system::{self, RESERVED_PREFIXES, SystemFunction, SystemOperator, is_reserved};
use crate::sequence::token::Token;

/// An operator of the live deployment, ready for use.
#[derive(Debug)]
pub struct Operator {
    /// Its id, for ever.
    pub id: OperatorId,
    pub app: Arc<str>,
    pub name: Arc<str>,
    /// Content address of the component that implements it.
    pub component: Digest,
    /// Whether keys are composite.
    pub composite: bool,
    /// Instance reuse.
    pub isolation: Isolation,
    /// Bounds of the app.
    pub limits: Limits,
    /// The version of the app that it belongs to.
    pub deployment: Arc<Deployment>,
    /// Those that the deployment declares, then the system's.
    functions: Vec<FunctionEntry>,
}

/// A function of a live operator.
#[derive(Debug)]
pub struct FunctionEntry {
    pub name: Arc<str>,
    /// `operator.function`.
    pub qualified: Arc<str>,
    /// Whether the host refuses writes.
    pub read_only: bool,
    /// What its transactions are promised, when a request calls it.
    pub consistency: Consistency,
    /// No function of the app's, but the system's.
    pub system: Option<SystemFunction>,
}

impl Operator {
    /// Index of the function called `name`, of those that functions may call.
    pub fn function_index(&self, name: &str) -> Option<u16> {
        self.requested_index(name).filter(|at| self.function(*at).system.is_none())
    }
    /// Index of the function called `name`, of all that a request may call.
    pub fn requested_index(&self, name: &str) -> Option<u16> {
        self.functions.iter().position(|function| &*function.name == name).map(|at| at as u16)
    }
    /// All functions, by index, those of the system last.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionEntry> {
        self.functions.iter()
    }
    pub fn function(&self, index: u16) -> &FunctionEntry {
        &self.functions[usize::from(index)]
    }
}

/// An app: its versions and which of them is live.
#[derive(Clone, Debug, Serialize)]
pub struct App {
    pub name: Arc<str>,
    /// Id of the live version.
    pub active: String,
    /// All versions, oldest first.
    pub deployments: Vec<Arc<Deployment>>,
    /// Ids of all operators that any version ever had, and whether their keys are composite.
    #[serde(skip)]
    operators: BTreeMap<Arc<str>, (OperatorId, bool)>,
}

impl App {
    /// The live version.
    pub fn live(&self) -> &Arc<Deployment> {
        self.deployments.iter().find(|deployment| deployment.id == self.active).expect("the live deployment exists")
    }
}

/// All apps at one epoch. Shared by reference; a change makes a new one.
#[derive(Clone, Default)]
pub struct Catalog {
    version: u64,
    hash: u64,
    apps: BTreeMap<Arc<str>, App>,
    /// By their ids.
    tokens: BTreeMap<String, Arc<Token>>,
    quarantine: Quarantine,
    /// By operator id; `None` while no live deployment implements it.
    operators: Vec<Option<Arc<Operator>>>,
}

/// Short: a catalog is long, and its hash says all.
impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Catalog(version {}, {:016x})", self.version, self.hash)
    }
}

/// A catalog as it stands in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct CatalogImage {
    version: u64,
    hash: u64,
    /// Operator ids given up to now, also of apps that were removed.
    operators: u32,
    apps: Vec<AppImage>,
    #[rkyv(with = Map<Unshare>)]
    tokens: Vec<Arc<Token>>,
    #[rkyv(with = Map<Unshare>)]
    quarantine: Vec<Arc<Quarantined>>,
}

impl CatalogImage {
    /// Content addresses of all components of all versions; some perhaps several times.
    pub fn components(&self) -> impl Iterator<Item = Digest> {
        let deployments = self.apps.iter().flat_map(|app| &app.deployments);
        deployments.flat_map(|deployment| &deployment.components).map(|component| component.digest)
    }

    /// Whether a catalog can be made of it: another process may have said something else.
    pub fn is_sound(&self) -> bool {
        let given = |app: &AppImage| app.operators.iter().all(|operator| operator.id.0 < self.operators);
        let complete = |live: &Arc<Deployment>| {
            live.operators.iter().all(|spec| (spec.component as usize) < live.components.len())
        };
        let lives = |app: &AppImage| app.deployments.iter().find(|live| live.id == app.active).is_some_and(complete);
        self.operators <= Self::OPERATORS_MAX && self.apps.iter().all(|app| given(app) && lives(app))
    }

    /// Far more than any cluster comes to.
    const OPERATORS_MAX: u32 = 1 << 24;
}

/// An app as it stands in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
struct AppImage {
    name: String,
    active: String,
    #[rkyv(with = Map<Unshare>)]
    deployments: Vec<Arc<Deployment>>,
    operators: Vec<OperatorImage>,
}

/// Where an operator's entities are.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
struct OperatorImage {
    name: String,
    id: OperatorId,
    composite: bool,
}

fn no_app(app: &str) -> Abort {
    Abort::new(Code::UnknownApp, format!("no app \"{app}\""))
}

impl Catalog {
    /// The catalog as a snapshot holds it.
    pub fn image(&self) -> CatalogImage {
        let operators = |app: &App| {
            let image =
                |(name, &(id, composite)): (&Arc<str>, _)| OperatorImage { name: name.to_string(), id, composite };
            app.operators.iter().map(image).collect()
        };
        let apps = self.apps.values().map(|app| AppImage {
            name: app.name.to_string(),
            active: app.active.clone(),
            deployments: app.deployments.clone(),
            operators: operators(app),
        });
        CatalogImage {
            version: self.version,
            hash: self.hash,
            operators: self.operators.len() as u32,
            apps: apps.collect(),
            tokens: self.tokens.values().cloned().collect(),
            quarantine: self.quarantine.iter().cloned().collect(),
        }
    }

    /// The catalog that a snapshot holds.
    pub fn restored(image: &CatalogImage) -> Self {
        let mut catalog = Catalog {
            version: image.version,
            hash: image.hash,
            apps: BTreeMap::new(),
            tokens: image.tokens.iter().map(|token| (token.id.clone(), token.clone())).collect(),
            quarantine: Quarantine::restored(&image.quarantine),
            operators: vec![None; image.operators as usize],
        };
        for app in &image.apps {
            let name: Arc<str> = app.name.as_str().into();
            let operator = |image: &OperatorImage| (image.name.as_str().into(), (image.id, image.composite));
            let restored = App {
                name: name.clone(),
                active: app.active.clone(),
                deployments: app.deployments.clone(),
                operators: app.operators.iter().map(operator).collect(),
            };
            catalog.apps.insert(name, restored);
            catalog.enliven(&app.name);
        }
        if cfg!(debug_assertions) {
            catalog.check_consistent();
        }
        catalog
    }

    /// Versions kept per app; older ones that are not live are forgotten.
    pub const DEPLOYMENTS_MAX: usize = 64;
    /// Tokens that there can be; each is told to every gateway.
    pub const TOKENS_MAX: usize = 1024;
    /// Most apps: all of them are told to every gateway with each change, and stand in each snapshot.
    pub const APPS_MAX: usize = 10_000;

    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.version
    }
    /// Hash of all changes up to now.
    pub fn hash(&self) -> u64 {
        self.hash
    }
    pub fn apps(&self) -> impl Iterator<Item = &App> {
        self.apps.values()
    }
    /// The app called `name`.
    pub fn app(&self, name: &str) -> Option<&App> {
        self.apps.get(name)
    }
    /// Whether versions of an app, of those that are kept, declare a function with different parameters.
    pub fn redeclares(&self, operator: OperatorId, function: &str) -> bool {
        let Some(operator) = self.operators.get(operator.0 as usize).and_then(Option::as_ref) else { return false };
        let versions = self.apps[&operator.app].deployments.iter().flat_map(|deployment| &deployment.operators);
        let functions = versions.filter(|spec| spec.name == *operator.name).flat_map(|spec| &spec.functions);
        let mut declared = functions.filter(|spec| spec.name == function).map(|spec| &spec.parameters);
        declared.next().is_some_and(|first| declared.any(|other| other != first))
    }
    /// Tokens by id, those that have expired included.
    pub fn tokens(&self) -> impl Iterator<Item = &Arc<Token>> {
        self.tokens.values()
    }
    pub fn token(&self, id: &str) -> Option<&Arc<Token>> {
        self.tokens.get(id)
    }
    /// What is not executed.
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }
    /// Live operators by id.
    pub fn operators(&self) -> impl Iterator<Item = &Arc<Operator>> {
        self.operators.iter().flatten()
    }
    /// The live operator with this id.
    pub fn operator(&self, id: OperatorId) -> Option<&Arc<Operator>> {
        self.operators.get(id.0 as usize)?.as_ref()
    }
    /// The id of an app's operator, also while none is deployed whose entities those would be.
    pub fn operator_id(&self, app: &str, operator: &str) -> Option<OperatorId> {
        self.apps.get(app)?.operators.get(operator).map(|&(id, _)| id)
    }
    /// Operators that were there and are, whose keys got a prefix since another catalog was this one, or lost theirs; and
    /// whether they have one now.
    pub fn rekeyed_since(&self, before: &Catalog) -> Vec<(OperatorId, bool)> {
        let flags = |catalog: &Catalog| -> BTreeMap<OperatorId, bool> {
            catalog.apps.values().flat_map(|app| app.operators.values().copied()).collect()
        };
        let before = flags(before);
        let other = |(id, composite): &(OperatorId, bool)| before.get(id).is_some_and(|before| before != composite);
        flags(self).into_iter().filter(other).collect()
    }
    /// Operators of an app that exist and whose keys would get a prefix with a version of it, or lose theirs.
    pub fn rekeyed_by<'a>(&self, deployment: &'a Deployment) -> impl Iterator<Item = (OperatorId, &'a OperatorSpec)> {
        let known = self.apps.get(deployment.app.as_str()).map(|app| &app.operators);
        deployment.operators.iter().filter_map(move |spec| {
            let &(id, composite) = known?.get(spec.name.as_str())?;
            (composite != spec.key_prefix.is_some()).then_some((id, spec))
        })
    }
    /// Whether there are such with a change.
    pub fn is_rekeyed_by(&self, control: &Control) -> bool {
        let live = |to: &Activation| self.app(&to.app)?.deployments.iter().find(|version| version.id == to.deployment);
        let version = match control {
            Control::Rekey(deployment) => Some(deployment),
            Control::RekeyTo(activation) => live(activation).map(|version| &**version),
            _ => None,
        };
        version.is_some_and(|version| self.rekeyed_by(version).next().is_some())
    }
    /// Whether keys of this operator are composite, which places its entities; also while it is not deployed.
    pub fn is_composite(&self, id: OperatorId) -> bool {
        let known = |&(known, composite): &(OperatorId, bool)| known == id && composite;
        self.operator(id).map_or_else(
            || self.apps.values().any(|app| app.operators.values().any(known)),
            |operator| operator.composite,
        )
    }
    pub fn system(&self, name: &str) -> Option<SystemOperator> {
        system::ALL.into_iter().find(|operator| operator.name == name)
    }
    /// The live operator of an app by name, if there is one.
    pub fn find_in(&self, app: &str, operator: &str) -> Option<&Arc<Operator>> {
        let &(id, _) = self.apps.get(app)?.operators.get(operator)?;
        self.operator(id)
    }
    /// The live operator of an app by name.
    pub fn find(&self, app: &str, operator: &str) -> Result<&Arc<Operator>, Abort> {
        self.find_in(app, operator).ok_or_else(|| {
            if self.apps.contains_key(app) {
                Abort::new(Code::UnknownOperator, format!("app \"{app}\" has no operator \"{operator}\""))
            } else {
                Abort::new(Code::UnknownApp, format!("no app \"{app}\""))
            }
        })
    }

    /// Whether a change can be applied, and if not, why.
    pub fn check(&self, control: &Control) -> Result<(), Abort> {
        match control {
            Control::Deploy(deployment) | Control::Rekey(deployment)
                if deployment.limits.payload > Limits::PAYLOAD_MAX =>
            {
                Err(Abort::new(
                    Code::LimitExceeded,
                    format!(
                        "limits.payload is {}, and can be at most {}",
                        deployment.limits.payload,
                        Limits::PAYLOAD_MAX
                    ),
                ))
            }
            Control::Deploy(deployment) | Control::Rekey(deployment)
                if deployment.operators.iter().any(|spec| is_reserved(&spec.name)) =>
            {
                let spec = deployment.operators.iter().find(|spec| is_reserved(&spec.name)).expect("just seen");
                Err(Abort::new(
                    Code::BadArguments,
                    format!(
                        "operator \"{}\" has a name that is reserved: names of operators begin with neither {}",
                        spec.name,
                        RESERVED_PREFIXES.map(|prefix| format!("\"{prefix}\"")).join(" nor ")
                    ),
                ))
            }
            Control::Deploy(deployment) | Control::Rekey(deployment)
                if self.apps.len() >= Self::APPS_MAX && !self.apps.contains_key(deployment.app.as_str()) =>
            {
                Err(Abort::new(
                    Code::LimitExceeded,
                    format!("there are {} apps, and there can be no more: remove one", self.apps.len()),
                ))
            }
            Control::Deploy(deployment) => self.check_keys(deployment),
            Control::Rekey(_) => Ok(()),
            Control::Activate(Activation { app, deployment }) | Control::RekeyTo(Activation { app, deployment }) => {
                let found = self.apps.get(app.as_str()).ok_or_else(|| no_app(app))?;
                match found.deployments.iter().find(|candidate| candidate.id == *deployment) {
                    Some(found) if !control.may_rekey() => self.check_keys(found),
                    Some(_) => Ok(()),
                    None => {
                        let message = format!("app \"{app}\" has no deployment \"{deployment}\"");
                        Err(Abort::new(Code::UnknownApp, message))
                    }
                }
            }
            Control::Remove(app) if self.apps.contains_key(app.as_str()) => Ok(()),
            Control::Remove(app) => Err(no_app(app)),
            Control::Issue(token) if self.tokens.contains_key(&token.id) => {
                Err(Abort::new(Code::BadArguments, format!("there is a token {} already", token.id)))
            }
            Control::Issue(_) if self.tokens.len() >= Self::TOKENS_MAX => Err(Abort::new(
                Code::LimitExceeded,
                format!("there are {} tokens, and there can be no more", self.tokens.len()),
            )),
            Control::Revoke(id) if !self.tokens.contains_key(id) => {
                Err(Abort::new(Code::BadArguments, format!("no token {id}")))
            }
            Control::Quarantine(Quarantined { subject: Subject::App(app), .. })
                if !self.apps.contains_key(app.as_str()) =>
            {
                Err(no_app(app))
            }
            Control::Quarantine(quarantined) if self.quarantine.get(&quarantined.subject).is_some() => {
                Err(Abort::new(Code::BadArguments, format!("{} is in quarantine already", quarantined.subject)))
            }
            Control::Quarantine(_) if self.quarantine.len() >= Quarantine::MAX => Err(Abort::new(
                Code::LimitExceeded,
                format!("{} requests and apps are in quarantine, and there can be no more", Quarantine::MAX),
            )),
            Control::Release(subject) if self.quarantine.get(subject).is_none() => {
                Err(Abort::new(Code::BadArguments, format!("{subject} is not in quarantine")))
            }
            Control::Issue(_)
            | Control::Revoke(_)
            | Control::Place(_)
            | Control::Seat(_)
            | Control::Quarantine(_)
            | Control::Release(_) => Ok(()),
        }
    }

    /// Where an entity lives depends on whether its keys are composite.
    fn check_keys(&self, deployment: &Deployment) -> Result<(), Abort> {
        let Some((_, spec)) = self.rekeyed_by(deployment).next() else { return Ok(()) };
        let message = format!(
            "operator \"{}\" exists {} a key prefix, and its entities are placed by that: keep it, give the operator another \
             name, or have them placed anew with rekey, for which clients wait",
            spec.name,
            if spec.key_prefix.is_some() { "without" } else { "with" }
        );
        Err(Abort::new(Code::BadArguments, message))
    }

    /// Applies a change that [`Catalog::check`] accepts; one that it does not accept changes nothing.
    /// Returns the operators whose state goes with a removed app.
    pub fn apply(&mut self, control: &Control) -> Vec<OperatorId> {
        // A placement is no deployment: it is the machines' to apply.
        if control.is_placement() || self.check(control).is_err() {
            return Vec::new();
        }
        self.version += 1;
        let bytes =
            rkyv::to_bytes::<rkyv::rancor::Error>(control).expect("a change in memory can be written to memory");
        self.hash = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, self.hash);
        let gone = match control {
            Control::Deploy(deployment) | Control::Rekey(deployment) => {
                let name: Arc<str> = deployment.app.as_str().into();
                let app = self.apps.entry(name.clone()).or_insert_with(|| App {
                    name,
                    active: String::new(),
                    deployments: Vec::new(),
                    operators: BTreeMap::new(),
                });
                app.active = deployment.id.clone();
                app.deployments.retain(|known| known.id != deployment.id);
                app.deployments.push(Arc::new(deployment.clone()));
                if app.deployments.len() > Self::DEPLOYMENTS_MAX {
                    app.deployments.remove(0);
                }
                let app = deployment.app.clone();
                self.enliven(&app);
                self.quarantine.release(&Subject::App(app));
                Vec::new()
            }
            Control::Activate(Activation { app, deployment }) | Control::RekeyTo(Activation { app, deployment }) => {
                self.apps.get_mut(app.as_str()).expect("checked").active = deployment.clone();
                self.enliven(app);
                self.quarantine.release(&Subject::App(app.clone()));
                Vec::new()
            }
            Control::Remove(app) => {
                self.quarantine.forget(app);
                let app = self.apps.remove(app.as_str()).expect("checked");
                let ids: Vec<OperatorId> = app.operators.values().map(|&(id, _)| id).collect();
                for id in &ids {
                    self.operators[id.0 as usize] = None;
                }
                ids
            }
            Control::Issue(token) => {
                self.tokens.insert(token.id.clone(), Arc::new(token.clone()));
                Vec::new()
            }
            Control::Revoke(id) => {
                self.tokens.remove(id);
                Vec::new()
            }
            Control::Quarantine(quarantined) => {
                self.quarantine.add(quarantined);
                Vec::new()
            }
            Control::Release(subject) => {
                self.quarantine.release(subject);
                Vec::new()
            }
            Control::Place(_) | Control::Seat(_) => Vec::new(),
        };
        if cfg!(debug_assertions) {
            self.check_consistent();
        }
        gone
    }

    /// Compares apps with the operators that are live.
    ///
    /// # Panics
    /// They do not belong together.
    pub fn check_consistent(&self) {
        let mut given = BTreeSet::new();
        for (name, app) in &self.apps {
            assert_eq!(*name, app.name, "an app is found by its name");
            assert!(app.deployments.len() <= Self::DEPLOYMENTS_MAX && !app.deployments.is_empty());
            for (name, &(id, composite)) in &app.operators {
                assert!(given.insert(id), "an id is given once, and for ever");
                let Some(live) = self.operators[id.0 as usize].as_ref() else { continue };
                assert!(live.id == id && live.name == *name && live.app == app.name, "{name} is live under its id");
                assert_eq!(live.composite, composite, "entities of {name} stay where they are");
            }
            let lives =
                |spec: &OperatorSpec| app.operators.get(spec.name.as_str()).and_then(|&(id, _)| self.operator(id));
            assert!(app.live().operators.iter().all(|spec| lives(spec).is_some()), "what is deployed is live");
        }
        assert!(self.operators().all(|operator| given.contains(&operator.id)), "what is live belongs to an app");
    }

    /// Rebuilds the live operators of an app from its live deployment.
    fn enliven(&mut self, app: &str) {
        let app = self.apps.get_mut(app).expect("the app exists");
        for (id, _) in app.operators.values() {
            self.operators[id.0 as usize] = None;
        }
        let live = app.live().clone();
        for spec in &live.operators {
            let name: Arc<str> = spec.name.as_str().into();
            let composite = spec.key_prefix.is_some();
            let known = app.operators.entry(name.clone()).or_insert_with(|| {
                self.operators.push(None);
                (OperatorId(self.operators.len() as u32 - 1), composite)
            });
            known.1 = composite;
            let id = known.0;
            let entry = |function: &str, system| FunctionEntry {
                name: function.into(),
                qualified: format!("{}.{function}", spec.name).into(),
                read_only: false,
                consistency: Consistency::Serializable,
                system,
            };
            let system = SystemFunction::ALL.into_iter();
            let system = system.filter(|function| *function != SystemFunction::Migrate || spec.state.migrates);
            self.operators[id.0 as usize] = Some(Arc::new(Operator {
                id,
                app: app.name.clone(),
                name,
                component: live.components[spec.component as usize].digest,
                composite,
                isolation: spec.isolation,
                limits: live.limits,
                deployment: live.clone(),
                functions: spec
                    .functions
                    .iter()
                    .map(|function| FunctionEntry {
                        read_only: function.read_only,
                        consistency: function.consistency,
                        ..entry(&function.name, None)
                    })
                    .chain(system.map(|function| entry(function.name(), Some(function))))
                    .collect(),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Timestamp;
    use crate::sequence::deployment::{Component, StateSpec};
    use crate::sequence::interface::Interface;

    fn deployment(number: u64, operators: &[(&str, bool)]) -> Deployment {
        let operator = |&(name, composite): &(&str, bool)| OperatorSpec {
            name: name.into(),
            component: 0,
            key_prefix: composite.then(|| "p".into()),
            isolation: Isolation::Warm,
            doc: String::new(),
            state: Default::default(),
            functions: vec![],
        };
        Deployment {
            id: format!("dp_{number}"),
            app: "app".into(),
            created: Timestamp(number),
            components: vec![Component { name: "c".into(), digest: Digest([1; 32]), size: 0, sdk: "none".into() }],
            operators: operators.iter().map(operator).collect(),
            limits: Limits::default(),
            interface: Interface::default(),
        }
    }

    #[test]
    fn of_many_versions_the_newest_are_kept() {
        let mut catalog = Catalog::default();
        for number in 1..=Catalog::DEPLOYMENTS_MAX as u64 {
            catalog.apply(&Control::Deploy(deployment(number, &[("o", false)])));
        }
        let kept = |catalog: &Catalog| {
            let app = catalog.app("app").unwrap();
            (app.deployments.len(), app.deployments[0].id.clone(), app.live().id.clone())
        };
        assert_eq!(kept(&catalog), (64, "dp_1".into(), "dp_64".into()));
        catalog.apply(&Control::Deploy(deployment(65, &[("o", false)])));
        assert_eq!(kept(&catalog), (64, "dp_2".into(), "dp_65".into()));
        // Once more is the same one, and the newest.
        catalog.apply(&Control::Deploy(deployment(2, &[("o", false)])));
        assert_eq!(kept(&catalog), (64, "dp_3".into(), "dp_2".into()));
        assert!(catalog.app("none").is_none());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_reason_and_changes_nothing() {
        let mut catalog = Catalog::default();
        catalog.apply(&Control::Deploy(deployment(1, &[("plain", false), ("composite", true)])));
        let most = Limits { payload: Limits::PAYLOAD_MAX, ..Limits::default() };
        let more = Limits { payload: Limits::PAYLOAD_MAX + 1, ..Limits::default() };
        let of = |limits| Control::Deploy(Deployment { limits, ..deployment(2, &[("plain", false)]) });
        let deploy = |operators: &[(&str, bool)]| Control::Deploy(deployment(2, operators));
        let activate = |app: &str, deployment: &str| {
            Control::Activate(Activation { app: app.into(), deployment: deployment.into() })
        };
        let refused = [
            (of(more), Code::LimitExceeded),
            (deploy(&[("plain", true)]), Code::BadArguments),
            (deploy(&[("new", true), ("composite", false)]), Code::BadArguments),
            (activate("none", "dp_1"), Code::UnknownApp),
            (activate("app", "dp_2"), Code::UnknownApp),
            (Control::Remove("none".into()), Code::UnknownApp),
            (Control::Revoke("none".into()), Code::BadArguments),
        ];
        let before = (catalog.version(), catalog.hash());
        for (control, code) in refused {
            assert_eq!(catalog.check(&control).unwrap_err().code, code, "{control:?}");
            assert!(catalog.apply(&control).is_empty());
        }
        for prefix in RESERVED_PREFIXES {
            let control = deploy(&[("plain", false), (&format!("{prefix}x"), false)]);
            let abort = catalog.check(&control).unwrap_err();
            assert!(abort.code == Code::BadArguments && abort.message.contains(&format!("{prefix}x")), "{abort:?}");
        }
        assert_eq!((catalog.version(), catalog.hash()), before);
        for fine in [of(most), deploy(&[("plain", false), ("composite", true), ("new", true)]), activate("app", "dp_1")]
        {
            catalog.check(&fine).unwrap();
        }
    }

    #[test]
    fn keys_get_a_prefix_or_lose_it_where_that_is_asked_for_and_at_no_other_time() {
        let mut catalog = Catalog::default();
        catalog.apply(&Control::Deploy(deployment(1, &[("a", false), ("b", true)])));
        let [a, b] = ["a", "b"].map(|name| catalog.operator_id("app", name).unwrap());
        let activation = |number| Activation { app: "app".into(), deployment: format!("dp_{number}") };
        let rekeyed = |catalog: &mut Catalog, control: Control| {
            let before = catalog.clone();
            catalog.check(&control).unwrap();
            catalog.apply(&control);
            let restored = Catalog::restored(&catalog.image());
            let rekeyed = catalog.rekeyed_since(&before);
            assert!(rekeyed.iter().all(|&(id, composite)| restored.is_composite(id) == composite));
            rekeyed
        };
        // What is new has the keys that it has; and who is not in a version keeps them.
        let next = deployment(2, &[("a", true), ("c", true)]);
        assert_eq!(catalog.rekeyed_by(&next).map(|(id, _)| id).collect::<Vec<_>>(), [a]);
        let is_rekeyed = |catalog: &Catalog, control| catalog.is_rekeyed_by(&control);
        assert!(
            is_rekeyed(&catalog, Control::Rekey(next.clone()))
                && !is_rekeyed(&catalog, Control::RekeyTo(activation(1)))
        );
        assert_eq!(rekeyed(&mut catalog, Control::Rekey(next)), [(a, true)]);
        assert!(catalog.is_composite(b) && catalog.find("app", "b").is_err());
        let without = Control::Rekey(deployment(3, &[("b", false)]));
        assert_eq!(rekeyed(&mut catalog, without), [(b, false)], "its entities are there, though it was not");
        // No version of before takes effect by itself.
        let refused = catalog.check(&Control::Activate(activation(1))).unwrap_err();
        assert!(refused.message.starts_with("operator \"a\" exists with a key prefix"), "{refused:?}");
        let version = catalog.version();
        catalog.apply(&Control::Activate(activation(1)));
        assert_eq!(catalog.version(), version);
        assert!(is_rekeyed(&catalog, Control::RekeyTo(activation(1))));
        assert_eq!(rekeyed(&mut catalog, Control::RekeyTo(activation(1))), [(a, false), (b, true)]);
        assert_eq!(rekeyed(&mut catalog, Control::RekeyTo(activation(1))), []);
        catalog.check(&Control::RekeyTo(activation(9))).unwrap_err();
        // An app that was removed has left nothing.
        let before = catalog.clone();
        catalog.apply(&Control::Remove("app".into()));
        catalog.apply(&Control::Deploy(deployment(4, &[("a", true)])));
        assert_eq!(catalog.rekeyed_since(&before), []);
    }

    #[test]
    fn who_says_that_it_migrates_has_a_function_for_it_that_requests_may_call() {
        let mut catalog = Catalog::default();
        let mut first = deployment(1, &[("a", false), ("b", false)]);
        first.operators[0].state = StateSpec { schema: Some("{}".into()), migrates: true };
        catalog.apply(&Control::Deploy(first));
        let has = |catalog: &Catalog, operator: &str| {
            let operator = catalog.find("app", operator).unwrap();
            (operator.requested_index("styx.migrate").is_some(), operator.function_index("styx.migrate"))
        };
        assert_eq!((has(&catalog, "a"), has(&catalog, "b")), ((true, None), (false, None)));
        let id = catalog.operator_id("app", "b").unwrap();
        catalog.apply(&Control::Deploy(deployment(2, &[("a", false)])));
        assert_eq!(has(&catalog, "a"), (false, None));
        // Its entities are there, though nobody has it.
        assert!(catalog.find("app", "b").is_err());
        assert_eq!(catalog.operator_id("app", "b"), Some(id));
        assert_eq!(Catalog::restored(&catalog.image()).operator_id("app", "b"), Some(id));
        assert_eq!((catalog.operator_id("app", "none"), catalog.operator_id("none", "b")), (None, None));
    }

    #[test]
    fn there_is_a_bound_on_apps() {
        let app = |number: usize| format!("app{number}");
        let of = |number| Control::Deploy(Deployment { app: app(number), ..deployment(1, &[("a", false)]) });
        let mut first = Catalog::default();
        first.apply(&of(0));
        // A snapshot of all but one, since each that is deployed has the whole catalog checked.
        let mut image = first.image();
        let one = image.apps.remove(0);
        let deployment = Deployment::clone(&one.deployments[0]);
        image.operators = Catalog::APPS_MAX as u32 - 1;
        image.apps.extend((0..image.operators).map(|number| AppImage {
            name: app(number as usize),
            operators: vec![OperatorImage { id: OperatorId(number), ..one.operators[0].clone() }],
            deployments: vec![Arc::new(Deployment { app: app(number as usize), ..deployment.clone() })],
            ..one.clone()
        }));
        let mut catalog = Catalog::restored(&image);
        catalog.check(&of(Catalog::APPS_MAX - 1)).expect("there is room for one");
        catalog.apply(&of(Catalog::APPS_MAX - 1));
        assert_eq!(catalog.apps().count(), Catalog::APPS_MAX);
        assert_eq!(catalog.check(&of(Catalog::APPS_MAX)).unwrap_err().code, Code::LimitExceeded);
        catalog.check(&of(7)).expect("another version is no other app");
        catalog.apply(&Control::Remove("app7".into()));
        catalog.check(&of(Catalog::APPS_MAX)).expect("there is room again");
    }

    #[test]
    fn a_name_of_the_system_is_that_operator() {
        let catalog = Catalog::default();
        for known in system::ALL {
            assert_eq!(catalog.system(known.name).unwrap().name, known.name);
        }
        assert!(catalog.system("none").is_none());
    }
}
