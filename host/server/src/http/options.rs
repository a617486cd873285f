//! Bounds of the HTTP surfaces.

use std::time::Duration;

use styx_build::BundleLimits;
use styx_engine::{CALL_DEPTH_MAX, COMPONENT_BYTES_MAX, MEMORY_BYTES_MAX};
use styx_protocol::deployment::Limits;

use super::{Hosts, Memory, Origins};
use crate::auth::Access;

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
    /// What all clients together have held for them.
    pub memory: Memory,
    /// Uploads held in memory at once; they are checked one at a time.
    pub uploads_max: usize,
    /// Who is let in.
    pub access: Access,
    /// Pages that may call from elsewhere.
    pub origins: Origins,
    /// Names under which this server is asked.
    pub hosts: Hosts,
    /// The most that the limits of an app can be set to.
    pub limits_max: Limits,
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
            memory: Memory::new(320 << 20),
            uploads_max: 4,
            access: Access::default(),
            origins: Origins::default(),
            hosts: Hosts::default(),
            limits_max: Limits {
                fuel: 10_000_000_000,
                transaction_fuel: 20_000_000_000,
                memory: MEMORY_BYTES_MAX,
                call_depth: CALL_DEPTH_MAX,
                calls: 1_000_000,
                rw_set: 1_000_000,
                payload: Limits::PAYLOAD_MAX,
            },
        }
    }
}
