//! Interface: what an app offers to other apps, and what it needs of them. Part of a deployment, so that each epoch has its
//! own, alike on all workers.

use std::collections::BTreeSet;

use serde::Serialize;

use super::catalog::{Catalog, Operator};
use super::deployment::{Function, Parameter};
use crate::abort::{Abort, Code};

/// Between an app and its operator, where a call names both. No name has it.
pub const SEPARATOR: char = '/';

/// What an app offers to others, and what it needs of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Interface {
    /// By operator, each once.
    pub exports: Vec<Export>,
    /// By app and operator, each once.
    pub imports: Vec<Import>,
}

/// An operator that other apps may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Export {
    pub operator: String,
    /// Which of its functions; all of them, unless they are named.
    pub functions: Option<Vec<String>>,
    /// Which apps; all of them, unless they are named.
    pub to: Option<Vec<String>>,
}

/// Functions of another app's operator that an app may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Import {
    pub app: String,
    pub operator: String,
    pub functions: Vec<ImportedFunction>,
}

/// A function of another app, and what it was when the app that calls it was deployed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ImportedFunction {
    pub name: String,
    /// Not known, if it was not there yet.
    pub signature: Option<Signature>,
}

/// What a caller goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Signature {
    pub parameters: Vec<Parameter>,
    /// JSON Schema of the result, as text.
    pub returns: String,
    pub read_only: bool,
}

impl Interface {
    /// What is offered of an operator.
    pub fn export(&self, operator: &str) -> Option<&Export> {
        self.exports.iter().find(|export| export.operator == operator)
    }

    /// What is needed of an operator of another app.
    pub fn import(&self, app: &str, operator: &str) -> Option<&Import> {
        self.imports.iter().find(|import| import.app == app && import.operator == operator)
    }
}

impl Export {
    pub fn has_function(&self, function: &str) -> bool {
        self.functions.as_ref().is_none_or(|functions| functions.iter().any(|name| name == function))
    }

    pub fn is_to(&self, app: &str) -> bool {
        self.to.as_ref().is_none_or(|apps| apps.iter().any(|name| name == app))
    }
}

impl Import {
    pub fn has_function(&self, function: &str) -> bool {
        self.functions.iter().any(|imported| imported.name == function)
    }
}

impl Signature {
    pub fn of(function: &Function) -> Self {
        Signature {
            parameters: function.parameters.clone(),
            returns: function.returns.clone(),
            read_only: function.read_only,
        }
    }
}

/// Whether one app's manifest lets another one call a function, and if not, what to write into it.
///
/// # Errors
/// [`Code::NotExported`].
pub fn admit_export(
    callee: &str,
    interface: &Interface,
    operator: &str,
    function: &str,
    caller: &str,
) -> Result<(), Abort> {
    let fix = match interface.export(operator) {
        None => format!("add [export.{operator}] with functions = [\"{function}\"]"),
        Some(export) if !export.has_function(function) => {
            format!("add \"{function}\" to functions of [export.{operator}]")
        }
        Some(export) if !export.is_to(caller) => format!("add \"{caller}\" to `to` of [export.{operator}]"),
        Some(_) => return Ok(()),
    };
    let message = format!(
        "app \"{callee}\" does not export {operator}.{function} to app \"{caller}\": {fix} in styx.toml of \"{callee}\", and deploy that"
    );
    Err(Abort::new(Code::NotExported, message))
}

/// Whether a function says that it calls another app's, and if not, what to write.
fn admit_import(caller: &Operator, app: &str, operator: &str, function: &str) -> Result<(), Abort> {
    let import = caller.deployment.interface.import(app, operator);
    if import.is_some_and(|import| import.has_function(function)) {
        return Ok(());
    }
    let known = import.iter().flat_map(|import| &import.functions).map(|imported| imported.name.as_str());
    let functions: Vec<String> = known.chain([function]).map(|name| format!("\"{name}\"")).collect();
    let message = format!(
        "app \"{}\" does not import {app}/{operator}.{function}: write \"{app}/{operator}\" = [{}] under [import] in its styx.toml, and deploy it",
        caller.app,
        functions.join(", ")
    );
    Err(Abort::new(Code::NotImported, message))
}

