//! For operators: the instances, how much waits in queues and in the log before them, and the memory that a board takes in
//! Redis.

use std::collections::BTreeMap;
use std::ops::Bound;

use futures::future::try_join;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::store::{self, Footprint};
use crate::core::{Engine, Error, jobs};
use crate::domain::ids::BoardId;
use crate::domain::instance::Instance;
use crate::domain::intake::Backlog;
use crate::domain::part::Part;
use crate::domain::time::Timestamp;
use crate::queue;
use crate::queue::store::queues::{self, QueueName, QueueSize};
use crate::runtime::join::try_join_all;

/// How many queues are read at the same time.
const AT_ONCE: usize = 16;

/// The events that wait in the queues of a board.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WaitingEvents {
    /// How much waits.
    pub size: QueueSize,
    /// Since when the first event waits, by the clock of Redis; `None` if none waits.
    pub since: Option<Timestamp>,
}

/// The instances that have reported recently, by id.
pub async fn instances(engine: &Engine) -> Result<BTreeMap<String, Instance>, Error> {
    let now = engine.clock.now();
    let mut instances = jobs::instances::all(&engine.store).await?;
    instances.retain(|_, instance| instance.is_remembered(now));
    Ok(instances)
}

/// Estimates the memory that a board takes: never more than all servers use.
pub async fn footprint(engine: &Engine, id: &BoardId) -> Result<Footprint, Error> {
    let (board, store) = (engine.board(id).await?, &engine.store);
    let shards = board.shards();
    let homes = if board.reserves() {
        board.homes()
    } else {
        board.shards()
    };
    let of_shards = shards
        .iter()
        .map(|shard| store::of_shard(store, shard, shards.len()));
    let of_homes = homes
        .iter()
        .map(|home| store::of_home(store, home, homes.len()));
    let mut parts = try_join_all(of_shards).await?;
    parts.extend(try_join_all(of_homes).await?);
    let mut all = store::of_board(store, &board).await?;
    for part in parts {
        all.add(part);
    }
    let used = store.memory_used().await;
    all.bytes = all.bytes.min(used.unwrap_or(u64::MAX));
    Ok(all)
}

/// What waits on a board.
pub async fn queue(engine: &Engine, id: &BoardId) -> Result<WaitingEvents, Error> {
    let shards = engine.board(id).await?.shards();
    let names = shards.iter().map(QueueName::of);
    waiting(engine, &names.collect::<Vec<_>>()).await
}

/// What waits on the next `count` boards after `after` in the index of queues. Boards with an unreadable queue are left
/// out.
pub async fn queues(
    engine: &Engine,
    after: Option<&BoardId>,
    count: usize,
) -> Result<Part<(BoardId, WaitingEvents), BoardId>, Error> {
    let mut of_boards: BTreeMap<BoardId, Vec<QueueName>> = BTreeMap::new();
    for name in queues::listed(&engine.store).await? {
        of_boards.entry(name.id.clone()).or_default().push(name);
    }
    let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = of_boards.range::<BoardId, _>((behind, Bound::Unbounded));
    let (mut items, mut last) = (Vec::new(), None);
    for (id, names) in rest.by_ref().take(count) {
        last = Some(id.clone());
        match waiting(engine, names).await {
            Ok(waiting) if waiting.size.events == 0 => {}
            Ok(waiting) => items.push((id.clone(), waiting)),
            // Reported by the job that measures the queues.
            Err(error) if error.is_fault() => {}
            Err(error) => return Err(error),
        }
    }
    let next = rest.next().and(last);
    Ok(Part { items, next })
}

/// The part of the log that was not taken yet, by partition; empty if events are not queued in a log.
pub async fn backlog(engine: &Engine) -> Result<Vec<Backlog>, Error> {
    match &queue::of(engine).log {
        Some(log) => log.backlog().await,
        None => Ok(Vec::new()),
    }
}

async fn waiting(engine: &Engine, names: &[QueueName]) -> Result<WaitingEvents, Error> {
    let store = &engine.store;
    let of_queue = async |name: &QueueName| {
        try_join(
            queues::size(store, name),
            queues::waiting_since(store, name),
        )
        .await
    };
    let queues: Vec<_> = stream::iter(names)
        .map(of_queue)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let mut all = WaitingEvents::default();
    for (size, since) in queues {
        all.size.add(size);
        all.since = all.since.into_iter().chain(since).min();
    }
    Ok(all)
}
