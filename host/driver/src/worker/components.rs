//! Components of a worker: which ones are compiled, and which ones are on their way.

use std::collections::BTreeSet;

use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::Digest;

#[derive(Debug, Default)]
pub(super) struct Components {
    prepared: BTreeSet<Digest>,
    preparing: BTreeSet<Digest>,
    /// Those of them that the coordinator was asked for.
    fetching: BTreeSet<Digest>,
}

impl Components {
    /// Those that a catalog names and that are not compiled.
    pub(super) fn missing(&self, catalog: &Catalog) -> BTreeSet<Digest> {
        let named = catalog.operators().map(|operator| operator.component);
        named.filter(|digest| !self.prepared.contains(digest)).collect()
    }

    pub(super) fn is_prepared(&self, digest: Digest) -> bool {
        self.prepared.contains(&digest)
    }

    /// Notes that a component is to be compiled; gives whether that is news.
    pub(super) fn begin(&mut self, digest: Digest) -> bool {
        self.preparing.insert(digest)
    }

    /// Notes that the coordinator is asked for a component.
    pub(super) fn fetch(&mut self, digest: Digest) {
        self.fetching.insert(digest);
    }

    /// Components that the coordinator was asked for and has not sent.
    pub(super) fn fetching(&self) -> impl Iterator<Item = Digest> + '_ {
        self.fetching.iter().copied()
    }

    /// Notes what has become of it.
    pub(super) fn end(&mut self, digest: Digest, prepared: bool) {
        self.preparing.remove(&digest);
        self.fetching.remove(&digest);
        if prepared {
            self.prepared.insert(digest);
        }
    }
}
