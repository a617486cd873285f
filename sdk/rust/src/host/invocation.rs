//! The invocation that runs: what the host told it, and what it has done to its own entity that the host was not told yet.
//!
//! The canonical ABI by hand, where generated code would cross the border more often: the host writes each invocation
//! where the one before was, and finds what it has returned where it is.

use std::alloc::{Layout, alloc, handle_alloc_error, realloc};
use std::borrow::Cow;
use std::cell::RefCell;
use std::slice;

use super::component::bindings::styx::guest::state;
use super::component::bindings::styx::guest::types::{Change, EntityAccess};
use crate::Result;

/// What is known of the own entity, besides `change`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entity {
    Untold,
    Told,
    Absent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was invoked yet: whoever allocates keeps what they get.
    Starting,
    Running,
    /// What the host allocates next is an invocation.
    Idle,
}

struct Now {
    phase: Phase,
    /// The function, the key, the arguments, the entity's value. They stay where they are until the invocation ends.
    bytes: Vec<u8>,
    function_end: usize,
    key_end: usize,
    arguments_end: usize,
    entity: Entity,
    tid: u64,
    time: u64,
    own: EntityAccess,
    returned: Returned,
    /// What `returned` points to.
    reply: Vec<u8>,
    failure: (Cow<'static, str>, String),
}

/// `types.outcome`, as the canonical ABI lays it out. The cases of variants are a byte each, aligned as what follows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Returned {
    read: u32,
    change: u32,
    value: Place,
    failed: u32,
    /// The result, or the failure's code.
    first: Place,
    message: Place,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    at: *const u8,
    length: usize,
}

impl Place {
    const NOWHERE: Place = Place { at: std::ptr::null(), length: 0 };

    fn of(bytes: &[u8]) -> Self {
        Place { at: bytes.as_ptr(), length: bytes.len() }
    }
}

impl Returned {
    const NOTHING: Returned = Returned {
        read: 0,
        change: 0,
        value: Place::NOWHERE,
        failed: 0,
        first: Place::NOWHERE,
        message: Place::NOWHERE,
    };
}

const _: () = assert!(size_of::<Returned>() == 36 && std::mem::offset_of!(Returned, failed) == 16);

const NOTHING: EntityAccess = EntityAccess { read: false, change: Change::None };

thread_local! {
    static NOW: RefCell<Now> = const {
        RefCell::new(Now {
            phase: Phase::Starting,
            bytes: Vec::new(),
            function_end: 0,
            key_end: 0,
            arguments_end: 0,
            entity: Entity::Untold,
            tid: 0,
            time: 0,
            own: NOTHING,
            returned: Returned::NOTHING,
            reply: Vec::new(),
            failure: (Cow::Borrowed(""), String::new()),
        })
    };
}

fn now<R>(f: impl FnOnce(&Now) -> R) -> R {
    NOW.with_borrow(f)
}

fn change<R>(f: impl FnOnce(&mut Now) -> R) -> R {
    NOW.with_borrow_mut(f)
}

/// Memory for what the host brings.
///
/// # Safety
/// As of the canonical ABI: `old` is null, or was given here with this size and alignment.
#[unsafe(export_name = "cabi_realloc")]
unsafe extern "C" fn cabi_realloc(old: *mut u8, old_size: usize, alignment: usize, size: usize) -> *mut u8 {
    if size == 0 {
        return alignment as *mut u8;
    }
    if old_size == 0 && alignment == 1 && NOW.with(|now| now.try_borrow().is_ok_and(|now| now.phase == Phase::Idle)) {
        return change(|now| {
            now.bytes.clear();
            now.bytes.reserve(size);
            now.bytes.as_mut_ptr()
        });
    }
    // SAFETY: the size is not 0, and alignments are powers of two.
    unsafe {
        let layout = Layout::from_size_align_unchecked(size, alignment);
        let at = if old_size == 0 {
            alloc(layout)
        } else {
            realloc(old, Layout::from_size_align_unchecked(old_size, alignment), size)
        };
        if at.is_null() {
            handle_alloc_error(layout);
        }
        at
    }
}

/// What the host calls: the parts of `types.invocation`.
pub type Parts = (*mut u8, usize, usize, usize, usize, u32, u64, u64);

