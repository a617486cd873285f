//! What follows when the store has refused an object of a snapshot. What a machine handed over for it cannot be had
//! again: it is written until it works, or until nobody wants it any more.

use std::time::Duration;

use super::StoreFailure;
use crate::diagnostic::Diagnostic;

/// Pause before a store is asked again that did not answer.
pub const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Another attempt, after a pause.
    Again(Diagnostic),
    /// Nothing: the generation is over, and its writer may well be fenced.
    GiveUp,
    /// The end of the process.
    Halt(String),
}

impl Retry {
    /// What follows from a part that could not be written, in a generation that goes on or `is_over`.
    pub fn of_part(failure: StoreFailure, is_over: bool) -> Retry {
        match failure {
            _ if is_over => Retry::GiveUp,
            StoreFailure::Unavailable(why) => {
                let message = format!("a part of a snapshot cannot be written, and is tried again: {why}");
                Retry::Again(Diagnostic::warn(message).code("SNAPSHOT_STORE"))
            }
            StoreFailure::Unreadable(_, why) | StoreFailure::Damaged(why) | StoreFailure::Fatal(why) => {
                Retry::Halt(why)
            }
            StoreFailure::Stopped => Retry::Halt("only maintenance is cut short".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_does_not_answer_is_asked_again_until_the_generation_is_over() {
        let away = || StoreFailure::Unavailable("no route".to_owned());
        let Retry::Again(diagnostic) = Retry::of_part(away(), false) else { panic!("what is not written is lost") };
        assert_eq!(diagnostic.code, Some("SNAPSHOT_STORE"));
        assert!(diagnostic.message.ends_with("no route"), "{diagnostic:?}");
        assert_eq!(Retry::of_part(away(), true), Retry::GiveUp);
    }

    #[test]
    fn nothing_is_written_again_that_another_attempt_does_not_help() {
        for failure in [StoreFailure::Fatal("fenced".to_owned()), StoreFailure::Damaged("fenced".to_owned())] {
            assert_eq!(Retry::of_part(failure.clone(), false), Retry::Halt("fenced".to_owned()));
            assert_eq!(Retry::of_part(failure, true), Retry::GiveUp);
        }
    }
}
