//! Two links over a channel that loses, duplicates, reorders and delays, from a seed.

use proptest::prelude::*;

use super::*;

fn link(generation: u64, limits: Limits) -> Link<u32> {
    Link::new(generation, limits, |payload| *payload as usize)
}

fn limits() -> Limits {
    Limits { timeout_us: 100, timeout_us_max: 400, repeat_max: 4, payloads_max: 8, bytes_max: 100, ahead_max: 4 }
}

fn numbered(frames: &[Frame<u32>]) -> Vec<(u64, u32)> {
    frames.iter().map(|frame| frame.numbered.expect("only bare acknowledgements carry nothing")).collect()
}

fn receive(link: &mut Link<u32>, frame: Frame<u32>) -> (Receipt, Vec<u32>) {
    let mut delivered = Vec::new();
    let receipt = link.receive(frame, |payload| delivered.push(payload));
    (receipt, delivered)
}

fn frame(generation: u64, ack: u64, numbered: Option<(u64, u32)>) -> Frame<u32> {
    Frame { generation, ack, numbered }
}

#[test]
fn what_becomes_of_a_frame() {
    // A link of generation 7 that has sent two payloads and received two.
    let check = |frame: Frame<u32>, receipt: Receipt, delivered: &[u32], ack_owed: bool| {
        let mut link = link(7, limits());
        link.send(10);
        link.send(11);
        receive(&mut link, Frame { generation: 7, ack: 0, numbered: Some((1, 1)) });
        receive(&mut link, Frame { generation: 7, ack: 0, numbered: Some((2, 2)) });
        link.acknowledgement();
        assert_eq!(receive(&mut link, frame.clone()), (receipt, delivered.to_vec()), "{frame:?}");
        assert_eq!(link.ack_owed(), ack_owed, "{frame:?}");
        let counts = *link.counts();
        let dropped = [
            (Dropped::OldGeneration, counts.old_generation),
            (Dropped::FutureGeneration, counts.future_generation),
            (Dropped::Duplicate, counts.duplicate),
            (Dropped::TooFarAhead, counts.too_far_ahead),
            (Dropped::ImpossibleAck, counts.impossible_ack),
            (Dropped::ImpossibleNumber, counts.impossible_number),
        ];
        for (reason, count) in dropped {
            assert_eq!(count, u64::from(receipt == Receipt::Dropped(reason)), "{frame:?}: {reason:?}");
        }
    };
    check(frame(7, 0, Some((3, 3))), Receipt::Delivered(1), &[3], true);
    check(frame(7, 2, None), Receipt::Acknowledged, &[], false);
    check(frame(7, 1, Some((4, 4))), Receipt::Kept, &[], true);
    check(frame(7, 0, Some((6, 6))), Receipt::Kept, &[], true);
    check(frame(7, 0, Some((7, 7))), Receipt::Dropped(Dropped::TooFarAhead), &[], true);
    check(frame(7, 0, Some((2, 2))), Receipt::Dropped(Dropped::Duplicate), &[], true);
    check(frame(7, 3, None), Receipt::Dropped(Dropped::ImpossibleAck), &[], false);
    check(frame(7, 0, Some((0, 9))), Receipt::Dropped(Dropped::ImpossibleNumber), &[], false);
    check(frame(6, 0, Some((3, 3))), Receipt::Dropped(Dropped::OldGeneration), &[], false);
    check(frame(8, 0, Some((3, 3))), Receipt::Dropped(Dropped::FutureGeneration), &[], false);
}

#[test]
fn a_gap_is_filled_in_order() {
    let mut link = link(1, limits());
    assert_eq!(receive(&mut link, frame(1, 0, Some((3, 3)))), (Receipt::Kept, vec![]));
    assert_eq!(receive(&mut link, frame(1, 0, Some((2, 2)))), (Receipt::Kept, vec![]));
    let twice = Receipt::Dropped(Dropped::Duplicate);
    assert_eq!(receive(&mut link, frame(1, 0, Some((3, 3)))), (twice, vec![]));
    assert_eq!(link.acknowledgement().ack, 0, "nothing is complete yet");
    assert_eq!(receive(&mut link, frame(1, 0, Some((1, 1)))), (Receipt::Delivered(3), vec![1, 2, 3]));
    assert_eq!(link.acknowledgement().ack, 3);
    assert!(!link.ack_owed());
    assert_eq!(link.counts().delivered, 3);
}

