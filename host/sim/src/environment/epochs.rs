//! Epochs as nodes cut and end them: checked, traced and counted.

use std::sync::Arc;

use styx_protocol::ids::Epoch;
use styx_protocol::record::EpochRecord;

use super::Environment;
use crate::check::Checked;
use crate::check::checker::Ended;
use crate::event::Life;

impl Environment {
    /// A record is about to be appended.
    ///
    /// # Errors
    /// It is not what follows.
    pub fn cut(&mut self, life: Life, record: &Arc<EpochRecord>) -> Checked {
        let requests = record.transactions().count();
        let numbers = [1, record.epoch.0, record.time.0, requests as u64];
        let now = self.queue.now();
        self.trace.event(now, numbers, || {
            format!(
                "{life} cuts epoch {}: {requests} requests from counter {} of {}, carried {:?}, {} controls",
                record.epoch,
                record.counter,
                record.sequencers,
                record.carried,
                record.controls.len()
            )
        });
        self.figures.deployments += record.controls.iter().filter(|control| control.is_deployment()).count() as u64;
        self.checker.cut(record)
    }

    /// An epoch has ended, or a round that is none, perhaps in a replay.
    ///
    /// # Errors
    /// It did not end as it must.
    pub fn finished(&mut self, life: Life, epoch: Option<Epoch>, ended: Ended) -> Checked {
        let numbers = [6, epoch.map_or(0, |epoch| epoch.0), ended.chain.0 as u64, ended.order.len() as u64];
        let now = self.queue.now();
        self.trace.event(now, numbers, || match epoch {
            Some(epoch) => format!(
                "{life} ends epoch {epoch}: order {:?}, {} rescheduled, chain {}",
                ended.order, ended.rescheduled, ended.chain
            ),
            None => format!("{life} ends a round of read-only requests"),
        });
        self.checker.finished(epoch, ended)
    }
}
