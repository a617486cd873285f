//! What the log says beside requests: changes that take effect with an epoch.

use crate::cluster::placement::{Placement, Seat};
use crate::sequence::deployment::Deployment;
use crate::sequence::quarantine::{Quarantined, Subject};
use crate::sequence::token::Token;

/// A change of what is deployed, of who may use it or of where it is. Sequenced in the log; takes effect at the start of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Control {
    /// Adds a version of an app and makes it the live one.
    Deploy(Deployment),
    /// Makes an earlier (or later) version the live one.
    Activate(Activation),
    /// Removes an app, by name, and the state of its operators.
    Remove(String),
    /// Gives partitions their owners, from the epoch on whose record holds it. The catalog does not
    /// change; a replay under another membership keeps to its own placement.
    Place(Placement),
    /// Lets whoever holds a token's secret in.
    Issue(Token),
    /// Ends a token, by its id.
    Revoke(String),
    /// Has a request, a transaction or an app executed no more.
    Quarantine(Quarantined),
    /// Has it executed again.
    Release(Subject),
    /// Beside a placement in a record: who its workers are, for the generations that follow. It changes nothing.
    Seat(Vec<Seat>),
    /// As [`Control::Deploy`], also where keys of an operator get a prefix or lose theirs: its entities are placed anew
    /// with the epoch.
    Rekey(Deployment),
    /// As [`Control::Activate`], likewise.
    RekeyTo(Activation),
}

/// Which version of an app is to be live.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Activation {
    pub app: String,
    pub deployment: String,
}

impl Control {
    /// Whether it changes the catalog, and so what queries may come to; a placement does not.
    pub fn is_deployment(&self) -> bool {
        !self.is_placement()
    }

    /// Whether it says where partitions are, and nothing that a replay under other members goes by.
    pub fn is_placement(&self) -> bool {
        matches!(self, Control::Place(_) | Control::Seat(_))
    }

    /// Whether entities may be placed anew with it.
    pub fn may_rekey(&self) -> bool {
        matches!(self, Control::Rekey(_) | Control::RekeyTo(_))
    }

    /// Whether something may be executed afterwards that was in quarantine.
    pub fn may_release(&self) -> bool {
        self.changes_app() || matches!(self, Control::Release(_))
    }

    /// Whether an app has another live version with it, or is no more.
    fn changes_app(&self) -> bool {
        self.deployment().is_some() || self.activation().is_some() || matches!(self, Control::Remove(_))
    }

    /// The version that it adds, if it adds one.
    pub fn deployment(&self) -> Option<&Deployment> {
        match self {
            Control::Deploy(deployment) | Control::Rekey(deployment) => Some(deployment),
            _ => None,
        }
    }

    /// The version that it makes the live one, if that is there already.
    pub fn activation(&self) -> Option<&Activation> {
        match self {
            Control::Activate(activation) | Control::RekeyTo(activation) => Some(activation),
            _ => None,
        }
    }
}
