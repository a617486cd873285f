//! What a version would change of the one that is live.

use std::collections::BTreeMap;

use serde::Serialize;
use styx_protocol::deployment::{Deployment, Function, OperatorSpec, Parameter};
use utoipa::ToSchema;

/// What a version would change.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct Changes {
    /// Id of the live version that it is compared with; null if the app is new.
    live: Option<String>,
    /// In the order of what they are and of their names; empty if callers would notice nothing.
    changes: Vec<Change>,
}

/// One thing that would be another, with it or without.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub struct Change {
    of: ChangeOf,
    /// An operator's, `operator.function`, a limit's, a component's, or `app/operator` of an import.
    name: String,
    kind: ChangeKind,
    /// Each with what it was and would be, for people; empty if it is added or removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeOf {
    Operator,
    Function,
    Export,
    Import,
    Limit,
    /// Its code.
    Component,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    Added,
    Removed,
    Changed,
}

impl Changes {
    pub fn of(live: Option<&Deployment>, next: &Deployment) -> Self {
        let Some(live) = live else { return Changes { live: None, changes: Vec::new() } };
        let mut changes = Vec::new();
        let (old, new) = (operators(live), operators(next));
        compare(&mut changes, ChangeOf::Operator, &old, &new, |old, new| settings(old, new));
        compare(&mut changes, ChangeOf::Function, &functions(live), &functions(next), |old, new| signature(old, new));
        compare(&mut changes, ChangeOf::Export, &exports(live), &exports(next), |old, new| differ("offers", old, new));
        compare(&mut changes, ChangeOf::Import, &imports(live), &imports(next), |old, new| differ("calls", old, new));
        compare(&mut changes, ChangeOf::Limit, &limits(live), &limits(next), |old, new| differ("", old, new));
        compare(&mut changes, ChangeOf::Component, &components(live), &components(next), |old, new| {
            differ("digest", old, new)
        });
        changes.sort();
        Changes { live: Some(live.id.clone()), changes }
    }
}

