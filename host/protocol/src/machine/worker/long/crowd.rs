//! Crowd: how many long transactions of each app wait. They wait in memory and in the log, with their arguments, and for
//! some of them nobody waits who would have to be told.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sequence::catalog::Catalog;
use crate::sequence::transaction::Request;

/// Most bytes of requests of one app that may wait before no more are taken of functions that use much.
const BYTES_MAX: usize = 64 << 20;

/// Most of these requests.
const COUNT_MAX: usize = 10_000;

/// What waited when it was counted last.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    apps: BTreeMap<Arc<str>, (usize, usize)>,
    counted: usize,
}

impl Crowd {
    /// Counts what waits, unless about as much waited the last time: not with each request.
    pub fn count<'a>(&mut self, len: usize, waiting: impl Iterator<Item = &'a Request>, catalog: &Catalog) {
        if len.abs_diff(self.counted) <= self.counted / 8 + 8 {
            return;
        }
        self.counted = len;
        self.apps.clear();
        for request in waiting {
            let Some(operator) = catalog.operator(request.operator) else { continue };
            let (count, bytes) = self.apps.entry(operator.app.clone()).or_default();
            *count += 1;
            *bytes += request.weight();
        }
    }

    /// Whether so many of an app wait that no more are taken.
    pub fn is_full(&self, app: &str) -> bool {
        self.apps.get(app).is_some_and(|(count, bytes)| *count >= COUNT_MAX || *bytes >= BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::deployment::{Component, Deployment, Digest, OperatorSpec};
    use crate::ids::{RequestId, Timestamp};

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        for app in ["loud", "quiet"] {
            let operator = OperatorSpec {
                name: "a".into(),
                component: 0,
                key_prefix: None,
                isolation: Default::default(),
                doc: String::new(),
                state: Default::default(),
                functions: Vec::new(),
            };
            let deployment = Deployment {
                id: format!("dp_{app}"),
                app: app.into(),
                created: Timestamp(0),
                components: vec![Component { name: "c".into(), digest: Digest([1; 32]), size: 0, sdk: "none".into() }],
                operators: vec![operator],
                limits: Default::default(),
                interface: Default::default(),
            };
            catalog.apply(&Control::Deploy(deployment));
        }
        catalog
    }

    fn request(catalog: &Catalog, app: &str, bytes: usize) -> Request {
        let operator = catalog.find(app, "a").expect("it is deployed").id;
        let (id, args) = (RequestId(1), vec![0; bytes].into());
        Request { id, operator, function: "f".into(), key: "k".into(), args, retained: false, origin: None }
    }

    #[test]
    fn an_app_of_which_much_waits_is_full_and_others_are_not() {
        let catalog = catalog();
        let mut crowd = Crowd::default();
        let large = request(&catalog, "loud", 8 << 20);
        let mut waiting = vec![large; 7];
        waiting.push(request(&catalog, "quiet", 1));
        let mut count = |waiting: &[Request], full: bool| {
            crowd.count(waiting.len(), waiting.iter(), &catalog);
            assert_eq!((crowd.is_full("loud"), crowd.is_full("quiet")), (full, false), "{}", waiting.len());
        };
        count(&waiting, false);
        waiting.extend((0..20).map(|_| request(&catalog, "loud", 8 << 20)));
        count(&waiting, true);
        waiting.truncate(2);
        count(&waiting, false);
        count(&vec![request(&catalog, "loud", 1); COUNT_MAX], true);
        let mut crowd = Crowd::default();
        crowd.count(COUNT_MAX - 1, vec![request(&catalog, "loud", 1); COUNT_MAX - 1].iter(), &catalog);
        assert!(!crowd.is_full("loud"), "one more may wait");
    }

    #[test]
    fn what_waits_is_counted_again_when_it_is_more_than_an_eighth_and_eight_more_or_fewer() {
        let catalog = catalog();
        for (before, more) in [(0, 8), (80, 18)] {
            let mut crowd = Crowd::default();
            crowd.count(before, vec![request(&catalog, "loud", 1); before].iter(), &catalog);
            for (len, full) in [(before + more, false), (before + more + 1, true)] {
                crowd.count(len, vec![request(&catalog, "loud", 8 << 20); len].iter(), &catalog);
                assert_eq!(crowd.is_full("loud"), full, "{len}");
            }
        }
    }
}
