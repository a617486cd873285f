//! The greeting: identity of a node, and the check that two nodes can work together.
//!
//! The versions of what nodes say to each other stand first and are compared before anything else is read: what
//! another release means by the rest, nobody knows.

use serde::{Deserialize, Serialize};
use styx_protocol::format::{CONTROL_MESSAGES, MESSAGES};

use super::NodeId;
use super::frame::VERSION;
use super::reason::{Reason, Refusal};

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// Owns the log and runs the epochs.
    Coordinator,
    /// Owns partitions and executes.
    Worker,
    /// Speaks HTTP with clients.
    Gateway,
}

/// Versions of what nodes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Of frames, links and greetings.
    #[serde(rename = "version")]
    pub frames: u8,
    /// Of the protocol's messages; 0 in greetings that did not say it yet.
    #[serde(default)]
    pub messages: u16,
    /// Of all other messages; 0 in greetings that did not say it yet.
    #[serde(default)]
    pub control_messages: u16,
}

impl Versions {
    /// Those of this program.
    pub const MINE: Versions = Versions { frames: VERSION, messages: MESSAGES, control_messages: CONTROL_MESSAGES };

    /// Checks that a node with these versions is understood.
    fn check(self) -> Result<(), Refusal> {
        let mine = Versions::MINE;
        let (what, mine, yours) = if self.frames != mine.frames {
            ("protocol version", mine.frames.into(), self.frames.into())
        } else if self.messages != mine.messages {
            ("version of messages", mine.messages, self.messages)
        } else if self.control_messages != mine.control_messages {
            ("version of control messages", mine.control_messages, self.control_messages)
        } else {
            return Ok(());
        };
        let message = format!("{what}: mine {mine}, yours {yours}; run the same release on all nodes");
        Err(Refusal::new(Reason::UnknownVersion, message))
    }
}

/// The first frame in each direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What the node speaks.
    #[serde(flatten)]
    pub versions: Versions,
    pub kind: NodeKind,
    pub node: NodeId,
    /// Its name, for people.
    pub name: String,
    /// Its address, if it accepts connections.
    pub address: Option<String>,
    /// Hash of the engine's configuration: nodes with another one compute other results.
    pub engine: u64,
    /// Digest of what is deployed, if the node knows.
    pub deployment: Option<String>,
    /// The generation that the node is in; 0 before its first.
    pub generation: u64,
    /// Drawn anew when the node begins to know the other one: another number means that it has
    /// forgotten what was under way between the two.
    pub session: u64,
}

impl Hello {
    /// The greeting of a node that is in no generation yet.
    pub fn new(kind: NodeKind, node: NodeId, name: impl Into<String>, engine: u64) -> Self {
        Hello {
            versions: Versions::MINE,
            kind,
            node,
            name: name.into(),
            address: None,
            engine,
            deployment: None,
            generation: 0,
            session: 0,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a greeting can be written as JSON")
    }

    /// Reads the greeting of a node that speaks the same versions.
    pub(super) fn decode(body: &[u8]) -> Result<Hello, Refusal> {
        let unreadable = |error| Refusal::new(Reason::BadHello, format!("the greeting cannot be read: {error}"));
        let versions: Versions = serde_json::from_slice(body).map_err(unreadable)?;
        versions.check()?;
        serde_json::from_slice(body).map_err(unreadable)
    }
}

/// Checks that two nodes, which understand each other, run the same: for a node without conditions of its own.
///
/// # Errors
/// Engine or deployment differ; the message names both.
pub fn same_build(mine: &Hello, yours: &Hello) -> Result<(), Refusal> {
    let executes = |hello: &Hello| hello.kind != NodeKind::Gateway;
    if mine.engine != yours.engine && executes(mine) && executes(yours) {
        let message = format!(
            "engine hash: mine {:016x}, yours {:016x}; run the same release with the same engine options on all nodes",
            mine.engine, yours.engine
        );
        return Err(Refusal::new(Reason::OtherEngine, message));
    }
    match (&mine.deployment, &yours.deployment) {
        (Some(own), Some(other)) if own != other => {
            let message = format!(
                "deployment digest: mine {own}, yours {other}; restart the node so that it replays the cluster's log"
            );
            Err(Refusal::new(Reason::OtherDeployment, message))
        }
        _ => Ok(()),
    }
}

/// A refusal on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Notice {
    pub(super) reason: String,
    pub(super) message: String,
}

