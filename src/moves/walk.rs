//! Walking through all data of an old shard, in parts.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::copier::Copier;
use super::job::REMAINING_MAX;
use super::store::{self, Notes};
use crate::core::Error;
use crate::domain::shard::Shard;
use crate::redis::kinds::{Copying, Form, Kind};
use crate::redis::{Store, keys};

/// A walk through the registry of an old shard, and through each standing in it.
pub(super) struct Walk {
    pub(super) old: Shard,
    /// The cursors for the next part of partly copied standings.
    pub(super) cursors: BTreeMap<String, String>,
    /// Whether it has found a standing that was not copied yet.
    pub(super) is_fresh: bool,
    /// What was copied, or dropped after copying, before the walk, and what the walk has found.
    known: HashSet<String>,
    /// The sorted sets of the derived standings that were complete when it began.
    complete: HashSet<String>,
    /// Still to be copied in parts: lines, and standings from the last part of the registry.
    standings: Vec<(Kind, String)>,
    /// The cursor for the next part of the registry; `None` at the end.
    registry: Option<String>,
}

impl Walk {
    /// Begins a walk. Partly copied standings continue from these cursors.
    pub(super) async fn begin(
        store: &Store,
        old: Shard,
        cursors: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let mut cursors = cursors.clone();
        cursors.retain(|zset, _| keys::kind_of(&old, zset).is_some());
        let known: HashMap<String, bool> = store::copied(store, &old).await?;
        let mut complete = HashSet::new();
        for derived in old.derived() {
            let entries = store::derived_entries(store, &old, derived.series).await?;
            let done = entries.iter().filter(|entry| entry.done);
            complete.extend(done.map(|entry| entry.zset.clone()));
        }
        // Lines come before entries, the hides first.
        let events = old.history.as_ref().map(|_| Kind::Events);
        let lines = [Kind::PastInitial, Kind::Erasing, Kind::Erased, Kind::Hides];
        let lines = events.into_iter().chain(lines);
        let mut lines: Vec<_> = lines.map(|kind| (kind, keys::single(&old, kind))).collect();
        lines.retain(|(_, key)| !known.contains_key(key));
        Ok(Self {
            old,
            cursors,
            is_fresh: false,
            known: known.into_keys().collect(),
            complete,
            standings: lines,
            registry: Some("0".to_owned()),
        })
    }

    /// A new walk from the beginning.
    pub(super) async fn again(&self, store: &Store) -> Result<Self, Error> {
        Self::begin(store, self.old.clone(), &self.cursors).await
    }

    pub(super) fn is_ended(&self) -> bool {
        self.registry.is_none() && self.standings.is_empty()
    }

    /// Copies a bounded part.
    pub(super) async fn step(&mut self, copier: &Copier) -> Result<(), Error> {
        if let Some((kind, zset)) = self.standings.last().cloned() {
            return self.copy_part(copier, kind, zset).await;
        }
        if copier.copy_changes(&self.old, REMAINING_MAX).await?
            && let Some(cursor) = self.registry.take()
        {
            let (next, names) = store::names(&copier.store, &self.old, &cursor).await?;
            self.meet(copier, names).await?;
            self.registry = Some(next).filter(|next| next != "0");
        }
        Ok(())
    }

    /// Copies the next part of a standing, or of lines.
    async fn copy_part(&mut self, copier: &Copier, kind: Kind, zset: String) -> Result<(), Error> {
        let cursor = self.cursors.get(&zset).map_or("0", String::as_str);
        let next = copier.copy_part(&self.old, kind, &zset, cursor).await?;
        if next != "0" {
            self.cursors.insert(zset, next);
            return Ok(());
        }
        self.cursors.remove(&zset);
        self.standings.pop();
        self.is_fresh = true;
        // So that the next mover does not copy it again.
        let notes = Notes {
            copied: &[zset],
            ..Notes::default()
        };
        store::changes(&copier.store, &self.old, notes, 0).await?;
        Ok(())
    }

    /// Handles a part of the registry. Keys that are not standings are recorded as changed, and are copied with the changes.
    async fn meet(&mut self, copier: &Copier, names: Vec<String>) -> Result<(), Error> {
        let (mut whole, mut changed) = (Vec::new(), Vec::new());
        for name in names {
            let Some(kind) = keys::kind_of(&self.old, &name) else {
                continue;
            };
            let is_copied = match kind.copying() {
                Copying::Members => kind != Kind::Derived || self.complete.contains(&name),
                Copying::Whole | Copying::Merged => true,
                Copying::Lines => matches!(kind.form(), Form::Named | Form::Part),
                Copying::Rows | Copying::Everywhere | Copying::Rebuilt | Copying::Not => false,
            };
            if !is_copied || !self.known.insert(name.clone()) {
                continue;
            }
            if matches!(kind.copying(), Copying::Members | Copying::Lines) {
                self.standings.push((kind, name));
            } else {
                changed.push(keys::captured(kind, &name));
                whole.push(name);
            }
        }
        if !whole.is_empty() {
            let notes = Notes {
                copied: &whole,
                changed: &changed,
                ..Notes::default()
            };
            store::changes(&copier.store, &self.old, notes, 0).await?;
        }
        Ok(())
    }
}
