//! With whom a transaction conflicted that is to run again: those before it that touched what it touches.

use styx_protocol::attempt::Footprint;
use styx_protocol::catalog::Catalog;
use styx_protocol::fallback::Member;

use super::Recorder;
use super::names::Names;
use super::view::TraceConflict;

/// Most conflicts that are kept of a transaction.
const CONFLICTS_MAX: usize = 32;

/// Notes the conflicts of those in a component of the fallback that are watched.
pub(crate) fn conflicts(recorder: &Recorder, members: &[Member], catalog: &Catalog) {
    for (at, member) in members.iter().enumerate() {
        if recorder.wants(member.transaction.request.id) {
            let names = Names::of(catalog, member.transaction.request.operator);
            let found = of(&member.cached.footprint, &members[..at], names);
            recorder.conflicts(member.transaction.request.id, found);
        }
    }
}

fn of(own: &Footprint, before: &[Member], names: Names<'_>) -> Vec<TraceConflict> {
    let mut found = Vec::new();
    for member in before.iter().rev() {
        let theirs = &member.cached.footprint;
        let conflict = |entity: &styx_protocol::entity::Entity, did: &str| TraceConflict {
            tid: member.transaction.tid.0,
            request_id: member.transaction.request.id.to_string(),
            operator: names.operator(entity.operator()),
            key: super::recording::shown(entity.key()),
            did: did.into(),
        };
        for (entity, access) in theirs.accesses.iter() {
            let touched = own.accesses.get(entity);
            let in_range = || own.ranges.iter().any(|range| range.contains(entity));
            if access.is_write() && (touched.is_some() || in_range()) {
                found.push(conflict(entity, "wrote"));
            } else if touched.is_some_and(styx_protocol::attempt::Access::is_write) {
                found.push(conflict(entity, "read"));
            }
            if found.len() >= CONFLICTS_MAX {
                return found;
            }
        }
    }
    found
}
