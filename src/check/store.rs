//! The steps of `standings check`. Each compares and repairs in one script, so it can run next to the service
//! (`scripts/lib/check.lua`).

mod hides;
mod total;

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};

use super::repair::{Outcome, Repair};
use crate::core::board::store::boards::Defined;
use crate::core::board::store::definitions::read_definition;
use crate::core::read::store::rollover::beginning;
use crate::domain::board::{Board, Order, Update};
use crate::domain::ids::BoardId;
use crate::domain::period::Period;
use crate::domain::series::{Derived, Standing};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::args::{LayoutArgs, closes_ms, end_ms};
use crate::redis::call::ScriptCall;
use crate::redis::decode::{Done, Raw, Tail, decode};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::node::Node;
use crate::redis::script::{self, Script};
use crate::redis::{StoreError, keys};

pub use self::hides::check_hides;
pub use self::total::{Total, check_total, whole_of};

/// Standings with up to this many entries, over all of their keys, are checked in one call: some milliseconds of Redis.
const WHOLE_MAX: u32 = 2_000;
/// About how many entries of a larger standing one call checks.
const PART: u32 = 400;
/// About how many members × terms of a sum one call checks.
const SUMS_BUDGET: u32 = 1_500;
/// How many keys one SCAN call visits.
const SCAN_COUNT: &str = "500";
/// How many keys one call looks up in their registry.
const KEYS_MAX: usize = 200;

/// A difference between redundant data.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Difference {
    /// What differs: the codes are in the scripts' headers.
    pub code: String,
    /// What was done about it.
    pub outcome: Outcome,
    /// What is stored, as text.
    #[serde(deserialize_with = "lossy")]
    pub stored: Vec<String>,
}

/// Damaged data need not be UTF-8.
fn lossy<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let Tail(stored) = Tail::<Vec<Raw>>::deserialize(from)?;
    Ok(stored
        .iter()
        .map(|Raw(bytes)| String::from_utf8_lossy(bytes).into_owned())
        .collect())
}

/// The outcome of checking a standing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Look<T> {
    /// None of its keys exists.
    Gone,
    /// It can't be compared: it is about to expire, or some of its history is missing.
    #[serde(rename = "ENDING", alias = "LOST")]
    Impossible,
    #[serde(rename = "OK")]
    Found(T),
}

/// All remaining elements of a reply, as differences.
fn rest<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Difference>, D::Error> {
    Tail::deserialize(from).map(|Tail(differences)| differences)
}

/// The outcome of checking a queue.
#[derive(Debug, Deserialize)]
pub struct CheckedQueue {
    /// The number of events in it.
    pub entries: u64,
    /// Whether it was checked; false if it has too many entries.
    pub is_whole: bool,
    #[serde(deserialize_with = "rest")]
    pub differences: Vec<Difference>,
}

/// The progress of checking a standing.
#[derive(Debug, Deserialize)]
pub struct Part {
    /// The phase to continue with; `None` at the end.
    pub phase: Option<String>,
    pub cursor: String,
    /// Whether all of it was checked in one call, including its total.
    pub is_whole: bool,
    #[serde(deserialize_with = "rest")]
    pub differences: Vec<Difference>,
}

/// The progress of checking a sum.
#[derive(Debug, Deserialize)]
pub struct SumPart {
    /// The term to continue with; below 0 at the end.
    pub term: i64,
    pub cursor: String,
    /// The number of terms without data.
    pub absent: u64,
    #[serde(deserialize_with = "rest")]
    pub differences: Vec<Difference>,
}

/// A standing that should be the sum of others.
#[derive(Clone, Debug)]
pub struct Sum {
    pub standing: Standing,
    /// Its terms, newest first.
    pub terms: Vec<Standing>,
    kind: &'static str,
    /// The share that is carried over, in millionths; 0 if unknown.
    ratio: i64,
}

impl Sum {
    /// The sum for a derived standing.
    pub fn derived(board: &Board, derived: &Derived, period: Period, history: &[Period]) -> Self {
        let of_base = |period: &Period| Standing::of(derived.base, *period);
        let mut terms: Vec<Standing> = history.iter().map(of_base).collect();
        if derived.has_initial {
            terms.push(board.initial_scores());
        }
        Self {
            standing: Standing::of(derived.series, period),
            terms,
            kind: if derived.has_initial {
                "initial"
            } else {
                "rolling"
            },
            ratio: 0,
        }
    }

