//! A component that is compiled, linked and ready to be instantiated.

use styx_protocol::catalog::Digest;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};
use wasmtime::{Engine, Result, format_err};

use crate::config;
use crate::guest::Guest;
use crate::imports;

/// A component has more parts than the instance pool has room for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the component has {memories} memories and {tables} tables of up to {elements} elements, and at most {}, {} and {} are allowed",
    config::MEMORIES_MAX,
    config::TABLES_MAX,
    config::TABLE_ELEMENTS_MAX
)]
pub(crate) struct TooManyParts {
    memories: u32,
    tables: u32,
    elements: u64,
}

/// A component of the catalog, shared by all executors.
pub(crate) struct Ready {
    pub digest: Digest,
    pub pre: InstancePre<Guest>,
    pub invoke: ComponentExportIndex,
    pub describe: ComponentExportIndex,
    /// Whether it imports anything of WASI.
    pub wasi: bool,
}

impl Ready {
    /// Links a compiled component. WASI is linked for those only that import it. If `clustered`, it
    /// has to run on fibers: its imports may wait for other workers.
    pub fn link(engine: &Engine, component: &Component, digest: Digest, clustered: bool) -> Result<Self> {
        if let Some(needs) = component.resources_required() {
            let (memories, tables, elements) =
                (needs.num_memories, needs.num_tables, needs.max_initial_table_size.unwrap_or(0));
            if memories > config::MEMORIES_MAX
                || tables > config::TABLES_MAX
                || elements > config::TABLE_ELEMENTS_MAX as u64
            {
                return Err(TooManyParts { memories, tables, elements }.into());
            }
        }
        let wasi = component.component_type().imports(engine).any(|(name, _)| name.starts_with("wasi:"));
        let pre = imports::linker(engine, wasi, clustered)?.instantiate_pre(component)?;
        let export = |name: &str| {
            component.get_export_index(None, name).ok_or_else(|| format_err!("the component does not export `{name}`"))
        };
        Ok(Ready { digest, pre, invoke: export("invoke")?, describe: export("describe")?, wasi })
    }
}
