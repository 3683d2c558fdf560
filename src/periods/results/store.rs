//! Stores the results of final periods, and their digests.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::domain::board::Board;
use crate::domain::league::Section;
use crate::domain::league::decision::Summary;
use crate::domain::message::Message;
use crate::domain::period::Period;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::redis::call::ScriptCall;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, random, script};

/// Prefix of the field that holds the progress of a period's digest.
const MAKING: &str = "making:";

/// The stored result of a period.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PeriodResult {
    /// When the period began.
    pub starts_at: Option<Timestamp>,
    pub ends_at: Option<Timestamp>,
    /// When its result was recorded.
    pub final_at: Timestamp,
    /// How many members the standing has.
    pub total: u64,
    /// Its first member; `None` if there is none.
    pub winner: Option<Winner>,
    /// 1, plus 1 for each change of the result.
    pub revision: u64,
    /// How many rewards there are.
    pub rewards: u64,
    /// The amendment of the definition with which the period was closed.
    pub definition: u64,
    /// The last hide of each shard that has its revision, by tag.
    pub hides: BTreeMap<String, u64>,
    /// The shards' counters of hides, erasures and corrections at the last walk over the standing, by tag. The total, the winner and the
    /// rewards include them all, even those that have no revision yet. Empty: unknown.
    #[serde(default)]
    pub walked: BTreeMap<String, ChangeCounters>,
    /// For a league's cohort: how it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub league: Option<Summary>,
}

/// A result, and its stored form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordedResult {
    pub result: PeriodResult,
    pub(crate) json: String,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Winner {
    /// Its id; `None` once it was erased.
    pub member: Option<String>,
    /// Its scaled score.
    pub score: Score,
    /// When that score was reached; `None` on boards with `ties: member`.
    pub reached_at: Option<Timestamp>,
}

/// A shard's counters of what changes final periods.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ChangeCounters {
    /// The number of the last hide.
    pub hides: u64,
    /// How many lines of final standings have lost their member to an erasure.
    pub anonymised: u64,
    /// The number of the last correction of a closed period.
    #[serde(default, skip_serializing_if = "is_none")]
    pub corrected: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// The digest of a final period, or its progress.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DigestNote<T> {
    pub revision: u64,
    /// How many lines of final standings had lost their member by then, by shard tag, without zeros. A move changes the
    /// tags.
    pub anonymised: BTreeMap<String, u64>,
    /// The digest or the progress.
    pub noted: T,
}

/// A board's `forgetting`, read before any names of members. With it the caller records nothing that may name a member
/// erased meanwhile.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Forgetting(String);

impl Forgetting {
    /// For calls that name no member beyond those in the stored result.
    const ANY: &str = "*";

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl PeriodResult {
    /// The first result of a period, without members.
    pub(crate) fn empty(board: &Board, period: &Period, final_at: Timestamp) -> Self {
        let terms = board.terms_of(period);
        Self {
            starts_at: period.start(),
            ends_at: board.end_of(period),
            final_at,
            total: 0,
            winner: None,
            revision: 1,
            rewards: 0,
            definition: terms.map_or(board.amendment, |terms| terms.amendment),
            hides: BTreeMap::new(),
            walked: BTreeMap::new(),
            league: None,
        }
    }
}

/// The current value.
pub async fn forgetting(store: &Store, board: &Board) -> Result<Forgetting, StoreError> {
    let field = [&keys::head(board.id.as_str()), "forgetting"];
    let stored: Option<String> = store.command("HGET", field).await?;
    Ok(Forgetting(stored.unwrap_or_default()))
}

/// Announces that the name of an erased member will be removed from the results of a board: from now on nothing read
/// earlier is recorded.
pub async fn begin_forgetting(store: &Store, board: &Board) -> Result<(), StoreError> {
    let begun = store
        .call_head(&script::BEGIN_FORGETTING, board)
        .arg(board.generation)
        .arg(random::hexadecimal::<8>("")?);
    begun.write::<Done>().await.map(drop)
}

/// Records the result of a final section with its message, unless there is one. The caller calls
/// [`crate::core::board::store::board_notes::note`] next, even if there was a result. `forgetting`: the value before the
/// caller read a name in the result; `None` if it has none.
pub async fn record(
    store: &Store,
    board: &Board,
    section: &Section,
    result: &PeriodResult,
    message: &Message,
    forgetting: Option<&Forgetting>,
) -> Result<(), StoreError> {
    let name = board.section_key(section);
    let forgetting = forgetting.map_or(Forgetting::ANY, Forgetting::as_str);
    call_record(store, board, section.window())
        .arg(name)
        .arg("")
        .json(result)
        .arg(forgetting)
        .args([message.id.as_str(), &message.body])
        .write::<Done>()
        .await
        .map(drop)
}

/// Replaces the result of the section of a window with this name by one without names that are not in it.
/// [`StoreError::Stale`] if the stored result is not `seen`.
pub async fn replace(
    store: &Store,
    board: &Board,
    (window, name): (Window, &str),
    seen: &RecordedResult,
    result: &PeriodResult,
) -> Result<(), StoreError> {
    call_record(store, board, window)
        .arg(name)
        .arg(&seen.json)
        .json(result)
        .arg(Forgetting::ANY)
        .write::<Done>()
        .await
        .map(drop)
}

fn call_record<'a>(store: &'a Store, board: &Board, window: Window) -> ScriptCall<'a> {
    let of_window = [Kind::Results, Kind::FinalPeriods];
    store
        .call_board(&script::RECORD_RESULT, board)
        .keys(of_window.map(|kind| keys::of_results(board, kind, window)))
        .key(keys::outbox(&board.id, board.generation))
        .arg(board.version())
}

