//! The rule by which messages count, in every order that two writers and a reader can come to.

use super::chain::{Chain, Kind, Stamp, Verdict};

fn stamp(generation: u64, writer: u64, kind: Kind) -> Stamp {
    Stamp { cluster: 1, generation, writer, kind }
}

/// A writer as the log is one, its steps taken one at a time on a topic that is a vector.
#[derive(Clone)]
struct Player {
    writer: u64,
    step: usize,
    steps: usize,
    chain: Chain,
    read: usize,
    generation: u64,
    since: Option<i64>,
    /// Offsets of its records not yet looked after, and values told to be durable.
    pending: Vec<usize>,
    acknowledged: Vec<(u64, u64)>,
    out: bool,
}

impl Player {
    /// One that tries to write so many records.
    fn new(writer: u64, records: usize) -> Self {
        // Read, fence, look; then per record: write, look.
        let steps = 3 + 2 * records;
        let chain = Chain::new();
        let (pending, acknowledged) = (Vec::new(), Vec::new());
        Player { writer, step: 0, steps, chain, read: 0, generation: 0, since: None, pending, acknowledged, out: false }
    }

    fn catch_up(&mut self, topic: &[Stamp], until: usize) {
        while self.read < until {
            let stamp = topic[self.read];
            if let Verdict::Record(sequence) = self.chain.accept(Some(&stamp))
                && self.pending.first() == Some(&self.read)
            {
                self.pending.remove(0);
                self.acknowledged.push((sequence, stamp.writer));
            }
            self.read += 1;
        }
    }

    fn act(&mut self, topic: &mut Vec<Stamp>) {
        match self.step {
            0 => {
                self.catch_up(topic, topic.len());
                self.generation = self.chain.generation + 1;
            }
            1 => {
                self.since = Some(topic.len() as i64);
                topic.push(stamp(self.generation, self.writer, Kind::Fence));
            }
            2 => {
                self.catch_up(topic, self.since.unwrap() as usize + 1);
                self.out = !self.chain.is_led_by(self.generation, self.writer);
            }
            step if step % 2 == 1 => {
                let sequence = self.chain.next();
                self.pending.push(topic.len());
                topic.push(stamp(self.generation, self.writer, Kind::Record { sequence }));
            }
            _ => {
                // Up to its own last message, as a sync reads.
                let until = self.pending.last().map_or(self.read, |offset| offset + 1);
                let told = self.acknowledged.len();
                self.catch_up(topic, until);
                self.out = !self.chain.is_led_by(self.generation, self.writer);
                if self.out {
                    self.acknowledged.truncate(told);
                } else {
                    assert!(self.pending.is_empty(), "the leader's records count");
                }
            }
        }
        self.step += 1;
    }

    fn may_act(&self) -> bool {
        !self.out && self.step < self.steps
    }
}

/// What any reader takes for the log.
fn read_all(topic: &[Stamp]) -> Vec<(u64, u64)> {
    let mut chain = Chain::new();
    let judged = topic.iter().map(|stamp| (chain.accept(Some(stamp)), stamp.writer)).collect::<Vec<_>>();
    judged
        .into_iter()
        .filter_map(|(verdict, writer)| match verdict {
            Verdict::Record(sequence) => Some((sequence, writer)),
            _ => None,
        })
        .collect()
}

