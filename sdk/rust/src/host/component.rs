//! The imports of the world `function`. Strings and bytes go out borrowed and come
//! in owned; nothing is copied on this side.

use super::invocation;
use crate::state::Scan;
use crate::{Abort, Level, Result};

/// Generated from `wit/`, which is a copy of the repository's (a test compares them).
#[allow(missing_docs)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        world: "function",
        skip: ["invoke"],
        pub_export_macro: true,
        export_macro_name: "export",
        default_bindings_module: "styx_sdk::__private::component::bindings",
    });
}

use bindings::styx::guest::{calls, context, logging, state};

pub(crate) use super::invocation::{delete_own, key, own, put_own, tid, time_us};
pub(crate) use context::{app, operator, random, request_id};

pub(crate) fn get(key: &str) -> Option<Vec<u8>> {
    if invocation::is_key(key) { own(|value| value.map(<[u8]>::to_vec)) } else { state::get(key) }
}

pub(crate) fn put(key: &str, value: &[u8]) {
    if invocation::is_key(key) { put_own(value.to_vec()) } else { state::put(key, value) }
}

pub(crate) fn delete(key: &str) {
    if invocation::is_key(key) { delete_own() } else { state::delete(key) }
}

pub(crate) fn scan(scan: &Scan<'_>) -> Vec<(String, Vec<u8>)> {
    invocation::tell_change();
    let after = || scan.after.map_or(state::Bound::Unbounded, |key| state::Bound::Excluded(key.into()));
    let range = state::KeyRange {
        prefix: scan.prefix.into(),
        lower: if scan.reverse { state::Bound::Unbounded } else { after() },
        upper: if scan.reverse { after() } else { state::Bound::Unbounded },
    };
    state::scan(&range, scan.limit, scan.reverse)
}

pub(crate) fn call(operator: &str, key: &str, function: &str, arguments: &[u8]) -> Result<Vec<u8>> {
    calls::call(&invocation::settled(), operator, key, function, arguments)
        .map_err(|failure| Abort::with_code(failure.code, failure.message))
}

pub(crate) fn call_async(operator: &str, key: &str, function: &str, arguments: &[u8]) {
    calls::call_async(operator, key, function, arguments);
}

pub(crate) fn log(level: Level, message: &str) {
    let level = match level {
        Level::Debug => logging::Level::Debug,
        Level::Info => logging::Level::Info,
        Level::Warn => logging::Level::Warn,
        Level::Error => logging::Level::Error,
    };
    logging::log(level, message);
}
