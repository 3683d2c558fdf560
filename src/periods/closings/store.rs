//! Stores the progress of a board's closings (`domain/closing.rs`) and the barriers of its shards, and reads which periods
//! have data.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use serde::Deserialize;

use crate::domain::board::{Board, Uniques};
use crate::domain::intake::Partition;
use crate::domain::league::Section;
use crate::domain::period::{Period, Unit};
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::{Span, Timestamp};
use crate::redis::args::{LayoutArgs, pack};
use crate::redis::decode::{Coded, Done, Tail};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys, script};

/// How many lines of an index one call reads.
const CALL_LINES_MAX: usize = 1_000;
/// Roughly how many members' voters a call of [`expire_period`] handles.
const CALL_MEMBERS_MAX: u32 = 300;
/// The cursor at the start and at the end of a scan.
const ENDED: &str = "0";

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
    /// There is one. Its ends count only once the barrier is raised: read them after [`BarrierProgress::WantsEnds`].
    Unasked,
    /// Its ends, read after that: the offset of the next record of each partition.
    Known(&'a [(Partition, i64)]),
}

/// The progress of a shard whose barrier is raised.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub enum BarrierProgress {
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

/// A range of keys of periods, and whether it is newest first: then it begins with the later bound.
pub type KeyRange<'a> = ((Bound<&'a str>, Bound<&'a str>), bool);

/// Decides a closing for this instant, with what the definition says. An earlier decision stays. Returns false, and has no
/// effect, if results of the previous closing are missing.
pub async fn decide(store: &Store, board: &Board, until: Timestamp) -> Result<bool, StoreError> {
    store
        .call_head(&script::DECIDE, board)
        .arg(board.version())
        .arg(until)
        .json(&board.terms_with(until))
        .arg(board.finalize_since.unwrap_or(until))
        .write::<Coded>()
        .await?
        .is("OK", "PENDING")
}

/// Raises the barrier of a shard to this instant; a higher barrier stays. From then on the shard refuses earlier events,
/// except those that it has taken already and those that wait in its queue or in the log. Reads see the barrier once
/// nothing that was queued by then waits any more, or the wait is over, and the replicas that writes wait for have the
/// barrier. Without a `wait` it waits for all events.
pub async fn raise_barrier(
    store: &Store,
    shard: &Shard,
    until: Timestamp,
    wait: Option<QueueWait>,
    ends: LogEnds<'_>,
) -> Result<BarrierProgress, StoreError> {
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
        if is_confirmed || raised != BarrierProgress::Seen {
            return Ok(raised);
        }
        is_confirmed = true;
    }
}

/// The barrier of a shard, and the one that reads see; `None` if never raised.
pub async fn barriers(store: &Store, shard: &Shard) -> Result<[Option<Timestamp>; 2], StoreError> {
    let fields = [&keys::head(shard.tag()), "closed_until", "final_until"];
    let (raised, seen): (Option<i64>, Option<i64>) = store.command("HMGET", fields).await?;
    Ok([raised, seen].map(|until| until.map(Timestamp::from_ms_clamped)))
}

/// Stores that the results of all periods that end up to this instant are recorded.
pub async fn note_results(
    store: &Store,
    board: &Board,
    until: Timestamp,
) -> Result<(), StoreError> {
    let noted = store
        .call_head(&script::RESULTS_UNTIL, board)
        .arg(board.generation)
        .arg(until);
    noted.write::<Done>().await.map(drop)
}

/// Makes sure that replicas have the decision, if writes wait for replicas: a barrier must not outlive the decision that it
/// follows.
pub async fn confirm(store: &Store, board: &Board) -> Result<(), StoreError> {
    if store.waits_for_replicas() {
        // A call that changes nothing.
        return note_results(store, board, Timestamp::MIN).await;
    }
    Ok(())
}

/// How many queued events of a period in this shard were refused because its closing did not wait for them.
pub async fn cut_off(store: &Store, shard: &Shard, period: &Period) -> Result<u64, StoreError> {
    let counts = [keys::of_period(shard, Kind::CutOff, period)];
    let counts: HashMap<String, u64> = store.command("HGETALL", counts).await?;
    // Moves copy the counts. So this was not read too late if the shard is still in use.
    let version = [&keys::head(shard.tag()), "version"];
    let version: Option<String> = store.command("HGET", version).await?;
    if version != Some(shard.version()) {
        return Err(StoreError::Stale);
    }
    Ok(counts.values().sum())
}

/// Lets this shard's data of a section expire at an instant, in milliseconds since the epoch, by a bounded step. Takes the
/// cursor of the last step, `None` for the first. Returns the next cursor; `None` at the end.
pub async fn expire_period(
    store: &Store,
    shard: &Shard,
    section: &Section,
    (expires_at_ms, now): (i64, Timestamp),
    cursor: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let period = &section.period;
    let standings: Vec<Standing> = shard
        .recorded_in(period)
        .into_iter()
        .map(|standing| Standing::of(standing.series, *section))
        .collect();
    let expired = store
        .call(&script::EXPIRE, shard.tag())
        .key(keys::head(shard.tag()))
        .keys(
            standings
                .iter()
                .flat_map(|standing| keys::standing(shard, standing)),
        )
        .keys([Kind::Turnout, Kind::Voters].map(|kind| keys::of_period(shard, kind, period)))
        .field("version", shard.version())
        .field("layout", LayoutArgs::new(shard))
        .field("now", now.ms())
        .field("standings", standings.len())
        .field("expires", expires_at_ms)
        .field(
            "by_member",
            shard.definition.uniques == Some(Uniques::Member),
        )
        .field("has_folded", shard.history.is_some())
        .field("of_cohort", section.cohort.is_some())
        .field("count", CALL_MEMBERS_MAX)
        .arg(cursor.unwrap_or(ENDED));
    let Done::Ok(next) = expired.write::<Done<String>>().await?;
    Ok((next != ENDED).then_some(next))
}

/// The keys of up to `count` periods of a unit that have data in this shard.
pub async fn periods(
    store: &Store,
    shard: &Shard,
    unit: Unit,
    ((from, to), is_newest_first): KeyRange<'_>,
    count: usize,
) -> Result<Vec<String>, StoreError> {
    let mut from = lexical(from, is_newest_first);
    let to = lexical(to, !is_newest_first);
    let mut found = Vec::new();
    loop {
        let part = store
            .call(&script::PERIODS, shard.tag())
            .keys([keys::head(shard.tag()), keys::periods(shard, unit)])
            .arg(shard.version())
            .arg(&from)
            .arg(&to)
            .arg(is_newest_first)
            .arg(count - found.len())
            .arg(CALL_LINES_MAX);
        let Done::Ok((next, Tail(periods))) =
            part.read::<Done<(String, Tail<Vec<String>>)>>().await?;
        found.extend(periods);
        if next.is_empty() || found.len() >= count {
            return Ok(found);
        }
        from = format!("({next}");
    }
}

/// A bound for `ZRANGE … BYLEX`; unbounded: `+` for the greatest, `-` for the smallest.
fn lexical(bound: Bound<&str>, is_greatest: bool) -> String {
    match bound {
        Bound::Included(key) => format!("[{key}"),
        Bound::Excluded(key) => format!("({key}"),
        Bound::Unbounded if is_greatest => "+".to_owned(),
        Bound::Unbounded => "-".to_owned(),
    }
}
