//! Stores the progress of a board's closings (`domain/closing.rs`), and reads which periods have data.

use std::collections::HashMap;
use std::ops::Bound;

use serde::Deserialize;

use crate::domain::board::{Board, Uniques};
use crate::domain::league::Section;
use crate::domain::period::{Period, Unit};
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::args::LayoutArgs;
use crate::redis::decode::{Done, Tail};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys, script};

/// How many lines of an index one call reads.
const CALL_LINES_MAX: usize = 1_000;
/// Roughly how many members' voters a call of [`expire_period`] handles.
const CALL_MEMBERS_MAX: u32 = 300;
/// The cursor at the start and at the end of a scan.
const ENDED: &str = "0";

/// The outcome of a request for a closing.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    #[serde(rename = "OK")]
    Decided,
    /// The previous closing lacks results: nothing was done.
    Pending,
}

/// A range of keys of periods.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Keys<'a> {
    pub from: Bound<&'a str>,
    pub to: Bound<&'a str>,
    /// Newest first: then `from` is the later one.
    pub is_newest_first: bool,
}

/// Decides a closing for this instant, with what the definition says. An earlier decision stays.
pub async fn decide(
    store: &Store,
    board: &Board,
    until: Timestamp,
) -> Result<Decision, StoreError> {
    let since = board.finalize_since.unwrap_or(until);
    store
        .call_head(&script::DECIDE, board)
        .arg(board.version())
        .arg(until)
        .json(&board.terms_with(until))
        .arg(since)
        .write()
        .await
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
    expires_at_ms: i64,
    now: Timestamp,
    cursor: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let period = &section.period;
    let standings: Vec<Standing> = shard
        .recorded_in(period)
        .into_iter()
        .map(|standing| Standing::of(standing.series, *section))
        .collect();
    let of_standings = standings.iter();
    let expired = store
        .call(&script::EXPIRE, shard.tag())
        .key(keys::head(shard.tag()))
        .keys(of_standings.flat_map(|standing| keys::standing(shard, standing)))
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
    wanted: Keys<'_>,
    count: usize,
) -> Result<Vec<String>, StoreError> {
    let Keys {
        from,
        to,
        is_newest_first,
    } = wanted;
    let (mut from, to) = (
        lexical(from, is_newest_first),
        lexical(to, !is_newest_first),
    );
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
