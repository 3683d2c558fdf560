//! Tells how much waits in queues, and since when, and how much in the log before them.

use std::collections::BTreeMap;
use std::ops::Bound;

use futures::future::try_join;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::{Error, Service};
use crate::domain::ids::BoardId;
use crate::domain::intake::Backlog;
use crate::domain::part::Part;
use crate::domain::time::Timestamp;
use crate::store::queues::{QueueName, QueueSize};

/// How many queues are looked at at one time.
const AT_ONCE: usize = 16;

/// What waits in the queues of a board.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Waiting {
    /// How much.
    pub size: QueueSize,
    /// Since when the first event waits, by the clock of Redis; `None` if none does.
    pub since: Option<Timestamp>,
}

impl Service {
    /// What waits on a board.
    pub async fn queue(&self, id: &BoardId) -> Result<Waiting, Error> {
        let live = self.engine.live_board(id).await?;
        let names = live.shards.iter().map(|live| QueueName::of(&live.shard));
        self.waiting(&names.collect::<Vec<_>>()).await
    }

    /// What waits on all boards, behind one: of `count` of those whose queues are in the index. Boards with a queue that can't be read
    /// are left out.
    pub async fn queues(
        &self,
        after: Option<&BoardId>,
        count: usize,
    ) -> Result<Part<(BoardId, Waiting), BoardId>, Error> {
        let mut of_boards: BTreeMap<BoardId, Vec<QueueName>> = BTreeMap::new();
        for queue in self.engine.store.queues().await? {
            let names = of_boards.entry(queue.name.id.clone()).or_default();
            names.push(queue.name);
        }
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = of_boards.range::<BoardId, _>((behind, Bound::Unbounded));
        let (mut items, mut last) = (Vec::new(), None);
        for (id, names) in rest.by_ref().take(count) {
            last = Some(id.clone());
            match self.waiting(names).await {
                Ok(waiting) if waiting.size.events == 0 => {}
                Ok(waiting) => items.push((id.clone(), waiting)),
                // It is told by the job that looks how much waits.
                Err(error) if error.is_fault() => {}
                Err(error) => return Err(error),
            }
        }
        let next = rest.next().and(last);
        Ok(Part { items, next })
    }

    /// How much of the log of queued events was not taken yet, by partition; nothing where events are not queued in a log.
    pub async fn backlog(&self) -> Result<Vec<Backlog>, Error> {
        match &self.engine.log {
            Some(log) => log.backlog().await,
            None => Ok(Vec::new()),
        }
    }

    async fn waiting(&self, names: &[QueueName]) -> Result<Waiting, Error> {
        let store = &self.engine.store;
        let of_queue = async |name: &QueueName| {
            try_join(store.queue_size(name), store.waiting_since(name)).await
        };
        let queues = stream::iter(names).map(of_queue);
        let queues: Vec<_> = queues.buffer_unordered(AT_ONCE).try_collect().await?;
        let mut all = Waiting::default();
        for (size, since) in queues {
            all.size.add(size);
            all.since = all.since.into_iter().chain(since).min();
        }
        Ok(all)
    }
}
