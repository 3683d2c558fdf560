//! The barriers of shards: the instants before which they take no event any more.

use std::collections::BTreeMap;

use super::args::pack;
use super::dispatch::Store;
use super::kinds::Kind;
use super::reply::{Reply, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::intake::Partition;
use crate::domain::shard::Shard;
use crate::domain::time::{Span, Timestamp};

/// How long a closing waits for events that were queued before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Raised {
    /// Reads see the barrier.
    Seen,
    /// The call is to be repeated with the ends of the log.
    WantsEnds,
    /// The call is to be repeated: the shard has not taken all that lies before the ends of the log.
    WaitsForLog,
    /// The call is to be repeated: events wait that were queued before.
    WaitsForQueue,
}

impl Store {
    /// Raises the barrier of a shard to this instant. From then on the shard refuses every event that lies before it, but for
    /// those that it has taken already, and for those that wait in its queue or in the log. A barrier that is higher stays. Reads see the barrier
    /// once nothing waits any more that was queued by then, or it has waited for as long as it may, and the replicas have the barrier that
    /// have to have what is written. Without a `patience` it waits for all events.
    pub async fn close_shard(
        &self,
        shard: &Shard,
        until: Timestamp,
        patience: Option<Patience>,
        ends: LogEnds<'_>,
    ) -> Result<Raised, StoreError> {
        if self.waits_for_replicas() {
            let raised = self.raise_barrier(shard, until, patience, ends, false);
            let raised = raised.await?;
            if raised != Raised::Seen {
                return Ok(raised);
            }
        }
        self.raise_barrier(shard, until, patience, ends, true).await
    }

    async fn raise_barrier(
        &self,
        shard: &Shard,
        until: Timestamp,
        patience: Option<Patience>,
        ends: LogEnds<'_>,
        is_confirmed: bool,
    ) -> Result<Raised, StoreError> {
        let mut keys = keys::head_and_registry(shard);
        keys.extend([Kind::Queue, Kind::Intake].map(|kind| keys::single(shard, kind)));
        let is_confirmed = if is_confirmed { "1" } else { "0" };
        let [now, max_delay] = patience.map_or([const { String::new() }; 2], |patience| {
            [
                patience.now.ms().to_string(),
                patience.max_delay.ms().to_string(),
            ]
        });
        let ends = match ends {
            LogEnds::NoLog => "".into(),
            LogEnds::Unasked => "log".into(),
            LogEnds::Known(ends) => {
                let ends = ends
                    .iter()
                    .map(|(partition, end)| (partition.to_string(), *end));
                pack(&ends.collect::<BTreeMap<_, _>>())?
            }
        };
        let args = vec![
            shard.version().into(),
            until.ms().to_string().into(),
            is_confirmed.into(),
            now.into(),
            max_delay.into(),
            ends,
        ];
        let reply = self.write(shard, &script::CLOSE_SHARD, keys, args);
        let mut reply = Reply::new(reply.await?)?;
        Ok(match reply.text()?.as_str() {
            "OK" => Raised::Seen,
            "ENDS" => Raised::WantsEnds,
            "WAITS" if reply.text()? == "1" => Raised::WaitsForLog,
            "WAITS" => Raised::WaitsForQueue,
            "STALE" => return Err(StoreError::Stale),
            other => return unknown_code(other),
        })
    }

    /// The barrier of a shard, and up to where reads see it; `None` of one that was never raised.
    pub async fn barriers(&self, shard: &Shard) -> Result<[Option<Timestamp>; 2], StoreError> {
        let fields = ["closed_until", "final_until"].map(str::to_owned);
        let args = std::iter::once(keys::head(shard.tag())).chain(fields);
        let (raised, seen): (Option<i64>, Option<i64>) =
            self.command("HMGET", args.collect()).await?;
        Ok([raised, seen].map(|until| until.map(Timestamp::from_ms_clamped)))
    }
}
