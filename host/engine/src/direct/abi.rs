//! The canonical ABI: how values lie in a guest's memory. Whatever a guest says of it is checked.

use styx_protocol::entity::{Key, Value};
use wasmtime::{Memory, Result, StoreContextMut, bail, format_err};

use super::Exports;
use crate::contract::{Change, EntityAccess, Outcome};
use crate::guest::Guest;
use crate::outcome::Failure;

/// Where the parts of `outcome` are, and its size.
const OUTCOME_BYTES: usize = 36;
const RETURNED: usize = 16;

/// A part of a guest's memory.
pub(super) fn bytes(memory: &[u8], at: u32, length: u32) -> Result<&[u8]> {
    match memory.get(at as usize..).and_then(|rest| rest.get(..length as usize)) {
        Some(bytes) => Ok(bytes),
        None => bail!("list pointer/length out of bounds of memory"),
    }
}

pub(super) fn text(memory: &[u8], at: u32, length: u32) -> Result<&str> {
    match memory.get(at as usize..).and_then(|rest| rest.get(..length as usize)) {
        Some(bytes) => Ok(std::str::from_utf8(bytes)?),
        None => bail!("string pointer/length out of bounds of memory"),
    }
}

/// `change`, of whose list `list` makes what the caller wants.
pub(super) fn entity_access<L>(
    read: u32,
    change: u32,
    at: u32,
    length: u32,
    list: impl FnOnce(u32, u32) -> Result<L>,
) -> Result<EntityAccess<L>> {
    let change = match change {
        0 => Change::None,
        1 => Change::Put(list(at, length)?),
        2 => Change::Delete,
        other => bail!("unexpected discriminant: {other}"),
    };
    Ok(EntityAccess::new(read != 0, change))
}

/// What `invoke` has returned.
pub(super) fn outcome(memory: &[u8], at: u32) -> Result<Outcome> {
    let record = returned(memory, at, OUTCOME_BYTES)?;
    let byte = |at: usize| u32::from(record[at]);
    let word = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
    let value = |at, length| Ok(Value::from(bytes(memory, at, length)?));
    let entity = entity_access(byte(0), byte(4), word(8), word(12), value)?;
    let returned = match record[RETURNED] {
        0 => Ok(value(word(RETURNED + 4), word(RETURNED + 8))?),
        1 => Err(Failure {
            code: text(memory, word(RETURNED + 4), word(RETURNED + 8))?.to_owned(),
            message: text(memory, word(RETURNED + 12), word(RETURNED + 16))?.to_owned(),
        }),
        _ => bail!("invalid expected discriminant"),
    };
    Ok(Outcome { entity, returned })
}

fn returned(memory: &[u8], at: u32, size: usize) -> Result<&[u8]> {
    if !at.is_multiple_of(4) {
        bail!("return pointer not aligned");
    }
    memory
        .get(at as usize..)
        .and_then(|rest| rest.get(..size))
        .ok_or_else(|| format_err!("pointer out of bounds of memory"))
}

/// Memory that the guest gives.
pub(super) fn allocate(cx: &mut StoreContextMut<'_, Guest>, alignment: u32, size: usize) -> Result<(Memory, usize)> {
    let memory = Exports::memory(cx.data())?;
    let realloc = Exports::realloc(cx.data_mut()).take().expect("it was just there");
    let at = realloc.call(&mut *cx, (0, 0, alignment, u32::try_from(size)?))?;
    *Exports::realloc(cx.data_mut()) = Some(realloc);
    if !at.is_multiple_of(alignment) {
        bail!("realloc return: result not aligned");
    }
    if memory.data(&*cx).get(at as usize..).is_none_or(|rest| rest.len() < size) {
        bail!("realloc return: beyond end of memory");
    }
    Ok((memory, at as usize))
}

/// Copies a list of bytes, or a string, into memory that the guest gives.
pub(super) fn lower(cx: &mut StoreContextMut<'_, Guest>, bytes: &[u8]) -> Result<[u32; 2]> {
    let (memory, at) = allocate(cx, 1, bytes.len())?;
    memory.data_mut(&mut *cx)[at..at + bytes.len()].copy_from_slice(bytes);
    Ok([at as u32, bytes.len() as u32])
}

/// Copies entries of a scan, and the list of them.
pub(super) fn lower_entries(cx: &mut StoreContextMut<'_, Guest>, entries: &[(Key, Value)]) -> Result<[u32; 2]> {
    let (_, list) = allocate(cx, 4, entries.len() * 16)?;
    for (number, (key, value)) in entries.iter().enumerate() {
        let ([key, key_length], [value, length]) = (lower(cx, key.as_bytes())?, lower(cx, value)?);
        store(cx, (list + number * 16) as u32, &[key, key_length, value, length])?;
    }
    Ok([list as u32, entries.len() as u32])
}

/// Writes a record of words where the guest has said that it is to lie.
pub(super) fn store(cx: &mut StoreContextMut<'_, Guest>, at: u32, words: &[u32]) -> Result<()> {
    write(place(cx, at, words.len() * 4)?, words);
    Ok(())
}

/// Writes a case of a variant that takes `size` bytes: its number is a byte, aligned as what follows.
pub(super) fn store_case(
    cx: &mut StoreContextMut<'_, Guest>,
    at: u32,
    size: usize,
    case: u8,
    words: &[u32],
) -> Result<()> {
    let into = place(cx, at, size)?;
    into[0] = case;
    write(&mut into[4..], words);
    Ok(())
}

fn write(into: &mut [u8], words: &[u32]) {
    for (into, word) in into.chunks_exact_mut(4).zip(words) {
        into.copy_from_slice(&word.to_le_bytes());
    }
}

fn place<'a>(cx: &'a mut StoreContextMut<'_, Guest>, at: u32, size: usize) -> Result<&'a mut [u8]> {
    if !at.is_multiple_of(4) {
        bail!("pointer not aligned");
    }
    let memory = Exports::memory(cx.data())?.data_mut(cx);
    let place = memory.get_mut(at as usize..).and_then(|rest| rest.get_mut(..size));
    place.ok_or_else(|| format_err!("pointer out of bounds"))
}
