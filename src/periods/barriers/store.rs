//! The barriers of shards: the instants before which they take no event any more.

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
    /// The time now, by a clock that is trusted.
    pub now: Timestamp,
    /// How long it waits at the most, from the first call on that says so.
    pub max_delay: Span,
}

/// What a closing knows of the log that queued events come through.
#[derive(Clone, Copy, Debug)]
pub enum LogEnds<'a> {
    /// There is none.
    NoLog,
    /// There is one. Its ends count once the barrier stands: they are to be asked if [`Raised::WantsEnds`] is the answer.
    Unasked,
    /// They were asked then: the offset of the next record of each partition.
    Known(&'a [(Partition, i64)]),
}

/// How far a shard is whose barrier stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub enum Raised {
    /// Reads see the barrier.
    #[serde(rename = "OK")]
    Seen,
    /// The call is to be repeated with the ends of the log.
    #[serde(rename = "ENDS")]
    WantsEnds,
    /// The call is to be repeated: the shard has not taken all that lies before the ends of the log.
    #[serde(rename = "LOG")]
    WaitsForLog,
    /// The call is to be repeated: events wait that were queued before.
    #[serde(rename = "QUEUE")]
    WaitsForQueue,
}

/// Raises the barrier of a shard to this instant. From then on the shard refuses every event that lies before it, but for
/// those that it has taken already, and for those that wait in its queue or in the log. A barrier that is higher stays. Reads see the barrier
/// once nothing waits any more that was queued by then, or it has waited for as long as it may, and the replicas have the barrier that
/// have to have what is written. Without a `wait` it waits for all events.
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

/// The barrier of a shard, and up to where reads see it; `None` of one that was never raised.
pub async fn read(store: &Store, shard: &Shard) -> Result<[Option<Timestamp>; 2], StoreError> {
    let fields = [&keys::head(shard.tag()), "closed_until", "final_until"];
    let (raised, seen): (Option<i64>, Option<i64>) = store.command("HMGET", fields).await?;
    Ok([raised, seen].map(|until| until.map(Timestamp::from_ms_clamped)))
}
