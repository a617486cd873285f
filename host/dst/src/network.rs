//! The network between processes: connections that deliver in order, are slow, stand still, break, and are made anew.
//!
//! Each process has [`Peers`], which imitate what the transport promises (host/transport): one connection for each pair,
//! on it a link of a generation's messages and one of control messages, which are numbered, kept until they are
//! acknowledged and sent again on the next connection. The links are the product's, and so are the bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use styx_driver::network::{NetworkEvent, Refusal};
use styx_driver::wire::Envelope;
use styx_protocol::ids::{Generation, NodeId};
use styx_protocol::link::{Link, Rejected};
use styx_protocol::message::Message;

use crate::event::{Event, Life};
use crate::random::Random;

/// Bytes that a message counts for besides its body.
const MESSAGE_BYTES: usize = 64;
/// An acknowledgement leaves after this time, if nothing carries it before.
const ACKNOWLEDGE_AFTER: u64 = 5_000;
/// Pauses before a node is dialed again.
const REDIAL: (u64, u64) = (20_000, 2_000_000);
/// How long somebody is dialed who does not answer.
const DIAL: u64 = 1_000_000;

/// A frame on a connection.
#[derive(Clone, Debug)]
pub struct Frame {
    kind: Kind,
    generation: u64,
    number: u64,
    ack: u64,
    body: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Control,
    /// Says in which generation the sender is, and what it has received of that.
    Resume,
}

impl Frame {
    /// The generation and number of the message that it carries, if it carries one.
    pub fn message(&self) -> Option<(u64, u64)> {
        (self.number > 0).then_some((self.generation, self.number))
    }
}

/// Something that happens to a process's connections.
#[derive(Debug)]
pub enum Happening {
    /// A frame has come on a connection.
    Frame(u64, Frame),
    /// A connection was made to a node that goes by this name, in this session; dialed by that one.
    Connected {
        connection: u64,
        /// The other end.
        peer: NodeId,
        /// That one's session.
        session: u64,
        dialer: NodeId,
        /// In which session this end has greeted.
        greeted: u64,
    },
    /// A connection has ended.
    Closed(u64, &'static str),
    /// A node is dialed, in this session.
    Dial(NodeId, u64),
    /// A dial has come to nothing.
    Undialed {
        /// As whom the other end is known.
        peer: NodeId,
        /// In which session it was dialed.
        dialed: u64,
        /// What it said.
        refusal: Option<Refusal>,
        /// Nobody is there.
        gone: bool,
    },
    /// An acknowledgement is due.
    Acknowledge(NodeId),
}

/// A dial on its way: who is called, and as whom.
#[derive(Clone, Debug)]
pub struct Dial {
    /// The node that is called.
    pub to: usize,
    /// The id by which the caller knows it.
    pub peer: NodeId,
    pub caller: NodeId,
    /// The caller's session.
    pub session: u64,
}

/// A connection between two processes.
#[derive(Debug)]
struct Connection {
    ends: [Life; 2],
    /// When the last frame to each end arrives.
    last: [u64; 2],
}

/// All connections, and which pairs of nodes do not reach each other.
#[derive(Debug, Default)]
pub struct Network {
    connections: BTreeMap<u64, Connection>,
    next: u64,
    cuts: BTreeMap<(usize, usize), u64>,
}

impl Network {
    /// Nothing of `from` reaches `to` until then.
    pub fn cut(&mut self, from: usize, to: usize, until: u64) {
        self.cuts.insert((from, to), until);
    }

    /// Until when nothing of `from` reaches `to`, if so.
    pub fn is_cut(&self, from: usize, to: usize, now: u64) -> Option<u64> {
        self.cuts.get(&(from, to)).copied().filter(|until| now < *until)
    }

    /// Whether two nodes reach each other.
    pub fn reach(&self, one: usize, other: usize, now: u64) -> bool {
        self.is_cut(one, other, now).is_none() && self.is_cut(other, one, now).is_none()
    }

    /// Ends all cuts.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Makes a connection, of which its ends know at these times.
    pub fn connect(&mut self, ends: [Life; 2], known: [u64; 2]) -> u64 {
        self.next += 1;
        self.connections.insert(self.next, Connection { ends, last: known });
        self.next
    }

