//! Checks who is hidden in a shard. This is stored in several keys that must agree, because a loss would show members.

use super::{Check, Place, RepairOutcome};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::domain::shard::Shard;
use crate::redis::StoreError;

impl Check<'_> {
    /// Compares the keys that say who is hidden. In doubt a member is hidden: a repair never makes one visible.
    pub(super) async fn check_hides(&mut self, shard: &Shard) -> Result<(), StoreError> {
        let place = Place::of_shard(shard);
        let (mut phase, mut cursor) = (String::new(), "0".to_owned());
        loop {
            let look = self.comparer(shard).hides((&phase, &cursor)).await;
            let Some(part) = self.compared(&place, look)? else {
                return Ok(());
            };
            let mut found = part.differences.iter();
            if found.any(|found| found.outcome == RepairOutcome::Repaired) {
                // Results leave out hidden members, too.
                board_notes::note(self.store, NotedFor::Revision, shard).await?;
            }
            self.report.add_all(shard, &place, part.differences);
            let (Some(next), cursor_there) = part.progress else {
                return Ok(());
            };
            (phase, cursor) = (next, cursor_there);
        }
    }
}