#[test]
fn what_is_not_acknowledged_is_sent_again() {
    let mut link = link(1, limits());
    assert_eq!((link.tick(0), link.due_us()), (vec![], None));
    for payload in 0..6 {
        link.send(payload);
    }
    assert_eq!(link.due_us(), Some(0));
    assert_eq!((link.tick(1000), link.due_us()), (vec![], Some(1100)), "nothing is old yet");
    link.send(6);
    assert_eq!(link.tick(1099), []);
    assert_eq!(numbered(&link.tick(1100)), [(1, 0), (2, 1), (3, 2), (4, 3)], "as many as one tick repeats");
    assert_eq!(link.tick(1299), [], "the time doubles");
    link.send(7);
    assert_eq!(numbered(&link.tick(1300)).len(), 4);
    assert_eq!(link.due_us(), Some(1700));
    assert_eq!(numbered(&link.tick(1700)).len(), 4);
    assert_eq!(link.due_us(), Some(2100), "up to a limit");

    receive(&mut link, frame(1, 6, None));
    assert_eq!(link.tick(2100), [], "progress sets the clock anew");
    link.send(8);
    assert_eq!(numbered(&link.tick(2200)), [(7, 6), (8, 7)], "what was sent since is not old");
    receive(&mut link, frame(1, 9, None));
    assert_eq!((link.tick(9000), link.due_us()), (vec![], None));
    assert_eq!(link.counts().repeated, 14);
}

#[test]
fn a_connection_that_comes_back_gets_everything_at_once() {
    let mut link = link(1, limits());
    for payload in 0..6 {
        link.send(payload);
    }
    receive(&mut link, frame(1, 2, Some((1, 1))));
    let again = link.reconnected();
    assert_eq!(numbered(&again), [(3, 2), (4, 3), (5, 4), (6, 5)]);
    assert!(again.iter().all(|frame| frame.ack == 1 && frame.generation == 1));
    assert!(!link.ack_owed(), "the frames acknowledge");
    receive(&mut link, frame(1, 6, Some((2, 2))));
    assert_eq!(link.reconnected(), []);
    assert!(link.ack_owed(), "no frame has");
}

#[test]
fn the_bound_is_reported() {
    let mut link = link(1, limits());
    for _ in 0..8 {
        link.send(12);
    }
    assert_eq!(link.outstanding(), Outstanding { payloads: 8, bytes: 96 });
    assert!(!link.overfull());
    link.send(0);
    assert!(link.overfull(), "9 payloads of 8");
    receive(&mut link, frame(1, 1, None));
    assert!(!link.overfull());
    receive(&mut link, frame(1, 9, None));
    assert_eq!(link.outstanding(), Outstanding::default());
    link.send(101);
    assert!(link.overfull(), "101 bytes of 100");
}

/// What happens next, chosen by the seed.
#[derive(Clone, Debug)]
enum Step {
    /// An end sends a payload.
    Send(bool),
    /// The frame at this place of the channel towards an end arrives.
    Arrive(bool, prop::sample::Index),
    /// It arrives and stays.
    Double(bool, prop::sample::Index),
    /// It is lost.
    Lose(bool, prop::sample::Index),
    /// Everything under way towards an end is lost, and the channel works again.
    Reconnect(bool),
    /// Time passes, in µs.
    Tick(u64),
    /// An end acknowledges.
    Acknowledge(bool),
    /// A frame of another generation arrives.
    Stray(bool, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Send),
        6 => (any::<bool>(), place()).prop_map(|(end, at)| Step::Arrive(end, at)),
        1 => (any::<bool>(), place()).prop_map(|(end, at)| Step::Double(end, at)),
        2 => (any::<bool>(), place()).prop_map(|(end, at)| Step::Lose(end, at)),
        1 => any::<bool>().prop_map(Step::Reconnect),
        2 => (0u64..200).prop_map(Step::Tick),
        1 => any::<bool>().prop_map(Step::Acknowledge),
        1 => (any::<bool>(), prop_oneof![0u64..5, 6u64..9], 1u64..20).prop_map(|(end, g, n)| Step::Stray(end, g, n)),
    ]
}

