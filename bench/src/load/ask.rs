//! Calls whose results somebody wants to know.

use std::future::poll_fn;

use anyhow::Context;

use super::connection::{Connection, End};
use crate::workload::{Answer, Call};

/// Makes calls, as many at once as the connection takes, and gives their answers in the same order.
pub async fn ask(connection: &mut dyn Connection, calls: &[Call]) -> anyhow::Result<Vec<Answer>> {
    let most = connection.capacity();
    let mut ends: Vec<Option<End>> = vec![None; calls.len()];
    let (mut sent, mut ended, mut answers) = (0, 0, Vec::new());
    while ended < calls.len() {
        while sent < calls.len() && sent - ended < most {
            connection.send(sent as u64, &calls[sent])?;
            sent += 1;
        }
        poll_fn(|context| connection.poll(context, &mut answers)).await?;
        for answered in answers.drain(..) {
            let end = ends.get_mut(answered.ticket as usize).context("an answer to a call that was not made")?;
            ended += usize::from(end.replace(answered.end).is_none());
        }
    }
    let answer = |end| {
        Ok(match end {
            End::Done(result) => Ok(serde_json::from_slice(&result)?),
            End::Failed { code, message } => Err((code, message)),
        })
    };
    ends.into_iter().flatten().map(answer).collect()
}
