//! Imports that may need another worker: synchronous on a single worker, asynchronous in a cluster (see
//! `invocation` for the two ways of running a guest).
//!
//! An asynchronous import whose result is on this worker costs an allocation and no more: what can be done at once is done
//! before the future is made.

use std::future::ready;

use styx_protocol::attempt::{Attempt, Locality, RemoteRequests, RemoteResponse};
use wasmtime::component::{ComponentNamedList, Lift, LinkerInstance, Lower};
use wasmtime::{Result, StoreContextMut};

use crate::guest::{Guest, put, take, with_attempt};
use crate::invocation::Context;

type Cx<'a> = StoreContextMut<'a, Guest>;

/// The result of an import, now or later.
type Later<'a, R> = Box<dyn Future<Output = Result<R>> + Send + 'a>;

/// Adds an import: `begin` starts the operation, `advance` goes on with the responses of other workers, `end` makes the
/// result. `begin` and `end` say how many bytes they move.
pub(super) fn add<P, T, R>(
    linker: &mut LinkerInstance<'_, Guest>,
    clustered: bool,
    name: &str,
    begin: impl Fn(&Cx<'_>, &mut Attempt, P) -> Result<(Locality<T>, usize)> + Copy + Send + Sync + 'static,
    advance: impl Fn(&mut Attempt, Vec<RemoteResponse>) -> Locality<T> + Copy + Send + Sync + 'static,
    end: impl Fn(T) -> (R, usize) + Copy + Send + Sync + 'static,
) -> Result<()>
where
    P: ComponentNamedList + Lift + 'static,
    R: ComponentNamedList + Lower + Send + 'static,
{
    if !clustered {
        return linker.func_wrap(name, move |mut cx: Cx<'_>, parameters: P| {
            with_attempt(&mut cx, |cx, attempt| {
                let (locality, moved) = begin(cx, attempt, parameters)?;
                let (result, more) = end(locality.here());
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
            Ok((Locality::Remote(requests), moved)) => Box::new(async move {
                let (context, found) = resolve(context, requests, advance).await;
                let (result, more) = end(found);
                put(&mut cx, context, moved + more).map(|()| result)
            }),
            Err(error) => Box::new(ready(put(&mut cx, context, 0).and(Err(error)))),
        }
    })
}

/// Sends requests until the operation needs no more of them.
async fn resolve<T>(
    mut context: Box<Context>,
    mut requests: RemoteRequests,
    advance: impl Fn(&mut Attempt, Vec<RemoteResponse>) -> Locality<T>,
) -> (Box<Context>, T) {
    loop {
        let responses;
        (context, responses) = context.request(requests).await;
        match advance(&mut context.attempt, responses) {
            Locality::Local(found) => return (context, found),
            Locality::Remote(next) => requests = next,
        }
    }
}