/// Notes what is in one of them only, and what differs in `details`.
fn compare<T>(
    changes: &mut Vec<Change>,
    of: ChangeOf,
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
    details: impl Fn(&T, &T) -> Vec<String>,
) {
    let mut note = |name: &String, kind, details| changes.push(Change { of, name: name.clone(), kind, details });
    for (name, new) in new {
        match old.get(name) {
            None => note(name, ChangeKind::Added, Vec::new()),
            Some(old) => {
                let details = details(old, new);
                if !details.is_empty() {
                    note(name, ChangeKind::Changed, details);
                }
            }
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        note(name, ChangeKind::Removed, Vec::new());
    }
}

/// What is told of a value that was another, if it was.
fn differ(what: &str, old: &str, new: &str) -> Vec<String> {
    const NOTHING: &str = "nothing";
    let text = |text: &str| if text.is_empty() { NOTHING.to_owned() } else { text.to_owned() };
    let what = if what.is_empty() { String::new() } else { format!("{what} ") };
    if old == new { Vec::new() } else { vec![format!("{what}{} → {}", text(old), text(new))] }
}

fn operators(deployment: &Deployment) -> BTreeMap<String, &OperatorSpec> {
    deployment.operators.iter().map(|operator| (operator.name.clone(), operator)).collect()
}

fn settings(old: &OperatorSpec, new: &OperatorSpec) -> Vec<String> {
    let isolation = |operator: &OperatorSpec| format!("{:?}", operator.isolation).to_lowercase();
    let prefix = |operator: &OperatorSpec| operator.key_prefix.clone().unwrap_or_default();
    let schema = |operator: &OperatorSpec| operator.state.schema.clone().unwrap_or_default();
    [
        differ("prefix of keys", &prefix(old), &prefix(new)),
        differ("instances", &isolation(old), &isolation(new)),
        differ("type of state", &schema(old), &schema(new)),
    ]
    .concat()
}

fn functions(deployment: &Deployment) -> BTreeMap<String, &Function> {
    let of = |operator: &OperatorSpec, function: &Function| format!("{}.{}", operator.name, function.name);
    let operators = deployment.operators.iter();
    operators
        .flat_map(|operator| operator.functions.iter().map(move |function| (of(operator, function), function)))
        .collect()
}

fn signature(old: &Function, new: &Function) -> Vec<String> {
    let parameter = |parameter: &Parameter| {
        let may = if parameter.required { "" } else { ", may be left out" };
        (parameter.name.clone(), format!("{}{may}", parameter.schema))
    };
    let all = |function: &Function| -> BTreeMap<String, String> { function.parameters.iter().map(parameter).collect() };
    let names = |function: &Function| -> Vec<String> {
        function.parameters.iter().map(|parameter| parameter.name.clone()).collect()
    };
    let (before, after) = (all(old), all(new));
    let mut told = Vec::new();
    for name in names(new).iter().filter(|name| !before.contains_key(*name)) {
        told.push(format!("takes {name} as well: {}", after[name]));
    }
    for name in names(old).iter().filter(|name| !after.contains_key(*name)) {
        told.push(format!("takes no {name} any more"));
    }
    for (name, before) in &before {
        told.extend(after.get(name).into_iter().flat_map(|after| differ(name, before, after)));
    }
    if before == after {
        told.extend(differ("order of parameters", &names(old).join(", "), &names(new).join(", ")));
    }
    let writes = |function: &Function| if function.read_only { "reads" } else { "may write" };
    let promised = |function: &Function| format!("{:?}", function.consistency).to_lowercase();
    told.extend(differ("returns", &old.returns, &new.returns));
    told.extend(differ("", writes(old), writes(new)));
    told.extend(differ("is", &promised(old), &promised(new)));
    told
}

fn exports(deployment: &Deployment) -> BTreeMap<String, String> {
    let all = |names: &Option<Vec<String>>| names.as_ref().map_or("all".to_owned(), |names| names.join(", "));
    let exports = deployment.interface.exports.iter();
    exports
        .map(|export| (export.operator.clone(), format!("{} to {}", all(&export.functions), all(&export.to))))
        .collect()
}

fn imports(deployment: &Deployment) -> BTreeMap<String, String> {
    let imports = deployment.interface.imports.iter();
    imports
        .map(|import| {
            let names: Vec<&str> = import.functions.iter().map(|function| function.name.as_str()).collect();
            (format!("{}/{}", import.app, import.operator), names.join(", "))
        })
        .collect()
}

fn limits(deployment: &Deployment) -> BTreeMap<String, String> {
    let limits = &deployment.limits;
    [
        ("fuel", limits.fuel),
        ("transaction_fuel", limits.transaction_fuel),
        ("memory", limits.memory),
        ("call_depth", limits.call_depth.into()),
        ("calls", limits.calls.into()),
        ("rw_set", limits.rw_set.into()),
        ("payload", limits.payload.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_string()))
    .into()
}

fn components(deployment: &Deployment) -> BTreeMap<String, String> {
    let short = |digest: String| digest[..12.min(digest.len())].to_owned();
    deployment.components.iter().map(|one| (one.name.clone(), short(one.digest.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use styx_protocol::deployment::{Consistency, Isolation, Limits, StateSpec};
    use styx_protocol::ids::Timestamp;
    use styx_protocol::interface::{Export, Interface};

    use super::*;

    fn function(name: &str, parameters: &[(&str, &str)]) -> Function {
        let parameter = |(name, schema): &(&str, &str)| Parameter {
            name: (*name).into(),
            schema: (*schema).into(),
            required: true,
        };
        Function {
            name: name.into(),
            parameters: parameters.iter().map(parameter).collect(),
            returns: "{}".into(),
            read_only: false,
            consistency: Consistency::Serializable,
            doc: String::new(),
        }
    }

    fn version(id: &str, functions: Vec<Function>) -> Deployment {
        let operator = OperatorSpec {
            name: "stock".into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            functions,
            state: StateSpec::default(),
        };
        Deployment {
            id: id.into(),
            app: "shop".into(),
            created: Timestamp(1),
            components: Vec::new(),
            operators: vec![operator],
            limits: Limits::default(),
            interface: Interface::default(),
        }
    }

    #[test]
    fn what_callers_would_notice_is_told_and_nothing_else() {
        let live = version("dp_1", vec![function("take", &[("n", "int")]), function("old", &[])]);
        assert_eq!(Changes::of(None, &live), Changes { live: None, changes: Vec::new() });
        let mut same = version("dp_2", live.operators[0].functions.clone());
        same.operators[0].functions[0].doc = "another text".into();
        assert_eq!(Changes::of(Some(&live), &same).changes, []);

        let mut next =
            version("dp_2", vec![function("take", &[("n", "number"), ("why", "text")]), function("new", &[])]);
        next.operators[0].functions[0].read_only = true;
        next.limits.fuel += 1;
        next.interface.exports = vec![Export { operator: "stock".into(), functions: None, to: None }];
        let Changes { live: of, changes } = Changes::of(Some(&live), &next);
        assert_eq!(of.as_deref(), Some("dp_1"));
        let told: Vec<String> = changes
            .iter()
            .map(|one| format!("{:?} {} {:?} {}", one.of, one.name, one.kind, one.details.join("; ")))
            .collect();
        let fuel = live.limits.fuel;
        assert_eq!(
            told,
            [
                "Function stock.new Added ".to_owned(),
                "Function stock.old Removed ".to_owned(),
                "Function stock.take Changed takes why as well: text; n int → number; may write → reads".to_owned(),
                "Export stock Added ".to_owned(),
                format!("Limit fuel Changed {fuel} → {}", fuel + 1),
            ]
        );
    }
}
