//! One line per moment, with what is dull folded: what processes tell each other while nothing goes wrong.

use std::collections::BTreeMap;
use std::fmt;

use crate::trace::{Kind, Moment};

/// Moments before the end that are told one by one.
const LAST: usize = 60;
/// Bytes of a line's text.
const TEXT_MAX: usize = 160;
/// A message that was longer under way than this is late, µs.
pub const LATE: u64 = 10_000;

/// A timeline as lines.
pub struct Timeline<'a> {
    /// In order.
    pub moments: &'a [Moment],
    /// Folds nothing.
    pub whole: bool,
    pub coloured: bool,
    /// Words, of which one makes a moment be told: the transactions that a failure names.
    pub about: Vec<String>,
}

impl Timeline<'_> {
    fn is_told(&self, at: usize, moment: &Moment) -> bool {
        let routine = matches!(moment.kind, Kind::Message | Kind::Client | Kind::Epoch | Kind::Log)
            || moment.kind == Kind::Snapshot && !moment.text.contains("exists");
        self.whole
            || !routine
            || at + LAST >= self.moments.len() && !is_beat(moment)
            || self.about.iter().any(|word| names(&moment.text, word))
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, moment: &Moment) -> fmt::Result {
        let node = moment.node.map_or("   ".into(), |node| format!("n{node:<2}"));
        let mut text = moment.text.as_str();
        if !self.whole {
            text = &text[..text.floor_char_boundary(TEXT_MAX)];
        }
        let (on, off) = if self.coloured { (colour(moment.kind), "\x1b[0m") } else { ("", "") };
        writeln!(f, "{} {node} {on}{} {text}{}{off}", clock(moment.time), sign(moment.kind), fate(moment))
    }

    fn fold(&self, f: &mut fmt::Formatter<'_>, folded: &[&Moment]) -> fmt::Result {
        let Some(first) = folded.first() else { return Ok(()) };
        if folded.iter().all(|moment| is_beat(moment)) {
            return Ok(());
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut epochs = 0;
        for moment in folded {
            epochs += usize::from(moment.text.contains(" ends epoch "));
            let what = match moment.kind {
                _ if is_beat(moment) => "heartbeats",
                Kind::Message if moment.arrival.is_none() => "messages lost",
                Kind::Message if is_late(moment) => "messages late",
                Kind::Message => "messages",
                Kind::Client if moment.node.is_some() => "answers",
                Kind::Client => "requests",
                Kind::Snapshot => "objects of snapshots",
                Kind::Log => "syncs",
                _ => continue,
            };
            *counts.entry(what).or_default() += 1;
        }
        let mut counts: Vec<String> = counts.into_iter().map(|(what, count)| format!("{count} {what}")).collect();
        if epochs > 0 {
            counts.insert(0, format!("{epochs} epochs end"));
        }
        let (on, off) = if self.coloured { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        writeln!(f, "{} {on}      … {}{off}", clock(first.time), counts.join(", "))
    }
}

impl fmt::Display for Timeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut folded = Vec::new();
        for (at, moment) in self.moments.iter().enumerate() {
            if self.is_told(at, moment) {
                self.fold(f, &std::mem::take(&mut folded))?;
                self.line(f, moment)?;
            } else {
                folded.push(moment);
            }
        }
        self.fold(f, &folded)
    }
}

/// Whether a text names something: not as a part of a longer number or word.
fn names(text: &str, word: &str) -> bool {
    let ends = |side: Option<char>| !side.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .any(|(at, _)| ends(text[..at].chars().next_back()) && ends(text[at + word.len()..].chars().next()))
}

/// Whether it is one of the messages that say only that their sender is there.
pub fn is_beat(moment: &Moment) -> bool {
    moment.kind == Kind::Message
        && [": Beat", ": Hello", ": Watch", ": View"].iter().any(|beat| moment.text.contains(beat))
}

fn is_late(moment: &Moment) -> bool {
    moment.arrival.is_some_and(|(_, arrived)| arrived > moment.time + LATE)
}

/// What became of a message.
fn fate(moment: &Moment) -> String {
    match moment.arrival {
        Some((node, arrived)) if is_late(moment) => {
            format!(" → n{node} LATE, after {:.1} ms", arrived.saturating_sub(moment.time) as f64 / 1e3)
        }
        Some((node, arrived)) => format!(" → n{node} +{} µs", arrived.saturating_sub(moment.time)),
        None if moment.kind == Kind::Message => " → LOST".into(),
        None => String::new(),
    }
}

fn clock(time: u64) -> String {
    format!("{:>4}.{:03} {:03}", time / 1_000_000, time / 1_000 % 1_000, time % 1_000)
}

fn sign(kind: Kind) -> char {
    match kind {
        Kind::Fault => '✗',
        Kind::Process => '●',
        Kind::Generation => '◆',
        Kind::Epoch => '▸',
        Kind::Log => '▪',
        Kind::Snapshot => '▣',
        Kind::Client => '↔',
        Kind::Message => '→',
        Kind::Diagnostic => '!',
    }
}

fn colour(kind: Kind) -> &'static str {
    match kind {
        Kind::Fault => "\x1b[1;31m",
        Kind::Process | Kind::Diagnostic => "\x1b[33m",
        Kind::Generation => "\x1b[1;35m",
        Kind::Epoch => "\x1b[1m",
        Kind::Log | Kind::Snapshot => "\x1b[34m",
        Kind::Client => "\x1b[32m",
        Kind::Message => "\x1b[2m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(time: u64, kind: Kind, text: &str) -> Moment {
        let arrival = (kind == Kind::Message).then_some((2, time + 5));
        Moment { time, kind, node: Some(1), text: text.into(), arrival }
    }

    #[test]
    fn what_is_dull_is_folded_and_what_a_failure_names_is_not() {
        let mut moments: Vec<Moment> =
            (0..100).map(|at| moment(at, Kind::Message, &format!("n1.1 to 3: tid {at}"))).collect();
        moments.insert(20, moment(20, Kind::Fault, "n1.1 dies"));
        let about = vec!["tid 7".into()];
        let told = Timeline { moments: &moments, whole: false, coloured: false, about }.to_string();
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].ends_with("… 7 messages"), "{told}");
        assert!(lines[1].contains("tid 7 → n2 +5 µs") && lines[2].ends_with("… 12 messages"), "{told}");
        assert!(lines[3].contains("✗ n1.1 dies"), "{told}");
        assert_eq!(lines.len(), 5 + LAST, "the last ones are told: {told}");
    }
}
