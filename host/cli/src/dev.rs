//! `styx dev`: a server in a child process, whose lines come to the same terminal, and an app that is built and deployed
//! again whenever a file of it changes. The state stays, in `.styx` of the app's directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::{Event, EventKind, RecursiveMode, Watcher};
use reqwest::Method;
use styx_build::{COMPILED_CODE, Cache};
use styx_server::config::{Flags, ServerConfig};

use crate::Global;
use crate::client::Client;
use crate::deploy::Options;
use crate::error::CliError;
use crate::output::Output;

/// A server without much to recover is there sooner.
const START: Duration = Duration::from_secs(60);
/// Editors write a file in several steps.
const SETTLE: Duration = Duration::from_millis(100);

pub(crate) fn run(global: &Global, source: &Path, output: &Output) -> Result<(), CliError> {
    let source = source.canonicalize().map_err(|error| {
        CliError::usage("IO", format!("{}: {error}", source.display()), "give the directory of an app")
    })?;
    let client = Client::new(global)?;
    let (sender, changes) = channel();
    let watcher = notify::recommended_watcher(move |event| {
        // Nobody listens any more when the verb has ended.
        let _ = sender.send(event);
    })
    .and_then(|mut watcher| watcher.watch(&source, RecursiveMode::Recursive).map(|()| watcher));
    let _watcher = watcher.map_err(|error| {
        let message = format!("{} cannot be watched: {error}", source.display());
        CliError::new("WATCH", message, "the system's limit on watched files may be met (fs.inotify.max_user_watches)")
    })?;
    let mut server = Server::of(&client, global, &source, output)?;
    crate::build::prepare(&source, output);
    let mut warming_up = None;
    loop {
        match crate::deploy::run(&client, &source, None, Options::default(), output) {
            // While the user thinks: the next builds are faster for it.
            Ok(()) => {
                let source = source.clone();
                warming_up.get_or_insert_with(|| std::thread::spawn(move || styx_build::warm_up(&source)));
            }
            Err(error) => output.error(&error),
        }
        output.note("  waiting for changes; Ctrl-C ends it");
        loop {
            server.is_alive()?;
            match changed(&source, &changes, Duration::from_millis(500)) {
                Some(file) => {
                    output.note(&format!("  {} has changed", file.display()));
                    break;
                }
                None => continue,
            }
        }
    }
}

/// The server that the app is deployed to: one that is there already, or one of its own.
struct Server(Option<Child>);

