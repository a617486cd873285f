//! Location of a store of snapshots: a directory, a bucket, or memory; and why it cannot be used if it cannot.
//!
//! `file:///var/lib/styx/snapshots`, or simply a path: a directory, made if it is not there.
//! `s3://bucket/prefix`: a bucket of S3 or of a server that speaks it, with settings by the names of the usual
//! `AWS_*` variables (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, …). They are
//! arguments: nothing here reads the environment.
//! `memory:`: gone with the process, for tests.
//!
//! In a directory everything that is put is synchronised, file and directory, before it is said to be there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "s3")]
use std::time::Duration;

use object_store::ObjectStore;
#[cfg(feature = "s3")]
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
#[cfg(feature = "s3")]
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use url::Url;

use super::error::{SnapshotError, one_line};

/// URL of a store of snapshots, with its credentials and settings.
#[derive(Clone)]
pub struct StoreLocation {
    url: String,
    settings: Vec<(String, String)>,
    memory: Option<Memory>,
}

/// A store in memory that several [`StoreLocation`]s can share, as several processes share a bucket.
#[derive(Clone, Debug)]
pub struct Memory(Arc<dyn ObjectStore>);

impl Default for Memory {
    fn default() -> Self {
        Self(Arc::new(InMemory::new()))
    }
}

impl From<Arc<dyn ObjectStore>> for Memory {
    /// Any other store, say one that fails on purpose.
    fn from(store: Arc<dyn ObjectStore>) -> Self {
        Self(store)
    }
}

impl Memory {
    /// The objects, to be examined or damaged by tests.
    pub fn objects(&self) -> Arc<dyn ObjectStore> {
        self.0.clone()
    }
}

/// Timeouts and retries: a running process waits for a store that restarts; at the start a wrong setting shows soon.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    Opening,
    Running,
    /// No retries: a lease runs out meanwhile, and its holder decides whether to ask again.
    Lease,
}

pub(crate) struct Opened {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// Prefix of every name, without a slash at its end.
    pub(crate) prefix: String,
    pub(crate) directory: Option<PathBuf>,
}