    /// The sum for a period with carryover: what was added in it, and the period before.
    pub fn carried(standing: Standing, terms: Vec<Standing>, ratio: Option<i64>) -> Self {
        Self {
            standing,
            terms,
            kind: "carried",
            ratio: ratio.unwrap_or(0),
        }
    }
}

/// What is stored under the key of a board or a shard.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The type of the key; `none` if it does not exist.
    pub found: String,
    /// The version that scripts compare.
    pub version: Option<String>,
    /// The definition, as JSON.
    pub definition: Option<String>,
    /// The version of the definition when an event last came in.
    pub used: Option<String>,
    /// The stamp of the last deletion of a board of this name: all generations up to it are deleted.
    pub deleted: Option<u64>,
    /// Whether it has anything of a board: any field but those of a deletion (`scripts/core/board/delete.lua`).
    pub has_board: bool,
}

impl Head {
    pub fn board(&self, id: &BoardId) -> Option<Result<Board, StoreError>> {
        Some(read_definition(id, self.definition.as_ref()?))
    }
}

/// How to check a standing.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The current time.
    pub now: Timestamp,
    /// What to do about contradictions.
    pub repair: Repair,
}

/// What is known of a standing before a part of it is checked.
#[derive(Clone, Debug)]
pub struct Known {
    /// When it expires by the definition, in milliseconds since the epoch.
    pub expires_at_ms: Option<i64>,
    /// Whether that has been so from its beginning.
    pub is_certain: bool,
    /// The members for which earlier parts have found different entries.
    pub conflicts: Vec<String>,
    /// Whether earlier parts have left something unrepaired.
    pub is_doubtful: bool,
}

/// Checks a part of the standing with this sorted set, from where the last part ended; the first has an empty phase and
/// cursor `0`.
pub async fn check_standing(
    store: &Store,
    shard: &Shard,
    kind: Kind,
    zset: &str,
    known: &Known,
    (phase, cursor): (&str, &str),
    manner: Manner,
) -> Result<Look<Part>, StoreError> {
    let layout = LayoutArgs::new(shard);
    let state = (kind == Kind::Derived).then(|| keys::state_of(shard, zset));
    let layout = if kind.lists_all() {
        layout.of_all()
    } else {
        layout
    };
    let scripts = [&script::CHECK, &script::REPAIR];
    let look = look(store, shard, scripts, manner.repair)
        .keys(keys::of_sorted_set(zset.to_owned(), shard.layout()))
        .keys(state.flatten())
        .field("layout", layout)
        .field("is_derived", kind == Kind::Derived)
        .field("phase", phase)
        .field("cursor", cursor)
        .field("whole_max", WHOLE_MAX)
        .field("part", PART)
        .field("now", manner.now.ms())
        .field("expires", known.expires_at_ms.unwrap_or(0))
        .field("is_certain", known.is_certain)
        .field("conflicts", &known.conflicts)
        .field("is_doubtful", known.is_doubtful)
        .field("summing", shard.definition.update == Update::Sum)
        .field("registry", keys::registry(shard.tag(), shard.generation));
    look.run(manner.repair > Repair::None).await
}

/// Checks whether the state of a derived series is readable. `is_sound`: whether all that it follows from is.
pub async fn check_state(
    store: &Store,
    shard: &Shard,
    derived: &Derived,
    is_sound: bool,
    repair: Repair,
) -> Result<Vec<Difference>, StoreError> {
    let scripts = [&script::CHECK_STATE, &script::REPAIR_STATE];
    let look = look(store, shard, scripts, repair)
        .key(keys::state(shard, derived.series))
        .field("is_sound", is_sound);
    let Done::Ok(Tail(differences)) = look
        .run::<Done<Tail<Vec<_>>>>(repair > Repair::None)
        .await?;
    Ok(differences)
}