impl Catalog {
    /// What a function of `caller` calls by an operator's name: of its own app, or of another one as `app/operator`. Gives
    /// the operator and the index of its function.
    ///
    /// # Errors
    /// There is none such, or the two apps do not both say that it is called.
    pub fn callee(
        &self,
        caller: &Operator,
        name: &str,
        function: &str,
    ) -> Result<(&std::sync::Arc<Operator>, u16), Abort> {
        // Most calls stay in their app, and no name of an operator has the separator in it.
        let (found, other) = match self.find_in(&caller.app, name) {
            Some(own) => (own, None),
            None => {
                let (app, operator) = name.split_once(SEPARATOR).unwrap_or((&*caller.app, name));
                (self.find(app, operator)?, Some((app, operator)).filter(|(app, _)| **app != *caller.app))
            }
        };
        let Some(index) = found.function_index(function) else {
            let message = format!("operator \"{name}\" has no function \"{function}\"");
            return Err(Abort::new(Code::UnknownFunction, message));
        };
        if let Some((app, operator)) = other {
            admit_import(caller, app, operator, function)?;
            admit_export(app, &found.deployment.interface, operator, function, &caller.app)?;
            if let Some(abort) = self.quarantine().refusal_of_app(app) {
                return Err(abort);
            }
        }
        Ok((found, index))
    }

