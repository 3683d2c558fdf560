//! The steps of `standings check`. Each compares and repairs in one script, so it can run next to the service
//! (`scripts/lib/check.lua`).

mod total;

use std::collections::HashSet;

use bytes::Bytes;
use futures::stream::{self, Stream};
use serde::{Deserialize, Deserializer};

use super::repair::{Repair, RepairOutcome};
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
use crate::redis::decode::{Raw, Tail, decode};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::script::{self, Script};
use crate::redis::{StoreError, keys, random};

pub use self::total::{Total, whole_of};

/// Standings with up to this many entries, over all of their keys, are checked in one call: some milliseconds of Redis.
const WHOLE_MAX: u32 = 2_000;
/// About how many entries of a larger standing one call checks.
const PART: u32 = 400;
/// About how many members × terms of a sum one call checks.
const SUMS_BUDGET: u32 = 1_500;
/// How many random bytes the ids of hides that replace lost ones follow from.
const SEED_BYTES: usize = 16;
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
    pub outcome: RepairOutcome,
    /// What is stored, as text.
    #[serde(deserialize_with = "lossy")]
    pub stored: Vec<String>,
}

/// Damaged data need not be UTF-8.
fn lossy<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(rest::<_, Vec<Raw>>(from)?
        .iter()
        .map(|Raw(bytes)| String::from_utf8_lossy(bytes).into_owned())
        .collect())
}

/// What a script replies about data that it was to compare.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Comparison<P> {
    /// None of its keys exists.
    Gone,
    /// It can't be compared: it is about to expire, or some of its history is missing.
    #[serde(rename = "ENDING", alias = "LOST")]
    Impossible,
    #[serde(rename = "OK")]
    Done(Compared<P>),
}

/// What one call has compared.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de>"))]
pub struct Compared<P> {
    /// How far it has come; the methods of [`Comparer`] say what that is.
    #[serde(deserialize_with = "rest")]
    pub progress: P,
    #[serde(deserialize_with = "rest")]
    pub differences: Vec<Difference>,
}

fn rest<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Tail::deserialize(from).map(|Tail(rest)| rest)
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
    /// The stamp of the last deletion of a board with this name: all generations up to it are deleted.
    pub deleted: Option<u64>,
    /// Whether it has anything of a board: any field except those of a deletion (`scripts/core/board/delete.lua`).
    pub has_board: bool,
}

impl Head {
    /// Whether its key has the type of a head, or does not exist.
    pub fn is_sound(&self) -> bool {
        matches!(self.found.as_str(), "none" | "hash")
    }

    pub fn board(&self, id: &BoardId) -> Option<Result<Board, StoreError>> {
        Some(read_definition(id, self.definition.as_ref()?))
    }
}

/// What is known of a standing before a part of it is compared.
#[derive(Clone, Debug)]
pub struct StandingFacts {
    /// When it expires by the definition, in milliseconds since the epoch.
    pub expires_at_ms: Option<i64>,
    /// Whether that has been so from its beginning.
    pub is_certain: bool,
    /// The members for which earlier parts have found different entries.
    pub conflicts: Vec<String>,
    /// Whether earlier parts have left something unrepaired.
    pub is_doubtful: bool,
    /// Whether earlier parts have found nothing, or have repaired it.
    pub is_sound: bool,
}

impl StandingFacts {
    /// Notes what a part has found.
    pub fn note(&mut self, differences: &[Difference]) {
        for found in differences {
            let is_left = found.outcome == RepairOutcome::Left;
            self.is_doubtful |= is_left;
            self.is_sound &= found.outcome == RepairOutcome::Repaired;
            if is_left && found.code == "stray" {
                self.conflicts.extend(found.stored.first().cloned());
            }
        }
    }
}

/// Compares data of a shard by calls of scripts, which also repair it if they may.
#[derive(Clone, Copy)]
pub struct Comparer<'a> {
    pub store: &'a Store,
    pub shard: &'a Shard,
    pub now: Timestamp,
    pub repair: Repair,
}