    /// Where a frame goes that one end of a connection sends, and when it arrives; nowhere, if there is none any more.
    pub fn route(&mut self, connection: u64, from: Life, now: u64, delay: u64) -> Option<(Life, u64)> {
        let side = usize::from(self.connections.get(&connection)?.ends[0] == from);
        let to = self.connections.get(&connection)?.ends[side];
        // What is sent into a cut arrives when it is over, unless the connection has ended by then.
        let sent = self.is_cut(from.node, to.node, now).unwrap_or(now);
        let last = &mut self.connections.get_mut(&connection)?.last[side];
        // One after the other: what is due at one instant happens in any order.
        *last = (*last + 1).max(sent + delay);
        Some((to, *last))
    }

    pub fn is_open(&self, connection: u64) -> bool {
        self.connections.contains_key(&connection)
    }

    /// The node at the other end of a connection.
    pub fn other_end(&self, connection: u64, me: Life) -> Option<usize> {
        let ends = self.connections.get(&connection)?.ends;
        ends.into_iter().find(|end| *end != me).map(|end| end.node)
    }

    /// Ends a connection, and names its ends.
    pub fn close(&mut self, connection: u64) -> Option<[Life; 2]> {
        self.connections.remove(&connection).map(|closed| closed.ends)
    }

    /// Connections that have an end in a life of a process.
    pub fn of(&self, life: Life) -> Vec<u64> {
        let of = self.connections.iter().filter(|(_, connection)| connection.ends.contains(&life));
        of.map(|(number, _)| *number).collect()
    }

    /// Connections between two nodes.
    pub fn between(&self, one: usize, other: usize) -> Vec<u64> {
        let both = |connection: &Connection| {
            let nodes = connection.ends.map(|end| end.node);
            nodes == [one, other] || nodes == [other, one]
        };
        self.connections.iter().filter(|(_, connection)| both(connection)).map(|(number, _)| *number).collect()
    }
}

/// Limits of a process's connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub body_bytes_max: usize,
    /// Most bytes that wait for one peer.
    pub outstanding_bytes_max: usize,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// It is too long.
    TooLarge,
    /// Too much waits already.
    Backlogged,
    /// Messages of the generation were lost before.
    Broken,
    /// There is no connection.
    NotConnected,
}

/// What a process wants of the network, and what it must know.
#[derive(Debug)]
pub enum Outgoing {
    /// Send a frame.
    Frame(u64, Frame),
    /// Call a node.
    Dial(Dial),
    /// Let something happen to this process later.
    Later(u64, Happening),
    /// Give a connection up.
    Close(u64),
    /// Tell the driver.
    Tell(NetworkEvent),
}

/// The connections of a process.
#[derive(Debug)]
pub struct Peers {
    id: NodeId,
    /// That of the next peer.
    next_session: u64,
    generation: u64,
    limits: Limits,
    peers: BTreeMap<NodeId, Peer>,
}

#[derive(Debug)]
struct Peer {
    /// What the other side knows these links by.
    session: u64,
    /// The node that is dialed, until the connection is there.
    address: Option<usize>,
    is_dialing: bool,
    failures: u32,
    control: Link<Bytes>,
    /// None: messages of this generation were lost.
    data: Option<Link<Bytes>>,
    their_session: Option<u64>,
    live: Option<Live>,
    acknowledging: bool,
}

#[derive(Debug)]
struct Live {
    connection: u64,
    dialer: NodeId,
    /// The generation that the other side is in, once it has said so.
    theirs: Option<u64>,
}

fn weigh(body: &Bytes) -> usize {
    body.len() + MESSAGE_BYTES
}

impl Peer {
    fn new(session: u64, generation: u64) -> Self {
        Peer {
            session,
            address: None,
            is_dialing: false,
            failures: 0,
            control: Link::new(0, weigh),
            data: Some(Link::new(generation, weigh)),
            their_session: None,
            live: None,
            acknowledging: false,
        }
    }

    fn held(&self) -> usize {
        self.control.weight() + self.data.as_ref().map_or(0, Link::weight)
    }

    /// Says what has arrived and which generation this is; the answer is all that has not. What arrived last it may say
    /// later, as links allow: then it comes once more.
    fn announce(&mut self, generation: u64, unsaid: u64, out: &mut Vec<Outgoing>) {
        let Some(live) = &self.live else { return };
        let (control, data) = (self.control.acknowledge(), self.data.as_mut().map_or(0, Link::acknowledge));
        let (control, data) = (control.saturating_sub(unsaid), data.saturating_sub(unsaid));
        let frame = |kind, generation, ack| Frame { kind, generation, number: 0, ack, body: Bytes::new() };
        out.push(Outgoing::Frame(live.connection, frame(Kind::Control, 0, control)));
        out.push(Outgoing::Frame(live.connection, frame(Kind::Resume, generation, data)));
    }
}

