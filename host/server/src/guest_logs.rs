//! Log lines of guests, shown among the server's own: of each app so many bytes a second, so that none fills the disk, or
//! keeps the server from its work.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use styx_protocol::attempt::{LogLevel, LogLine};
use styx_protocol::catalog::{Catalog, Operator};
use styx_protocol::ids::Tid;

use crate::observe::Recorder;

/// So many seconds' worth may come at once.
const BURST_S: u64 = 16;

/// What a line takes besides its text: time, transaction, operator.
const LINE_BYTES: usize = 100;

/// Apps that are remembered before it is looked which of them have been silent.
const APPS: usize = 1 << 10;

/// Shows lines of guests.
#[derive(Debug)]
pub(crate) struct GuestLogs {
    /// Of each app; 0: as many as there are.
    bytes_per_second: u64,
    apps: HashMap<Arc<str>, Allowance>,
    forget_at: usize,
}

/// What an app may still write (the generic cell rate algorithm), and what it has not been allowed to.
#[derive(Debug)]
struct Allowance {
    until: Instant,
    left_out: u64,
}

impl GuestLogs {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        GuestLogs { bytes_per_second, apps: HashMap::new(), forget_at: APPS }
    }

    /// Shows the lines of a transaction, as far as their apps may write so much; counts the others.
    pub(crate) fn show(
        &mut self,
        recorder: &Recorder,
        catalog: &Catalog,
        tid: Tid,
        lines: &[LogLine],
        left_out: &AtomicU64,
    ) {
        let now = Instant::now();
        for line in lines {
            recorder.line(catalog, tid, line);
            let operator = catalog.operator(line.operator);
            for message in line.message.lines() {
                if operator.is_none_or(|operator| self.admits(&operator.app, message.len() + LINE_BYTES, now)) {
                    write(operator, tid, line, message);
                } else {
                    left_out.fetch_add(1, Relaxed);
                }
            }
        }
    }

    fn admits(&mut self, app: &Arc<str>, bytes: usize, now: Instant) -> bool {
        if self.bytes_per_second == 0 {
            return true;
        }
        if self.apps.len() >= self.forget_at {
            self.apps.retain(|_, allowance| allowance.until > now || allowance.left_out > 0);
            self.forget_at = APPS.max(2 * self.apps.len());
        }
        if !self.apps.contains_key(app) {
            self.apps.insert(app.clone(), Allowance { until: now, left_out: 0 });
        }
        let allowance = self.apps.get_mut(app).expect("it is there by now");
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let until = allowance.until.max(now) + takes;
        if until > now + Duration::from_secs(BURST_S) {
            if allowance.left_out == 0 {
                let rate = self.bytes_per_second;
                tracing::warn!(
                    app = &**app,
                    "it writes more than {rate} bytes of log lines a second (--app-log-rate): some are left out"
                );
            }
            allowance.left_out += 1;
            return false;
        }
        // Told once it has been quiet for a while, not with each line that fits in between.
        let missing = if allowance.until <= now { std::mem::take(&mut allowance.left_out) } else { 0 };
        allowance.until = until;
        if missing > 0 {
            tracing::warn!(app = &**app, "{missing} of its log lines have been left out");
        }
        true
    }
}

/// Each line stands on its own: what a guest says must not look like what the server says.
fn write(operator: Option<&Arc<Operator>>, tid: Tid, line: &LogLine, message: &str) {
    let function = operator.and_then(|operator| operator.functions().nth(line.function.into()));
    let function = function.map_or("?", |function| &*function.qualified);
    let app = operator.map_or("?", |operator| &*operator.app);
    let (tid, key, request) = (tid.0, &*line.key, tracing::field::display(line.request));
    match line.level {
        LogLevel::Debug => tracing::debug!(target: "guest", app, function, key, request, tid, "{message}"),
        LogLevel::Info => tracing::info!(target: "guest", app, function, key, request, tid, "{message}"),
        LogLevel::Warn => tracing::warn!(target: "guest", app, function, key, request, tid, "{message}"),
        LogLevel::Error => tracing::error!(target: "guest", app, function, key, request, tid, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_writes_so_much_a_second_and_others_are_not_asked_to_wait() {
        let mut logs = GuestLogs::new(1000);
        let (start, loud, quiet) = (Instant::now(), Arc::from("loud"), Arc::from("quiet"));
        let mut admitted = |app, at: u64| logs.admits(app, 1000, start + Duration::from_secs(at));
        assert_eq!((0..100).filter(|_| admitted(&loud, 0)).count() as u64, BURST_S);
        assert!(admitted(&quiet, 0));
        assert_eq!((0..100).filter(|_| admitted(&loud, 1)).count(), 1);
        assert_eq!(logs.apps[&loud].left_out, 100 - BURST_S + 99);
        assert!(logs.admits(&loud, 1000, start + Duration::from_secs(100)));
        assert_eq!(logs.apps[&loud].left_out, 0, "it has been told");

        for app in 0..10 * APPS {
            assert!(logs.admits(&app.to_string().into(), 1, start + Duration::from_secs(200 + app as u64)));
        }
        assert!(logs.apps.len() <= APPS, "{}", logs.apps.len());
        let mut unbounded = GuestLogs::new(0);
        assert!((0..100).all(|_| unbounded.admits(&loud, 1 << 20, start)));
    }
}
