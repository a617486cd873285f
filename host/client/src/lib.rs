//! A client of Styx.
//!
//! ```no_run
//! use serde_json::json;
//! use styx_client::Client;
//!
//! # async fn example() -> Result<(), styx_client::Error> {
//! let client = Client::new("http://127.0.0.1:8080")?;
//! let total = client.call("shop", "order", "o1", "add", json!(["apple", 2])).await?;
//! println!("{total}");
//! # Ok(())
//! # }
//! ```
//!
//! **Every call happens once.** A call carries an idempotency key, one of the caller's or one that is generated, and
//! is repeated under it when the server is overloaded, unreachable or lost: the reply is that of the one execution.
//! Answers of the app itself (its results, and its errors: [`Error::is_aborted`]) are final.
//! [`Call::without_key`] gives that up: such a call is repeated only where nothing can have happened, and ends with
//! [`Error::outcome_unknown`] where nobody can say.
//!
//! Three ways in, with the same requests and replies:
//!
//! - [`Client::call`]: one request over HTTP; [`Client::send`] does not wait for the result, [`Client::result`] fetches it.
//! - [`Client::batch`]: many requests in one HTTP exchange.
//! - [`Client::pipeline`]: many requests under way on one WebSocket, which is opened again when it breaks.
//!
//! [`Connection`] is the WebSocket itself, without retries, for programs that count every microsecond.
//! State is read with [`Client::get`] and [`Client::scan`], apps come with [`Client::deploy`].

#![warn(missing_docs)]

mod client;
mod connection;
mod error;
mod pipeline;
mod reply;
mod request;
mod retry;
mod state;
mod tls;

pub use client::{Builder, Call, Client, Deployment};
pub use connection::{Connection, RawReply};
pub use error::Error;
pub use pipeline::Pipeline;
pub use reply::Reply;
pub use request::Request;
pub use reqwest::Method;
pub use retry::Retry;
pub use state::{Entity, Page};