/// Checks whether the keys of a queue agree.
pub async fn check_queue(
    store: &Store,
    shard: &Shard,
    repair: Repair,
) -> Result<CheckedQueue, StoreError> {
    let of_queue = [Kind::Queue, Kind::QueueIds, Kind::QueueState];
    let scripts = [&script::CHECK_QUEUE, &script::REPAIR_QUEUE];
    let look = look(store, shard, scripts, repair)
        .keys(of_queue.map(|kind| keys::single(shard, kind)))
        .field("count", WHOLE_MAX);
    let Done::Ok(checked) = look.run(repair > Repair::None).await?;
    Ok(checked)
}

/// Checks a part of the members of a sum, from the term and cursor at which the last part ended, at first both 0. With
/// `drops` it is dropped without a look.
pub async fn check_sum(
    store: &Store,
    shard: &Shard,
    sum: &Sum,
    drops: bool,
    (term, cursor): (i64, &str),
    repair: Repair,
) -> Result<Look<SumPart>, StoreError> {
    let period = &sum.standing.period;
    let state = if sum.kind == "carried" {
        keys::head(shard.tag())
    } else {
        keys::state(shard, sum.standing.series)
    };
    let standings = std::iter::once(&sum.standing).chain(&sum.terms);
    let sign = match shard.definition.order {
        Order::Desc => -1,
        Order::Asc => 1,
    };
    let scripts = [&script::CHECK_SUMS, &script::REPAIR_SUMS];
    let look = look(store, shard, scripts, repair)
        .key(keys::registry(shard.tag(), shard.generation))
        .key(state)
        .keys(standings.flat_map(|standing| keys::standing(shard, standing)))
        .field("layout", LayoutArgs::new(shard))
        .field("kind", sum.kind)
        .field("start", period.start_ms)
        .field(
            "floor",
            shard.layout().hashed.then(|| beginning(shard, period)),
        )
        .field("ends", end_ms(period).min(closes_ms(shard)))
        .field("ratio", sum.ratio)
        .field("sign", sign)
        .field("term", term)
        .field("cursor", cursor)
        .field("budget", SUMS_BUDGET)
        .field("drop", drops);
    look.run(repair > Repair::None).await
}

/// Those of these keys of a board or shard that exist but were not in the registry.
pub async fn check_keys(
    store: &Store,
    tag: &str,
    generation: u64,
    names: &[String],
    repair: Repair,
) -> Result<Vec<String>, StoreError> {
    let mends = repair > Repair::None;
    let mut missing = Vec::new();
    for names in names.chunks(KEYS_MAX) {
        let script = [&script::CHECK_KEYS, &script::REPAIR_KEYS][usize::from(mends)];
        let look = store
            .call(script, tag)
            .key(keys::registry(tag, generation))
            .keys(names)
            .arg(mends);
        let are_missing = look.run::<Vec<bool>>(mends).await?;
        let those = names
            .iter()
            .zip(are_missing)
            .filter(|(_, is_missing)| *is_missing);
        missing.extend(those.map(|(name, _)| name.clone()));
    }
    Ok(missing)
}

/// A call of the first script, or of the second if it is to repair.
fn look<'a>(
    store: &'a Store,
    shard: &Shard,
    scripts: [&'static Script; 2],
    repair: Repair,
) -> ScriptCall<'a> {
    store
        .call(scripts[usize::from(repair > Repair::None)], shard.tag())
        .key(keys::head(shard.tag()))
        .field("generation", shard.generation.to_string())
        .field("revision", shard.amendment)
        .field("repair", repair as u8)
}

/// The type of a key; `none` if it does not exist.
pub async fn type_of(store: &Store, key: &str) -> Result<String, StoreError> {
    store.command("TYPE", [key]).await
}

/// Whether a key is in the registry of its shard.
pub async fn is_registered(store: &Store, shard: &Shard, key: &str) -> Result<bool, StoreError> {
    let registry = keys::registry(shard.tag(), shard.generation);
    store.command("SISMEMBER", [registry.as_str(), key]).await
}

/// The first bytes of a string.
pub async fn beginning_of(store: &Store, key: &str, length: u8) -> Result<Bytes, StoreError> {
    let last = length.saturating_sub(1).to_string();
    store.command("GETRANGE", [key, "0", &last]).await
}

