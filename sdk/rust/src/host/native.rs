//! The same functions outside of a component, answered by the app under test.

use crate::state::Scan;
use crate::testing::{APP, running};
use crate::{Level, Result};

pub(crate) fn get(key: &str) -> Option<Vec<u8>> {
    running(|run| run.get(key))
}

pub(crate) fn put(key: &str, value: &[u8]) {
    running(|run| run.put(key, Some(value.to_vec())));
}

pub(crate) fn delete(key: &str) {
    running(|run| run.put(key, None));
}

pub(crate) fn own<R>(f: impl FnOnce(Option<&[u8]>) -> R) -> R {
    f(get(&key()).as_deref())
}

pub(crate) fn put_own(value: Vec<u8>) {
    put(&key(), &value);
}

pub(crate) fn delete_own() {
    delete(&key());
}

pub(crate) fn scan(scan: &Scan<'_>) -> Vec<(String, Vec<u8>)> {
    running(|run| run.scan(scan))
}

pub(crate) fn call(operator: &str, key: &str, function: &str, arguments: &[u8]) -> Result<Vec<u8>> {
    crate::testing::call(operator, key, function, arguments)
}

pub(crate) fn call_async(operator: &str, key: &str, function: &str, arguments: &[u8]) {
    running(|run| run.call_async(operator, key, function, arguments));
}

pub(crate) fn app() -> String {
    running(|run| run.frame().app.unwrap_or(APP).into())
}

pub(crate) fn operator() -> String {
    running(|run| run.frame().operator.into())
}

pub(crate) fn key() -> String {
    running(|run| run.frame().key.clone())
}

pub(crate) fn tid() -> u64 {
    running(|run| run.tid)
}

pub(crate) fn request_id() -> String {
    running(|run| format!("test-{}", run.tid))
}

pub(crate) fn time_us() -> u64 {
    running(|run| run.time_us)
}

pub(crate) fn random() -> u64 {
    running(|run| run.random())
}

pub(crate) fn log(level: Level, message: &str) {
    running(|run| run.log(level, message));
}
