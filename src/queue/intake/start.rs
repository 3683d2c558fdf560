//! Where a consumer of a partition begins to read.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::store;
use crate::core::board::store::boards;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::intake::{Extent, Partition};
use crate::queue::store::queues::QueueName;

/// How many boards or shards are asked at the same time.
pub(super) const AT_ONCE: usize = 64;

/// What the shards of all boards know of a partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Start {
    pub partition: Partition,
    /// All records before this offset were taken; `None` if unknown.
    pub taken: Option<i64>,
    /// Some records before this offset were taken: the highest offset of any shard.
    pub taken_max: Option<i64>,
    /// The shards that know the partition. If one of them no longer does later, Redis has lost writes.
    pub known: HashSet<QueueName>,
}

impl Start {
    /// The offset to read from, and how many offsets from there on were already removed from the log. Fails if the log is
    /// another one: it has fewer records than shards have taken from the one of that name.
    pub(super) fn within(&self, log: Extent) -> Result<(i64, i64), Error> {
        if let Some(taken) = self.taken_max.filter(|taken| *taken > log.end) {
            return Err(Error::Log(format!(
                "{} ends at offset {}, but records up to {taken} were already read: the topic was deleted and created again, or this is another topic with the same name",
                self.partition, log.end
            )));
        }
        // If nothing is known about a log, records that were removed were not missed.
        let known = self.taken.or(self.taken_max).unwrap_or(log.first);
        let from = self.taken.unwrap_or(log.first).max(log.first);
        Ok((from, (log.first - known).max(0)))
    }
}

/// Asks the shards of all boards what they know of a partition. Ask the log for its [`Extent`] afterwards, so that it is no
/// older.
///
/// # Errors
///
/// Redis does not answer: beginning without knowing all shards would lose events.
pub async fn find(engine: &Engine, partition: &Partition) -> Result<Start, Error> {
    // First, because it may rise meanwhile, and the shards' offsets with it.
    let floor = store::floor(&engine.store, partition).await?;
    let boards: Vec<Option<Arc<Board>>> = stream::iter(all_boards(engine).await?)
        .map(|id| async move { placement_of(engine, &id).await })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let shards = boards
        .into_iter()
        .flatten()
        .filter(|board| !board.is_league())
        .flat_map(|board| board.shards());
    let mut known = stream::iter(shards)
        .map(|shard| async move {
            let known = store::known_offsets(&engine.store, &shard, partition).await;
            known.map(|known| (shard, known.taken()))
        })
        .buffer_unordered(AT_ONCE);
    let (mut taken, mut taken_max) = (Some(i64::MAX), floor);
    let mut of_shards = HashSet::new();
    while let Some(of_shard) = known.next().await {
        let (shard, of_shard) = of_shard?;
        if of_shard.is_some() {
            of_shards.insert(QueueName::of(&shard));
        }
        taken_max = taken_max.max(of_shard);
        // A shard that knows nothing has taken no record before the floor. `None` is the least.
        taken = taken.min(of_shard.or(floor));
    }
    Ok(Start {
        partition: partition.clone(),
        taken: taken.filter(|taken| *taken < i64::MAX).or(floor),
        taken_max,
        known: of_shards,
    })
}

/// All boards. The list may lack one whose server has lost writes.
pub(super) async fn all_boards(engine: &Engine) -> Result<BTreeSet<BoardId>, Error> {
    let mut all = boards::all_ids(&engine.store).await?;
    all.extend(engine.boards.ids());
    Ok(all)
}

/// A board with its placement, even if the rest of it can't be read; `None` if it does not exist any more.
async fn placement_of(engine: &Engine, id: &BoardId) -> Result<Option<Arc<Board>>, Error> {
    if let Some(live) = engine.boards.get(id) {
        return Ok(Some(Arc::clone(&live.board)));
    }
    let stored = boards::load(&engine.store, id).await?;
    Ok(stored.map(|stored| stored.unwrap_or_else(|unreadable| unreadable.board)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_starts_where_all_was_taken_or_where_the_log_begins() {
        let within = |taken, taken_max, first, end| {
            let partition = Partition::new("votes", 0);
            let start = Start {
                partition,
                taken,
                taken_max,
                known: HashSet::new(),
            };
            start
                .within(Extent { first, end })
                .map_err(|other| other.to_string())
        };
        assert_eq!(within(None, None, 3, 9), Ok((3, 0)));
        assert_eq!(within(None, Some(7), 0, 9), Ok((0, 0)));
        assert_eq!(within(None, Some(7), 8, 9), Ok((8, 1)));
        assert_eq!(within(Some(5), Some(9), 3, 9), Ok((5, 0)));
        assert_eq!(within(Some(5), Some(7), 6, 9), Ok((6, 1)));
        assert_eq!(within(Some(5), Some(7), 9, 9), Ok((9, 4)));
        let other = within(Some(5), Some(10), 3, 9).unwrap_err();
        let told = "votes/0 ends at offset 9, but records up to 10 were already read";
        assert!(other.contains(told), "{other}");
    }
}
