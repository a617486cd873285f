//! QuickJS, compiled once: a project's code is loaded into it, and what its memory holds then is what the component starts
//! from. `sdk/typescript/engine/` has what it is made of.

use std::path::{Path, PathBuf};

use wasmparser::ValType;
use wasmtime::{Instance, Linker, Memory, Module, Result, Store, Val, format_err};
use wasmtime_wizer::{InstanceState, SnapshotVal, Wizer};

use crate::compiled::{self, FUEL};

/// Of its code.
const NAME: &str = "engine";

/// The engine, as a core module.
pub struct Engine {
    module: Vec<u8>,
    /// Where it is compiled.
    directory: PathBuf,
}

/// The component's core module, or what was thrown while the code was loaded.
pub type Loaded = std::result::Result<Vec<u8>, String>;

impl Engine {
    /// One that is compiled in a directory.
    pub fn open(module: Vec<u8>, directory: PathBuf) -> Self {
        Self { module, directory }
    }

    /// Compiles it into a directory, with functions that are in a cache of compiled code, or come there by it.
    pub fn compile(module: &[u8], directory: &Path, cache: &Path) -> Result<()> {
        let (_, instrumented) = Wizer::new().instrument(module)?;
        let code =
            styx_engine::compile_module_for_build(&instrumented, cache).map_err(|error| format_err!("{error}"))?;
        compiled::keep(directory, NAME, &[], &code)
    }

    /// Loads a module of JavaScript.
    pub fn load(&self, source: &str) -> Result<Loaded> {
        let code = compiled::read(&self.directory, NAME, &[])?;
        let engine = styx_engine::engine_for_build().map_err(|error| format_err!("{error}"))?;
        // SAFETY: it is what this program's compiler wrote, by its checksum, in a directory of the user's own; wasmtime itself
        // refuses code of another version, configuration or processor.
        let module = unsafe { Module::deserialize(&engine, &code) }?;
        let (context, _) = Wizer::new().instrument(&self.module)?;
        let mut store = Store::new(&engine, ());
        store.set_fuel(FUEL)?;
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&module)?;
        let instance = linker.instantiate(&mut store, &module)?;
        let mut state = State { store, instance };
        if let Some(thrown) = state.load(source)? {
            return Ok(Err(thrown));
        }
        Ok(Ok(pollster::block_on(Wizer::new().snapshot(&context, &mut state))?))
    }
}

/// An instance whose memory is taken.
struct State {
    store: Store<()>,
    instance: Instance,
}

impl State {
    fn memory(&mut self, name: &str) -> Memory {
        self.instance.get_memory(&mut self.store, name).expect("a module has the memory that it exports")
    }

    /// What was thrown, if anything was.
    fn load(&mut self, source: &str) -> Result<Option<String>> {
        let length = u32::try_from(source.len())?;
        let take = self.instance.get_typed_func::<u32, u32>(&mut self.store, "engine-take")?;
        let load = self.instance.get_typed_func::<(u32, u32), u32>(&mut self.store, "engine-load")?;
        let at = take.call(&mut self.store, length)?;
        let memory = self.memory("memory");
        memory.write(&mut self.store, at as usize, source.as_bytes())?;
        let thrown = load.call(&mut self.store, (at, length))?;
        if thrown == 0 {
            return Ok(None);
        }
        let text = memory.data(&self.store).get(thrown as usize..).unwrap_or_default();
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(Some(String::from_utf8_lossy(&text[..end]).into_owned()))
    }
}

impl InstanceState for State {
    async fn global_get(&mut self, name: &str, _: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut self.store, name).expect("Wizer has exported it");
        match global.get(&mut self.store) {
            Val::I32(value) => SnapshotVal::I32(value),
            Val::I64(value) => SnapshotVal::I64(value),
            Val::F32(bits) => SnapshotVal::F32(bits),
            Val::F64(bits) => SnapshotVal::F64(bits),
            other => panic!("the engine has no global of {other:?}"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.memory(name);
        contents(memory.data(&self.store));
    }
}
