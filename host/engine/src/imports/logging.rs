//! `styx:guest/logging`: lines for the app's developers, kept by the attempt.

use styx_protocol::attempt::LogLevel;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, WasmStr};
use wasmtime::{Result, StoreContextMut};

use crate::guest::{Guest, with_attempt};
use crate::limits::clip_line;

/// `level`. Made by lifting only, from the discriminant.
#[allow(dead_code)]
#[derive(Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
enum Level {
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        }
    }
}

/// A level by its discriminant.
pub(crate) fn level_of(discriminant: u32) -> Option<LogLevel> {
    [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error].get(discriminant as usize).copied()
}

pub(super) fn add(linker: &mut LinkerInstance<'_, Guest>) -> Result<()> {
    linker.func_wrap("log", |mut cx: StoreContextMut<'_, Guest>, (level, message): (Level, WasmStr)| {
        if !cx.data().is_called() {
            let message = clip_line(&message.to_str(&cx)?).to_owned();
            cx.data_mut().say(&message);
            return Ok(());
        }
        with_attempt(&mut cx, |cx, attempt| {
            let message = message.to_str(cx)?;
            attempt.log(level.into(), clip_line(&message).to_owned());
            Ok(((), message.len()))
        })
    })
}