impl Peers {
    /// The connections of a process that goes by `id`, of which there are none.
    pub fn new(id: NodeId, session: u64, limits: Limits) -> Self {
        Peers { id, next_session: session, generation: 0, limits, peers: BTreeMap::new() }
    }

    /// The name of this process.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The session of the links to a node.
    pub fn session(&mut self, peer: NodeId) -> u64 {
        self.peer(peer).session
    }

    fn peer(&mut self, peer: NodeId) -> &mut Peer {
        let (session, generation) = (&mut self.next_session, self.generation);
        self.peers.entry(peer).or_insert_with(|| {
            *session = session.wrapping_add(1);
            Peer::new(*session, generation)
        })
    }

    /// Keeps a connection to a node.
    pub fn dial(&mut self, peer: NodeId, address: usize, out: &mut Vec<Outgoing>) {
        let known = self.peer(peer);
        if known.address == Some(address) {
            return;
        }
        known.address = Some(address);
        if known.live.is_none() && !std::mem::replace(&mut known.is_dialing, true) {
            out.push(Outgoing::Later(0, Happening::Dial(peer, known.session)));
        }
    }

    /// Looks for a node elsewhere, and gives up the connection that there is: it is another process there.
    pub fn redirect(&mut self, peer: NodeId, address: usize, out: &mut Vec<Outgoing>) {
        if self.peers.get(&peer).is_some_and(|known| known.live.is_some()) {
            out.push(Outgoing::Tell(NetworkEvent::Lost { peer, why: "it is looked for elsewhere".into() }));
        }
        self.forget(peer, out);
        self.dial(peer, address, out);
    }

    /// Gives a connection up.
    pub fn forget(&mut self, peer: NodeId, out: &mut Vec<Outgoing>) {
        if let Some(live) = self.peers.remove(&peer).and_then(|peer| peer.live) {
            out.push(Outgoing::Close(live.connection));
        }
    }

    /// Bytes that wait to be received by a node.
    pub fn outstanding(&self, peer: NodeId) -> usize {
        self.peers.get(&peer).map_or(0, Peer::held)
    }

    /// A new generation: what is under way belongs to the old one.
    pub fn set_generation(&mut self, generation: u64, out: &mut Vec<Outgoing>) {
        if generation <= self.generation {
            return;
        }
        self.generation = generation;
        for peer in self.peers.values_mut() {
            peer.data = Some(Link::new(generation, weigh));
            peer.announce(generation, 0, out);
        }
    }

    /// Sends a message of the generation, and gives this and its number.
    ///
    /// # Errors
    /// It is not sent, and nothing after it.
    pub fn send(&mut self, to: NodeId, body: Bytes, out: &mut Vec<Outgoing>) -> Result<(u64, u64), Unsent> {
        let (limits, generation) = (self.limits, self.generation);
        let peer = self.peer(to);
        if body.len() > limits.body_bytes_max {
            return Err(Unsent::TooLarge);
        }
        let held = peer.held();
        let Some(data) = &mut peer.data else { return Err(Unsent::Broken) };
        if held > 0 && held + weigh(&body) > limits.outstanding_bytes_max {
            peer.data = None;
            let why = format!("{held} bytes wait for this peer, and more are not kept");
            out.push(Outgoing::Tell(NetworkEvent::Broken { peer: to, generation: Generation(generation), why }));
            return Err(Unsent::Backlogged);
        }
        let number = data.send(body.clone());
        if let Some(live) = peer.live.as_ref().filter(|live| live.theirs == Some(generation)) {
            let ack = data.acknowledge();
            out.push(Outgoing::Frame(live.connection, Frame { kind: Kind::Data, generation, number, ack, body }));
        }
        Ok((generation, number))
    }

    /// Sends a control message, now or when there is a connection. It is of no generation, 0, and has a number.
    pub fn send_control(&mut self, to: NodeId, body: Bytes, out: &mut Vec<Outgoing>) -> Result<(u64, u64), Unsent> {
        let limits = self.limits;
        let peer = self.peer(to);
        if body.len() > limits.body_bytes_max {
            return Err(Unsent::TooLarge);
        }
        let held = peer.held();
        if held > 0 && held + weigh(&body) > limits.outstanding_bytes_max {
            return Err(Unsent::Backlogged);
        }
        let number = peer.control.send(body.clone());
        if let Some(live) = peer.live.as_ref().filter(|live| live.theirs.is_some()) {
            let ack = peer.control.acknowledge();
            out.push(Outgoing::Frame(live.connection, Frame { kind: Kind::Control, generation: 0, number, ack, body }));
        }
        Ok((0, number))
    }

