//! The steps of `standings check`. Each compares and mends in one script, so that it can run beside the service
//! (`scripts/lib/check.lua`).

mod total;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};

use crate::core::board::store::boards::Defined;
use crate::core::board::store::definitions::read_definition;
use crate::core::read::store::rollover::beginning;
use crate::domain::board::{Board, Order};
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

pub use self::total::{Total, check_total, whole_of};

/// Standings of no more entries, in all of their keys together, are looked at in one call: some milliseconds of Redis.
const WHOLE_MAX: u32 = 2_000;
/// About how many entries of a larger one a call looks at.
const PART: u32 = 400;
/// About how many members × terms of a sum a call looks at.
const SUMS_BUDGET: u32 = 1_500;
/// How many keys one call of SCAN looks at.
const SCAN_COUNT: &str = "500";
/// How many keys are looked up in their registry by one call.
const KEYS_MAX: usize = 200;
/// Something that is stored in two ways, and differently.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Difference {
    /// What differs: the scripts' headers have all codes.
    pub code: String,
    /// Whether it was mended.
    pub is_mended: bool,
    /// What is stored, as text.
    #[serde(deserialize_with = "lossy")]
    pub stored: Vec<String>,
}

/// Damaged data need not be text.
fn lossy<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let Tail(stored) = Tail::<Vec<Raw>>::deserialize(from)?;
    let texts = stored
        .iter()
        .map(|Raw(bytes)| String::from_utf8_lossy(bytes).into_owned());
    Ok(texts.collect())
}

/// What came of looking at a standing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Look<T> {
    /// None of its keys is there.
    Gone,
    /// It can't be compared: it is about to expire, or history of it is gone.
    #[serde(rename = "ENDING", alias = "LOST")]
    Impossible,
    /// What has been found.
    #[serde(rename = "OK")]
    Found(T),
}

/// All differences that are left of a reply.
fn rest<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Difference>, D::Error> {
    Tail::deserialize(from).map(|Tail(differences)| differences)
}

/// What came of looking at a queue.
#[derive(Debug, Deserialize)]
pub struct CheckedQueue {
    /// How many events wait in it.
    pub entries: u64,
    /// Whether it was looked at: not, if it has too many.
    pub is_whole: bool,
    /// What differs.
    #[serde(deserialize_with = "rest")]
    pub differences: Vec<Difference>,
}

/// How far the look at a standing has come.
#[derive(Debug, Deserialize)]
pub struct Part {
    /// The phase to go on with; `None` at the end.
    pub phase: Option<String>,
    /// Where to go on in it.
    pub cursor: String,
    /// Whether all of it was looked at in one call, its total too.
    pub is_whole: bool,
    /// What differs.
    #[serde(deserialize_with = "rest")]
    pub differences: Vec<Difference>,
}

/// How far the look at a sum has come.
#[derive(Debug, Deserialize)]
pub struct SumPart {
    /// The term to go on with; below 0 at the end.
    pub term: i64,
    /// Where to go on in it.
    pub cursor: String,
    /// How many terms have no data.
    pub absent: u64,
    /// What differs.
    #[serde(deserialize_with = "rest")]
    pub differences: Vec<Difference>,
}

/// What a standing should be the sum of.
#[derive(Clone, Debug)]
pub struct Sum {
    /// The standing.
    pub standing: Standing,
    /// What it is the sum of, the newest first.
    pub terms: Vec<Standing>,
    kind: &'static str,
    /// The share that is carried over, in millionths; 0: not known.
    ratio: i64,
}

impl Sum {
    /// Of a derived standing.
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

    /// Of a period with what was carried over: what was added in it, and in the one before.
    pub fn carried(standing: Standing, terms: Vec<Standing>, ratio: Option<i64>) -> Self {
        Self {
            standing,
            terms,
            kind: "carried",
            ratio: ratio.unwrap_or(0),
        }
    }
}

/// What lies under the key of a board, or of a shard.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The type of the key, `none` if it is not there.
    pub found: String,
    /// The version that scripts go by.
    pub version: Option<String>,
    /// The definition, as JSON.
    pub definition: Option<String>,
}

impl Head {
    /// The board that is defined.
    pub fn board(&self, id: &BoardId) -> Option<Result<Board, StoreError>> {
        Some(read_definition(id, self.definition.as_ref()?))
    }
}

/// How a standing is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The time now.
    pub now: Timestamp,
    /// Whether what follows from the rest is mended.
    pub mends: bool,
}

/// Looks at a part of the standing with this sorted set, from the phase and cursor at which the last part has ended, at first
/// an empty one and `0`. `expires_at_ms`: when it may be dropped; `must_expire`: whether it was so from its beginning.
pub async fn check_standing(
    store: &Store,
    shard: &Shard,
    kind: Kind,
    zset: &str,
    (expires_at_ms, must_expire): (Option<i64>, bool),
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
    let scripts = [&script::CHECK, &script::MEND];
    let look = look(store, shard, scripts, manner.mends)
        .keys(keys::of_sorted_set(zset.to_owned(), shard.layout()))
        .keys(state.flatten())
        .field("layout", layout)
        .field("is_derived", kind == Kind::Derived)
        .field("phase", phase)
        .field("cursor", cursor)
        .field("whole_max", WHOLE_MAX)
        .field("part", PART)
        .field("now", manner.now.ms())
        .field("expires", expires_at_ms.unwrap_or(0))
        .field("must_expire", must_expire)
        .field("registry", keys::registry(shard.tag(), shard.generation));
    look.run(manner.mends).await
}