/// The result of a section; `None` if there is none.
pub async fn read(
    store: &Store,
    board: &Board,
    section: &Section,
) -> Result<Option<RecordedResult>, StoreError> {
    let names = [board.section_key(section)];
    let results = read_many(store, board, section.window(), &names).await?;
    Ok(results.into_iter().flatten().next())
}

/// The results of the sections of a window with these names, in the given order; `None` where there is none.
pub async fn read_many(
    store: &Store,
    board: &Board,
    window: Window,
    names: &[String],
) -> Result<Vec<Option<RecordedResult>>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let key = keys::of_results(board, Kind::Results, window);
    let args = std::iter::once(&key).chain(names);
    let stored: Vec<Option<String>> = store.command("HMGET", args).await?;
    stored
        .into_iter()
        .map(|stored| {
            let Some(json) = stored else { return Ok(None) };
            let result = read_json("a result", &json)?;
            Ok(Some(RecordedResult { result, json }))
        })
        .collect()
}

/// Up to `count` keys of periods with a result between two keys, newest first.
pub async fn final_periods(
    store: &Store,
    board: &Board,
    window: Window,
    (after, before): (Option<&str>, Option<&str>),
    count: usize,
) -> Result<Vec<String>, StoreError> {
    let list = keys::of_results(board, Kind::FinalPeriods, window);
    let from = before.map_or_else(|| "+".to_owned(), |before| format!("({before}"));
    let to = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
    let count = count.to_string();
    let range = [&list, &from, &to, "BYLEX", "REV", "LIMIT", "0", &count];
    store.command("ZRANGE", range).await
}

/// How many cohorts of a period have a result.
pub async fn final_cohorts(
    store: &Store,
    board: &Board,
    period: &Period,
) -> Result<u64, StoreError> {
    let list = keys::of_results(board, Kind::FinalPeriods, Window::Period(period.unit));
    count_cohorts(store, board, list, period).await
}

/// How many cohorts of a period have data in a shard.
pub async fn listed_cohorts(
    store: &Store,
    shard: &Shard,
    period: &Period,
) -> Result<u64, StoreError> {
    count_cohorts(store, shard, keys::periods(shard, period.unit), period).await
}

/// How many cohorts of a period are in a list of names of sections.
async fn count_cohorts(
    store: &Store,
    board: &Board,
    list: String,
    period: &Period,
) -> Result<u64, StoreError> {
    let key = board.calendar.key(period);
    // Their names go on with `/`, whose next character is `0`.
    let range = [list, format!("[{key}/"), format!("({key}0")];
    store.command("ZLEXCOUNT", range).await
}

/// A shard's counters.
pub async fn change_counters(store: &Store, shard: &Shard) -> Result<ChangeCounters, StoreError> {
    let head = keys::head(shard.tag());
    let fields = [&head, "hides", "anonymised", "corrected"];
    let counters: [Option<u64>; 3] = store.command("HMGET", fields).await?;
    let [hides, anonymised, corrected] = counters.map(Option::unwrap_or_default);
    Ok(ChangeCounters {
        hides,
        anonymised,
        corrected,
    })
}

/// The digest of a final section, and the progress of an unfinished one.
pub async fn digest<T: DeserializeOwned>(
    store: &Store,
    board: &Board,
    section: &Section,
) -> Result<(Option<DigestNote<String>>, Option<DigestNote<T>>), StoreError> {
    let digests = keys::of_results(board, Kind::Digests, section.window());
    let key = board.section_key(section);
    let fields = [digests, key.clone(), format!("{MAKING}{key}")];
    let [made, making]: [Option<String>; 2] = store.command("HMGET", fields).await?;
    // Digests in another release's format are made again.
    let made = made.and_then(|made| read_json("", &made).ok());
    Ok((made, making.and_then(|making| read_json("", &making).ok())))
}

/// Stores the digest of a final section, or its progress. Does nothing if the definition has changed.
pub async fn note_digest<T: Serialize>(
    store: &Store,
    board: &Board,
    section: &Section,
    is_made: bool,
    noted: &DigestNote<T>,
) -> Result<(), StoreError> {
    let noted = store
        .call_board(&script::NOTE_DIGEST, board)
        .key(keys::of_results(board, Kind::Digests, section.window()))
        .arg(board.version())
        .arg(board.section_key(section))
        .arg(is_made)
        .json(noted);
    match noted.write::<Done>().await {
        Ok(_) | Err(StoreError::Stale) => Ok(()),
        Err(error) => Err(error),
    }
}