    /// Sends a control message over a connection that is there.
    pub fn send_control_now(&mut self, to: NodeId, body: Bytes, out: &mut Vec<Outgoing>) -> Result<(u64, u64), Unsent> {
        if self.peers.get(&to).is_none_or(|peer| peer.live.is_none()) {
            return Err(Unsent::NotConnected);
        }
        self.send_control(to, body, out)
    }

    /// Takes what has happened to the connections.
    pub fn take(&mut self, happening: Happening, random: &mut Random, out: &mut Vec<Outgoing>) {
        match happening {
            Happening::Dial(peer, session) => self.dial_now(peer, session, out),
            Happening::Undialed { peer, dialed, refusal, gone } => {
                if self.is_session(peer, dialed) {
                    self.undialed(peer, refusal, gone, random, out);
                }
            }
            Happening::Connected { connection, peer, session, dialer, greeted } => {
                if !self.is_session(peer, greeted) {
                    // The peer was forgotten meanwhile: these are no longer the links that it was told of.
                    return out.push(Outgoing::Close(connection));
                }
                self.connected((connection, peer, session, dialer), random, out);
            }
            Happening::Closed(connection, why) => self.closed(connection, why, random, out),
            Happening::Frame(connection, frame) => self.frame(connection, frame, out),
            Happening::Acknowledge(peer) => self.acknowledge(peer, out),
        }
    }

    fn dial_now(&mut self, peer: NodeId, session: u64, out: &mut Vec<Outgoing>) {
        let caller = self.id;
        let Some(known) = self.peers.get_mut(&peer).filter(|known| known.session == session) else { return };
        let Some(to) = known.address.filter(|_| known.live.is_none()) else {
            known.is_dialing = false;
            return;
        };
        out.push(Outgoing::Dial(Dial { to, peer, caller, session: known.session }));
    }

    fn is_session(&self, peer: NodeId, session: u64) -> bool {
        self.peers.get(&peer).is_some_and(|known| known.session == session)
    }

