//! The file `executing`: a header, then a slot for each thread that executes.
//!
//! Threads write it through a mapping that they share with the kernel: a few stores, no call. What they have stored is
//! in the file however the process ends; only a machine that loses its power forgets it, and then nobody is to blame.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use styx_driver::suspicion::Suspect;
use styx_protocol::ids::RequestId;
use styx_protocol::transaction::Request;

use super::marks;

/// Slots of the file: more than a process has threads that execute.
pub(super) const SLOTS: usize = 128;
/// Bytes of the header, and of each slot.
const BYTES: usize = 512;
const FILE_BYTES: usize = (1 + SLOTS) * BYTES;
/// First bytes of the file: tag, version.
const HEADER: [u8; 8] = *b"styx-x\x01\x00";

// Places in a slot. Texts have their length, two bytes, before them.
const STATE: usize = 0;
const REQUEST: usize = 16;
const APP: Text = Text { at: 32, bytes: 126 };
const FUNCTION: Text = Text { at: 160, bytes: 62 };
const SAID: Text = Text { at: 224, bytes: 286 };

/// Nothing was executed here.
const UNUSED: u32 = 0;
/// Something is executed.
const BUSY: u32 = 1;
/// The thread has panicked or aborted while it executed something.
const MARKED: u32 = 2;
/// What was executed has ended.
const IDLE: u32 = 3;

/// Where a text stands in a slot, and how long it can be.
struct Text {
    at: usize,
    bytes: usize,
}

/// Address of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(*mut u8);

/// The mapped file.
#[derive(Debug)]
pub(super) struct Slots {
    memory: *mut u8,
    /// Slots that were given out.
    given: AtomicUsize,
}

// SAFETY: each slot is written by the one thread that has it, but for its state, which is atomic.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    /// A new file, in which nothing is noted.
    pub(super) fn create(path: &Path) -> io::Result<Arc<Slots>> {
        let mut bytes = vec![0; FILE_BYTES];
        bytes[..HEADER.len()].copy_from_slice(&HEADER);
        // What is mapped must be on the disk: a store for which there is no room would end the process.
        fs::write(path, &bytes)?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // SAFETY: a new mapping of a file of this length. Others may change the file, and nothing is read from the mapping but states.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                FILE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Arc::new(Slots { memory: memory.cast(), given: AtomicUsize::new(0) }))
    }

    /// A slot that nobody has.
    pub(super) fn slot(self: &Arc<Self>) -> Slot {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        Slot { address: self.address(number), slots: self.clone(), app: "".into(), function: "".into() }
    }

    fn address(&self, number: usize) -> Option<Address> {
        // SAFETY: within the mapping.
        (number < SLOTS).then(|| Address(unsafe { self.memory.add((1 + number) * BYTES) }))
    }

    /// Nothing was ever executed.
    pub(super) fn clear(&self) {
        (0..SLOTS).filter_map(|number| self.address(number)).for_each(|slot| slot.set(UNUSED));
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no slot is left.
        unsafe { libc::munmap(self.memory.cast(), FILE_BYTES) };
    }
}

/// Where a thread notes what it executes.
#[derive(Debug)]
pub struct Slot {
    /// Absent if there are more threads than slots: nothing is noted then.
    address: Option<Address>,
    /// Names that stand there.
    app: Arc<str>,
    function: Arc<str>,
    /// Keeps the mapping.
    #[allow(dead_code, reason = "held for the address")]
    slots: Arc<Slots>,
}

// SAFETY: only who has the slot writes to it.
unsafe impl Send for Slot {}

impl Slot {
    /// This thread begins to execute a request of an app.
    #[inline]
    pub fn enter(&mut self, request: &Request, app: &Arc<str>) {
        let Some(address) = self.address else { return };
        if !Arc::ptr_eq(&self.app, app) {
            address.write(&APP, app.as_bytes());
            self.app = app.clone();
        }
        if !Arc::ptr_eq(&self.function, &request.function) {
            address.write(&FUNCTION, request.function.as_bytes());
            self.function = request.function.clone();
        }
        // SAFETY: within the slot, whose place for an id is aligned.
        unsafe { address.0.add(REQUEST).cast::<u128>().write(request.id.0) };
        address.set(BUSY);
        marks::executes(Some(address));
    }

    /// It has ended.
    #[inline]
    pub fn leave(&mut self) {
        if let Some(address) = self.address {
            address.set(IDLE);
            marks::executes(None);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A panic that unwinds through here has been marked.
        marks::forget(self.address);
    }
}

impl Address {
    fn state(&self) -> &AtomicU32 {
        // SAFETY: within the mapping, which a slot keeps; aligned; nothing else is ever done with these bytes.
        unsafe { &*self.0.add(STATE).cast::<AtomicU32>() }
    }

    #[inline]
    fn set(&self, state: u32) {
        self.state().store(state, Ordering::Release);
    }

    fn write(&self, text: &Text, bytes: &[u8]) {
        let length = bytes.len().min(text.bytes);
        // SAFETY: within the slot, which only this thread writes.
        unsafe {
            self.0.add(text.at).cast::<u16>().write(length as u16);
            self.0.add(text.at + 2).copy_from_nonoverlapping(bytes.as_ptr(), length);
        }
    }

    /// The thread ends the process: because of what it executes. What was said first stays. Allocates nothing, so that a handler of a signal may
    /// call it.
    pub(super) fn mark(&self, said: &[u8]) {
        if self.state().load(Ordering::Relaxed) == BUSY {
            self.write(&SAID, said);
            self.set(MARKED);
        }
    }
}

/// What was under way when the process ended that wrote a file. `None` if there is no such file, or nothing was executed.
pub(super) fn found(path: &Path) -> Option<Vec<Suspect>> {
    let bytes = fs::read(path).ok()?;
    if bytes.len() != FILE_BYTES || bytes[..HEADER.len()] != HEADER {
        return None;
    }
    let slots = || bytes[BYTES..].chunks_exact(BYTES);
    let state = |slot: &[u8]| u32::from_le_bytes(slot[STATE..STATE + 4].try_into().expect("four bytes"));
    if slots().all(|slot| state(slot) == UNUSED) {
        return None;
    }
    let mut found: Vec<Suspect> = Vec::new();
    for slot in slots().filter(|slot| matches!(state(slot), BUSY | MARKED)) {
        let request = u128::from_le_bytes(slot[REQUEST..REQUEST + 16].try_into().expect("sixteen bytes"));
        let said = (state(slot) == MARKED).then(|| SAID.read(slot));
        // Parts of one request may run on several threads.
        match found.iter_mut().find(|suspect| suspect.request.0 == request) {
            Some(suspect) => suspect.said = suspect.said.take().or(said),
            None => found.push(Suspect {
                request: RequestId(request),
                app: APP.read(slot),
                function: FUNCTION.read(slot),
                lives: 0,
                said,
                app_set_aside: false,
            }),
        }
    }
    Some(found)
}

impl Text {
    /// The text, as far as it is one: it may be cut within a character.
    fn read(&self, slot: &[u8]) -> String {
        let length = usize::from(u16::from_le_bytes([slot[self.at], slot[self.at + 1]])).min(self.bytes);
        let bytes = &slot[self.at + 2..self.at + 2 + length];
        let valid = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        valid.to_owned()
    }
}