impl<'a> Comparer<'a> {
    /// Compares a part of the standing with this sorted set, from a phase and a cursor on: at first an empty phase and `0`.
    /// Progress: the next phase, `None` at the end; the next cursor; whether this call compared the whole standing, with its
    /// total.
    pub async fn standing(
        self,
        kind: Kind,
        zset: &str,
        facts: &StandingFacts,
        (phase, cursor): (&str, &str),
    ) -> Result<Comparison<(Option<String>, String, bool)>, StoreError> {
        let shard = self.shard;
        let layout = LayoutArgs::new(shard);
        let state = (kind == Kind::Derived).then(|| keys::state_of(shard, zset));
        let call = self
            .call([&script::CHECK, &script::REPAIR])
            .keys(keys::of_sorted_set(zset.to_owned(), shard.layout()))
            .keys(state.flatten())
            .field(
                "layout",
                if kind.lists_all() {
                    layout.of_all()
                } else {
                    layout
                },
            )
            .field("is_derived", kind == Kind::Derived)
            .field("phase", phase)
            .field("cursor", cursor)
            .field("whole_max", WHOLE_MAX)
            .field("part", PART)
            .field("now", self.now.ms())
            .field("expires", facts.expires_at_ms.unwrap_or(0))
            .field("is_certain", facts.is_certain)
            .field("conflicts", &facts.conflicts)
            .field("is_doubtful", facts.is_doubtful)
            .field("summing", shard.definition.update == Update::Sum)
            .field("registry", keys::registry(shard.tag(), shard.generation));
        call.run(self.repair.writes()).await
    }

    /// Compares a part of the members of a sum, from a term and a cursor on: at first both 0. With `drops` the sum is dropped
    /// without a look. Progress: the next term, below 0 at the end; the next cursor; the number of terms without data.
    pub async fn sum(
        self,
        sum: &Sum,
        drops: bool,
        (term, cursor): (i64, &str),
    ) -> Result<Comparison<(i64, String, u64)>, StoreError> {
        let (shard, period) = (self.shard, &sum.standing.period);
        let state = if sum.kind == "carried" {
            keys::head(shard.tag())
        } else {
            keys::state(shard, sum.standing.series)
        };
        let standings = std::iter::once(&sum.standing).chain(&sum.terms);
        let is_hashed = shard.layout().hashed;
        let call = self
            .call([&script::CHECK_SUMS, &script::REPAIR_SUMS])
            .key(keys::registry(shard.tag(), shard.generation))
            .key(state)
            .keys(standings.flat_map(|standing| keys::standing(shard, standing)))
            .field("layout", LayoutArgs::new(shard))
            .field("kind", sum.kind)
            .field("start", period.start_ms)
            .field("floor", is_hashed.then(|| beginning(shard, period)))
            .field("ends", end_ms(period).min(closes_ms(shard)))
            .field("ratio", sum.ratio)
            .field("sign", stored_sign(shard))
            .field("term", term)
            .field("cursor", cursor)
            .field("budget", SUMS_BUDGET)
            .field("drop", drops);
        call.run(self.repair.writes()).await
    }

    /// Checks whether the state of a derived series is readable. `is_sound`: whether all that it follows from is.
    pub async fn state(
        self,
        derived: &Derived,
        is_sound: bool,
    ) -> Result<Comparison<()>, StoreError> {
        let call = self
            .call([&script::CHECK_STATE, &script::REPAIR_STATE])
            .key(keys::state(self.shard, derived.series))
            .field("is_sound", is_sound);
        call.run(self.repair.writes()).await
    }

    /// Compares the keys of a queue. Progress: the number of events in it; whether it was compared, false if it has too many.
    pub async fn queue(self) -> Result<Comparison<(u64, bool)>, StoreError> {
        let of_queue = [Kind::Queue, Kind::QueueIds, Kind::QueueState];
        let call = self
            .call([&script::CHECK_QUEUE, &script::REPAIR_QUEUE])
            .keys(of_queue.map(|kind| keys::single(self.shard, kind)))
            .field("count", WHOLE_MAX);
        call.run(self.repair.writes()).await
    }

