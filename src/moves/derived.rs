//! Handing derived standings over when the new shards are opened.

use std::collections::{BTreeMap, HashSet};

use super::copier::{Copier, unexpected_key};
use super::store::{self, CopyIn, DerivedEntry};
use crate::core::Error;
use crate::domain::board::Board;
use crate::domain::series::{Derived, Series};
use crate::domain::shard::Shard;
use crate::redis::keys;
use crate::redis::kinds::Kind;

impl Copier {
    /// Registers the derived standings that are complete in all old shards with the new ones. Drops copies of others.
    pub(super) async fn hand_over_derived(
        &self,
        board: &Board,
        old: &[Shard],
    ) -> Result<(), Error> {
        let mut of_new: Vec<(CopyIn<'_>, HashSet<String>)> = self
            .copies()
            .into_iter()
            .map(|copy| (copy, HashSet::new()))
            .collect();
        for derived in board.derived() {
            let Some((first, complete)) = self.complete_everywhere(&derived, old).await? else {
                continue;
            };
            for (new, (copy, kept)) in self.new.iter().zip(&mut of_new) {
                let entries: Option<Vec<DerivedEntry>> = complete
                    .iter()
                    .map(|entry| entry.moved(first, new))
                    .collect();
                let entries = entries.ok_or_else(unexpected_key)?;
                kept.extend(entries.iter().map(|entry| entry.zset.clone()));
                copy.state(derived.series, &entries)?;
            }
        }
        for (new, (copy, kept)) in self.new.iter().zip(&mut of_new) {
            for zset in self.derived_names(new).await? {
                if !kept.contains(&zset) {
                    copy.drop_standing(zset);
                }
            }
        }
        let copies = of_new.into_iter().map(|(copy, _)| copy).collect();
        self.copy_in_all(copies, false).await
    }

    /// The standings of a derived series that are complete in all old shards and copied from there, as one of these has
    /// them.
    async fn complete_everywhere<'s>(
        &self,
        derived: &Derived,
        shards: &'s [Shard],
    ) -> Result<Option<(&'s Shard, Vec<DerivedEntry>)>, Error> {
        let mut common: Option<(&Shard, Vec<DerivedEntry>)> = None;
        for old in shards {
            let complete = self.copied_entries(old, derived.series).await?;
            match &mut common {
                None => common = Some((old, complete.into_values().collect())),
                Some((_, entries)) => entries.retain(|entry| complete.contains_key(&entry.start)),
            }
        }
        Ok(common)
    }

    async fn copied_entries(
        &self,
        old: &Shard,
        series: Series,
    ) -> Result<BTreeMap<i64, DerivedEntry>, Error> {
        let copied = store::copied(&self.store, old).await?;
        let entries = store::derived_entries(&self.store, old, series).await?;
        let is_whole = |entry: &DerivedEntry| entry.done && copied.get(&entry.zset) == Some(&true);
        Ok(entries
            .into_iter()
            .filter(is_whole)
            .map(|entry| (entry.start, entry))
            .collect())
    }

    /// The sorted sets of derived standings of which a new shard has data.
    async fn derived_names(&self, new: &Shard) -> Result<Vec<String>, Error> {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let names;
            (cursor, names) = store::names(&self.store, new, &cursor).await?;
            let is_derived = |name: &String| keys::kind_of(new, name) == Some(Kind::Derived);
            found.extend(names.into_iter().filter(is_derived));
            if cursor == "0" {
                return Ok(found);
            }
        }
    }
}