impl Server {
    fn of(client: &Client, global: &Global, source: &Path, output: &Output) -> Result<Self, CliError> {
        let ready = || client.send(client.admin(Method::GET, "/readyz"));
        let is_there = || ready().is_ok();
        let asked = ready();
        if let Err(error) = &asked
            && error.code == "NOT_HERE"
        {
            // A server takes calls there: another one would find its addresses taken.
            return asked.map(|_| Server(None));
        }
        if asked.is_ok() {
            output.note(&format!("  using the server at {}", client.admin_url()));
            return Ok(Server(None));
        }
        let program = std::env::current_exe()
            .map_err(|error| CliError::new("IO", format!("this program cannot be found: {error}"), ""))?;
        let address = |url: &str| url.rsplit("://").next().unwrap_or(url).trim_end_matches('/').to_owned();
        let (admin, ingress) = (socket(&address(&global.admin_url))?, socket(&address(&global.ingress_url))?);
        let data = source.join(".styx");
        let mut server = Command::new(program);
        server.arg("server").args(["--admin-addr", &admin]).args(["--ingress-addr", &ingress]);
        server.arg("--data-dir").arg(&data);
        if let Some(cache) = code_of_user(source, &data)? {
            server.arg("--cache-dir").arg(cache);
        }
        let child = server
            .current_dir(source)
            // It ends with this process, however that ends.
            .arg("--while-stdin")
            .args(["--log-level", &crate::environment::log_filter_of_dev()])
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| CliError::new("IO", format!("the server cannot be started: {error}"), ""))?;
        let mut server = Server(Some(child));
        let until = Instant::now() + START;
        while !is_there() {
            server.is_alive()?;
            if Instant::now() > until {
                return Err(CliError::new("NOT_READY", "the server does not become ready", "its lines above say why"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    fn is_alive(&mut self) -> Result<(), CliError> {
        let ended = self.0.as_mut().and_then(|child| child.try_wait().ok().flatten());
        match ended {
            None => Ok(()),
            Some(status) => {
                self.0 = None;
                Err(CliError::new("SERVER_ENDED", format!("the server has ended: {status}"), "its lines above say why"))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // All that was acknowledged is durable: a server may be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The user's directory of compiled code, which all apps of his share: what one has had compiled, the next need not. `None` if
/// the app's settings name another.
fn code_of_user(source: &Path, data: &Path) -> Result<Option<PathBuf>, CliError> {
    let config = ServerConfig::resolve(Flags::default().with("data_dir", data), source)?;
    if config.cache_dir != config.data_dir.join("cache") {
        return Ok(None);
    }
    let directory = Cache::of_user().and_then(|cache| cache.directory(COMPILED_CODE));
    directory.map(Some).map_err(crate::build::refused)
}

/// The address of a port of this machine, as the server takes it.
fn socket(address: &str) -> Result<String, CliError> {
    let local = address.replace("localhost", "127.0.0.1");
    match local.parse::<std::net::SocketAddr>() {
        Ok(found) if found.ip().is_loopback() => Ok(local),
        _ => {
            let message = format!("nobody answers at {address}, where no server can be started from here");
            Err(CliError::usage("UNREACHABLE", message, "give --admin-url and --ingress-url of this machine"))
        }
    }
}

/// A file of the app that has changed, within some time; and nothing of the app has for a moment since. What else changes there,
/// as the server's data do with every call, counts for nothing.
fn changed(source: &Path, changes: &Receiver<notify::Result<Event>>, within: Duration) -> Option<PathBuf> {
    let mut found = None;
    let mut until = Instant::now() + within;
    loop {
        match changes.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(event)) if !matches!(event.kind, EventKind::Access(_)) => {
                let of_app = event.paths.iter().find_map(|path| {
                    let path = path.strip_prefix(source).ok()?;
                    is_source(path).then(|| path.to_owned())
                });
                if let Some(path) = of_app {
                    found.get_or_insert(path);
                    until = Instant::now() + SETTLE;
                }
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return found,
        }
        if Instant::now() >= until {
            return found;
        }
    }
}

/// Whether an app may be made from a file: not what was built of it, nor what programs keep beside it.
fn is_source(path: &Path) -> bool {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy());
    !path.starts_with("target")
        && !path.as_os_str().is_empty()
        && parts.all(|part| {
            let other = ["node_modules", "__pycache__", "venv"].contains(&part.as_ref());
            !other && !part.starts_with('.') && !part.ends_with('~') && !part.ends_with(".pyc")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_app_is_made_of_is_watched() {
        for file in ["shop.py", "src/lib.rs", "styx.toml", "src/target/mod.rs"] {
            assert!(is_source(Path::new(file)), "{file}");
        }
        for file in ["", "target/shop.zip", ".styx/log/1", "__pycache__/a.pyc", ".shop.py.swp", "shop.py~", "a/.git/x"]
        {
            assert!(!is_source(Path::new(file)), "{file}");
        }
    }

    #[test]
    fn a_change_is_noticed_while_the_server_writes() {
        let (sender, changes) = channel();
        let event = |path: &str| Ok(Event::new(EventKind::Any).add_path(path.into()));
        sender.send(event("/app/shop.py")).unwrap();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let writing = std::thread::spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                sender.send(event("/app/.styx/log/1")).unwrap();
                std::thread::sleep(SETTLE / 10);
            }
        });
        let started = Instant::now();
        let found = changed(Path::new("/app"), &changes, Duration::from_secs(5));
        let nothing = changed(Path::new("/app"), &changes, SETTLE);
        let took = started.elapsed();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writing.join().unwrap();
        assert_eq!(found, Some(PathBuf::from("shop.py")));
        assert_eq!(nothing, None);
        assert!(took < Duration::from_secs(4), "{took:?}");
    }

    #[test]
    fn a_server_is_started_on_this_machine_only() {
        assert_eq!(socket("localhost:9070").unwrap(), "127.0.0.1:9070");
        assert_eq!(socket("10.0.0.1:9070").unwrap_err().code, "UNREACHABLE");
    }
}
