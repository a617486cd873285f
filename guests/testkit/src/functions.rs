//! What the functions do, apart from the operator that they belong to.

use std::hint::black_box;

use styx_sdk::prelude::*;

pub fn spin() {
    loop {
        black_box(0);
    }
}

pub fn burn(rounds: u64) -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    (0..rounds).fold(0, |sum: u64, round| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum.wrapping_add(state ^ round)
    })
}

pub fn hoard() {
    let mut kept = Vec::new();
    loop {
        kept.push(black_box(vec![1u8; 1 << 20]));
    }
}

pub fn allocate(mebibytes: u32) -> u32 {
    let kept: Vec<Vec<u8>> = (0..mebibytes).map(|_| black_box(vec![1u8; 1 << 20])).collect();
    kept.len() as u32
}

#[expect(unconditional_recursion, reason = "what it is for")]
pub fn recurse(depth: u64) -> u64 {
    // Something remains to be done after the call, lest it become a loop.
    black_box(recurse(black_box(depth + 1))) ^ depth
}

pub fn trap() {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    panic!("unreachable");
}

pub fn chatter(ctx: &Context, lines: u32) {
    for line in 0..lines {
        ctx.log(Level::Info, format_args!("line {line}"));
    }
}

pub fn relay(ctx: &Context, operator: &str, key: &str, function: &str) -> Result<String> {
    let reply = ctx.call_raw(operator, key, function, b"[]")?;
    Ok(String::from_utf8(reply)?)
}

pub fn append(ctx: &mut Context, element: u64) -> Result<Vec<u64>> {
    let mut list: Vec<u64> = ctx.state.get()?.unwrap_or_default();
    list.push(element);
    ctx.state.put(&list)?;
    Ok(list)
}

pub fn append_slowly(ctx: &mut Context, element: u64, rounds: u64) -> Result<Vec<u64>> {
    let mut list: Vec<u64> = ctx.state.get()?.unwrap_or_default();
    black_box(burn(rounds));
    list.push(element);
    ctx.state.put(&list)?;
    Ok(list)
}

pub fn sum_slowly(ctx: &Context, prefix: &str, rounds: u64) -> Result<(u64, u64)> {
    let sum = || -> Result<u64> {
        let entries = ctx.state.scan().prefix(prefix).entries::<Vec<u64>>()?;
        Ok(entries.iter().flat_map(|(_, list)| list).sum())
    };
    let first = sum()?;
    black_box(burn(rounds));
    Ok((first, sum()?))
}

pub fn write_many(ctx: &mut Context, count: u32) -> Result<()> {
    for i in 0..count {
        let key = format!("{}/{i}", ctx.key());
        ctx.state.put_at(&key, &[i])?;
    }
    Ok(())
}

pub fn read_many(ctx: &Context, count: u32) -> u32 {
    (0..count).filter(|i| ctx.state.get_raw_at(&format!("{}/{i}", ctx.key())).is_some()).count() as u32
}

pub fn scan(ctx: &Context, prefix: &str, after: Option<&str>, limit: u32, reverse: bool) -> Vec<String> {
    let mut scan = ctx.state.scan().prefix(prefix).limit(limit);
    if let Some(after) = after {
        scan = scan.after(after);
    }
    if reverse {
        scan = scan.reverse();
    }
    scan.entries_raw().into_iter().map(|(key, _)| key).collect()
}

pub fn sum_range(ctx: &mut Context, prefix: &str) -> Result<u64> {
    let entries = ctx.state.scan().prefix(prefix).entries::<Vec<u64>>()?;
    let sum = entries.iter().flat_map(|(_, list)| list).sum();
    ctx.state.put(&[sum])?;
    Ok(sum)
}

pub fn delete_range(ctx: &mut Context, prefix: &str) -> u32 {
    let keys = scan(ctx, prefix, None, 0, false);
    for key in &keys {
        ctx.state.delete_at(key);
    }
    keys.len() as u32
}

pub fn nan_bits(zero: f64) -> String {
    format!("{:016x}", (black_box(zero) / black_box(zero)).to_bits())
}