/// Runs an invocation: `run` is given its function, its key and its arguments.
///
/// # Safety
/// The parts are as the host gave them. What is returned is valid until the next invocation.
pub unsafe fn invoke(
    (bytes, length, function_end, key_end, arguments_end, entity, tid, time): Parts,
    run: impl FnOnce(&str, &'static str, &[u8]) -> Result<Vec<u8>>,
) -> *const Returned {
    let at = change(|now| {
        match now.phase {
            // SAFETY: the host has filled what it was given last, and it was given `bytes`.
            Phase::Idle if length > 0 => unsafe { now.bytes.set_len(length) },
            Phase::Idle => now.bytes.clear(),
            // SAFETY: it was allocated above, with this length and no alignment.
            _ => now.bytes = unsafe { Vec::from_raw_parts(bytes, length, length) },
        }
        now.phase = Phase::Running;
        (now.function_end, now.key_end, now.arguments_end) = (function_end, key_end, arguments_end);
        now.entity = match entity {
            1 => Entity::Told,
            2 => Entity::Absent,
            _ => Entity::Untold,
        };
        (now.tid, now.time, now.own) = (tid, time, NOTHING);
        now.bytes.as_ptr()
    });
    // SAFETY: nobody changes the bytes before the invocation ends, nor sees them after that: a `Context`, which has the
    // key, is lent to the function only. The function and the key are text, as the host has it.
    let (function, key, arguments) = unsafe {
        let part = |from: usize, to: usize| slice::from_raw_parts(at.add(from), to - from);
        let text = |from, to| std::str::from_utf8_unchecked(part(from, to));
        (text(0, function_end), text(function_end, key_end), part(key_end, arguments_end))
    };
    let result = run(function, key, arguments);
    change(|now| {
        now.phase = Phase::Idle;
        now.returned = Returned { read: now.own.read.into(), ..Returned::NOTHING };
        match &now.own.change {
            Change::None => {}
            Change::Put(value) => (now.returned.change, now.returned.value) = (1, Place::of(value)),
            Change::Delete => now.returned.change = 2,
        }
        match result {
            Ok(reply) => {
                now.reply = reply;
                now.returned.first = Place::of(&now.reply);
            }
            Err(abort) => {
                now.failure = abort.into_parts();
                now.returned.failed = 1;
                now.returned.first = Place::of(now.failure.0.as_bytes());
                now.returned.message = Place::of(now.failure.1.as_bytes());
            }
        }
        &raw const now.returned
    })
}

pub(crate) fn key() -> String {
    now(|now| String::from_utf8_lossy(key_of(now)).into_owned())
}

pub(super) fn is_key(key: &str) -> bool {
    now(|now| key_of(now) == key.as_bytes())
}

fn key_of(now: &Now) -> &[u8] {
    &now.bytes[now.function_end..now.key_end]
}

pub(crate) fn tid() -> u64 {
    now(|now| now.tid)
}

pub(crate) fn time_us() -> u64 {
    now(|now| now.time)
}

/// The own entity, for `f` to look at.
pub(crate) fn own<R>(f: impl FnOnce(Option<&[u8]>) -> R) -> R {
    let asks = change(|now| {
        if matches!(now.own.change, Change::None) {
            now.own.read |= now.entity != Entity::Untold;
            now.entity == Entity::Untold
        } else {
            false
        }
    });
    if asks {
        return f(state::get_own().as_deref());
    }
    now(|now| match &now.own.change {
        Change::Put(value) => f(Some(value)),
        Change::Delete => f(None),
        Change::None => f((now.entity == Entity::Told).then(|| &now.bytes[now.arguments_end..])),
    })
}

pub(crate) fn put_own(value: Vec<u8>) {
    change(|now| now.own.change = Change::Put(value));
}

pub(crate) fn delete_own() {
    change(|now| now.own.change = Change::Delete);
}

/// Tells the host of a change that it would not see otherwise.
pub(super) fn tell_change() {
    if now(|now| matches!(now.own.change, Change::None)) {
        return;
    }
    let EntityAccess { read, change } = settled();
    if read {
        state::get_own();
    }
    match change {
        Change::None => {}
        Change::Put(value) => state::put_own(&value),
        Change::Delete => state::delete_own(),
    }
}

/// What the host was not told yet, to be told now. What others may then write is no longer known.
pub(super) fn settled() -> EntityAccess {
    change(|now| {
        now.entity = Entity::Untold;
        std::mem::replace(&mut now.own, NOTHING)
    })
}
