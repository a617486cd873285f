//! CPython with the SDK, initialised once and compiled once: an app is loaded into it in a second, instead of into one that
//! is linked, compiled and started anew, which takes ten.
//!
//! It is a component whose `invoke` imports the app (`styx._interpreter`), which is told of files by answers to `state.get`.
//! Wizer takes the memory of that moment: what it makes is the component that componentize-py would have made, but for what was
//! drawn by chance. The interpreter has no files, and nothing of WASI but clocks, random numbers and an empty environment:
//! whoever asks for more at import, or has native code, is built by componentize-py.

use std::fs;
use std::io::Read;
use std::path::{Component as Part, Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Instance, Lift, Linker, Val, WasmList};
use wasmtime::{Result, Store, bail, format_err};
use wasmtime_wizer::{ComponentInstanceState, Wizer};

use crate::compiled::{self, FUEL};

const COMPONENT: &str = "interpreter.wasm";
/// Of its code.
const NAME: &str = "interpreter";
const LIBRARY: &str = "library";
/// Where the library was, in the interpreter: a file in the library's directory.
const LIBRARY_PATH: &str = "PATH";
/// Files of the SDK that no component has: as `styx.build` has it.
const NOT_INSIDE: [&str; 2] = ["build.py", "testing.py"];

/// An interpreter in a directory.
pub struct Interpreter {
    directory: PathBuf,
}

/// What an app is made of.
pub struct AppFiles<'a> {
    pub module: &'a str,
    /// The SDK's `src`.
    pub sdk: &'a Path,
    pub project: &'a Path,
    pub packages: Option<&'a Path>,
}

impl AppFiles<'_> {
    /// Whether there is anything that componentize-py has to link.
    pub fn have_native_code(&self) -> bool {
        [Some(self.project), self.packages].into_iter().flatten().any(has_native_code)
    }
}

impl Interpreter {
    /// One that is complete, in its directory.
    pub fn open(directory: PathBuf) -> Option<Self> {
        compiled::is_kept(&directory, NAME).then_some(Self { directory })
    }

    /// Completes a directory in which `styx.build` has made the component and the library, with functions that are in a
    /// cache of compiled code, or come there by it.
    pub fn complete(directory: &Path, cache: &Path) -> Result<()> {
        let component = fs::read(directory.join(COMPONENT))?;
        let (_, instrumented) = Wizer::new().instrument_component(&component)?;
        let code = styx_engine::compile_for_build(&instrumented, cache).map_err(|error| format_err!("{error}"))?;
        compiled::keep(directory, NAME, &[&component], &code)
    }

    /// The component of an app. An error says that componentize-py has to make it, and may find nothing wrong with it.
    pub fn load(&self, app: &AppFiles) -> Result<Vec<u8>> {
        let base = fs::read(self.directory.join(COMPONENT))?;
        let code = compiled::read(&self.directory, NAME, &[&base])?;
        let (context, _) = Wizer::new().instrument_component(&base)?;
        let engine = styx_engine::engine_for_build().map_err(|error| format_err!("{error}"))?;
        // SAFETY: it is what this program's compiler wrote, by its checksum, in a directory of the user's own; wasmtime itself
        // refuses code of another version, configuration or processor.
        let component = unsafe { Component::deserialize(&engine, &code) }?;
        let mut store = Store::new(&engine, self.files(app)?);
        store.set_fuel(FUEL)?;
        let instance = linker(&component)?.instantiate(&mut store, &component)?;
        let invoke = instance.get_func(&mut store, "invoke").ok_or_else(|| format_err!("there is no `invoke`"))?;
        let mut result = [Val::Bool(false)];
        let arguments = [Val::String(String::new()), Val::String(String::new()), Val::List(Vec::new())];
        invoke.call(&mut store, &arguments, &mut result)?;
        if let [Val::Result(Err(failure))] = &result {
            bail!("{failure:?}");
        }
        let mut state = State { store, instance };
        pollster::block_on(Wizer::new().snapshot_component(&context, &mut state))
    }

