//! Keys of an operator get a prefix, and lose it again, while it has entities: they are placed anew, calls go on, and whoever
//! begins anew finds them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use styx_client::Client;
use styx_harness::Role;

use crate::process::cluster::{Cluster, options};
use crate::process::{Endpoints, Process, build_python, told};
use crate::verbs::{asked, styx};

const PLAIN: &str = "
from styx import Context, Operator

account = Operator(\"account\")


@account.register
def put(ctx: Context, balance: int) -> int:
    ctx.state.put(balance)
    return balance


@account.register(read_only=True)
def balance(ctx: Context) -> int:
    return ctx.state.get()


@account.register(read_only=True)
def under(ctx: Context, prefix: str) -> list[str]:
    return [key for key, _ in ctx.state.scan(prefix)]
";

/// Without a prefix of keys, and with one.
async fn bundles(directory: &Path) -> [PathBuf; 2] {
    let keyed = PLAIN.replace("Operator(\"account\")", "Operator(\"account\", key_prefix=\"branch\")");
    std::fs::create_dir_all(directory).unwrap();
    let mut bundles = Vec::new();
    for (name, text) in [("plain", PLAIN.to_owned()), ("keyed", keyed)] {
        bundles.push(directory.join(format!("{name}.zip")));
        std::fs::write(&bundles[bundles.len() - 1], build_python(name, "bank.py", &text).await).unwrap();
    }
    bundles.try_into().unwrap()
}

/// Keys of four branches, and one that names none.
fn keys() -> Vec<String> {
    (0..200).map(|number| format!("b{}:{number:03}", number % 4)).chain(["alone".to_owned()]).collect()
}

fn verb(server: &impl Endpoints, arguments: &[&str]) -> (i32, Value) {
    tokio::task::block_in_place(|| asked(server, arguments))
}

fn deploy(server: &impl Endpoints, bundle: &Path, options: &[&str]) -> (i32, Value) {
    verb(server, &[&["deploy", bundle.to_str().unwrap(), "--app", "bank"], options].concat())
}

/// Whether what was asked for is refused, with this code, by a message that says this.
fn is_refused((status, told): (i32, Value), code: &str, says: &str) {
    let error = &told["error"];
    assert_eq!((status, error["code"].as_str()), (1, Some(code)), "{told}");
    assert!(error["message"].as_str().unwrap().contains(says), "{told}");
}

/// Partitions that hold anything.
async fn taken(server: &impl Endpoints) -> usize {
    let all = server.get("/v1/partitions?limit=65536").await;
    all["partitions"].as_array().unwrap().iter().filter(|one| one["entities"].as_u64() > Some(0)).count()
}

/// Every entity is found by its key, by its prefix and among all, by functions and by whoever looks.
async fn is_whole(server: &impl Endpoints) {
    for (balance, key) in keys().iter().enumerate() {
        assert_eq!(server.call(&format!("bank/account/{key}/balance"), "[]").await.body, json!(balance), "{key}");
        assert_eq!(server.get(&format!("/v1/state/bank/account/{key}")).await["value"], json!(balance), "{key}");
    }
    let mut all = keys();
    all.sort_unstable();
    for prefix in ["b0:", "b1:", "b2:", "b3:", "b", "al", ""] {
        let expected: Vec<&String> = all.iter().filter(|key| key.starts_with(prefix)).collect();
        let scanned = server.call("bank/account/b0:000/under", format!("[\"{prefix}\"]")).await.body;
        assert_eq!(scanned, json!(expected), "{prefix}");
        let shown = server.get(&format!("/v1/state/bank/account?limit=1000&prefix={prefix}")).await;
        let shown: Vec<&Value> = shown["entries"].as_array().unwrap().iter().map(|entry| &entry["key"]).collect();
        assert_eq!(json!(shown), json!(expected), "{prefix}");
    }
}

/// Reads one entity after the other until it is told to end.
struct Reader {
    ends: Arc<AtomicBool>,
    read: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Reader {
    fn of(client: Client) -> Self {
        let (ends, read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (over, count) = (ends.clone(), read.clone());
        let task = tokio::spawn(async move {
            for (balance, key) in keys().iter().enumerate().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let found = client.call("bank", "account", key, "balance", json!([])).await.unwrap();
                assert_eq!(found, json!(balance), "{key}");
                let found = client.call("bank", "account", key, "under", json!(["b2:"])).await.unwrap();
                assert_eq!(found.as_array().map(Vec::len), Some(50), "{found}");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Reader { ends, read, task }
    }

    /// So many more are read.
    async fn goes_on(&self, more: usize) {
        let upto = self.read.load(Ordering::Relaxed) + more;
        while self.read.load(Ordering::Relaxed) < upto && !self.task.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn ends(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.task.await.expect("everything was read");
    }
}

/// Entities without a prefix of keys; gives in how many partitions they are.
async fn begun(server: &impl Endpoints, plain: &Path) -> usize {
    assert_eq!(deploy(server, plain, &[]).0, 0);
    let calls = keys().into_iter().enumerate().map(|(balance, key)| {
        json!({ "id": key, "app": "bank", "operator": "account", "key": key, "function": "put", "args": [balance] })
    });
    let lines: String = calls.map(|call| format!("{call}\n")).collect();
    let request = server.to_ingress(Method::POST, "/v1/batch").header("content-type", "application/x-ndjson");
    let answers = request.body(lines).send().await.unwrap().text().await.unwrap();
    assert!(!answers.contains("\"error\""), "{answers}");
    is_whole(server).await;
    let before = taken(server).await;
    assert!(before > 60, "{before}");
    before
}

/// Their keys get a prefix, once that is asked for.
async fn keyed(server: &impl Endpoints, bundle: &Path, client: Client) {
    let before = taken(server).await;
    let why = "operator \"account\" exists without a key prefix, and its 201 entities are placed by that";
    is_refused(deploy(server, bundle, &[]), "KEY_PREFIX_CHANGED", why);
    is_refused(deploy(server, bundle, &["--dry-run"]), "KEY_PREFIX_CHANGED", why);
    let rekeyed = json!([{ "operator": "account", "key_prefix": "branch", "entities": 201 }]);
    let (status, told) = deploy(server, bundle, &["--rekey", "--dry-run"]);
    assert_eq!((status, &told["rekeyed"]), (0, &rekeyed), "{told}");
    let arguments =
        ["--admin-url", server.admin(), "deploy", "--dry-run", "--rekey", "--app", "bank", bundle.to_str().unwrap()];
    let (_, _, text) = tokio::task::block_in_place(|| styx(Path::new("/"), &arguments));
    let said = "what account has, 201 entities, would be placed anew, and calls would wait as long";
    assert!(text.contains(said), "{text}");
    assert_eq!(taken(server).await, before, "nothing was done");

    let reader = Reader::of(client);
    reader.goes_on(10).await;
    let (status, told) = deploy(server, bundle, &["--rekey"]);
    assert_eq!((status, &told["rekeyed"]), (0, &rekeyed), "{told}");
    reader.goes_on(20).await;
    reader.ends().await;
    let now = taken(server).await;
    assert!(now <= 5, "four branches, and who is alone: {now}");
    is_whole(server).await;
    // The same keys are no reason to place anything anew.
    let (status, told) = deploy(server, bundle, &[]);
    assert_eq!((status, &told["rekeyed"]), (0, &Value::Null), "{told}");
    let why = "operator \"account\" exists with a key prefix, and its 201 entities";
    let plain = server.get("/v1/apps/bank/deployments").await["deployments"][2]["deployment"].clone();
    is_refused(verb(server, &["apps", "rollback", "bank", plain.as_str().unwrap()]), "KEY_PREFIX_CHANGED", why);
}

/// They lose it again.
async fn rolled_back(server: &impl Endpoints, before: usize) {
    is_whole(server).await;
    let plain = server.get("/v1/apps/bank/deployments").await["deployments"][2]["deployment"].clone();
    let (status, told) = verb(server, &["apps", "rollback", "bank", plain.as_str().unwrap(), "--rekey"]);
    assert_eq!((status, &told["rekeyed"][0]["entities"]), (0, &json!(201)), "{told}");
    assert_eq!(taken(server).await, before);
    is_whole(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entities_are_placed_anew_by_another_key_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let [plain, with_prefix] = bundles(&directory.path().join("sources")).await;
    let server = Process::start(&directory.path().join("data"), &["--snapshot-interval", "200ms"]).await;
    let before = begun(&server, &plain).await;
    keyed(&server, &with_prefix, server.client()).await;
    let server = server.kill_and_restart(&[]).await;
    rolled_back(&server, before).await;
    let server = server.kill_and_restart(&[]).await;
    assert_eq!(taken(&server).await, before);
    is_whole(&server).await;
}

/// All that keep anything are killed, and begin anew.
async fn killed(cluster: &mut Cluster) {
    let before = cluster.generation().await;
    cluster.kill(&[Role::Worker(0), Role::Worker(1), Role::Coordinator]).await;
    cluster.run(&[Role::Coordinator, Role::Worker(0), Role::Worker(1)]).await;
    cluster.settles(2, before).await;
}

/// What is in the log, or in snapshots as `store` says, is found where keys say.
async fn on_several_workers(store: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let [plain, with_prefix] = bundles(directory.path()).await;
    let mut cluster = Cluster::start(options(2, store)).await;
    let before = begun(&cluster, &plain).await;

    // While partitions move, keys stay as they are.
    let migrations = |cluster: &Cluster, method| cluster.to_admin(method, "/v1/migrations");
    let slow = json!({ "empty": 1, "rate": 1, "wait": false });
    let migrated = told(migrations(&cluster, Method::POST).json(&slow)).await;
    assert_eq!(migrated.status, StatusCode::ACCEPTED, "{}", migrated.body);
    is_refused(deploy(&cluster, &with_prefix, &["--rekey"]), "MIGRATION_UNDER_WAY", "only where partitions stay");
    assert_eq!(told(migrations(&cluster, Method::DELETE)).await.status, 200);

    keyed(&cluster, &with_prefix, cluster.client()).await;
    killed(&mut cluster).await;
    // A worker that compiles on a busy machine may be late with a deployment; both versions are there by now.
    let generation = cluster.generation().await;
    rolled_back(&cluster, before).await;
    assert_eq!(cluster.generation().await, generation, "nothing began anew");
    killed(&mut cluster).await;
    assert_eq!(taken(&cluster).await, before);
    is_whole(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_workers_entities_go_to_others_where_calls_find_them() {
    on_several_workers(&["--snapshot-interval", "200ms"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_snapshots_the_log_says_where_entities_are() {
    on_several_workers(&["--store", "none"]).await;
}
