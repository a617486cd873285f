//! Tiny guests as WebAssembly text, and a world to run them in. No toolchain is needed.
#![allow(dead_code)]

mod packed;
pub mod script;
mod told;
pub mod workers;

use std::sync::Arc;

use styx_engine::{Compiler, Determinism, Engine, EngineOptions, Executor};
use styx_protocol::abort::Code;
use styx_protocol::attempt::Execution;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{Component, Deployment, Digest, Function, Isolation, Limits, OperatorSpec};
use styx_protocol::entity::{Entity, Layout, Value};
use styx_protocol::executor::Executor as _;
use styx_protocol::ids::{RequestId, Tid, Timestamp};
use styx_protocol::interface::{Export, Import, ImportedFunction, Interface};
use styx_protocol::state::State;
use styx_protocol::transaction::{Request, Transaction};

/// A guest: one operator, its functions, and the core code that runs them.
#[derive(Clone)]
pub struct Guest {
    pub app: &'static str,
    pub operator: &'static str,
    pub functions: Vec<&'static str>,
    pub read_only: Vec<&'static str>,
    /// Core module fields; must export `invoke`.
    pub code: String,
    /// Component fields after the imports, lowered functions, core imports, instances.
    pub foreign: [&'static str; 4],
    /// Fields of the module that allocates, and how its `realloc` begins.
    pub realloc: [&'static str; 2],
    pub schema: &'static str,
    /// What it says of its entities' type, and whether it has a function that migrates them.
    pub state: Option<(&'static str, bool)>,
    /// Of 0.2 of the contract, by what is put between the guest and the host; of 0.1 otherwise.
    pub told: bool,
    /// All of it in one module, as SDKs make it.
    pub packed: bool,
    /// That module has an `_initialize`, as of C and Go, without which it does nothing.
    pub initialized: bool,
}

impl Guest {
    pub fn new(operator: &'static str, functions: &[&'static str], code: impl Into<String>) -> Self {
        Guest {
            app: "test",
            operator,
            functions: functions.to_vec(),
            read_only: Vec::new(),
            code: code.into(),
            foreign: [""; 4],
            realloc: [""; 2],
            schema: "{}",
            state: None,
            told: false,
            packed: false,
            initialized: false,
        }
    }

    /// A guest whose functions all run `body`: `$f $fl $k $kl $a $al` are function, key and arguments.
    pub fn body(operator: &'static str, functions: &[&'static str], body: &str) -> Self {
        Guest::new(operator, functions, invoke(body))
    }

    /// The same code as a guest of 0.2.
    pub fn told(self) -> Self {
        Guest { told: true, ..self }
    }

    /// The same code as a guest of 0.2 in one module.
    pub fn packed(self) -> Self {
        Guest { told: true, packed: true, ..self }
    }

    /// The same as one of another app.
    pub fn of_app(self, app: &'static str) -> Self {
        Guest { app, ..self }
    }

    pub fn wat(&self) -> String {
        let world = told::world(self.told)
            .replace(";;IMPORTS", self.foreign[0])
            .replace(";;LOWERED", self.foreign[1])
            .replace(";;EXTERNS", self.foreign[2])
            .replace(";;INSTANCES", self.foreign[3])
            .replace(";;MEMORY", self.realloc[0])
            .replace(";;REALLOC", self.realloc[1])
            .replace(";;IMAGE", &self.image())
            .replace(";;GUEST", &self.code);
        if self.packed { packed::component(&world, self.initialized) } else { world }
    }

    pub fn bytes(&self) -> Vec<u8> {
        wat::parse_str(self.wat()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// `describe` and the memory that it returns.
    fn image(&self) -> String {
        let mut image = Image { at: 32768, bytes: Vec::new() };
        let sdk = image.text("styx-wat 0.1.0");
        let state = self.state.map(|(schema, _)| ("styx.state", schema));
        let migration = self.state.filter(|(_, migrates)| *migrates).map(|_| ("styx.migrate", "{}"));
        let functions = self.functions.iter().map(|name| (*name, self.schema)).chain(state).chain(migration);
        let functions: Vec<Vec<u8>> = functions
            .map(|(name, schema)| {
                let read_only = u32::from(self.read_only.contains(&name));
                let parameter = [image.text("n"), image.text(schema), 1u32.to_le_bytes().to_vec()].concat();
                let parameters = if name.starts_with("styx.") { vec![] } else { vec![parameter] };
                let parameters = image.list(&parameters);
                [
                    image.text(name),
                    parameters,
                    image.text(schema),
                    read_only.to_le_bytes().to_vec(),
                    image.text("A function."),
                ]
                .concat()
            })
            .collect();
        let functions = image.list(&functions);
        let operator = [image.text(self.operator), vec![0; 12], image.text("An operator."), functions].concat();
        let operators = image.list(&[operator]);
        let description = image.put(&[sdk, operators].concat());
        let data: String = image.bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!(
            "(data (i32.const 32768) \"{data}\") (func (export \"describe\") (result i32) (i32.const {description}))"
        )
    }
}

pub fn invoke(body: &str) -> String {
    format!(
        "(func (export \"invoke\") (param $f i32) (param $fl i32) (param $k i32) (param $kl i32) (param $a i32) (param $al i32) (result i32)
           (local $i i32) (local $j i32) {body})"
    )
}

struct Image {
    at: u32,
    bytes: Vec<u8>,
}

impl Image {
    fn put(&mut self, bytes: &[u8]) -> u32 {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
        let at = self.at + self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        at
    }
    fn pair(at: u32, count: usize) -> Vec<u8> {
        [at.to_le_bytes(), (count as u32).to_le_bytes()].concat()
    }
    fn text(&mut self, text: &str) -> Vec<u8> {
        Image::pair(self.put(text.as_bytes()), text.len())
    }
    fn list(&mut self, items: &[Vec<u8>]) -> Vec<u8> {
        Image::pair(self.put(&items.concat()), items.len())
    }
}

/// An app of WAT guests on an empty state, and an executor to run it.
pub struct World {
    pub engine: Arc<Engine>,
    pub executor: Executor,
    pub catalog: Arc<Catalog>,
    pub state: Arc<State>,
    pub next_tid: u64,
    _cache: tempfile::TempDir,
}

/// Set up for a worker of its own, except in the module that runs the same tests on fibers.
pub fn options(cache: &std::path::Path, determinism: Determinism) -> EngineOptions {
    let cluster = module_path!().contains("::fibers::").then_some(workers::ROOM);
    EngineOptions {
        cache_dir: cache.to_owned(),
        determinism,
        executors: 2,
        compiler: Compiler::InProcess,
        cluster,
        long: None,
        guest_memory: usize::MAX,
    }
}

pub const LAYOUT: Layout = Layout::new(7, 16);

/// Deploys guests, one component each: as the app `test`, unless they say otherwise. Each app exports and imports all that
/// there is.
pub fn deploy(
    engine: &Engine,
    directory: &std::path::Path,
    guests: &[Guest],
    limits: Limits,
    isolation: Isolation,
) -> Arc<Catalog> {
    let mut apps: Vec<&str> = guests.iter().map(|guest| guest.app).collect();
    apps.dedup();
    let mut catalog = Catalog::default();
    for app in apps {
        let (mut components, mut operators, mut interface) = (Vec::new(), Vec::new(), Interface::default());
        for guest in guests {
            let functions = guest.functions.iter().map(ToString::to_string);
            if guest.app != app {
                let functions = functions.map(|name| ImportedFunction { name, signature: None }).collect();
                interface.imports.push(Import { app: guest.app.into(), operator: guest.operator.into(), functions });
                continue;
            }
            interface.exports.push(Export { operator: guest.operator.into(), functions: None, to: None });
            let digest = load(engine, directory, &guest.bytes());
            let function = |name: String| Function {
                read_only: guest.read_only.contains(&&*name),
                name,
                parameters: Vec::new(),
                returns: "{}".into(),
                consistency: Default::default(),
                doc: String::new(),
            };
            operators.push(OperatorSpec {
                name: guest.operator.into(),
                component: components.len() as u32,
                key_prefix: None,
                isolation,
                doc: String::new(),
                state: Default::default(),
                functions: functions.map(function).collect(),
            });
            components.push(Component { name: guest.operator.into(), digest, size: 0, sdk: "styx-wat".into() });
        }
        let (id, created) = (format!("dp_{app}"), Timestamp(0));
        let deployment = Deployment { id, app: app.into(), created, components, operators, limits, interface };
        catalog.apply(&Control::Deploy(deployment));
    }
    Arc::new(catalog)
}

/// A transaction of the app `test`.
pub fn transaction(catalog: &Catalog, tid: u64, operator: &str, key: &str, function: &str, args: &[u8]) -> Transaction {
    let request = Request {
        id: RequestId(tid.into()),
        operator: catalog.find("test", operator).unwrap().id,
        function: function.into(),
        key: key.into(),
        args: args.into(),
        retained: false,
        origin: None,
    };
    Transaction { tid: Tid(tid), time: Timestamp(1_700_000_000_000_000), request: Arc::new(request), query: false }
}

impl World {
    pub fn new(guests: &[Guest]) -> Self {
        World::with(guests, Limits::default(), Determinism::Off, Isolation::Warm)
    }

    pub fn with(guests: &[Guest], limits: Limits, determinism: Determinism, isolation: Isolation) -> Self {
        World::set_up(guests, limits, isolation, |cache| options(cache, determinism))
    }

    /// One whose guests run on fibers.
    pub fn on_fibers(guests: &[Guest]) -> Self {
        World::set_up(guests, Limits::default(), Isolation::Warm, |cache| EngineOptions {
            cluster: Some(workers::ROOM),
            ..options(cache, Determinism::Off)
        })
    }

    pub fn set_up(
        guests: &[Guest],
        limits: Limits,
        isolation: Isolation,
        options: impl FnOnce(&std::path::Path) -> EngineOptions,
    ) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let engine = Engine::new(options(cache.path())).unwrap();
        let catalog = deploy(&engine, cache.path(), guests, limits, isolation);
        let executor = engine.executor();
        let state = Arc::new(State::new(LAYOUT));
        World { engine, executor, catalog, state, next_tid: 0, _cache: cache }
    }

    pub fn transaction(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Transaction {
        self.next_tid += 1;
        transaction(&self.catalog, self.next_tid, operator, key, function, args)
    }

    /// Runs a transaction, does not commit it.
    pub fn run(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Execution {
        let transaction = self.transaction(operator, key, function, args);
        on_big_stack(|| self.executor.execute(&transaction, &self.state, &self.catalog))
    }

    /// Runs and commits.
    pub fn commit(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Execution {
        let execution = self.run(operator, key, function, args);
        let state = Arc::get_mut(&mut self.state).expect("nobody else holds the state");
        execution.writes().for_each(|write| state.apply(write));
        execution
    }

    pub fn value(&self, operator: &str, key: &str) -> Option<Value> {
        let operator = self.catalog.find("test", operator).unwrap();
        self.state.get(&Entity::new(&self.state.layout(), operator.id, operator.composite, key.into())).cloned()
    }
}

/// Runs on a thread with the stack that executors need.
pub fn on_big_stack<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(styx_engine::EXECUTION_STACK_BYTES)
            .spawn_scoped(scope, f)
            .unwrap()
            .join()
            .unwrap()
    })
}

/// Loads a component as the node does: from a file under its digest.
pub fn load(engine: &Engine, directory: &std::path::Path, bytes: &[u8]) -> Digest {
    use sha2::Digest as _;
    let digest = Digest(sha2::Sha256::digest(bytes).into());
    let path = directory.join(digest.to_string());
    std::fs::write(&path, bytes).unwrap();
    engine.load(digest, &path).unwrap_or_else(|error| panic!("{error}"));
    digest
}

/// The code of an execution that failed.
pub fn code(execution: &Execution) -> Code {
    execution.outcome.as_ref().expect_err("it fails").code
}

/// The message of an execution that failed.
pub fn message(execution: &Execution) -> &str {
    &execution.outcome.as_ref().expect_err("it fails").message
}

/// The result of an execution, as text.
pub fn text(execution: &Execution) -> String {
    String::from_utf8_lossy(execution.outcome.as_ref().unwrap_or_else(|abort| panic!("{abort}"))).into_owned()
}