impl Notice {
    pub(super) fn encode(refusal: &Refusal) -> Vec<u8> {
        let mut message = refusal.message.clone();
        if message.len() > NOTICE_MESSAGE_BYTES_MAX {
            message.truncate(message.floor_char_boundary(NOTICE_MESSAGE_BYTES_MAX));
        }
        let notice = Notice { reason: refusal.reason.name().into(), message };
        serde_json::to_vec(&notice).expect("a notice can be written as JSON")
    }

    pub(super) fn decode(body: &[u8]) -> Notice {
        serde_json::from_slice(body).unwrap_or_else(|error| Notice {
            reason: "unreadable".into(),
            message: format!("the other node refused something and its message cannot be read: {error}"),
        })
    }
}

/// Escaped as JSON it still fits a notice.
const NOTICE_MESSAGE_BYTES_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_values_are_named() {
        let mine = Hello::new(NodeKind::Worker, NodeId(1), "a", 0xaa);
        let check = |change: &dyn Fn(&mut Hello), reason: Option<Reason>, named: &[&str]| {
            let mut yours = Hello::new(NodeKind::Worker, NodeId(2), "b", 0xaa);
            change(&mut yours);
            let mine = Hello { deployment: Some("d1".into()), ..mine.clone() };
            let refusal = same_build(&mine, &yours).err();
            assert_eq!(refusal.as_ref().map(|refusal| refusal.reason), reason);
            for named in named {
                assert!(refusal.as_ref().unwrap().message.contains(named), "{refusal:?}");
            }
        };
        check(&|_| {}, None, &[]);
        check(&|yours| yours.deployment = Some("d1".into()), None, &[]);
        check(&|yours| yours.deployment = Some("d2".into()), Some(Reason::OtherDeployment), &["mine d1", "yours d2"]);
        check(
            &|yours| yours.engine = 0xbb,
            Some(Reason::OtherEngine),
            &["mine 00000000000000aa", "yours 00000000000000bb"],
        );
        let executes_nothing = |yours: &mut Hello| (yours.kind, yours.engine) = (NodeKind::Gateway, 0);
        check(&executes_nothing, None, &[]);
    }

    /// Older releases did not say all versions; a newer one may mean anything by the rest.
    #[test]
    fn another_version_is_refused_before_the_rest_is_read() {
        let check = |greeting: &str, expected: &str| {
            let refusal = Hello::decode(greeting.as_bytes()).unwrap_err();
            assert_eq!(refusal.reason, Reason::UnknownVersion, "{refusal:?}");
            assert_eq!(refusal.message, format!("{expected}; run the same release on all nodes"));
        };
        let before_messages = r#"{"version":2,"kind":"worker","node":9,"name":"w","address":null,"engine":225,"deployment":null,"generation":0,"session":7}"#;
        check(before_messages, &format!("version of messages: mine {MESSAGES}, yours 0"));
        check(r#"{"version":1,"kind":"worker"}"#, "protocol version: mine 2, yours 1");
        check(r#"{"version":3,"node":"a name"}"#, "protocol version: mine 2, yours 3");
        check(
            r#"{"version":2,"messages":999,"control_messages":1,"node":"a name"}"#,
            &format!("version of messages: mine {MESSAGES}, yours 999"),
        );
        check(
            &format!(r#"{{"version":2,"messages":{MESSAGES},"control_messages":999,"node":"a name"}}"#),
            &format!("version of control messages: mine {CONTROL_MESSAGES}, yours 999"),
        );
        let mine = Hello::new(NodeKind::Gateway, NodeId(1), "a", 1);
        let written = format!(
            r#"{{"version":2,"messages":{MESSAGES},"control_messages":{CONTROL_MESSAGES},"kind":"gateway","node":1,"name":"a","address":null,"engine":1,"deployment":null,"generation":0,"session":0}}"#
        );
        assert_eq!(String::from_utf8(mine.encode()).unwrap(), written);
        assert_eq!(Hello::decode(written.as_bytes()), Ok(mine));
    }
}
