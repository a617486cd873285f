//! What the HTTP surfaces need of the rest of the process.

use std::sync::Arc;
use std::time::Duration;

use styx_engine::{COMPONENT_BYTES_MAX, Engine};
use tokio::sync::Semaphore;

use crate::components::ComponentStore;
use crate::gateway::{Directories, Latencies};
use crate::handle::Handle;
use crate::http::{Origins, Shutdown};
use styx_build::BundleLimits;

/// Bounds and settings of the HTTP surfaces.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Bytes of a call's body, whatever an app's `limits.payload` says.
    pub body_bytes_max: u64,
    /// Bytes of an uploaded component.
    pub component_bytes_max: u64,
    /// What an uploaded bundle may hold.
    pub bundle: BundleLimits,
    /// How long a client may be silent in the middle of a body.
    pub silence: Duration,
    /// Requests under way on one pipelined connection; past that it is not read from.
    pub in_flight_max: usize,
    /// Longest wait of `GET /v1/requests/{id}?wait=`.
    pub wait_max: Duration,
    /// Uploads held in memory at once; they are checked one at a time.
    pub uploads_max: usize,
    /// Pages that may call from elsewhere.
    pub origins: Origins,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            body_bytes_max: 64 << 20,
            component_bytes_max: COMPONENT_BYTES_MAX as u64,
            bundle: BundleLimits::default(),
            silence: Duration::from_secs(30),
            in_flight_max: 4096,
            wait_max: Duration::from_secs(60),
            uploads_max: 4,
            origins: Origins::default(),
        }
    }
}

/// What takes deployments.
#[derive(Clone)]
pub struct Deploys {
    /// Checks uploads.
    pub engine: Arc<Engine>,
    /// Keeps uploads.
    pub components: ComponentStore,
}

/// Everything that a handler may use. Cheap to clone.
#[derive(Clone)]
pub struct Services(Arc<Parts>);

/// The parts of [`Services`].
pub struct Parts {
    /// The worker, or what speaks with those of other processes.
    pub handle: Handle,
    /// Where apps are deployed; elsewhere none.
    pub deploys: Option<Deploys>,
    /// Bounds and settings.
    pub options: HttpOptions,
    /// Says when to come to an end.
    pub shutdown: Shutdown,
    /// What is deployed, ready for validation.
    pub directories: Directories,
    /// How long requests took.
    pub latencies: Latencies,
    /// Uploads in memory.
    pub(crate) uploads: Arc<Semaphore>,
    /// The one upload that is being checked.
    pub(crate) checking: Arc<Semaphore>,
}

impl Services {
    /// Puts the parts together.
    pub fn new(handle: Handle, deploys: Option<Deploys>, options: HttpOptions, shutdown: Shutdown) -> Self {
        Services(Arc::new(Parts {
            uploads: Arc::new(Semaphore::new(options.uploads_max)),
            checking: Arc::new(Semaphore::new(1)),
            directories: Directories::default(),
            latencies: Latencies::default(),
            handle,
            deploys,
            options,
            shutdown,
        }))
    }
}

impl std::ops::Deref for Services {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}
