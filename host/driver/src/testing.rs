//! What tests of several drivers deploy.

use styx_protocol::catalog::{Component, Deployment, Digest, Isolation, Limits, OperatorSpec};
use styx_protocol::ids::Timestamp;

/// An app with one operator, of a component.
pub(crate) fn shop(digest: Digest) -> Deployment {
    Deployment {
        id: "dp_1".into(),
        app: "shop".into(),
        created: Timestamp(1),
        components: vec![Component { name: "c".into(), digest, size: 1, sdk: String::new() }],
        operators: vec![OperatorSpec {
            name: "stock".into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::default(),
            doc: String::new(),
            functions: vec![],
        }],
        limits: Limits::default(),
    }
}
