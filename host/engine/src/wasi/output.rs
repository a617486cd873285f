//! Standard output and error: kept per stream, cut into lines, handed to the log.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use wasmtime::Result;
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::p2::bindings::cli::{stderr, stdout};
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamResult};

use super::Wasi;
use crate::limits::clip_line;

/// Most bytes kept until they are taken; what a guest prints beyond is dropped.
const BYTES_MAX: usize = 64 << 10;

/// Output that was printed and not yet taken. Behind a lock because streams live in WASI's table; only
/// one thread ever asks for it.
#[derive(Clone, Default)]
pub(super) struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    pub fn clear(&self) {
        self.0.lock().expect("no panic while printing").clear();
    }

    /// Takes everything, line by line; an unfinished line counts.
    pub fn drain(&self, mut line: impl FnMut(String)) {
        let mut printed = self.0.lock().expect("no panic while printing");
        if printed.is_empty() {
            return;
        }
        for text in String::from_utf8_lossy(&printed).lines() {
            line(clip_line(text).to_owned());
        }
        printed.clear();
    }
}

pub(super) struct Outputs;
impl HasData for Outputs {
    type Data<'a> = View<'a>;
}

pub(super) struct View<'a>(pub &'a mut Wasi);

impl stdout::Host for View<'_> {
    fn get_stdout(&mut self) -> Result<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(self.0.stdout.clone());
        Ok(self.0.table.push(stream)?)
    }
}

impl stderr::Host for View<'_> {
    fn get_stderr(&mut self) -> Result<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(self.0.stderr.clone());
        Ok(self.0.table.push(stream)?)
    }
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut printed = self.0.lock().expect("no panic while printing");
        let room = BYTES_MAX.saturating_sub(printed.len());
        printed.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(())
    }
    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }
    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(BYTES_MAX)
    }
}

impl Pollable for Output {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(()))
    }
}