    /// Apps whose state calls of `app` may change: its own, those of which it imports functions that may write, and so on.
    pub fn written_by<'a>(&'a self, app: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut open) = (BTreeSet::from([app]), vec![app]);
        while let Some(app) = open.pop() {
            for import in self.app(app).iter().flat_map(|app| &app.live().interface.imports) {
                let writes = |imported: &ImportedFunction| {
                    let operator = self.find(&import.app, &import.operator).ok()?;
                    let index = operator.function_index(&imported.name)?;
                    (!operator.function(index).read_only).then_some(())
                };
                if import.functions.iter().any(|imported| writes(imported).is_some()) && reached.insert(&import.app) {
                    open.push(&import.app);
                }
            }
        }
        reached
    }

    /// Apps that are live and import something of `app`, in order.
    pub fn importers(&self, app: &str) -> impl Iterator<Item = &super::catalog::App> {
        self.apps().filter(move |other| other.live().interface.imports.iter().any(|import| import.app == app))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::control::{Activation, Control};
    use crate::deployment::{Component, Consistency, Deployment, Digest, Isolation, OperatorSpec};
    use crate::ids::Timestamp;
    use crate::quarantine::{Quarantined, Subject};

    /// A version of an app whose operators have `read`, which only reads, and `write`.
    fn deployment(id: &str, app: &str, operators: &[&str], interface: Interface) -> Control {
        let function = |name: &str| Function {
            name: name.into(),
            parameters: Vec::new(),
            returns: "{}".into(),
            read_only: name == "read",
            consistency: Consistency::Serializable,
            doc: String::new(),
        };
        let operator = |name: &&str| OperatorSpec {
            name: (*name).into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            state: Default::default(),
            functions: ["read", "write"].map(function).into(),
        };
        Control::Deploy(Deployment {
            id: id.into(),
            app: app.into(),
            created: Timestamp(0),
            components: vec![Component { name: "c".into(), digest: Digest([1; 32]), size: 0, sdk: "none".into() }],
            operators: operators.iter().map(operator).collect(),
            limits: Default::default(),
            interface,
        })
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn exports(operator: &str, functions: Option<&[&str]>, to: Option<&[&str]>) -> Interface {
        let export = Export { operator: operator.into(), functions: functions.map(names), to: to.map(names) };
        Interface { exports: vec![export], imports: Vec::new() }
    }

    fn imports(from: &[(&str, &str, &[&str])]) -> Interface {
        let imported = |name: &&str| ImportedFunction { name: (*name).into(), signature: None };
        let import = |&(app, operator, functions): &(&str, &str, &[&str])| Import {
            app: app.into(),
            operator: operator.into(),
            functions: functions.iter().map(imported).collect(),
        };
        Interface { exports: Vec::new(), imports: from.iter().map(import).collect() }
    }

    fn catalog(controls: &[Control]) -> Catalog {
        let mut catalog = Catalog::default();
        controls
            .iter()
            .for_each(|control| assert!(catalog.check(control).is_ok() && catalog.apply(control).is_empty()));
        catalog
    }

    /// What a function of `shop/order` calls.
    fn called(catalog: &Catalog, name: &str, function: &str) -> Result<(Arc<str>, u16), Abort> {
        let caller = catalog.find("shop", "order").unwrap();
        catalog.callee(caller, name, function).map(|(found, index)| (found.app.clone(), index))
    }

    #[test]
    fn a_call_is_what_both_apps_say_that_it_may_be() {
        let shop = |interface| deployment("dp_1", "shop", &["order", "account"], interface);
        let billing = |interface| deployment("dp_2", "billing", &["account"], interface);
        let needs = imports(&[("billing", "account", &["write"])]);
        let told = |importing: Interface, exporting: Interface| {
            let catalog = catalog(&[shop(importing), billing(exporting)]);
            called(&catalog, "billing/account", "write").map_err(|abort| (abort.code, abort.message))
        };
        let both = Ok(("billing".into(), 1));
        assert_eq!(told(needs.clone(), exports("account", None, None)), both);
        assert_eq!(told(needs.clone(), exports("account", Some(&["write"]), Some(&["mill", "shop"]))), both);
        let message = "app \"shop\" does not import billing/account.write: write \"billing/account\" = [\"read\", \"write\"] under \
                       [import] in its styx.toml, and deploy it";
        assert_eq!(
            told(imports(&[("billing", "account", &["read"])]), exports("account", None, None)),
            Err((Code::NotImported, message.to_owned()))
        );
        for (exporting, fix) in [
            (Interface::default(), "add [export.account] with functions = [\"write\"]"),
            (exports("account", Some(&["read"]), None), "add \"write\" to functions of [export.account]"),
            (exports("account", None, Some(&["mill"])), "add \"shop\" to `to` of [export.account]"),
        ] {
            let message = format!(
                "app \"billing\" does not export account.write to app \"shop\": {fix} in styx.toml of \"billing\", and deploy that"
            );
            assert_eq!(told(needs.clone(), exporting), Err((Code::NotExported, message)));
        }
        let catalog = catalog(&[shop(needs), billing(exports("account", None, None))]);
        for (name, function, expected) in [
            // Its own, by either name, as ever.
            ("account", "read", Ok(("shop".into(), 0))),
            ("shop/account", "write", Ok(("shop".into(), 1))),
            ("bill/account", "write", Err(Code::UnknownApp)),
            ("billing/acount", "write", Err(Code::UnknownOperator)),
            ("billing/account/x", "write", Err(Code::UnknownOperator)),
            ("billing/", "write", Err(Code::UnknownOperator)),
            ("/account", "write", Err(Code::UnknownApp)),
            ("billing/account", "writ", Err(Code::UnknownFunction)),
            ("billing/account", "read", Err(Code::NotImported)),
        ] {
            assert_eq!(called(&catalog, name, function).map_err(|abort| abort.code), expected, "{name}.{function}");
        }
    }

    #[test]
    fn a_call_meets_what_is_live_now_whatever_was_live_when_its_app_was_deployed() {
        let needs = imports(&[("billing", "account", &["write"])]);
        let account = || exports("account", None, None);
        let mut catalog = catalog(&[
            deployment("dp_1", "shop", &["order"], needs),
            deployment("dp_2", "billing", &["account"], account()),
            deployment("dp_3", "billing", &["account"], Interface::default()),
        ]);
        let activate = |app: &str, deployment: &str| {
            Control::Activate(Activation { app: app.into(), deployment: deployment.into() })
        };
        let end = |catalog: &Catalog| called(catalog, "billing/account", "write").err().map(|abort| abort.code);
        assert_eq!(end(&catalog), Some(Code::NotExported));
        catalog.apply(&activate("billing", "dp_2"));
        assert_eq!(end(&catalog), None);
        // As a snapshot has it.
        assert_eq!(end(&Catalog::restored(&catalog.image())), None);
        let aside = Quarantined {
            subject: Subject::App("billing".into()),
            app: None,
            function: None,
            reason: "it ended the process".into(),
            since: Timestamp(1),
        };
        catalog.apply(&Control::Quarantine(aside.clone()));
        assert_eq!(end(&catalog), Some(Code::Quarantined));
        catalog.apply(&Control::Release(aside.subject));
        catalog.apply(&Control::Remove("billing".into()));
        assert_eq!(end(&catalog), Some(Code::UnknownApp));
        catalog.apply(&deployment("dp_4", "billing", &["account"], account()));
        assert_eq!(end(&catalog), None);
        catalog.apply(&deployment("dp_5", "shop", &["order"], Interface::default()));
        assert_eq!(end(&catalog), Some(Code::NotImported));
        catalog.apply(&activate("shop", "dp_1"));
        assert_eq!(end(&catalog), None);
    }

    #[test]
    fn whoever_calls_what_may_write_writes_there_too() {
        let of = |app, interface| deployment(&format!("dp_{app}"), app, &["o"], interface);
        let catalog = catalog(&[
            of("a", imports(&[("b", "o", &["read", "write"]), ("c", "o", &["read"])])),
            of("b", imports(&[("d", "o", &["write"]), ("none", "o", &["write"]), ("c", "none", &["write"])])),
            of("c", imports(&[("a", "o", &["write"])])),
            of("d", imports(&[("a", "o", &["write"])])),
        ]);
        let written = |app| catalog.written_by(app).into_iter().collect::<Vec<_>>();
        assert_eq!(written("a"), ["a", "b", "d"]);
        assert_eq!(written("c"), ["a", "b", "c", "d"]);
        assert_eq!(written("none"), ["none"]);
        let importers = |app| catalog.importers(app).map(|app| &*app.name).collect::<Vec<_>>();
        assert_eq!((importers("a"), importers("c"), importers("none")), (vec!["c", "d"], vec!["a", "b"], vec!["b"]));
    }
}
