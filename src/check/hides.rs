//! Checks who is hidden in a shard. This is stored in several keys that must agree, because a loss would show members.

use super::{Check, Outcome, Place, store};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::domain::shard::Shard;
use crate::redis::StoreError;

impl Check<'_> {
    /// Compares the keys that say who is hidden. In doubt a member is hidden: a repair shows nobody.
    pub(super) async fn check_hides(&mut self, shard: &Shard) -> Result<(), StoreError> {
        let (mut phase, mut cursor) = (String::new(), "0".to_owned());
        loop {
            let manner = self.manner(shard);
            let part = store::check_hides(self.store, shard, (&phase, &cursor), manner).await;
            let place = Place::of_shard(shard);
            let Some(part) = self.unless_damaged(|| place.clone(), part)? else {
                return Ok(());
            };
            let mut found = part.differences.iter();
            if found.any(|found| found.outcome == Outcome::Repaired) {
                // Results leave out hidden members, too.
                board_notes::note(self.store, NotedFor::Revision, shard).await?;
            }
            self.report.tell_all(shard, &place, part.differences);
            let Some(next) = part.phase else {
                return Ok(());
            };
            (phase, cursor) = (next, part.cursor);
        }
    }
}