impl StoreLocation {
    /// The place at `url`, or the directory at that path, with no other settings.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), settings: Vec::new(), memory: None }
    }

    /// The location at `url` with settings of the store's client, by the names of `AWS_*` variables; others are
    /// ignored.
    pub fn with_settings(url: impl Into<String>, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        let settings = settings.into_iter().filter(|(name, _)| name.starts_with("AWS_")).collect();
        Self { url: url.into(), settings, memory: None }
    }

    /// The store in `memory`.
    pub fn in_memory(memory: &Memory) -> Self {
        Self { url: "memory:".into(), settings: Vec::new(), memory: Some(memory.clone()) }
    }

    /// Sets the setting `name`, the name of an `AWS_*` variable, to `value`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.settings.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.settings.push((name.to_owned(), value.into()));
        self
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn unusable(&self, reason: impl Into<String>) -> SnapshotError {
        SnapshotError::Unusable { location: self.url.clone(), reason: reason.into() }
    }

    pub(crate) fn open(&self, retries: RetryPolicy) -> Result<Opened, SnapshotError> {
        if let Some(memory) = &self.memory {
            return Ok(Opened { store: memory.objects(), prefix: String::new(), directory: None });
        }
        if self.url.starts_with(['/', '.']) || !self.url.contains(':') {
            return self.open_directory(Path::new(&self.url));
        }
        let url = Url::parse(&self.url).map_err(|error| {
            self.unusable(format!("that is no URL ({error}): use file:///directory or s3://bucket/prefix"))
        })?;
        match url.scheme() {
            "memory" => Ok(Opened { store: Arc::new(InMemory::new()), prefix: String::new(), directory: None }),
            "file" => match url.to_file_path() {
                Ok(path) if url.host_str().is_none_or(str::is_empty) => self.open_directory(&path),
                _ => Err(self.unusable("a directory's URL has three slashes before its absolute path: file:///…")),
            },
            "s3" | "s3a" => self.open_bucket(&url, retries),
            other => {
                Err(self.unusable(format!("{other}: is not supported: use file:///directory or s3://bucket/prefix")))
            }
        }
    }

    fn open_directory(&self, path: &Path) -> Result<Opened, SnapshotError> {
        if path.exists() && !path.is_dir() {
            return Err(self.unusable("it is not a directory: name one, or a path where one can be made"));
        }
        make_directory(path)
            .map_err(|error| self.unusable(format!("{error}: create the directory, or give this user the right to")))?;
        let store = LocalFileSystem::new_with_prefix(path).map_err(|error| self.unusable(one_line(&error)))?;
        let directory = path.canonicalize().map_err(|error| self.unusable(error.to_string()))?;
        Ok(Opened { store: Arc::new(store.with_fsync(true)), prefix: String::new(), directory: Some(directory) })
    }

    #[cfg(not(feature = "s3"))]
    fn open_bucket(&self, _url: &Url, _retries: RetryPolicy) -> Result<Opened, SnapshotError> {
        Err(self.unusable("this build of Styx has no S3; build it with `cargo build --release -p styx-cli`"))
    }

    #[cfg(feature = "s3")]
    fn open_bucket(&self, url: &Url, retries: RetryPolicy) -> Result<Opened, SnapshotError> {
        let Some(bucket) = url.host_str().filter(|host| !host.is_empty()) else {
            return Err(self.unusable("the bucket's name is missing: s3://bucket/prefix"));
        };
        let prefix = object_store::path::Path::from_url_path(url.path())
            .map_err(|error| self.unusable(format!("the prefix cannot be used: {}", one_line(&error))))?;
        let mut builder = AmazonS3Builder::new();
        for (name, value) in &self.settings {
            // Variables of other tools begin like this too; those that mean nothing here are passed over.
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        let retry = match retries {
            RetryPolicy::Opening => RetryConfig {
                backoff: BackoffConfig { max_backoff: Duration::from_millis(500), ..BackoffConfig::default() },
                max_retries: 2,
                retry_timeout: Duration::from_secs(5),
            },
            RetryPolicy::Running => RetryConfig {
                backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
                max_retries: 10,
                retry_timeout: Duration::from_secs(60),
            },
            RetryPolicy::Lease => RetryConfig { max_retries: 0, ..RetryConfig::default() },
        };
        let (connect, timeout) = match retries {
            RetryPolicy::Opening => (5, 10),
            RetryPolicy::Running => (5, 60),
            RetryPolicy::Lease => (1, 2),
        };
        let client = ClientOptions::new()
            .with_allow_http(self.endpoint().is_some_and(|endpoint| endpoint.starts_with("http://")))
            .with_connect_timeout(Duration::from_secs(connect))
            .with_timeout(Duration::from_secs(timeout));
        let store = builder
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(retry)
            .with_client_options(client)
            .build()
            .map_err(|error| self.unusable(format!("{}: check the AWS_* variables", one_line(&error))))?;
        Ok(Opened { store: Arc::new(store), prefix: prefix.to_string(), directory: None })
    }

    fn endpoint(&self) -> Option<&str> {
        let of = |wanted: &str| {
            let found = self.settings.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.as_str())
        };
        of("AWS_ENDPOINT_URL_S3").or_else(|| of("AWS_ENDPOINT_URL")).or_else(|| of("AWS_ENDPOINT"))
    }

    /// Explains a store's first refusal to the operator.
    pub(crate) fn explain(&self, error: &object_store::Error) -> SnapshotError {
        use object_store::Error as E;
        let text = one_line(error);
        let bucket = Url::parse(&self.url).ok().filter(|url| url.scheme().starts_with("s3"));
        let Some(bucket) = bucket.and_then(|url| url.host_str().map(str::to_owned)) else {
            return self.unusable(format!("{text}: give this user the right to write there"));
        };
        let endpoint = self.endpoint().unwrap_or("the default endpoint of its region");
        // Servers differ in their statuses, not in their codes.
        let reason = if text.contains("NoSuchBucket") {
            format!("there is no bucket {bucket} at {endpoint}: create it, or correct the URL")
        } else if matches!(error, E::Unauthenticated { .. } | E::PermissionDenied { .. })
            || text.contains("InvalidAccessKeyId")
            || text.contains("SignatureDoesNotMatch")
            || text.contains("access key")
        {
            format!(
                "{endpoint} refuses the credentials: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, \
                 and that they may read and write bucket {bucket} ({text})"
            )
        } else if text.contains("/latest/") {
            // The last resort is the metadata service of a cloud's machine, which there was none of.
            "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_owned()
        } else if text.contains("error sending request") || text.contains("onnect") {
            format!("nobody answers at {endpoint}: check AWS_ENDPOINT_URL and that the server runs ({text})")
        } else {
            format!("{endpoint} answers: {text}")
        };
        self.unusable(reason)
    }
}

