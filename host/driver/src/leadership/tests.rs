use super::*;

const TERM: Duration = Duration::from_secs(4);

fn asked(candidate: &mut Candidate, now: Instant) -> Vec<LeaseEffect> {
    let mut effects = Vec::new();
    candidate.tick(now, &mut effects);
    effects
}

fn answered(candidate: &mut Candidate, answer: LeaseAnswer, now: Instant) -> Vec<LeaseEffect> {
    let mut effects = Vec::new();
    candidate.answered(answer, now, &mut effects);
    effects
}

fn at(ms: u64) -> Instant {
    Instant(ms * 1000)
}

#[test]
fn a_lease_is_held_from_before_it_was_asked_for_and_renewed_four_times_in_a_term() {
    let mut candidate = Candidate::new(TERM, at(0));
    assert_eq!(asked(&mut candidate, at(10)), [LeaseEffect::Acquire]);
    assert_eq!(candidate.due(), None, "the store is being asked");
    assert_eq!(answered(&mut candidate, LeaseAnswer::Ours, at(500)), [LeaseEffect::Lead(at(4_010))]);
    assert_eq!(candidate.due(), Some(at(1_500)));
    assert_eq!(asked(&mut candidate, at(1_499)), []);
    assert_eq!(asked(&mut candidate, at(1_500)), [LeaseEffect::Renew]);
    assert_eq!(answered(&mut candidate, LeaseAnswer::Ours, at(1_600)), [LeaseEffect::Lead(at(5_500))]);
}

#[test]
fn a_leader_that_cannot_renew_tries_on_and_one_whose_lease_another_has_is_over() {
    let mut candidate = Candidate::new(TERM, at(0));
    asked(&mut candidate, at(0));
    answered(&mut candidate, LeaseAnswer::Ours, at(0));
    let unavailable = || LeaseAnswer::Unavailable("no answer".into());
    for (now, complaints) in [(1_000, 1), (2_000, 0), (3_000, 0)] {
        assert_eq!(asked(&mut candidate, at(now)), [LeaseEffect::Renew]);
        assert_eq!(answered(&mut candidate, unavailable(), at(now)).len(), complaints, "people are told once");
    }
    asked(&mut candidate, at(4_000));
    let lost = answered(&mut candidate, LeaseAnswer::Theirs("other".into()), at(4_000));
    assert_eq!((lost, candidate.due()), (vec![LeaseEffect::Lost("other".into())], None));
}

#[test]
fn whoever_stands_by_says_once_who_leads_and_asks_until_nobody_does() {
    let mut candidate = Candidate::new(TERM, at(0));
    let theirs = |holder: &str| LeaseAnswer::Theirs(holder.into());
    for (now, holder, news) in [(0, "one", 1), (200, "one", 0), (400, "two", 1), (600, "two", 0)] {
        assert_eq!(asked(&mut candidate, at(now)), [LeaseEffect::Acquire]);
        assert_eq!(answered(&mut candidate, theirs(holder), at(now)).len(), news);
    }
    asked(&mut candidate, at(800));
    assert_eq!(answered(&mut candidate, LeaseAnswer::Ours, at(800)), [LeaseEffect::Lead(at(4_800))]);
}

#[test]
fn a_store_that_does_not_answer_the_first_time_ends_the_start_and_later_does_not() {
    let unavailable = || LeaseAnswer::Unavailable("no such bucket".into());
    let mut candidate = Candidate::new(TERM, at(0));
    asked(&mut candidate, at(0));
    let effects = answered(&mut candidate, unavailable(), at(0));
    assert_eq!((effects, candidate.due()), (vec![LeaseEffect::GiveUp("no such bucket".into())], None));

    let mut candidate = Candidate::new(TERM, at(0));
    asked(&mut candidate, at(0));
    answered(&mut candidate, LeaseAnswer::Theirs("one".into()), at(0));
    asked(&mut candidate, at(200));
    answered(&mut candidate, unavailable(), at(200));
    assert_eq!(candidate.due(), Some(at(400)));
}

#[test]
fn what_was_lost_is_not_held_again() {
    let mut leadership = Leadership::Until(at(5));
    assert!(leadership.holds(at(4)) && !leadership.holds(at(5)));
    leadership.extend(at(9));
    leadership.extend(at(7));
    assert!(leadership.holds(at(8)));
    leadership.lose();
    leadership.extend(at(99));
    assert!(!leadership.holds(at(4)));
    assert!(Leadership::Forever.holds(at(u64::MAX / 1000)) && !Leadership::Forever.is_shared());
}