/// Two ends and the frames under way to each.
struct Channel {
    ends: [Link<u32>; 2],
    towards: [Vec<Frame<u32>>; 2],
    sent: [u32; 2],
    delivered: [Vec<u32>; 2],
    now_us: u64,
}

impl Channel {
    fn new() -> Self {
        let limits = Limits { payloads_max: usize::MAX, bytes_max: usize::MAX, ..limits() };
        Channel {
            ends: [link(5, limits), link(5, limits)],
            towards: [vec![], vec![]],
            sent: [0; 2],
            delivered: [vec![], vec![]],
            now_us: 0,
        }
    }

    fn arrive(&mut self, end: usize, frame: Frame<u32>) {
        let delivered = &mut self.delivered[end];
        self.ends[end].receive(frame, |payload| delivered.push(payload));
    }

    fn tick(&mut self, by_us: u64) {
        self.now_us += by_us;
        for end in 0..2 {
            let again = self.ends[end].tick(self.now_us);
            self.towards[1 - end].extend(again);
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Send(end) => {
                let end = usize::from(end);
                self.sent[end] += 1;
                let frame = self.ends[end].send(self.sent[end]);
                self.towards[1 - end].push(frame);
            }
            Step::Arrive(end, at) | Step::Double(end, at) | Step::Lose(end, at)
                if !self.towards[usize::from(end)].is_empty() =>
            {
                let end = usize::from(end);
                let at = at.index(self.towards[end].len());
                let frame = match step {
                    Step::Double(..) => self.towards[end][at].clone(),
                    _ => self.towards[end].remove(at),
                };
                if !matches!(step, Step::Lose(..)) {
                    self.arrive(end, frame);
                }
            }
            Step::Arrive(..) | Step::Double(..) | Step::Lose(..) => {}
            Step::Reconnect(end) => {
                let end = usize::from(end);
                self.towards[end].clear();
                let again = self.ends[1 - end].reconnected();
                self.towards[end].extend(again);
            }
            Step::Tick(by_us) => self.tick(by_us),
            Step::Acknowledge(end) => {
                let end = usize::from(end);
                let ack = self.ends[end].acknowledgement();
                self.towards[1 - end].push(ack);
            }
            Step::Stray(end, generation, number) => {
                self.arrive(usize::from(end), frame(generation, number, Some((number, u32::MAX))));
            }
        }
        self.check();
    }

    /// Exactly once and in order, at every moment.
    fn check(&self) {
        for end in 0..2 {
            let count = self.delivered[end].len() as u32;
            assert!(count <= self.sent[1 - end]);
            assert!(self.delivered[end].iter().copied().eq(1..=count), "{:?}", self.delivered[end]);
            assert_eq!(self.ends[end].received(), u64::from(count));
        }
    }

    /// The channel behaves from now on: everything arrives, and both ends come to know.
    fn behave(&mut self) {
        let mut rounds = 0;
        while self.ends.iter().any(|end| end.outstanding().payloads > 0) {
            rounds += 1;
            assert!(rounds < 1000, "the links make no progress");
            for end in 0..2 {
                for frame in std::mem::take(&mut self.towards[end]) {
                    self.arrive(end, frame);
                }
                if self.ends[end].ack_owed() {
                    let ack = self.ends[end].acknowledgement();
                    self.towards[1 - end].push(ack);
                }
            }
            self.tick(100);
            self.check();
        }
        for end in 0..2 {
            assert_eq!(self.delivered[end].len() as u32, self.sent[1 - end]);
            assert_eq!(self.ends[end].outstanding(), Outstanding::default());
            assert_eq!(self.ends[end].counts().delivered, u64::from(self.sent[1 - end]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn exactly_once_in_order_and_complete_in_the_end(steps in prop::collection::vec(step(), 0..300)) {
        let mut channel = Channel::new();
        steps.into_iter().for_each(|step| channel.apply(step));
        channel.behave();
    }
}