impl std::fmt::Debug for StoreLocation {
    /// Without the settings: there are secrets among them.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoreLocation").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Makes a directory that is still there after a power failure.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_directory(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use object_store::Error;

    use super::*;

    fn bucket() -> StoreLocation {
        StoreLocation::new("s3://orders/a")
    }

    fn answer(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn of_settings_those_of_the_stores_client_count_and_the_last_of_each() {
        let settings = [("AWS_REGION", "r"), ("HOME", "/root")].map(|(name, value)| (name.into(), value.into()));
        let location = StoreLocation::with_settings("s3://orders", settings);
        assert_eq!(location.settings, [("AWS_REGION".into(), "r".into())]);
        let location = location.with("aws_region", "other").with("AWS_ENDPOINT", "http://a");
        assert_eq!(
            location.settings,
            [("aws_region", "other"), ("AWS_ENDPOINT", "http://a")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(location.endpoint(), Some("http://a"));
        let location = location.with("aws_endpoint_url", "http://b");
        assert_eq!(location.endpoint(), Some("http://b"));
        assert_eq!(location.with("AWS_ENDPOINT_URL_S3", "http://c").endpoint(), Some("http://c"));
        assert_eq!(bucket().endpoint(), None);
    }

    #[test]
    fn a_stores_refusal_says_what_to_do() {
        let at = bucket().with("AWS_ENDPOINT_URL", "http://h:1");
        let denied = || "no".to_owned().into();
        let cases = [
            (answer("<Code>NoSuchBucket</Code>"), "there is no bucket orders at http://h:1: create it"),
            (Error::PermissionDenied { path: "a".into(), source: denied() }, "http://h:1 refuses the credentials"),
            (Error::Unauthenticated { path: "a".into(), source: denied() }, "http://h:1 refuses the credentials"),
            (answer("InvalidAccessKeyId"), "http://h:1 refuses the credentials"),
            (answer("SignatureDoesNotMatch"), "http://h:1 refuses the credentials"),
            (answer("wrong access key"), "http://h:1 refuses the credentials"),
            (answer("error sending request for 169.254.169.254/latest/api"), "there are no credentials"),
            (answer("error sending request"), "nobody answers at http://h:1: check AWS_ENDPOINT_URL"),
            (answer("Connection refused"), "nobody answers at http://h:1: check AWS_ENDPOINT_URL"),
            (answer("busy"), "http://h:1 answers: "),
        ];
        for (error, says) in cases {
            let SnapshotError::Unusable { location, reason } = at.explain(&error) else { panic!("{error}") };
            assert!(location == "s3://orders/a" && reason.starts_with(says), "{error:?}: {reason}");
        }
        let directory = StoreLocation::new("/data").explain(&answer("NoSuchBucket")).to_string();
        assert!(directory.contains("NoSuchBucket: give this user the right to write there"), "{directory}");
        let region = bucket().explain(&answer("busy")).to_string();
        assert!(region.contains("the default endpoint of its region answers"), "{region}");
    }

    #[test]
    fn a_directory_is_made_with_all_above_it_and_nothing_in_the_place_of_a_file() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        make_directory(&deep).unwrap();
        make_directory(&deep).unwrap();
        assert!(deep.is_dir());
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(make_directory(&file.join("below")).is_err());
        let location = StoreLocation::new(deep.to_str().unwrap());
        let opened = location.open(RetryPolicy::Opening).unwrap();
        assert_eq!(opened.directory, Some(deep.canonicalize().unwrap()));
        let url = StoreLocation::new(format!("file://{}", deep.display()));
        assert_eq!(url.open(RetryPolicy::Opening).unwrap().directory, Some(deep.canonicalize().unwrap()));
        assert!(StoreLocation::new("memory:").open(RetryPolicy::Opening).unwrap().directory.is_none());
        assert!(!format!("{:?}", bucket().with("AWS_SECRET_ACCESS_KEY", "hidden")).contains("hidden"));
    }
}
