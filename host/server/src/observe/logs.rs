//! The last lines of guests, for whoever comes late.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::view::LogEntry;

/// Most bytes of lines that are kept.
const BYTES_MAX: usize = 4 << 20;
/// What a line takes besides its text.
const ENTRY: usize = 200;
/// Longest line as it is kept.
const LINE_MAX: usize = 16 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Lines(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<LogEntry>,
    bytes: usize,
    /// The number of the next line.
    next: u64,
}

fn weight(line: &LogEntry) -> usize {
    ENTRY + line.message.len() + line.key.len()
}

impl Lines {
    /// Keeps a line, and forgets the oldest ones for it.
    pub fn push(&self, mut line: LogEntry) {
        if line.message.len() > LINE_MAX {
            let end = line.message.floor_char_boundary(LINE_MAX);
            line.message.truncate(end);
            line.message.push('…');
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.sequence = kept.next;
        kept.next += 1;
        kept.bytes += weight(&line);
        kept.lines.push_back(line);
        while kept.bytes > BYTES_MAX
            && let Some(oldest) = kept.lines.pop_front()
        {
            kept.bytes -= weight(&oldest);
        }
    }

    /// The newest lines from a number on, and the number of the next one.
    pub fn since(&self, from: u64, limit: usize) -> (Vec<LogEntry>, u64) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = kept.lines.iter().rev().take_while(|line| line.sequence >= from).take(limit);
        let mut lines: Vec<LogEntry> = newer.cloned().collect();
        lines.reverse();
        (lines, kept.next)
    }

    /// Lines of one request.
    pub fn of(&self, request: &str) -> Vec<LogEntry> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.lines.iter().filter(|line| line.request_id == request).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str) -> LogEntry {
        LogEntry { message: message.into(), request_id: message.into(), ..LogEntry::default() }
    }

    #[test]
    fn the_newest_are_kept_and_told_once() {
        let lines = Lines::default();
        ["a", "b", "c"].into_iter().for_each(|text| lines.push(line(text)));
        let told = |from, limit| {
            let (lines, next) = lines.since(from, limit);
            (lines.into_iter().map(|line| line.message).collect::<Vec<_>>().concat(), next)
        };
        assert_eq!(
            (told(0, 9), told(0, 2), told(2, 9), told(3, 9)),
            (("abc".into(), 3), ("bc".into(), 3), ("c".into(), 3), (String::new(), 3))
        );
        assert_eq!(lines.of("b").len(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let lines = Lines::default();
        let long = "ü".repeat(1 << 20);
        (0..1000).for_each(|_| lines.push(line(&long)));
        let kept = lines.0.lock().unwrap();
        assert!(kept.bytes <= BYTES_MAX && kept.lines.len() > 100, "{} lines, {} bytes", kept.lines.len(), kept.bytes);
        assert_eq!(kept.bytes, kept.lines.iter().map(weight).sum::<usize>());
    }
}
