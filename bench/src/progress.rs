//! The progress of a measurement: a line that moves, on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The line; gone with this value.
pub struct Progress(ProgressBar);

impl Progress {
    /// A line that begins with this.
    pub fn new(what: &str) -> Progress {
        let bar = ProgressBar::new_spinner().with_prefix(what.to_owned());
        let style = ProgressStyle::with_template("{spinner} {prefix}  {msg}  {elapsed}");
        bar.set_style(style.expect("the template is right"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    pub fn stage(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.set_position(0);
    }

    /// So many calls of those that fill the app are answered.
    pub fn filled(&self, count: u64) {
        // Often called; drawn by the tick alone.
        if count.is_multiple_of(1000) {
            self.0.set_message(format!("filling: {count} calls"));
        }
    }

    /// How much is answered a second now.
    pub fn rate(&self, tps: f64) {
        let message = self.0.message();
        let stage = message.split("  →").next().unwrap_or_default();
        self.0.set_message(format!("{stage}  → {tps:.0}/s"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