fn explore(players: &[Player], topic: &[Stamp], ends: &mut usize, fenced: &mut usize) {
    let mut over = true;
    for at in 0..players.len() {
        if players[at].may_act() {
            over = false;
            let (mut players, mut topic) = (players.to_vec(), topic.to_vec());
            players[at].act(&mut topic);
            explore(&players, &topic, ends, fenced);
        }
    }
    if !over {
        return;
    }
    *ends += 1;
    *fenced += usize::from(players.iter().any(|player| player.out));
    let log = read_all(topic);
    for (at, (sequence, _)) in log.iter().enumerate() {
        assert_eq!(*sequence, at as u64, "numbers are contiguous: {topic:?}");
    }
    for player in players {
        for told in &player.acknowledged {
            assert!(log.contains(told), "writer {} was told that {told:?} is durable: {topic:?}", player.writer);
        }
    }
    // A trim to any record, by whoever wrote last, and a broker that has forgotten any part of it.
    let mut offsets = (0..topic.len()).filter(|end| read_all(&topic[..*end]).len() < read_all(&topic[..=*end]).len());
    for (first, from) in (0..log.len()).map(|first| (first, offsets.next().expect("one for each record"))) {
        let mut chain = Chain::new();
        let fences = topic.iter().filter(|stamp| chain.accept(Some(stamp)) == Verdict::Fence);
        let writer = fences.last().expect("who writes has fenced");
        let first = first as u64;
        let trim = Stamp { kind: Kind::Trim { sequence: chain.next(), first, from: from as i64 }, ..*writer };
        for low in 1..=from {
            let left = (low..).zip(topic[low..].iter().chain([&trim]));
            let left = left.map(|(offset, stamp)| (offset as i64, Some(*stamp))).collect::<Vec<_>>();
            let (mut chain, begin) = Chain::trimmed(1, &left).expect("the trim names where to begin");
            let mut rest = Vec::new();
            for (_, stamp) in left.iter().filter(|(offset, _)| *offset >= begin) {
                if let Verdict::Record(sequence) = chain.accept(stamp.as_ref()) {
                    rest.push((sequence, stamp.unwrap().writer));
                }
            }
            assert_eq!(rest, log[first as usize..], "read from {low}, trimmed to {from}: {topic:?}");
            assert_eq!((chain.first(), chain.next()), (first, log.len() as u64));
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_in_any_order_of_writers() {
    for (writers, records, ends_min) in [(2, 3, 1000), (3, 1, 1000)] {
        let players = (1..=writers).map(|writer| Player::new(writer, records)).collect::<Vec<_>>();
        let (mut ends, mut fenced) = (0, 0);
        explore(&players, &[], &mut ends, &mut fenced);
        assert!(ends > ends_min && fenced > 0 && fenced <= ends, "{ends} ends, {fenced} with somebody replaced");
    }
}

#[test]
fn generations_count_once_and_upwards() {
    let record = |generation, writer, sequence| stamp(generation, writer, Kind::Record { sequence });
    let fence = |generation, writer| stamp(generation, writer, Kind::Fence);
    let cases = [
        (fence(1, 1), Verdict::Fence),
        (record(1, 1, 0), Verdict::Record(0)),
        (record(1, 1, 0), Verdict::Misnumbered),
        (record(1, 1, 2), Verdict::Misnumbered),
        (record(2, 2, 1), Verdict::Late),
        (fence(1, 2), Verdict::Late),
        (fence(3, 2), Verdict::Fence),
        (fence(2, 3), Verdict::Late),
        (fence(3, 3), Verdict::Late),
        (record(1, 1, 1), Verdict::Late),
        (record(3, 3, 1), Verdict::Late),
        (record(3, 2, 1), Verdict::Record(1)),
        (Stamp { cluster: 2, ..fence(9, 9) }, Verdict::Foreign),
        (stamp(3, 2, Kind::Trim { sequence: 2, first: 1, from: 1 }), Verdict::Trim),
        (stamp(1, 1, Kind::Trim { sequence: 2, first: 2, from: 1 }), Verdict::Late),
        (stamp(3, 2, Kind::Trim { sequence: 2, first: 3, from: 1 }), Verdict::Misnumbered),
        (record(3, 2, 2), Verdict::Record(2)),
    ];
    let mut chain = Chain::new();
    assert_eq!(chain.accept(None), Verdict::Foreign);
    for (at, (stamp, verdict)) in cases.iter().enumerate() {
        assert_eq!(chain.accept(Some(stamp)), *verdict, "message {at}: {stamp:?}");
    }
    assert_eq!((chain.first(), chain.next()), (1, 3));
}

#[test]
fn a_late_record_at_the_beginning_of_what_is_left_is_not_the_beginning() {
    let record = |generation, sequence| stamp(generation, generation, Kind::Record { sequence });
    let trim = |generation, first, from| stamp(generation, generation, Kind::Trim { sequence: 7, first, from });
    // Generation 2 was fenced before offset 10; what is left begins with a late record of generation 1.
    // Generation 1 also asked for a trim too late: it is not carried out, and misleads nobody.
    let left = [record(1, 5), record(2, 5), record(2, 6), trim(2, 5, 11), trim(1, 6, 12)];
    let left = (10..).zip(left.map(Some)).collect::<Vec<_>>();
    let (mut chain, from) = Chain::trimmed(1, &left).unwrap();
    assert_eq!(from, 11);
    let verdicts = left[1..].iter().map(|(_, stamp)| chain.accept(stamp.as_ref())).collect::<Vec<_>>();
    assert_eq!(verdicts, [Verdict::Record(5), Verdict::Record(6), Verdict::Trim, Verdict::Late]);
    assert_eq!((chain.first(), chain.next()), (5, 7));
    assert_eq!(Chain::trimmed(2, &left), None, "another cluster's trims say nothing");
    assert_eq!(Chain::trimmed(1, &left[..3]), None, "nobody said that the beginning may be gone");
    let endless = [(1, Some(record(1, u64::MAX))), (2, Some(trim(1, 0, 1)))];
    assert_eq!(Chain::trimmed(1, &endless), None, "there are no more records than offsets");
}
