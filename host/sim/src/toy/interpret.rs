//! Interpreter of programs, over a world that holds state and makes calls. Asynchronous, since
//! what a function wants may be elsewhere; where nothing is, [`at_once`] runs it through.

use std::future::Future;
use std::ops;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use styx_protocol::abort::{Abort, Code};

use super::{Bound, Call, FUNCTIONS, OPERATORS, Op, Place, args, decode, keys};

/// World of a program: an attempt of the protocol, or the oracle.
#[allow(async_fn_in_trait, reason = "nothing here is sent between threads")]
pub trait World {
    /// The value under a key of the own operator.
    async fn get(&mut self, key: &str) -> Option<u64>;
    /// Writes a key of the own operator.
    async fn put(&mut self, key: &str, value: Option<u64>) -> Result<(), Abort>;
    /// Entries of the own operator: numbers of keys, and values.
    async fn scan(
        &mut self,
        prefix: &str,
        lower: ops::Bound<&'static str>,
        upper: ops::Bound<&'static str>,
        limit: u32,
        reverse: bool,
    ) -> Vec<(usize, u64)>;
    /// A synchronous call.
    async fn call(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<u64, Abort>;
    fn call_async(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<(), Abort>;
    /// A value that the result is to show; results of calls pass it on.
    fn show(&mut self, _: u64) {}
    /// Says something to people.
    fn log(&mut self, _: u64) {}
    /// The logged time.
    fn time(&mut self) -> u64;
    fn random(&mut self) -> u64;
}

/// Mixes a number into an accumulator.
pub fn fold(acc: u64, number: u64) -> u64 {
    let mixed = (acc ^ number ^ 0xcbf2_9ce4_8422_2325).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 29
}

/// The result of what waits for nothing.
///
/// # Panics
/// It waits.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a program of a single worker waits for another"),
    }
}

/// Runs the program in `arguments` for the entity `own`, as version `version` of the app does.
///
/// # Errors
/// A logic abort, or what the world refuses.
pub async fn interpret(version: u8, own: &str, arguments: &[u8], world: &mut impl World) -> Result<u64, Abort> {
    let [start, space, code @ ..] = arguments else { return Err(no_program()) };
    let (space, mut code) = (*space, code);
    let mut acc = fold(u64::from(*start), u64::from(version));
    let mut skip = 0;
    while !code.is_empty() {
        let (op, rest) = decode(code).ok_or_else(no_program)?;
        code = rest;
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let odd = acc % 2 == 1;
        let key = |place: Place| match place {
            Place::Own => keys::intern(own),
            Place::Key(at) => keys::name(u64::from(at)),
            Place::Dynamic => keys::name((acc >> 8) % u64::from(space).max(1)),
        };
        match op {
            Op::Read(at) => acc = fold(acc, world.get(key(at)).await.unwrap_or(1)),
            Op::Write(at) => world.put(key(at), Some(acc)).await?,
            Op::WriteIfOdd(at) if odd => world.put(key(at), Some(acc)).await?,
            Op::Delete(at) => world.put(key(at), None).await?,
            Op::DeleteIfOdd(at) if odd => world.put(key(at), None).await?,
            Op::WriteIfOdd(_) | Op::DeleteIfOdd(_) => {}
            Op::Scan(scan) => {
                let bound = |bound| match bound {
                    Bound::Unbounded => ops::Bound::Unbounded,
                    Bound::Included(at) => ops::Bound::Included(key(at)),
                    Bound::Excluded(at) => ops::Bound::Excluded(key(at)),
                };
                let prefix = scan.prefix.map_or("", |number| keys::prefix(usize::from(number)));
                let (lower, upper) = (bound(scan.lower), bound(scan.upper));
                for (key, value) in world.scan(prefix, lower, upper, u32::from(scan.limit), scan.reverse).await {
                    acc = fold(fold(acc, key as u64), value);
                }
            }
            Op::Call(call) => {
                let (operator, function, args) = resolve(&call, acc, space);
                acc = fold(acc, world.call(operator, key(call.place), function, &args).await?);
            }
            Op::CallAsync(call) => {
                let (operator, function, args) = resolve(&call, acc, space);
                world.call_async(operator, key(call.place), function, &args)?;
            }
            Op::AbortIfMultipleOf(n) if (acc >> 16).is_multiple_of(u64::from(n) % 5 + 2) => {
                return Err(Abort::new(Code::Aborted, format!("the accumulator is {acc}")));
            }
            Op::AbortIfMultipleOf(_) => {}
            Op::SkipIfOdd(n) => skip = if odd { n } else { 0 },
            Op::Time => acc = fold(acc, world.time()),
            Op::Random => acc = fold(acc, world.random()),
            Op::Append(at, element) => {
                let list = world.get(key(at)).await.unwrap_or(0);
                world.put(key(at), Some(list << 8 | u64::from(element))).await?;
            }
            Op::Set(at, value) => world.put(key(at), Some(u64::from(value))).await?,
            Op::Show(at) => {
                let value = world.get(key(at)).await.unwrap_or(0);
                world.show(value);
                acc = fold(acc, value);
            }
        }
    }
    if acc.is_multiple_of(4) {
        world.log(acc);
    }
    Ok(acc)
}

fn resolve(call: &Call<'_>, acc: u64, space: u8) -> (&'static str, &'static str, Vec<u8>) {
    let start = if call.pass { (acc >> 4) as u8 % 4 } else { 0 };
    (OPERATORS[usize::from(call.operator)], FUNCTIONS[usize::from(call.function)], args(start, space, call.body))
}

fn no_program() -> Abort {
    Abort::new(Code::BadArguments, "the arguments are no program")
}