    /// Compares the keys that say who is hidden for some of the members, from a phase and a cursor on: at first an empty
    /// phase and `0`. Progress: the next phase, `None` at the end; the next cursor.
    pub async fn hides(
        self,
        (phase, cursor): (&str, &str),
    ) -> Result<Comparison<(Option<String>, String)>, StoreError> {
        let call = self
            .call([&script::CHECK_HIDES, &script::REPAIR_HIDES])
            .key(keys::registry(self.shard.tag(), self.shard.generation))
            .field("phase", phase)
            .field("cursor", cursor)
            .field("part", PART)
            .field("now", self.now.ms())
            .field("seed", random::hexadecimal::<SEED_BYTES>("")?);
        call.run(self.repair.writes()).await
    }

    /// A call of the script that only looks, or of the one that also repairs.
    fn call(self, [look, repair]: [&'static Script; 2]) -> ScriptCall<'a> {
        let script = if self.repair.writes() { repair } else { look };
        let tag = self.shard.tag();
        self.store
            .call(script, tag)
            .key(keys::head(tag))
            .field("generation", self.shard.generation.to_string())
            .field("revision", self.shard.amendment)
            .field("repair", self.repair as u8)
    }
}

/// The sign of stored scores: negated if the greatest is first.
pub fn stored_sign(board: &Board) -> i8 {
    match board.definition.order {
        Order::Desc => -1,
        Order::Asc => 1,
    }
}

/// Those of these keys of a board or shard that exist but were not in the registry.
pub async fn check_keys(
    store: &Store,
    tag: &str,
    generation: u64,
    names: &[String],
    repair: Repair,
) -> Result<Vec<String>, StoreError> {
    let repairs = repair.writes();
    let script = [&script::CHECK_KEYS, &script::REPAIR_KEYS][usize::from(repairs)];
    let mut missing = Vec::new();
    for names in names.chunks(KEYS_MAX) {
        let call = store
            .call(script, tag)
            .key(keys::registry(tag, generation))
            .keys(names)
            .arg(repairs);
        let are_missing: Vec<bool> = call.run(repairs).await?;
        let those = names
            .iter()
            .zip(are_missing)
            .filter(|(_, is_missing)| *is_missing);
        missing.extend(those.map(|(name, _)| name.clone()));
    }
    Ok(missing)
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

/// What the key of a board or a shard has.
pub async fn load_head(store: &Store, key: &str) -> Result<Head, StoreError> {
    let mut head = Head {
        found: type_of(store, key).await?,
        ..Head::default()
    };
    if head.found == "hash" {
        let fields = [key, "version", "definition", "used", "deleted"];
        (head.version, head.definition, head.used, head.deleted) =
            store.command("HMGET", fields).await?;
        let fields: Vec<String> = store.command("HKEYS", [key]).await?;
        let is_of_deletion =
            |field: &String| field == "deleted" || field.starts_with("unfinished:");
        head.has_board = !fields.iter().all(is_of_deletion);
    }
    Ok(head)
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

/// For each of these boards the number of its last change; `None` while a change is in progress. What was read between two equal
/// numbers was not in the middle of a change.
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

/// The names of all keys that match a pattern, on all servers, some at a time. A name may come twice.
pub fn key_names(
    store: &Store,
    pattern: String,
) -> impl Stream<Item = Result<Vec<String>, StoreError>> + Send + 'static {
    let begin = (store.primaries(), "0".to_owned(), pattern);
    stream::try_unfold(begin, async |(mut nodes, cursor, pattern)| {
        let Some(node) = nodes.last() else {
            return Ok(None);
        };
        let args = [&cursor, "MATCH", &pattern, "COUNT", SCAN_COUNT].map(str::to_owned);
        let scanned = node.readers.command("SCAN", args.to_vec()).await?;
        let (next, names): (String, Vec<Raw>) = decode(scanned)?;
        if next == "0" {
            nodes.pop();
        }
        // All of our names are UTF-8.
        let names = names
            .into_iter()
            .flat_map(|Raw(name)| String::from_utf8(name.into()))
            .collect();
        Ok(Some((names, (nodes, next, pattern))))
    })
}
