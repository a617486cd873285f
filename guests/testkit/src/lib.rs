//! Functions that misbehave, each in one way, for the tests of the host.
//!
//! Two operators, `a` and `b`, with the same functions, so that calls can go in
//! circles. An entity's value is a JSON list of integers unless a function says otherwise.

use std::sync::atomic::{AtomicU64, Ordering};

use styx_sdk::prelude::*;

mod functions;

/// Counts invocations in a global, which no function should do.
static INVOCATIONS: AtomicU64 = AtomicU64::new(0);

macro_rules! operators {
    ($($type:ident $name:literal),+) => {$(
        /// An operator with every function of the kit.
        pub struct $type;

        #[operator(name = $name)]
        /// Functions that misbehave.
        impl $type {
            // --- resources ---

            /// Loops for ever.
            pub fn spin(_ctx: &mut Context) { functions::spin() }

            /// Burns fuel for so many rounds and returns a checksum.
            pub fn burn(_ctx: &mut Context, rounds: u64) -> u64 { functions::burn(rounds) }

            /// Adds to the list, with so many rounds of work between reading and writing it.
            pub fn append_slowly(ctx: &mut Context, element: u64, rounds: u64) -> Result<Vec<u64>> {
                functions::append_slowly(ctx, element, rounds)
            }

            /// Adds up the lists under a prefix, works for so many rounds, and adds them up again.
            #[function(read_only)]
            pub fn sum_slowly(ctx: &Context, prefix: String, rounds: u64) -> Result<(u64, u64)> {
                functions::sum_slowly(ctx, &prefix, rounds)
            }

            /// Allocates for ever, a MiB at a time.
            pub fn hoard(_ctx: &mut Context) { functions::hoard() }

            /// Allocates and touches so many MiB, and returns how many.
            pub fn allocate(_ctx: &mut Context, mebibytes: u32) -> u32 { functions::allocate(mebibytes) }

            /// Recurses inside the guest for ever.
            pub fn recurse(_ctx: &mut Context) -> u64 { functions::recurse(0) }

            /// Writes a value of so many bytes.
            pub fn giant_value(ctx: &mut Context, bytes: u32) { ctx.state.put_raw(&vec![b'1'; bytes as usize]) }

            /// Returns a string of so many bytes.
            pub fn giant_result(_ctx: &mut Context, bytes: u32) -> String { "x".repeat(bytes as usize) }

            /// Calls the function `echo` of the own entity with a string of so many bytes.
            pub fn giant_arguments(ctx: &mut Context, bytes: u32) -> Result<()> {
                ctx.call_raw($name, ctx.key(), "echo", format!("[{:?}]", "x".repeat(bytes as usize)).as_bytes()).map(drop)
            }

            /// Writes so many entities, `key/0` and so on.
            pub fn write_many(ctx: &mut Context, count: u32) -> Result<()> { functions::write_many(ctx, count) }

            /// Reads so many entities, `key/0` and so on, and returns how many exist.
            pub fn read_many(ctx: &mut Context, count: u32) -> u32 { functions::read_many(ctx, count) }

            /// Writes so many log lines.
            pub fn chatter(ctx: &mut Context, lines: u32) { functions::chatter(ctx, lines) }

            // --- failures ---

            /// Panics.
            pub fn panic(_ctx: &mut Context, message: String) { panic!("{message}") }

            /// Traps without a word.
            pub fn trap(_ctx: &mut Context) { functions::trap() }

            /// Fails with the given text, whatever it is.
            pub fn fail(_ctx: &mut Context, message: String) -> Result<()> { Err(Abort::new(message)) }

            /// Writes, then fails.
            pub fn write_then_fail(ctx: &mut Context) -> Result<()> {
                ctx.state.put(&[1])?;
                bail!("after writing")
            }

            /// Fails with text that a careless host could stumble over.
            pub fn fail_oddly(_ctx: &mut Context) -> Result<()> {
                bail!("\u{0}\"quoted\"\r\n\u{1b}[31mred\u{202e} {{}} %s \u{1f4a5}")
            }

            /// Declared read-only, and writes all the same.
            #[function(read_only)]
            pub fn write_sneakily(ctx: &Context) -> Result<()> { ctx.call($name, ctx.key(), "append", (1,)) }

            // --- call graphs ---

            /// Returns its argument.
            pub fn echo(_ctx: &mut Context, text: String) -> String { text }

            /// Calls any function with no arguments and returns its result as text.
            pub fn relay(ctx: &mut Context, operator: String, key: String, function: String) -> Result<String> {
                functions::relay(ctx, &operator, &key, &function)
            }

            /// Writes, calls any function with `arguments` (JSON, none if absent), writes again, and
            /// reports success even if the call failed.
            pub fn relay_stubbornly(ctx: &mut Context, operator: String, key: String, function: String, arguments: Option<String>) -> Result<bool> {
                ctx.state.put(&[7])?;
                let arguments = arguments.unwrap_or_else(|| "[]".into());
                let succeeded = ctx.call_raw(&operator, &key, &function, arguments.as_bytes()).is_ok();
                ctx.state.put(&[8])?;
                Ok(succeeded)
            }

            /// Calls itself on `key'` for ever.
            pub fn descend(ctx: &mut Context) -> Result<u32> { ctx.call($name, &format!("{}'", ctx.key()), "descend", ()) }

            /// Calls itself so many times, on `key'`, and returns the depth reached.
            pub fn descend_to(ctx: &mut Context, depth: u32) -> Result<u32> {
                if depth == 0 {
                    return Ok(0);
                }
                Ok(1 + ctx.call::<u32>($name, &format!("{}'", ctx.key()), "descend_to", (depth - 1,))?)
            }

            /// `a` calls `b` calls `a` on the same key, so many times; each appends its depth
            /// before and after. Returns the list.
            pub fn ping_pong(ctx: &mut Context, depth: u32) -> Result<Vec<u64>> {
                functions::append(ctx, depth.into())?;
                if depth > 0 {
                    let other = if $name == "a" { "b" } else { "a" };
                    ctx.call::<Vec<u64>>(other, ctx.key(), "ping_pong", (depth - 1,))?;
                }
                functions::append(ctx, depth.into())
            }

            /// Calls `append(i)` of the same operator on `key/i` asynchronously for i below `count`.
            pub fn fan_out(ctx: &mut Context, count: u32) -> Result<()> {
                (0..count).try_for_each(|i| ctx.call_async($name, &format!("{}/{i}", ctx.key()), "append", (i,)))
            }

            /// Appends asynchronously 0 to `count` - 1 to one other entity: their order shows.
            pub fn fan_in(ctx: &mut Context, to: String, count: u32) -> Result<()> {
                (0..count).try_for_each(|i| ctx.call_async($name, &to, "append", (i,)))
            }

            /// A tree of asynchronous calls, two by two, whose order shows in the entity `log`.
            pub fn tree(ctx: &mut Context, name: u64, depth: u32) -> Result<()> {
                if depth > 0 {
                    for child in [name * 10 + 1, name * 10 + 2] {
                        ctx.call_async($name, &child.to_string(), "tree", (child, depth - 1))?;
                    }
                }
                ctx.call::<Vec<u64>>($name, "log", "append", (name,)).map(drop)
            }

            /// Calls itself asynchronously for ever.
            pub fn echo_for_ever(ctx: &mut Context) -> Result<()> { ctx.call_async($name, ctx.key(), "echo_for_ever", ()) }

            // --- state ---

            /// The entity's list.
            #[function(read_only)]
            pub fn list(ctx: &Context) -> Result<Vec<u64>> { Ok(ctx.state.get()?.unwrap_or_default()) }

            /// Appends to the entity's list and returns it: the history shows every lost or doubled call.
            pub fn append(ctx: &mut Context, element: u64) -> Result<Vec<u64>> { functions::append(ctx, element) }

            /// Appends to the own list, then to others of the same operator, and returns all of them.
            pub fn append_all(ctx: &mut Context, others: Vec<String>, element: u64) -> Result<Vec<Vec<u64>>> {
                let mut lists = vec![functions::append(ctx, element)?];
                for other in others {
                    lists.push(ctx.call($name, &other, "append", (element,))?);
                }
                Ok(lists)
            }

            /// Writes the entity.
            pub fn put(ctx: &mut Context, list: Vec<u64>) -> Result<()> { ctx.state.put(&list) }

            /// Removes the entity; true if it was there.
            pub fn delete(ctx: &mut Context) -> bool {
                let existed = ctx.state.get_raw().is_some();
                ctx.state.delete();
                existed
            }

            /// The keys of a range.
            #[function(read_only)]
            pub fn scan(ctx: &Context, prefix: String, after: Option<String>, limit: Option<u32>, reverse: Option<bool>) -> Vec<String> {
                functions::scan(ctx, &prefix, after.as_deref(), limit.unwrap_or(0), reverse.unwrap_or(false))
            }

            /// Adds up the lists of a range, then writes the sum into the own entity: a
            /// phantom would show in it.
            pub fn sum_range(ctx: &mut Context, prefix: String) -> Result<u64> { functions::sum_range(ctx, &prefix) }

            /// Deletes a range and returns how many there were.
            pub fn delete_range(ctx: &mut Context, prefix: String) -> u32 { functions::delete_range(ctx, &prefix) }

            /// Follows the entity's list: its last element names the entity of the same
            /// operator to which 1 is appended. What is read decides what is written.
            pub fn follow(ctx: &mut Context) -> Result<Vec<u64>> {
                let list: Vec<u64> = ctx.state.require()?;
                let Some(next) = list.last() else { bail!("nothing to follow") };
                ctx.call($name, &next.to_string(), "append", (1,))
            }

            /// Writes the own entity through its key and reads it back in short form.
            pub fn read_own_write(ctx: &mut Context) -> Result<bool> {
                let key = ctx.key().to_owned();
                ctx.state.put_at(&key, &[42])?;
                Ok(ctx.state.get::<Vec<u64>>()? == Some(vec![42]))
            }

            // --- determinism ---

            /// How often this instance was invoked so: differs between fresh and warm instances.
            pub fn leak(_ctx: &mut Context) -> u64 { INVOCATIONS.fetch_add(1, Ordering::Relaxed) }

            /// As `leak`, and writes it.
            pub fn leak_into_state(ctx: &mut Context) -> Result<()> {
                ctx.state.put(&[INVOCATIONS.fetch_add(1, Ordering::Relaxed)])
            }

            /// So many random numbers, as text (they are larger than JSON readers like).
            pub fn random(ctx: &mut Context, count: u32) -> Vec<String> { (0..count).map(|_| ctx.random().to_string()).collect() }

            /// Random numbers of this function and of one that it calls: two generators.
            pub fn random_twice(ctx: &mut Context) -> Result<Vec<String>> {
                let mut numbers = vec![ctx.random().to_string()];
                numbers.extend(ctx.call::<Vec<String>>($name, &format!("{}'", ctx.key()), "random", (1,))?);
                numbers.push(ctx.random().to_string());
                Ok(numbers)
            }

            /// Microseconds since 1970.
            pub fn time(ctx: &mut Context) -> u64 { ctx.time().as_micros() as u64 }

            /// App, operator, key and request id.
            pub fn who(ctx: &mut Context) -> (String, String, String, String) {
                (ctx.app(), ctx.operator(), ctx.key().to_owned(), ctx.request_id())
            }

            /// Transaction id.
            pub fn tid(ctx: &mut Context) -> u64 { ctx.tid() }

            /// A NaN's bits, made in a way that differs between processors.
            pub fn not_a_number(_ctx: &mut Context, zero: f64) -> String { functions::nan_bits(zero) }
        }
    )+};
}

operators!(A "a", B "b");

styx_sdk::export!(A, B);

#[cfg(test)]
mod tests;
