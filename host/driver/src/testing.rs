//! What tests of several drivers deploy, and draw.

use styx_protocol::deployment::{Component, Deployment, Digest, Isolation, Limits, OperatorSpec};
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
            state: Default::default(),
            functions: vec![],
        }],
        limits: Limits::default(),
        interface: Default::default(),
    }
}

/// Draws one of some numbers, again and again: the same ones for the same seed.
pub(crate) fn draws(seed: u64) -> impl FnMut(&[u64]) -> u64 {
    let mut state = seed;
    move |some| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        some[(state >> 33) as usize % some.len()]
    }
}