/// What a board or a shard knows of its definition.
pub async fn load_head(store: &Store, tag: &str) -> Result<Head, StoreError> {
    let key = keys::head(tag);
    let mut head = Head {
        found: type_of(store, &key).await?,
        ..Head::default()
    };
    if head.found == "hash" {
        let fields = [&key, "version", "definition", "used", "deleted"];
        (head.version, head.definition, head.used, head.deleted) =
            store.command("HMGET", fields).await?;
        let fields: Vec<String> = store.command("HKEYS", [&key]).await?;
        let is_of_deletion =
            |field: &String| field == "deleted" || field.starts_with("unfinished:");
        head.has_board = !fields.iter().all(is_of_deletion);
    }
    Ok(head)
}

/// The version in a head; `None` if there is none.
pub async fn version_at(store: &Store, head: &str) -> Result<Option<String>, StoreError> {
    if type_of(store, head).await? != "hash" {
        return Ok(None);
    }
    store.command("HGET", [head, "version"]).await
}

/// Sets the version that scripts compare to the one in a board's definition, if nothing has changed since it was read.
/// Returns whether it did.
pub async fn restore_version(
    store: &Store,
    board: &Board,
    seen: &Head,
) -> Result<bool, StoreError> {
    let restored = store
        .call_head(&script::DEFINE, board)
        .arg(seen.version.as_ref())
        .arg("")
        .arg(board.version())
        .arg(seen.definition.as_ref())
        .arg("*");
    Ok(restored.write::<Defined>().await? == Defined::Stored)
}

/// The remaining time of a key in milliseconds; -1: it does not expire, -2: it does not exist.
pub async fn lasts_ms(store: &Store, key: &str) -> Result<i64, StoreError> {
    store.command("PTTL", [key]).await
}

/// For each of these boards the number of its last change; `None` while a change is in progress. What was read between two
/// equal numbers is not in the midst of a change.
pub async fn last_changes(store: &Store, ids: &[&BoardId]) -> Result<Vec<Option<f64>>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let begun: Vec<String> = store.command("ZRANGE", [keys::BEGUN, "0", "-1"]).await?;
    let begun: HashSet<&str> = begun
        .iter()
        .filter_map(|begun| Some(begun.split_once(' ')?.0))
        .collect();
    let args = std::iter::once(keys::CHANGES).chain(ids.iter().map(|id| id.as_str()));
    let numbers: Vec<Option<f64>> = store.command("ZMSCORE", args).await?;
    Ok(ids
        .iter()
        .zip(numbers)
        .map(|(id, number)| {
            let is_settled = !begun.contains(id.as_str());
            is_settled.then_some(number.unwrap_or_default())
        })
        .collect())
}

/// The score of a board in the list of all boards, if it is listed.
pub async fn live_score(store: &Store, id: &BoardId) -> Result<Option<f64>, StoreError> {
    store.command("ZSCORE", [keys::LIVE, id.as_str()]).await
}

/// All ids in the list of boards, whatever their scores.
pub async fn live_ids(store: &Store) -> Result<Vec<BoardId>, StoreError> {
    let ids: Vec<String> = store.command("ZRANGE", [keys::LIVE, "0", "-1"]).await?;
    Ok(ids.iter().flat_map(|id| BoardId::parse(id)).collect())
}

/// Begins a walk over the names of all keys that match a pattern, on all servers.
pub fn scan_keys(store: &Store, pattern: String) -> KeyScan {
    KeyScan {
        nodes: store.primaries(),
        pattern,
        cursor: "0".to_owned(),
    }
}

/// A walk over the names of keys.
pub struct KeyScan {
    /// The remaining servers.
    nodes: Vec<Arc<Node>>,
    pattern: String,
    cursor: String,
}

impl KeyScan {
    /// The next names; `None` at the end. A name may come twice.
    pub async fn next(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        let Some(node) = self.nodes.last() else {
            return Ok(None);
        };
        let args = [&self.cursor, "MATCH", &self.pattern, "COUNT", SCAN_COUNT]
            .map(str::to_owned)
            .to_vec();
        let (cursor, names): (_, Vec<Raw>) = decode(node.readers.command("SCAN", args).await?)?;
        self.cursor = cursor;
        // All names of ours are UTF-8.
        let names = names
            .into_iter()
            .flat_map(|Raw(name)| String::from_utf8(name.into()));
        if self.cursor == "0" {
            self.nodes.pop();
        }
        Ok(Some(names.collect()))
    }
}
