//! What happened during a run, and when: the marks on its timeline.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::SLOT;
use crate::system::{Disturbance, Migrated};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds from the beginning of the span.
    pub at_ms: u64,
    /// Until when it went on, if it did: a loss until calls were answered again, a return until all served, a migration
    /// until its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// What it was, such as `worker 1 killed`; workers are numbered from 1, as processes.
    pub what: String,
}

impl Event {
    /// What was done to the system, and what came of it; `answered` is how many calls were, in each [`SLOT`].
    pub fn all(
        disturbed: &[(Range<Duration>, Disturbance)],
        migrated: &[Migrated],
        snapshots: &[Duration],
        answered: &[u32],
    ) -> Vec<Event> {
        let mut migrated = migrated.iter();
        let mut events: Vec<Event> = snapshots.iter().map(|at| Event::at(*at, None, "snapshot".to_owned())).collect();
        for (number, (range, what)) in disturbed.iter().enumerate() {
            let at = range.start;
            let next = disturbed.get(number + 1).map_or(Duration::MAX, |(next, _)| next.start);
            let (until, what) = match what {
                Disturbance::Kill(worker) => (again(at..next, answered), format!("worker {} killed", worker + 1)),
                Disturbance::Stop(worker) => (again(at..next, answered), format!("worker {} stopped", worker + 1)),
                Disturbance::Rejoin(worker) => (Some(range.end), format!("worker {} back", worker + 1)),
                Disturbance::Migrate(_, mode) => match migrated.next() {
                    Some(migrated) => {
                        let phases = migrated.phases.iter();
                        events.extend(phases.map(|(after, phase)| Event::at(at + *after, None, phase.clone())));
                        let ended = (!migrated.took.is_zero()).then_some(at + migrated.took);
                        let end = migrated.state.split(':').next().filter(|end| *end != "done");
                        let end = end.map_or(String::new(), |end| format!(", {end}"));
                        (ended, format!("migration, {}{end}", mode.name()))
                    }
                    None => (None, format!("migration, {}", mode.name())),
                },
            };
            events.push(Event::at(at, until, what));
        }
        events.sort_by_key(|event| event.at_ms);
        events
    }

    fn at(at: Duration, until: Option<Duration>, what: String) -> Event {
        let ms = |at: Duration| at.as_millis() as u64;
        Event { at_ms: ms(at), until_ms: until.map(ms), what }
    }
}

/// When calls were answered again after a loss: at the end of the first slots of the range without any answer. None if there
/// is no such slot: what was lost is not noticed in it.
fn again(range: Range<Duration>, answered: &[u32]) -> Option<Duration> {
    let slot = |at: Duration| ((at.as_millis() / SLOT.as_millis()) as usize).min(answered.len());
    let mut slots = slot(range.start)..slot(range.end);
    slots.find(|slot| answered[*slot] == 0)?;
    slots.find(|slot| answered[*slot] > 0).map(|slot| SLOT * slot as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{Goal, Mode};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn event(at_ms: u64, until_ms: impl Into<Option<u64>>, what: &str) -> Event {
        Event { at_ms, until_ms: until_ms.into(), what: what.to_owned() }
    }

    #[test]
    fn a_loss_lasts_until_calls_are_answered_again_and_a_return_until_all_serve() {
        let disturbed = [
            (ms(150)..ms(155), Disturbance::Kill(0)),
            (ms(700)..ms(900), Disturbance::Rejoin(0)),
            (ms(1000)..ms(1010), Disturbance::Stop(1)),
        ];
        let answered = [9, 4, 0, 0, 7, 0, 9, 9, 9, 9, 9, 9];
        let expected = [
            event(150, 400, "worker 1 killed"),
            event(700, 900, "worker 1 back"),
            event(1000, None, "worker 2 stopped"),
        ];
        assert_eq!(Event::all(&disturbed, &[], &[], &answered), expected);
        // Nothing is answered until the next one: that is not when it was over.
        assert_eq!(Event::all(&disturbed[..2], &[], &[], &[9, 9, 0, 0, 0, 0, 0, 9])[0].until_ms, None);
    }

    #[test]
    fn a_migration_goes_on_until_its_end_with_its_phases_in_it() {
        let disturbed = [(ms(500)..ms(500), Disturbance::Migrate(Goal::Workers(3), Mode::StopAndRestart))];
        let mut migrated = Migrated {
            state: "done".into(),
            took: ms(2000),
            phases: vec![(ms(1500), "flipping".into())],
            ..Migrated::default()
        };
        let expected = [event(500, 2500, "migration, stop-and-restart"), event(2000, None, "flipping")];
        assert_eq!(Event::all(&disturbed, std::slice::from_ref(&migrated), &[], &[]), expected);
        (migrated.state, migrated.took, migrated.phases) = ("refused: another".into(), ms(0), Vec::new());
        let expected = [event(500, None, "migration, stop-and-restart, refused")];
        assert_eq!(Event::all(&disturbed, &[migrated], &[], &[]), expected);
        assert_eq!(Event::all(&disturbed, &[], &[], &[])[0].what, "migration, stop-and-restart");
        let whats: Vec<String> =
            Event::all(&disturbed, &[], &[ms(1), ms(60_000)], &[]).into_iter().map(|event| event.what).collect();
        assert_eq!(whats, ["snapshot", "migration, stop-and-restart", "snapshot"]);
    }
}
