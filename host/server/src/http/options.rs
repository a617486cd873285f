//! Bounds of the HTTP surfaces.

use std::time::Duration;

use styx_build::BundleLimits;
use styx_engine::COMPONENT_BYTES_MAX;

use super::Origins;

/// Bounds and settings of the HTTP surfaces.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Bytes of a call's body, whatever an app's `limits.payload` says.
    pub body_bytes_max: u64,
    /// Bytes of an uploaded component.
    pub component_bytes_max: u64,
    /// Bounds on an uploaded bundle.
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