    fn files(&self, app: &AppFiles) -> Result<Files> {
        let library = self.directory.join(LIBRARY);
        let library_path = fs::read_to_string(library.join(LIBRARY_PATH))?;
        let mut roots = vec![("/1/".to_owned(), app.sdk.to_owned()), ("/2/".to_owned(), app.project.to_owned())];
        roots.extend(app.packages.map(|packages| ("/3/".to_owned(), packages.to_owned())));
        roots.push((format!("{library_path}/"), library));
        Ok(Files {
            entry: format!("\"\"\"Generated: imports the app.\"\"\"\n\nimport {}  # noqa: F401\n", app.module),
            roots,
        })
    }
}

/// Files as the interpreter knows them: the directories that componentize-py mounts.
struct Files {
    entry: String,
    roots: Vec<(String, PathBuf)>,
}

impl Files {
    /// What is asked for: a file; whether a directory is there, with `/` at its end; with `*`, that no module of the name is
    /// anything but source.
    fn answer(&self, asked: &str) -> Result<Option<Vec<u8>>> {
        if asked == "/0/_styx_entry.py" {
            return Ok(Some(self.entry.clone().into_bytes()));
        }
        let root =
            self.roots.iter().find_map(|(prefix, root)| Some((prefix, root, asked.strip_prefix(prefix.as_str())?)));
        let Some((prefix, root, inside)) = root else { return Ok(None) };
        let path = root.join(inside.trim_end_matches(['/', '*']));
        let is_inside = Path::new(inside).components().all(|part| matches!(part, Part::Normal(_)));
        let is_left_out = prefix == "/1/" && NOT_INSIDE.iter().any(|name| inside.strip_prefix("styx/") == Some(name));
        if !is_inside || is_left_out {
            return Ok(None);
        }
        if inside.ends_with('*') {
            return if has_other_forms(&path)? { bail!("{asked} is no source") } else { Ok(None) };
        }
        if inside.ends_with('/') {
            return Ok(path.is_dir().then(Vec::new));
        }
        Ok(if path.is_file() { Some(fs::read(path)?) } else { None })
    }
}

/// Whether there is a module under a path that is native, or compiled without its source.
fn has_other_forms(path: &Path) -> Result<bool> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(false);
    };
    let Ok(entries) = fs::read_dir(directory) else { return Ok(false) };
    for entry in entries {
        let found = entry?.file_name();
        let rest = found.to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix('.'));
        if rest.is_some_and(|rest| rest.ends_with("so") || rest.ends_with("pyc")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_native_code(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => !name.starts_with('.') && has_native_code(&path),
            _ => name.ends_with(".so") || name == "componentize-py.toml",
        }
    })
}

/// The imports: of the contract only files, of WASI only what modules ask for that need no system. Everything else traps.
fn linker(component: &Component) -> Result<Linker<Files>> {
    let engine = component.engine();
    let mut linker = Linker::<Files>::new(engine);
    let started = Instant::now();
    for (name, item) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(_) = item.ty else { continue };
        let interface = name.split('@').next().unwrap_or(name);
        let mut instance = linker.instance(name)?;
        match interface {
            "styx:guest/state" => {
                instance.func_wrap("get", |store, (path,): (String,)| Ok((store.data().answer(&path)?,)))?
            }
            "wasi:cli/environment" => {
                instance.func_new("get-environment", |_, _, _, results| {
                    results[0] = Val::List(Vec::new());
                    Ok(())
                })?;
                instance.func_wrap("get-arguments", |_, ()| Ok((Vec::<String>::new(),)))?;
            }
            "wasi:clocks/wall-clock" => instance.func_new("now", |_, _, _, results| {
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
                let field = |name: &str, value| (name.to_owned(), value);
                results[0] = Val::Record(vec![
                    field("seconds", Val::U64(now.as_secs())),
                    field("nanoseconds", Val::U32(now.subsec_nanos())),
                ]);
                Ok(())
            })?,
            "wasi:clocks/monotonic-clock" => {
                instance.func_wrap("now", move |_, ()| Ok((started.elapsed().as_nanos() as u64,)))?;
            }
            "wasi:random/random" => {
                instance.func_wrap("get-random-bytes", |_, (count,): (u64,)| {
                    let mut bytes = vec![0; usize::try_from(count.min(1 << 20))?];
                    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
                    Ok((bytes,))
                })?;
            }
            _ => {}
        }
    }
    linker.define_unknown_imports_as_traps(component)?;
    Ok(linker)
}

