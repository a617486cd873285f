//! Imports whose answer may lie with other workers: synchronous where there are none.
//!
//! Asynchronous ones cost an allocation and no more while the answer is here: what can be done at
//! once is done before the future is made.

use std::future::ready;

use styx_protocol::attempt::{Attempt, Locality, RemoteRequests, RemoteResponse};
use wasmtime::component::{ComponentNamedList, Lift, LinkerInstance, Lower};
use wasmtime::{Result, StoreContextMut};

use crate::context::Context;
use crate::guest::{Guest, put, take, with_attempt};
use crate::parking::Exchange;

type Cx<'a> = StoreContextMut<'a, Guest>;

/// What an import gives to the guest, now or later.
type Later<'a, R> = Box<dyn Future<Output = Result<R>> + Send + 'a>;

/// Adds an import: `begin` asks the attempt, `go_on` gives it the answers of other workers, `end`
/// makes the result. `begin` and `end` say how many bytes they move.
pub(super) fn add<P, T, R>(
    linker: &mut LinkerInstance<'_, Guest>,
    clustered: bool,
    name: &str,
    begin: impl Fn(&Cx<'_>, &mut Attempt, P) -> Result<(Locality<T>, usize)> + Copy + Send + Sync + 'static,
    go_on: impl Fn(&mut Attempt, Vec<RemoteResponse>) -> Locality<T> + Copy + Send + Sync + 'static,
    end: impl Fn(T) -> (R, usize) + Copy + Send + Sync + 'static,
) -> Result<()>
where
    P: ComponentNamedList + Lift + 'static,
    R: ComponentNamedList + Lower + Send + 'static,
{
    if !clustered {
        return linker.func_wrap(name, move |mut cx: Cx<'_>, parameters: P| {
            with_attempt(&mut cx, |cx, attempt| {
                let (reach, moved) = begin(cx, attempt, parameters)?;
                let (result, more) = end(reach.here());
                Ok((result, moved + more))
            })
        });
    }
    linker.func_wrap_async(name, move |mut cx: Cx<'_>, parameters: P| -> Later<'_, R> {
        let mut context = match take(&mut cx) {
            Ok(context) => context,
            Err(error) => return Box::new(ready(Err(error))),
        };
        match begin(&cx, &mut context.attempt, parameters) {
            Ok((Locality::Local(found), moved)) => {
                let (result, more) = end(found);
                Box::new(ready(put(&mut cx, context, moved + more).map(|()| result)))
            }
            Ok((Locality::Remote(ask), moved)) => Box::new(async move {
                let (context, found) = follow(context, ask, go_on).await;
                let (result, more) = end(found);
                put(&mut cx, context, moved + more).map(|()| result)
            }),
            Err(error) => Box::new(ready(put(&mut cx, context, 0).and(Err(error)))),
        }
    })
}

/// Asks until there is nothing more to ask.
async fn follow<T>(
    mut context: Box<Context>,
    mut ask: RemoteRequests,
    go_on: impl Fn(&mut Attempt, Vec<RemoteResponse>) -> Locality<T>,
) -> (Box<Context>, T) {
    loop {
        let answers;
        (context, answers) = Exchange::ask(context, ask).await;
        match go_on(&mut context.attempt, answers) {
            Locality::Local(found) => return (context, found),
            Locality::Remote(next) => ask = next,
        }
    }
}
