//! A model of how several workers commit, fall back and change their membership; small enough to
//! look at every state that it can reach.
//!
//! It is a specification: it shares no code with what it specifies. [`scenario::SCENARIOS`] are
//! small worlds of 3 workers, 3 keys and 2 to 4 transactions; in each, every order of steps and of
//! messages is explored, with a node lost at every possible moment. [`scenario::HUNTS`] plant
//! mistakes into the protocol and say what each must break, lest the silence means nothing.
//!
//! # What is modelled
//!
//! - A **cut** takes the requests that wait, in any of the scenario's orders. When its epoch has ended, it is appended
//!   with what it came to, and durable at some later step; epochs go on meanwhile, several records may be in flight.
//! - **Execute** on the state of the epoch's start; the barrier; conflict **bits** per worker, ORed
//!   by the coordinator; verdicts with deterministic reordering. Each worker applies in its own time.
//! - **Fallback**: per worker and transaction, locks of the cached RW set in TID order. When they
//!   are granted, the participant runs its functions again with cached parameters, waits for what
//!   callees elsewhere return if it still needs that, and reports to the root. Nobody waits for a
//!   result that is not needed any more: it may arrive epochs later, and is dropped. The root goes by the earliest function in serial order that drifted or aborted.
//!   Participants apply or drop and release their locks when they hear it, and not before.
//! - What drifted is in the next epoch, with its TID.
//! - **Replies** leave the root's worker once that very cut (not some cut of the same epoch) is durable.
//! - **Looks**: state is shown from outside the protocol, by any worker at any moment between two
//!   fallbacks, as that of the last epoch that it finished, once that very cut is durable. As showing changes
//!   nothing, it is no step: in every state, what might be shown must be right.
//! - **Membership**: a worker or the coordinator is taken for dead at any step. A new generation
//!   begins with what is durable at that moment; later appends of older generations are refused by
//!   the log. A worker joins with the first `Begin` that it gets, and begins with what the log says. Until
//!   then it goes on in the old generation, and so does, for ever, who is taken for dead: worker or
//!   coordinator. Having stopped is the case in which it takes no further step.
//!
//! # What must hold
//!
//! In every state: each finished epoch, its outcomes and its state are those of a serial execution in
//! the claimed order; no client is told two different things; what a look shows is what the durable log comes to; participants of a transaction apply or
//! drop together; no lock is released before all participants have run again; no request is in the
//! log twice; unless all is done, some step other than a crash is possible. As there are no cycles
//! (a test), the last says that every transaction ends.
//!
//! # What is left out
//!
//! - *Execute's messages*: ack shares, calls and answers between workers. The state of the epoch's
//!   start does not change while they travel, so what an execution does is a function of it;
//!   `Executed` and `Settle` carry that state. Each function of a transaction has its own key, so
//!   there is no order of branches to restore.
//! - *Shares of the cut*: the coordinator knows all requests, and TIDs count up. A transaction is
//!   rooted where its first key lives.
//! - *Decisions without the coordinator* for transactions of a single worker: all go through it.
//! - *Blind writes, deletes, ranges*: a function reads its key.
//! - *Unlogged read-only requests, idempotency keys, snapshots, trimming, moving state online,
//!   workers that come*: a generation only ever loses a worker.
//! - *Lost messages*: a connection that breaks is a lost worker. Messages may overtake each other.
//!
//! Two kinds of step are skipped because they change nothing: the arrival of a message whose
//! generation the recipient has left, and a reply that the client already has.

pub mod coordinator;
pub mod explore;
pub mod message;
pub mod program;
pub mod scenario;
pub mod worker;
pub mod world;
