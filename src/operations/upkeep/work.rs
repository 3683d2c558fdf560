//! What people see who look after the service: which instances there are, how much waits in queues, since when, and how much in the log
//! before them, and about how much memory of Redis a board takes.

use std::collections::BTreeMap;
use std::ops::Bound;

use futures::future::try_join;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::store::{self, Footprint};
use crate::core::{Error, Service, jobs};
use crate::domain::ids::BoardId;
use crate::domain::instance::Instance;
use crate::domain::intake::Backlog;
use crate::domain::part::Part;
use crate::domain::time::Timestamp;
use crate::queue;
use crate::queue::store::queues::{self, QueueName, QueueSize};
use crate::runtime::join::try_join_all;

/// How many queues are looked at at one time.
const AT_ONCE: usize = 16;
/// How many keys of a board are looked at at the most; of each shard one at least.
const KEYS_MAX: usize = 128;

/// What waits in the queues of a board.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Waiting {
    /// How much.
    pub size: QueueSize,
    /// Since when the first event waits, by the clock of Redis; `None` if none does.
    pub since: Option<Timestamp>,
}

/// The instances that were heard of lately, by their ids.
pub async fn instances(service: &Service) -> Result<BTreeMap<String, Instance>, Error> {
    let now = service.engine.clock.now();
    let mut instances = jobs::store::all(&service.engine.store).await?;
    instances.retain(|_, instance| instance.is_remembered(now));
    Ok(instances)
}

/// About how much memory a board takes, by a sample of its keys.
pub async fn footprint(service: &Service, id: &BoardId) -> Result<Footprint, Error> {
    let live = service.engine.live_board(id).await?;
    let count = (KEYS_MAX / live.shards.len()).max(1);
    let shards = live.shards.iter();
    let parts = shards.map(|live| store::estimate(&service.engine.store, &live.shard, count));
    let mut all = Footprint::default();
    for part in try_join_all(parts).await? {
        all.keys += part.keys;
        all.bytes = all.bytes.saturating_add(part.bytes);
        all.sampled += part.sampled;
    }
    Ok(all)
}

/// What waits on a board.
pub async fn queue(service: &Service, id: &BoardId) -> Result<Waiting, Error> {
    let live = service.engine.live_board(id).await?;
    let names = live.shards.iter().map(|live| QueueName::of(&live.shard));
    waiting(service, &names.collect::<Vec<_>>()).await
}

/// What waits on all boards, behind one: of `count` of those whose queues are in the index. Boards with a queue that can't be read
/// are left out.
pub async fn queues(
    service: &Service,
    after: Option<&BoardId>,
    count: usize,
) -> Result<Part<(BoardId, Waiting), BoardId>, Error> {
    let mut of_boards: BTreeMap<BoardId, Vec<QueueName>> = BTreeMap::new();
    for queue in queues::all(&service.engine.store).await? {
        let id = queue.name.id.clone();
        of_boards.entry(id).or_default().push(queue.name);
    }
    let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = of_boards.range::<BoardId, _>((behind, Bound::Unbounded));
    let (mut items, mut last) = (Vec::new(), None);
    for (id, names) in rest.by_ref().take(count) {
        last = Some(id.clone());
        match waiting(service, names).await {
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
pub async fn backlog(service: &Service) -> Result<Vec<Backlog>, Error> {
    match &queue::of(&service.engine).log {
        Some(log) => log.backlog().await,
        None => Ok(Vec::new()),
    }
}

async fn waiting(service: &Service, names: &[QueueName]) -> Result<Waiting, Error> {
    let store = &service.engine.store;
    let of_queue = async |name: &QueueName| {
        try_join(
            queues::size(store, name),
            queues::waiting_since(store, name),
        )
        .await
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
