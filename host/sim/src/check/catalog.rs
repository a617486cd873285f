//! Catalog of what is deployed, as a model of its own: three maps and no sharing with the protocol's catalog.

use std::collections::{BTreeMap, BTreeSet};

use styx_protocol::abort::{Abort, Code};
use styx_protocol::control::Control;
use styx_protocol::deployment::{Consistency, Deployment};
use styx_protocol::ids::{RequestId, Tid};
use styx_protocol::quarantine::{Quarantined, Subject};

/// The toy app's versions and operators.
#[derive(Clone, Debug, Default)]
pub struct Deployed {
    versions: BTreeMap<String, Deployment>,
    active: Option<String>,
    /// Operators that some version had since the app exists.
    ids: BTreeMap<String, u32>,
    /// Those whose keys are composite.
    composite: BTreeSet<u32>,
    next: u32,
    /// What is set aside, and the app that it is of, where that is known.
    aside: BTreeMap<Subject, Option<String>>,
}

/// An operator that can run.
#[derive(Clone, Debug)]
pub struct Live {
    pub id: u32,
    pub name: String,
    /// Number that its code adds to the accumulator.
    pub version: u8,
    /// Most calls of a transaction.
    pub calls: u64,
    /// Most calls nested in each other.
    pub depth: u32,
    /// Most entities that a transaction touches and scans that it makes, and most entries that one of them finds.
    pub touches: usize,
    /// Functions, whether they are read-only, and whether they ask for snapshots only.
    pub functions: Vec<(String, bool, bool)>,
}

impl Deployed {
    /// Applies a change of the log. Gives the operators whose state goes; `None` if it changes nothing.
    pub fn apply(&mut self, control: &Control) -> Option<Vec<u32>> {
        match control {
            Control::Deploy(deployment) if self.rekeys(deployment) => None,
            Control::Deploy(deployment) | Control::Rekey(deployment) => {
                for operator in &deployment.operators {
                    if !self.ids.contains_key(&operator.name) {
                        self.ids.insert(operator.name.clone(), self.next);
                        self.next += 1;
                    }
                }
                self.versions.insert(deployment.id.clone(), deployment.clone());
                self.active = Some(deployment.id.clone());
                self.rekey();
                self.aside.remove(&Subject::App(crate::toy::APP.into()));
                Some(Vec::new())
            }
            Control::Activate(activation)
                if self.versions.get(&activation.deployment).is_some_and(|version| self.rekeys(version)) =>
            {
                None
            }
            Control::Activate(activation) | Control::RekeyTo(activation) => {
                self.versions.contains_key(&activation.deployment).then(|| {
                    self.active = Some(activation.deployment.clone());
                    self.rekey();
                    self.aside.remove(&Subject::App(crate::toy::APP.into()));
                    Vec::new()
                })
            }
            Control::Place(_) | Control::Seat(_) | Control::Issue(_) | Control::Revoke(_) => None,
            Control::Quarantine(Quarantined { subject: Subject::App(_), .. }) if self.active.is_none() => None,
            Control::Quarantine(Quarantined { subject, app, .. }) => {
                self.aside.entry(subject.clone()).or_insert_with(|| app.clone());
                None
            }
            Control::Release(subject) => {
                self.aside.remove(subject);
                None
            }
            Control::Remove(_) => self.active.take().map(|_| {
                self.aside.retain(|_, app| app.as_deref() != Some(crate::toy::APP));
                self.versions.clear();
                std::mem::take(&mut self.ids).into_values().collect()
            }),
        }
    }

    /// Whether the keys of an operator that some version had are composite.
    pub fn is_composite(&self, id: u32) -> bool {
        self.composite.contains(&id)
    }

    /// Whether operators would have other keys with a version.
    fn rekeys(&self, version: &Deployment) -> bool {
        let other = |id: &u32, prefix: bool| self.is_composite(*id) != prefix;
        let mut operators = version.operators.iter();
        operators
            .any(|operator| self.ids.get(&operator.name).is_some_and(|id| other(id, operator.key_prefix.is_some())))
    }

    /// Operators have the keys of the active version.
    fn rekey(&mut self) {
        let Some(version) = self.active.as_ref().and_then(|active| self.versions.get(active)) else { return };
        for operator in &version.operators {
            let id = self.ids[&operator.name];
            if operator.key_prefix.is_some() {
                self.composite.insert(id);
            } else {
                self.composite.remove(&id);
            }
        }
    }

    fn live(&self, name: &str) -> Option<Live> {
        let version = &self.versions[self.active.as_ref()?];
        let operator = version.operators.iter().find(|operator| operator.name == name)?;
        Some(Live {
            id: self.ids[name],
            name: name.to_string(),
            version: version.components[0].digest.0[0],
            calls: version.limits.calls.into(),
            depth: version.limits.call_depth,
            touches: version.limits.rw_set as usize,
            functions: operator
                .functions
                .iter()
                .map(|f| (f.name.clone(), f.read_only, f.consistency == Consistency::Snapshot))
                .collect(),
        })
    }

    /// Why a transaction is not executed, if it is set aside.
    pub fn refusal(&self, id: RequestId, tid: Tid, operator: u32) -> Option<Abort> {
        let of_app = self.by_id(operator).ok().map(|_| Subject::App(crate::toy::APP.into()));
        let mut subjects = [Subject::Request(id), Subject::Transaction(tid)].into_iter().chain(of_app);
        let is_aside = subjects.any(|subject| self.aside.contains_key(&subject));
        is_aside.then(|| Abort::new(Code::Quarantined, "set aside"))
    }

    /// The operator that a request names.
    pub fn by_id(&self, id: u32) -> Result<Live, Abort> {
        let name = self.ids.iter().find(|(_, known)| **known == id).map(|(name, _)| name.as_str());
        name.and_then(|name| self.live(name)).ok_or_else(|| Abort::new(Code::UnknownOperator, "not deployed"))
    }

    /// The operator that a call names.
    pub fn by_name(&self, name: &str) -> Result<Live, Abort> {
        self.live(name).ok_or_else(|| Abort::new(Code::UnknownOperator, name))
    }
}

impl Live {
    pub fn read_only(&self, function: &str) -> Result<bool, Abort> {
        let found = self.functions.iter().find(|(name, ..)| name == function);
        found.map(|(_, read_only, _)| *read_only).ok_or_else(|| Abort::new(Code::UnknownFunction, function))
    }

    /// Whether a request to a function asks for snapshot isolation only.
    pub fn is_snapshot(&self, function: &str) -> bool {
        self.functions.iter().any(|(name, _, snapshot)| name == function && *snapshot)
    }
}