/// Looks whether the state of a derived series can be read.
pub async fn check_state(
    store: &Store,
    shard: &Shard,
    derived: &Derived,
    mends: bool,
) -> Result<Vec<Difference>, StoreError> {
    let scripts = [&script::CHECK_STATE, &script::MEND_STATE];
    let look = look(store, shard, scripts, mends).key(keys::state(shard, derived.series));
    let Done::Ok(Tail(differences)) = look.run::<Done<Tail<Vec<_>>>>(mends).await?;
    Ok(differences)
}

/// Looks whether the keys of a queue agree.
pub async fn check_queue(
    store: &Store,
    shard: &Shard,
    mends: bool,
) -> Result<CheckedQueue, StoreError> {
    let of_queue = [Kind::Queue, Kind::QueueIds, Kind::QueueState];
    let scripts = [&script::CHECK_QUEUE, &script::MEND_QUEUE];
    let look = look(store, shard, scripts, mends)
        .keys(of_queue.map(|kind| keys::single(shard, kind)))
        .field("count", WHOLE_MAX);
    let Done::Ok(checked) = look.run(mends).await?;
    Ok(checked)
}

/// Looks at a part of the members of a sum, from the term and cursor at which the last part has ended, at first both 0.
pub async fn check_sum(
    store: &Store,
    shard: &Shard,
    sum: &Sum,
    (term, cursor): (i64, &str),
    manner: Manner,
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
    let scripts = [&script::CHECK_SUMS, &script::MEND_SUMS];
    let look = look(store, shard, scripts, manner.mends)
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
        .field("budget", SUMS_BUDGET);
    look.run(manner.mends).await
}

/// Which of these keys of a board, or shard, are there and were not in the registry.
pub async fn check_keys(
    store: &Store,
    tag: &str,
    generation: u64,
    names: &[String],
    mends: bool,
) -> Result<Vec<String>, StoreError> {
    let mut missing = Vec::new();
    for names in names.chunks(KEYS_MAX) {
        let script = [&script::CHECK_KEYS, &script::MEND_KEYS][usize::from(mends)];
        let look = store
            .call(script, tag)
            .key(keys::registry(tag, generation))
            .keys(names)
            .arg(mends);
        let are_missing = look.run::<Vec<bool>>(mends).await?;
        let of_names = names.iter().zip(are_missing);
        let those = of_names.filter(|(_, is_missing)| *is_missing);
        missing.extend(those.map(|(name, _)| name.clone()));
    }
    Ok(missing)
}

/// A call of the one of two scripts that looks, or also mends.
fn look<'a>(
    store: &'a Store,
    shard: &Shard,
    scripts: [&'static Script; 2],
    mends: bool,
) -> ScriptCall<'a> {
    store
        .call(scripts[usize::from(mends)], shard.tag())
        .key(keys::head(shard.tag()))
        .field("generation", shard.generation.to_string())
        .field("revision", shard.revision)
        .field("mend", mends)
}

/// The type of a key, `none` if it is not there.
pub async fn type_of(store: &Store, key: &str) -> Result<String, StoreError> {
    store.command("TYPE", [key]).await
}

/// The first bytes of a string.
pub async fn beginning_of(store: &Store, key: &str, length: u8) -> Result<Bytes, StoreError> {
    let last = length.saturating_sub(1).to_string();
    store.command("GETRANGE", [key, "0", &last]).await
}

/// What a board, or a shard, knows of its definition.
pub async fn load_head(store: &Store, tag: &str) -> Result<Head, StoreError> {
    let key = keys::head(tag);
    let mut head = Head {
        found: type_of(store, &key).await?,
        ..Head::default()
    };
    if head.found == "hash" {
        let fields = [&key, "version", "definition"];
        (head.version, head.definition) = store.command("HMGET", fields).await?;
    }
    Ok(head)
}

/// The version that a head tells of; `None` if it is none.
pub async fn version_at(store: &Store, head: &str) -> Result<Option<String>, StoreError> {
    if type_of(store, head).await? != "hash" {
        return Ok(None);
    }
    store.command("HGET", [head, "version"]).await
}

/// Has scripts go by the version that a board's definition names, if all is still as it was seen. Returns whether it
/// was.
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

/// How long a key lasts, in milliseconds; -1: for ever, -2: it is not there.
pub async fn lasts_ms(store: &Store, key: &str) -> Result<i64, StoreError> {
    store.command("PTTL", [key]).await
}

/// Whether a board's id is in the list of all boards, and under which score.
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
    /// Those that are left.
    nodes: Vec<Arc<Node>>,
    pattern: String,
    cursor: String,
}

impl KeyScan {
    /// Some more names; `None` at the end. A name may come twice.
    pub async fn next(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        let Some(node) = self.nodes.last() else {
            return Ok(None);
        };
        let args = [&self.cursor, "MATCH", &self.pattern, "COUNT", SCAN_COUNT];
        let args = args.map(str::to_owned).to_vec();
        let (cursor, names): (_, Vec<Raw>) = decode(node.readers.command("SCAN", args).await?)?;
        self.cursor = cursor;
        // Names of ours are text.
        let names = names
            .into_iter()
            .flat_map(|Raw(name)| String::from_utf8(name.into()));
        if self.cursor == "0" {
            self.nodes.pop();
        }
        Ok(Some(names.collect()))
    }
}