/// An instance whose memory is taken.
struct State {
    store: Store<Files>,
    instance: Instance,
}

impl State {
    fn call<R: Lift + 'static, T>(
        &mut self,
        instance: &str,
        name: &str,
        use_it: impl FnOnce(&Store<Files>, R) -> T,
    ) -> T {
        // Wizer has put them there.
        let there = "what Wizer has added is there";
        let (_, outer) = self.instance.get_export(&mut self.store, None, instance).expect(there);
        let (_, inner) = self.instance.get_export(&mut self.store, Some(&outer), name).expect(there);
        let function = self.instance.get_typed_func::<(), (R,)>(&mut self.store, inner).expect(there);
        let (result,) = function.call(&mut self.store, ()).expect("it only reads");
        use_it(&self.store, result)
    }
}

impl ComponentInstanceState for State {
    async fn call_func_ret_list_u8(&mut self, instance: &str, func: &str, contents: impl FnOnce(&[u8]) + Send) {
        self.call(instance, func, |store, list: WasmList<u8>| contents(list.as_le_slice(store)));
    }

    async fn call_func_ret_s32(&mut self, instance: &str, func: &str) -> i32 {
        self.call(instance, func, |_, value| value)
    }

    async fn call_func_ret_s64(&mut self, instance: &str, func: &str) -> i64 {
        self.call(instance, func, |_, value| value)
    }

    async fn call_func_ret_f32(&mut self, instance: &str, func: &str) -> u32 {
        self.call(instance, func, |_, value: f32| value.to_bits())
    }

    async fn call_func_ret_f64(&mut self, instance: &str, func: &str) -> u64 {
        self.call(instance, func, |_, value: f64| value.to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_answered_where_componentize_py_mounts_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = |name: &str| directory.path().join(name);
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sdk/styx/state.py", "state");
        write("sdk/styx/testing.py", "not inside");
        write("project/shop.py", "shop");
        write("project/data/x.txt", "x");
        write("library/_decimal.cpython-314-wasm32-wasi.so", "");
        write("library/decimal.py", "decimal");
        write("secret.py", "secret");
        let roots = [("/1/", "sdk"), ("/2/", "project"), ("/python/lib/", "library")];
        let files = Files {
            entry: "import shop".to_owned(),
            roots: roots.map(|(prefix, name)| (prefix.to_owned(), root(name))).into(),
        };
        let text = |path: &str| files.answer(path).unwrap().map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(text("/0/_styx_entry.py").as_deref(), Some("import shop"));
        assert_eq!(text("/1/styx/state.py").as_deref(), Some("state"));
        assert_eq!(text("/1/styx/testing.py"), None, "as in a component that componentize-py makes");
        assert_eq!(text("/2/shop.py").as_deref(), Some("shop"));
        assert_eq!(text("/2/data/").as_deref(), Some(""));
        assert_eq!(text("/2/shop/"), None);
        assert_eq!(text("/2/data"), None, "no file");
        for outside in ["/2/../secret.py", "/2//etc/passwd", "/3/shop.py", "/etc/passwd", "shop.py", ""] {
            assert_eq!(text(outside), None, "{outside}");
        }
        assert_eq!(text("/python/lib/decimal*"), None);
        assert!(files.answer("/python/lib/_decimal*").is_err(), "what is native cannot be loaded");
    }

    #[test]
    fn native_code_is_found_wherever_it_is() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!has_native_code(directory.path()));
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::write(directory.path().join("a/b/c.py"), "").unwrap();
        assert!(!has_native_code(directory.path()));
        fs::write(directory.path().join("a/b/c.cpython-314-wasm32-wasi.so"), "").unwrap();
        assert!(has_native_code(directory.path()));
    }

    #[test]
    fn an_interpreter_that_is_not_complete_or_is_damaged_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = || directory.path().to_owned();
        fs::write(path().join(COMPONENT), "component").unwrap();
        assert!(Interpreter::open(path()).is_none());
        compiled::keep(&path(), NAME, &[b"another component"], b"code").unwrap();
        let app = AppFiles { module: "shop", sdk: &path(), project: &path(), packages: None };
        let error = Interpreter::open(path()).unwrap().load(&app).unwrap_err();
        assert!(error.to_string().ends_with(" is damaged: remove it"), "{error}");
    }
}