    fn undialed(
        &mut self,
        peer: NodeId,
        refusal: Option<Refusal>,
        gone: bool,
        random: &mut Random,
        out: &mut Vec<Outgoing>,
    ) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.failures += 1;
        let pause = (REDIAL.0 << known.failures.min(7)).min(REDIAL.1);
        let pause = random.between(pause / 2, pause);
        out.push(Outgoing::Later(pause, Happening::Dial(peer, known.session)));
        out.push(Outgoing::Tell(match refusal {
            None => NetworkEvent::Unreached { peer, gone, why: "nobody answers".into() },
            Some(refusal) => {
                let (reason, message) = ("refused".into(), "not this one".into());
                NetworkEvent::Refused { peer, refusal, reason, message }
            }
        }));
    }

    fn connected(
        &mut self,
        (connection, peer, session, dialer): (u64, NodeId, u64, NodeId),
        random: &mut Random,
        out: &mut Vec<Outgoing>,
    ) {
        let generation = self.generation;
        let known = self.peer(peer);
        let anew = known.their_session.is_some_and(|before| before != session);
        if known.live.as_ref().is_some_and(|live| !anew && live.dialer > dialer) {
            // Both sides have dialed, and both decide for the same one.
            known.is_dialing = false;
            return out.push(Outgoing::Close(connection));
        }
        if let Some(live) = known.live.take() {
            out.push(Outgoing::Close(live.connection));
            out.push(Outgoing::Tell(NetworkEvent::Lost { peer, why: "a newer connection takes its place".into() }));
        }
        if anew {
            known.control = Link::new(0, weigh);
            if known.data.as_ref().is_some_and(|data| data.sent() > 0 || data.received() > 0) {
                known.data = None;
                let why = "the peer has started anew".into();
                out.push(Outgoing::Tell(NetworkEvent::Broken { peer, generation: Generation(generation), why }));
            }
        }
        (known.their_session, known.is_dialing, known.failures) = (Some(session), false, 0);
        known.live = Some(Live { connection, dialer, theirs: None });
        known.announce(generation, random.pick(&[0, 0, 1, 3]), out);
        out.push(Outgoing::Tell(NetworkEvent::Connected { peer, restarted: anew }));
    }

    fn closed(&mut self, connection: u64, why: &'static str, random: &mut Random, out: &mut Vec<Outgoing>) {
        let of =
            |(_, peer): &(&NodeId, &mut Peer)| peer.live.as_ref().is_some_and(|live| live.connection == connection);
        let Some((id, peer)) = self.peers.iter_mut().find(of) else { return };
        peer.live = None;
        out.push(Outgoing::Tell(NetworkEvent::Lost { peer: *id, why: why.into() }));
        if peer.address.is_some() && !std::mem::replace(&mut peer.is_dialing, true) {
            out.push(Outgoing::Later(random.between(0, REDIAL.0), Happening::Dial(*id, peer.session)));
        }
    }

    fn frame(&mut self, connection: u64, frame: Frame, out: &mut Vec<Outgoing>) {
        let mine = self.generation;
        let of =
            |(_, peer): &(&NodeId, &mut Peer)| peer.live.as_ref().is_some_and(|live| live.connection == connection);
        let Some((id, peer)) = self.peers.iter_mut().find(of) else { return };
        let from = *id;
        let Some(live) = &mut peer.live else { return };
        match frame.kind {
            Kind::Resume => {
                let before = live.theirs.replace(frame.generation);
                if before.is_none() {
                    let ack = peer.control.acknowledge();
                    let again = peer.control.unacknowledged().map(|(number, body)| {
                        let body = body.clone();
                        Outgoing::Frame(connection, Frame { kind: Kind::Control, generation: 0, number, ack, body })
                    });
                    out.extend(again);
                }
                if let Some(data) = peer.data.as_mut().filter(|_| frame.generation == mine) {
                    // What an end says that has started anew is of no use.
                    if data.acknowledged(mine, frame.ack).is_ok() && before != Some(mine) {
                        let ack = data.acknowledge();
                        let again = data.unacknowledged().map(|(number, body)| {
                            let body = body.clone();
                            Outgoing::Frame(connection, Frame { kind: Kind::Data, generation: mine, number, ack, body })
                        });
                        out.extend(again);
                    }
                }
            }
            Kind::Control => {
                if peer.control.acknowledged(0, frame.ack).is_err() || frame.number == 0 {
                    return;
                }
                if peer.control.receive(frame.number).is_ok() {
                    let message = Envelope::decode(&frame.body).map(Box::new);
                    out.push(Outgoing::Tell(NetworkEvent::Control { from, message }));
                }
            }
            Kind::Data => {
                let Some(data) = &mut peer.data else { return };
                let settled = data.acknowledged(frame.generation, frame.ack);
                if settled.is_err() || frame.number == 0 {
                    return;
                }
                match data.receive(frame.number) {
                    Ok(()) => {
                        let generation = Generation(frame.generation);
                        let message = Message::decode(&frame.body).map(Box::new).map_err(|error| error.to_string());
                        out.push(Outgoing::Tell(NetworkEvent::Message { from, generation, message }));
                    }
                    Err(Rejected::Gap) => {
                        // What came before was refused: the next connection brings it.
                        out.push(Outgoing::Close(connection));
                        return;
                    }
                    Err(_) => {}
                }
            }
        }
        let owed = peer.control.ack_owed() || peer.data.as_ref().is_some_and(Link::ack_owed);
        if owed && !std::mem::replace(&mut peer.acknowledging, true) {
            out.push(Outgoing::Later(ACKNOWLEDGE_AFTER, Happening::Acknowledge(from)));
        }
    }

    fn acknowledge(&mut self, peer: NodeId, out: &mut Vec<Outgoing>) {
        let mine = self.generation;
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        peer.acknowledging = false;
        let Some(live) = &peer.live else { return };
        let frame = |kind, generation, ack| Frame { kind, generation, number: 0, ack, body: Bytes::new() };
        if peer.control.ack_owed() {
            out.push(Outgoing::Frame(live.connection, frame(Kind::Control, 0, peer.control.acknowledge())));
        }
        if let Some(data) = peer.data.as_mut().filter(|data| live.theirs == Some(mine) && data.ack_owed()) {
            out.push(Outgoing::Frame(live.connection, frame(Kind::Data, mine, data.acknowledge())));
        }
    }
}

/// How long a dial takes that comes to nothing.
pub fn dial_timeout(gone: bool, delay: u64) -> u64 {
    if gone { delay } else { DIAL }
}

/// The event of something that happens to the connections of a life of a process.
pub fn event(life: Life, happening: Happening) -> Event {
    Event::Network(life, happening)
}
