//! Manifest writer: puts the manifests of a generation and tidies up behind them.
//!
//! It tries once and says what has become of it; the [scheduler](styx_driver::snapshots::SnapshotScheduler) decides what
//! comes next.

use std::collections::{BTreeMap, BTreeSet};

use styx_driver::snapshots::{ManifestDraft, ManifestPut, StoreFailure};
use styx_planted::{Bug, planted};
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{Generation, LogPosition, Timestamp};
use styx_protocol::record::Genesis;
use styx_storage::snapshot::{CompactionPolicy, Draft, PartRef, Retention, SnapshotError, SnapshotStore, SystemNames};

use crate::components::{Components, is_lost};
use crate::failure::failure;
use crate::metadata::{COMPONENT, METADATA, SnapshotMetadata};
use crate::objects;
use crate::recovery::Found;

#[derive(Debug)]
pub struct ManifestWriter {
    store: SnapshotStore,
    genesis: Genesis,
    generation: Generation,
    retention: Retention,
    /// Components that are in the store, by name.
    components: BTreeMap<String, PartRef>,
    /// Of a manifest that could not be put: the part that is there, and its epoch.
    metadata: Option<(u64, PartRef)>,
}

impl ManifestWriter {
    /// That of a generation that began with `found`.
    pub fn new(
        store: SnapshotStore,
        genesis: Genesis,
        generation: Generation,
        retention: Retention,
        found: Option<&Found>,
    ) -> Self {
        let components = found.map(Found::components).unwrap_or_default();
        ManifestWriter { store, genesis, generation, retention, components, metadata: None }
    }

    /// Puts a manifest, and before it what it mentions besides the workers' parts.
    ///
    /// # Errors
    /// The snapshot does not exist, or the store has not said that it does.
    ///
    /// # Panics
    /// If the draft is another generation's.
    pub fn put(
        &mut self,
        draft: ManifestDraft,
        components: &dyn Components,
        now: Timestamp,
    ) -> Result<ManifestPut, StoreFailure> {
        assert_eq!(draft.generation, self.generation, "each generation has a writer of its own");
        let mut parts = Vec::new();
        for (worker, written) in &draft.objects {
            let unreadable = |error| StoreFailure::Unreadable(*worker, format!("its list of objects: {error}"));
            parts.extend(objects::decode(written).map_err(unreadable)?);
        }
        let mut system = self.write_components(&draft, components)?;
        system.push(self.write_metadata(&draft)?);
        let written_bytes = parts.iter().chain(&system).map(|part| part.bytes).sum();
        let draft = Draft {
            generation: self.generation.0,
            epoch: draft.header.epoch.0,
            builds_on: draft.builds_on.map(|epoch| epoch.0),
            state_hash: draft.state_hash.0,
            chain_hash: draft.header.chain.0,
            log_position: draft.log_position.0,
            created_us: now.0,
            parts,
            system,
        };
        let manifest = self.store.commit(draft).map_err(|error| failure(&error))?;
        if !planted(Bug::MetadataOfAnother) {
            self.metadata = None;
        }
        Ok(ManifestPut { sequence: manifest.sequence, bytes: manifest.bytes(), written_bytes })
    }

    /// Every component that is deployed, so that a snapshot can be restored where nothing else is.
    fn write_components(
        &mut self,
        draft: &ManifestDraft,
        components: &dyn Components,
    ) -> Result<Vec<PartRef>, StoreFailure> {
        let named: BTreeSet<_> = draft.header.catalog.components().collect();
        let mut parts = BTreeMap::new();
        for digest in named {
            let name = format!("{COMPONENT}{digest}");
            if !self.components.contains_key(&name) {
                let bytes = components.get(digest).map_err(|error| {
                    let what =
                        format!("component {digest} of a deployment cannot be had from the data directory: {error}");
                    if is_lost(&error) { StoreFailure::Fatal(what) } else { StoreFailure::Unavailable(what) }
                })?;
                let part = self.write_system_part(&name, draft, &bytes)?;
                self.components.insert(name.clone(), part);
            }
            parts.insert(name.clone(), self.components[&name].clone());
        }
        self.components = parts;
        Ok(self.components.values().cloned().collect())
    }

    fn write_metadata(&mut self, draft: &ManifestDraft) -> Result<PartRef, StoreFailure> {
        let epoch = draft.header.epoch.0;
        if let Some((_, part)) =
            self.metadata.as_ref().filter(|(of, _)| *of == epoch || planted(Bug::MetadataOfAnother))
        {
            return Ok(part.clone());
        }
        let metadata = SnapshotMetadata {
            genesis: self.genesis,
            header: draft.header.clone(),
            carried: draft.carried.clone(),
            hashes: draft.hashes.clone(),
        };
        let part = self.write_system_part(METADATA, draft, &metadata.encode())?;
        self.metadata = Some((epoch, part.clone()));
        Ok(part)
    }

    fn write_system_part(&self, name: &str, draft: &ManifestDraft, blob: &[u8]) -> Result<PartRef, StoreFailure> {
        let written = self.store.write_system_part(name, draft.header.epoch.0, self.generation.0, blob);
        written.map_err(|error| failure(&error))
    }

    /// Merges deltas and deletes what is too old, components of no deployment among it, unless `stop` says that it may
    /// wait. The log must be kept from the position on that is returned.
    ///
    /// # Errors
    /// It is not done, or not all of it; nothing that exists has suffered.
    pub fn maintain(
        &self,
        components: &dyn Components,
        now: Timestamp,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<LogPosition>, StoreFailure> {
        let policy = CompactionPolicy::default();
        let collected = self.store.compact(self.generation.0, &policy, now.0, stop).and_then(|compacted| {
            if compacted.partitions > 0 {
                tracing::debug!(partitions = compacted.partitions, written = compacted.written_bytes, "deltas merged");
            }
            self.store.collect(self.retention, now.0)
        });
        match collected {
            Ok(collected) => {
                if let Some(kept) = &collected.system {
                    self.collect_components(components, kept);
                }
                Ok(collected.log_position.map(LogPosition))
            }
            Err(SnapshotError::Stopped) => Err(StoreFailure::Stopped),
            Err(error) => Err(failure(&error)),
        }
    }

    /// Deletes components that no snapshot that is kept names. The log may name others, behind the oldest of these: those
    /// were put after it, or but little before, as were those of deployments that are under way.
    fn collect_components(&self, components: &dyn Components, kept: &SystemNames) {
        let names = kept.names.iter().filter_map(|name| name.strip_prefix(COMPONENT));
        let needed = names.filter_map(Digest::parse).collect();
        let before = Timestamp(kept.oldest_us.saturating_sub(self.retention.grace_us));
        match components.collect(&needed, before) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "components of no deployment were deleted"),
            Err(error) => tracing::warn!(%error, "components of no deployment cannot be deleted"),
        }
    }
}
