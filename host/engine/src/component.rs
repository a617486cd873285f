//! Components that are compiled, linked and ready to be instantiated.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use styx_protocol::deployment::Digest;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};
use wasmtime::{Result, format_err};

use crate::contract::Version;
use crate::direct::LinkedModule;
use crate::guest::Guest;
use crate::limits;

/// A component has more parts than the instance pool has room for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the component has {memories} memories and {tables} tables of up to {elements} elements, and at most {}, {} and {} are allowed",
    limits::MEMORIES_MAX,
    limits::TABLES_MAX,
    limits::TABLE_ELEMENTS_MAX
)]
pub(crate) struct TooManyParts {
    memories: u32,
    tables: u32,
    elements: u64,
}

/// A component that is linked, shared by all executors.
pub(crate) struct LinkedComponent {
    pub digest: Digest,
    pub pre: InstancePre<Guest>,
    pub version: Version,
    pub invoke: ComponentExportIndex,
    pub describe: ComponentExportIndex,
    /// Whether it imports anything of WASI.
    pub wasi: bool,
    /// Its module, where guests are run by that.
    pub module: Option<LinkedModule>,
    /// Whether its imports may wait for other workers, so that guests of it, but not of its module, run on fibers.
    pub on_fibers: bool,
}

impl LinkedComponent {
    /// Links a compiled component; `linker` makes the imports, with WASI for those components only that import it.
    pub fn link(
        component: &Component,
        digest: Digest,
        linker: impl FnOnce(bool) -> Result<Linker<Guest>>,
    ) -> Result<Self> {
        if let Some(needs) = component.resources_required() {
            let (memories, tables, elements) =
                (needs.num_memories, needs.num_tables, needs.max_initial_table_size.unwrap_or(0));
            if memories > limits::MEMORIES_MAX
                || tables > limits::TABLES_MAX
                || elements > limits::TABLE_ELEMENTS_MAX as u64
            {
                return Err(TooManyParts { memories, tables, elements }.into());
            }
        }
        let wasi = component.component_type().imports(component.engine()).any(|(name, _)| name.starts_with("wasi:"));
        let pre = linker(wasi)?.instantiate_pre(component)?;
        let export = |name: &str| {
            component.get_export_index(None, name).ok_or_else(|| format_err!("the component does not export `{name}`"))
        };
        let version = Version::of(component);
        let (invoke, describe) = (export("invoke")?, export("describe")?);
        Ok(LinkedComponent { digest, pre, version, invoke, describe, wasi, module: None, on_fibers: false })
    }

    /// Whether a guest of it can run on the stack of its thread.
    pub fn runs_on_stack(&self) -> bool {
        !self.on_fibers || self.module.is_some()
    }
}

/// The linked components of an engine, by their digests.
#[derive(Default)]
pub(crate) struct Components(RwLock<HashMap<Digest, Arc<LinkedComponent>>>);

impl Components {
    pub fn contains(&self, digest: Digest) -> bool {
        self.0.read().expect("no panic under the lock").contains_key(&digest)
    }

    pub fn insert(&self, component: Arc<LinkedComponent>) {
        self.0.write().expect("no panic under the lock").insert(component.digest, component);
    }

    pub fn retain(&self, mut keep: impl FnMut(Digest) -> bool) {
        self.0.write().expect("no panic under the lock").retain(|&digest, _| keep(digest));
    }

    /// A component that is deployed. That it was not loaded is a bug of the host, and panics.
    pub fn get(&self, digest: Digest) -> Arc<LinkedComponent> {
        let components = self.0.read().expect("no panic under the lock");
        components
            .get(&digest)
            .unwrap_or_else(|| {
                panic!(
                    "component {digest} is deployed and was not loaded: Engine::load comes before the cut that uses it"
                )
            })
            .clone()
    }
}
