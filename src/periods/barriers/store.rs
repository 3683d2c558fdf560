//! The barriers of shards: the instants before which they take no events.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::domain::intake::Partition;
use crate::domain::shard::Shard;
use crate::domain::time::{Span, Timestamp};
use crate::redis::args::pack;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys, script};

/// How long a closing waits for events that were queued before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueWait {
    /// The current time, by a trusted clock.
    pub now: Timestamp,
    /// How long it waits at most, from the first call that says so.
    pub max_delay: Span,
}

/// What a closing knows about the log that queued events come through.
#[derive(Clone, Copy, Debug)]
pub enum LogEnds<'a> {
    /// There is none.
    NoLog,
    /// There is one. Its ends count only once the barrier is raised: read them after [`Raised::WantsEnds`].
    Unasked,
    /// Its ends, read after that: the offset of the next record of each partition.
    Known(&'a [(Partition, i64)]),
}

/// The progress of a shard whose barrier is raised.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub enum Raised {
    /// Reads see the barrier.
    #[serde(rename = "OK")]
    Seen,
    /// Repeat the call with the ends of the log.
    #[serde(rename = "ENDS")]
    WantsEnds,
    /// Repeat the call: the shard has not taken all records before the ends of the log.
    #[serde(rename = "LOG")]
    WaitsForLog,
    /// Repeat the call: events that were queued before it still wait.
    #[serde(rename = "QUEUE")]
    WaitsForQueue,
}

/// Raises the barrier of a shard to this instant; a higher barrier stays. From then on the shard refuses earlier events,
/// except those that it has taken already and those that wait in its queue or in the log. Reads see the barrier once
/// nothing that was queued by then waits any more, or the wait is over, and the replicas that writes wait for have the
/// barrier. Without a `wait` it waits for all events.
pub async fn raise(
    store: &Store,
    shard: &Shard,
    until: Timestamp,
    wait: Option<QueueWait>,
    ends: LogEnds<'_>,
) -> Result<Raised, StoreError> {
    let log = match ends {
        LogEnds::NoLog => "".into(),
        LogEnds::Unasked => "log".into(),
        LogEnds::Known(ends) => {
            let ends = ends
                .iter()
                .map(|(partition, end)| (partition.to_string(), end));
            pack(&ends.collect::<BTreeMap<_, _>>())?
        }
    };
    let mut is_confirmed = !store.waits_for_replicas();
    loop {
        let raised = store
            .call_shard(&script::CLOSE_SHARD, shard)
            .keys([Kind::Queue, Kind::Intake].map(|kind| keys::single(shard, kind)))
            .arg(shard.version())
            .arg(until)
            .arg(is_confirmed)
            .arg(wait.map(|wait| wait.now))
            .arg(wait.map(|wait| wait.max_delay.ms()))
            .arg(log.clone())
            .write()
            .await?;
        if is_confirmed || raised != Raised::Seen {
            return Ok(raised);
        }
        is_confirmed = true;
    }
}

/// The barrier of a shard, and the one that reads see; `None` if never raised.
pub async fn read(store: &Store, shard: &Shard) -> Result<[Option<Timestamp>; 2], StoreError> {
    let fields = [&keys::head(shard.tag()), "closed_until", "final_until"];
    let (raised, seen): (Option<i64>, Option<i64>) = store.command("HMGET", fields).await?;
    Ok([raised, seen].map(|until| until.map(Timestamp::from_ms_clamped)))
}
