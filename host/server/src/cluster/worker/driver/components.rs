//! Components that a worker needs: asked of the coordinator, compiled beside everything else, and
//! waited for before a deployment takes effect.

use std::collections::BTreeSet;

use styx_engine::Engine;
use styx_protocol::catalog::{Catalog, Digest};

use super::{Driver, Event};
use crate::cluster::COORDINATOR;
use crate::fatal::fatal;
use styx_driver::wire::Envelope;

impl Driver {
    pub(super) fn make_ready(&mut self, digest: Digest) {
        if self.engine.is_loaded(digest) {
            return self.loaded(digest, Ok(()));
        }
        if !self.loading.insert(digest) {
            return;
        }
        if self.components.contains(digest) {
            self.load(digest)
        } else {
            self.control(COORDINATOR, &Envelope::FetchComponent(digest))
        }
    }

    /// Compiles a component, which takes a while, beside everything else.
    pub(super) fn load(&self, digest: Digest) {
        let (engine, path, events) = (self.engine.clone(), self.components.path(digest), self.events.clone());
        let load = move || {
            let result = engine.load(digest, &path).map_err(|error| error.to_string());
            drop(events.send(Event::Loaded(digest, result)));
        };
        if let Err(error) = std::thread::Builder::new().name("styx-load".into()).spawn(load) {
            fatal(&format!("cannot start a thread: {error}"));
        }
    }

    pub(super) fn loaded(&mut self, digest: Digest, result: Result<(), String>) {
        self.loading.remove(&digest);
        self.control(COORDINATOR, &Envelope::ComponentPrepared(digest, result.clone()));
        let Some(serving) = self.serving.as_mut() else { return };
        if !serving.missing.contains(&digest) {
            return;
        }
        if let Err(error) = result {
            // It runs on others, or ran once: this worker is not fit.
            fatal(&format!("a deployed component cannot be loaded: {error}"));
        }
        serving.missing.remove(&digest);
        if serving.missing.is_empty() && serving.beginning {
            self.begun();
        } else if serving.missing.is_empty() {
            for (from, message) in std::mem::take(&mut serving.stalled) {
                self.hear(from, message);
            }
        }
    }
}

/// Components that a catalog names and that are not ready.
pub(super) fn missing(engine: &Engine, catalog: &Catalog) -> BTreeSet<Digest> {
    let named = catalog.operators().map(|operator| operator.component);
    named.filter(|digest| !engine.is_loaded(*digest)).collect()
}
