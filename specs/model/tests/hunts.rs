//! The checker finds what is planted: each mistake breaks what it must break.

use styx_model::explore::hunt;
use styx_model::scenario::{HUNTS, Planted};

fn check(mistake: Planted) {
    let hunted = HUNTS.iter().find(|hunt| hunt.mistake == mistake).expect("each mistake is hunted");
    let report = hunt(hunted);
    for wanted in hunted.breaks {
        let found = report.broken.iter().find(|(broken, _)| broken == wanted);
        let (_, steps) = found.unwrap_or_else(|| panic!("{mistake:?} does not break: {wanted}"));
        println!("{mistake:?} breaks in {} steps: {wanted}", steps.len());
    }
}

macro_rules! hunts {
    ($($name:ident: $mistake:ident,)+) => {
        $(#[test]
        fn $name() {
            check(Planted::$mistake);
        })+

        #[test]
        fn all_are_hunted() {
            assert_eq!(HUNTS.len(), [$(Planted::$mistake),+].len());
        }
    };
}

hunts! {
    reply_early: ReplyEarly,
    reply_by_epoch: ReplyByEpoch,
    bits_not_joined: BitsNotJoined,
    drift_at_root_only: DriftAtRootOnly,
    abort_before_drift: AbortBeforeDrift,
    locks_released_early: LocksReleasedEarly,
    fallback_before_reordered: FallbackBeforeReordered,
    old_messages: OldMessages,
    old_appends: OldAppends,
    carried_unlogged: CarriedUnlogged,
    late_results_kept: LateResultsKept,
    results_by_place: ResultsByPlace,
    look_early: LookEarly,
    look_by_epoch: LookByEpoch,
    look_midway: LookMidway,
}
