//! The steps of `standings check`. Each compares and mends in one script, so that it can run beside the service
//! (`scripts/lib/check.lua`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fred::types::Value;
use serde::Serialize;

use super::args::{LayoutArgs, closes_ms, end_ms, pack};
use super::boards::read_definition;
use super::connection::Connection;
use super::dispatch::Store;
use super::failure::Failure;
use super::kinds::Kind;
use super::node::Node;
use super::reply::{Reply, unknown_code};
use super::rollover::beginning;
use super::{StoreError, keys, script};
use crate::domain::board::{Board, Order};
use crate::domain::ids::BoardId;
use crate::domain::period::Period;
use crate::domain::series::{Derived, Standing};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;

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
/// How often the total of a large standing is added up before it is said to change all the time.
const TOTAL_ATTEMPTS: usize = 3;
/// The longest wait for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// The pause between two looks whether it is there.
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);

/// Something that is stored in two ways, and differently.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// What differs: the scripts' headers have all codes.
    pub code: String,
    /// Whether it was mended.
    pub is_mended: bool,
    /// What is stored, as text.
    pub stored: Vec<String>,
}

/// What came of looking at a standing.
#[derive(Debug)]
pub enum Look<T> {
    /// None of its keys is there.
    Gone,
    /// It can't be compared: it is about to expire, or history of it is gone.
    Impossible,
    /// What has been found.
    Found(T),
}

/// What came of looking at a queue.
#[derive(Debug)]
pub struct CheckedQueue {
    /// How many events wait in it.
    pub entries: u64,
    /// Whether it was looked at: not, if it has too many.
    pub is_whole: bool,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// How far the look at a standing has come.
#[derive(Debug)]
pub struct Part {
    /// Where to go on; `None` at the end.
    pub next: Option<(String, String)>,
    /// Whether all of it was looked at in one call, its total too.
    pub is_whole: bool,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// How far the look at a sum has come.
#[derive(Debug)]
pub struct SumPart {
    /// Where to go on; `None` at the end.
    pub next: Option<(u32, String)>,
    /// How many terms have no data.
    pub absent: u64,
    /// What differs.
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

/// What the total of a large standing is, beside the sum of its scores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Total {
    /// Both are the same.
    Agrees,
    /// They are not.
    Differs {
        /// What is stored.
        stored: i128,
        /// The sum.
        sum: i128,
        /// Whether the sum is stored now.
        is_mended: bool,
    },
    /// It has changed while it was looked at.
    Changing,
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

#[derive(Serialize)]
struct CheckArgs<'a> {
    generation: String,
    revision: u64,
    layout: LayoutArgs,
    is_derived: bool,
    phase: &'a str,
    cursor: &'a str,
    whole_max: u32,
    part: u32,
    now: i64,
    expires: i64,
    must_expire: bool,
    mend: bool,
    registry: String,
}

#[derive(Serialize)]
struct StateArgs {
    generation: String,
    revision: u64,
    mend: bool,
}

#[derive(Serialize)]
struct QueueArgs {
    generation: String,
    revision: u64,
    mend: bool,
    count: u32,
}

#[derive(Serialize)]
struct SumsArgs<'a> {
    generation: String,
    revision: u64,
    layout: LayoutArgs,
    kind: &'static str,
    start: i64,
    floor: Option<u64>,
    ends: i64,
    ratio: i64,
    sign: i8,
    term: u32,
    cursor: &'a str,
    budget: u32,
    mend: bool,
}

/// How a standing is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The time now.
    pub now: Timestamp,
    /// Whether what follows from the rest is mended.
    pub mends: bool,
}

impl Store {
    /// Looks at a part of the standing with this sorted set, from where the last part has ended. `expires_at_ms`: when it
    /// may be dropped; `must_expire`: whether it was so from its beginning.
    pub async fn check_standing(
        &self,
        shard: &Shard,
        kind: Kind,
        zset: &str,
        (expires_at_ms, must_expire): (Option<i64>, bool),
        from: Option<&(String, String)>,
        manner: Manner,
    ) -> Result<Look<Part>, StoreError> {
        let (phase, cursor) = from.map_or(("", "0"), |(phase, cursor)| (phase, cursor));
        let layout = LayoutArgs::new(shard);
        let args = CheckArgs {
            generation: shard.generation.to_string(),
            revision: shard.revision,
            layout: if kind.lists_all() {
                layout.of_all()
            } else {
                layout
            },
            is_derived: kind == Kind::Derived,
            phase,
            cursor,
            whole_max: WHOLE_MAX,
            part: PART,
            now: manner.now.ms(),
            expires: expires_at_ms.unwrap_or(0),
            must_expire,
            mend: manner.mends,
            registry: keys::registry(shard.tag(), shard.generation),
        };
        let mut all = vec![keys::head(shard.tag())];
        all.extend(keys::of_sorted_set(zset.to_owned(), shard.layout()));
        if kind == Kind::Derived {
            all.extend(keys::state_of(shard, zset));
        }
        let scripts = (&script::CHECK, &script::MEND);
        let reply = self.step(shard, scripts, manner.mends, all, pack(&args)?);
        let mut reply = match looked(reply.await?, "ENDING")? {
            Ok(reply) => reply,
            Err(nothing) => return Ok(nothing),
        };
        let (phase, cursor) = (reply.text()?, reply.text()?);
        let is_whole = reply.integer()? == 1;
        Ok(Look::Found(Part {
            next: (!phase.is_empty()).then_some((phase, cursor)),
            is_whole,
            differences: differences(&mut reply)?,
        }))
    }

    /// Looks whether the state of a derived series can be read.
    pub async fn check_state(
        &self,
        shard: &Shard,
        derived: &Derived,
        mends: bool,
    ) -> Result<Vec<Difference>, StoreError> {
        let args = StateArgs {
            generation: shard.generation.to_string(),
            revision: shard.revision,
            mend: mends,
        };
        let all = vec![keys::head(shard.tag()), keys::state(shard, derived.series)];
        let scripts = (&script::CHECK_STATE, &script::MEND_STATE);
        let reply = self.step(shard, scripts, mends, all, pack(&args)?);
        differences(&mut Reply::answer(reply.await?)?)
    }

    /// Looks whether the keys of a queue agree.
    pub async fn check_queue(
        &self,
        shard: &Shard,
        mends: bool,
    ) -> Result<CheckedQueue, StoreError> {
        let args = QueueArgs {
            generation: shard.generation.to_string(),
            revision: shard.revision,
            mend: mends,
            count: WHOLE_MAX,
        };
        let of_queue = [Kind::Queue, Kind::QueueIds, Kind::QueueState];
        let mut all = vec![keys::head(shard.tag())];
        all.extend(of_queue.map(|kind| keys::single(shard, kind)));
        let scripts = (&script::CHECK_QUEUE, &script::MEND_QUEUE);
        let reply = self.step(shard, scripts, mends, all, pack(&args)?);
        let mut reply = Reply::answer(reply.await?)?;
        let entries = reply.text()?.parse().unwrap_or(0);
        Ok(CheckedQueue {
            entries,
            is_whole: reply.text()? == "1",
            differences: differences(&mut reply)?,
        })
    }

    /// Looks at a part of the members of a sum, from where the last part has ended.
    pub async fn check_sum(
        &self,
        shard: &Shard,
        sum: &Sum,
        from: Option<&(u32, String)>,
        manner: Manner,
    ) -> Result<Look<SumPart>, StoreError> {
        let (term, cursor) = from.map_or((0, "0"), |(term, cursor)| (*term, cursor.as_str()));
        let period = &sum.standing.period;
        let args = SumsArgs {
            generation: shard.generation.to_string(),
            revision: shard.revision,
            layout: LayoutArgs::new(shard),
            kind: sum.kind,
            start: period.start_ms,
            floor: shard.layout().hashed.then(|| beginning(shard, period)),
            ends: end_ms(period).min(closes_ms(shard)),
            ratio: sum.ratio,
            sign: match shard.definition.order {
                Order::Desc => -1,
                Order::Asc => 1,
            },
            term,
            cursor,
            budget: SUMS_BUDGET,
            mend: manner.mends,
        };
        let mut all = keys::head_and_registry(shard);
        all.push(if sum.kind == "carried" {
            keys::head(shard.tag())
        } else {
            keys::state(shard, sum.standing.series)
        });
        for standing in std::iter::once(&sum.standing).chain(&sum.terms) {
            all.extend(keys::standing(shard, standing));
        }
        let scripts = (&script::CHECK_SUMS, &script::MEND_SUMS);
        let reply = self.step(shard, scripts, manner.mends, all, pack(&args)?);
        let mut reply = match looked(reply.await?, "LOST")? {
            Ok(reply) => reply,
            Err(nothing) => return Ok(nothing),
        };
        let (term, cursor) = (u32::try_from(reply.integer()?).ok(), reply.text()?);
        let absent = reply.count()?;
        Ok(Look::Found(SumPart {
            next: term.map(|term| (term, cursor)),
            absent,
            differences: differences(&mut reply)?,
        }))
    }

    /// Which of these keys of a board, or shard, are there and were not in the registry.
    pub async fn check_keys(
        &self,
        tag: &str,
        generation: u64,
        names: &[String],
        mends: bool,
    ) -> Result<Vec<String>, StoreError> {
        let mut missing = Vec::new();
        for names in names.chunks(KEYS_MAX) {
            let mut all = vec![keys::registry(tag, generation)];
            all.extend_from_slice(names);
            let reply = if mends {
                let args = vec!["1".into()];
                self.write_at(tag, &script::MEND_KEYS, all, args).await?
            } else {
                let args = vec!["0".into()];
                self.read(&script::CHECK_KEYS, all, args).await?
            };
            let mut reply = Reply::new(reply)?;
            for name in names {
                if reply.integer()? == 1 {
                    missing.push(name.clone());
                }
            }
        }
        Ok(missing)
    }

    async fn step(
        &self,
        shard: &Shard,
        (look, mend): (&'static script::Script, &'static script::Script),
        mends: bool,
        keys: Vec<String>,
        args: Value,
    ) -> Result<Value, StoreError> {
        if mends {
            self.write(shard, mend, keys, vec![args]).await
        } else {
            self.read(look, keys, vec![args]).await
        }
    }

    /// The type of a key, `none` if it is not there.
    pub async fn type_of(&self, key: &str) -> Result<String, StoreError> {
        self.command("TYPE", vec![key.to_owned()]).await
    }

    /// The first bytes of a string.
    pub async fn beginning_of(&self, key: &str, length: u8) -> Result<Bytes, StoreError> {
        let last = length.saturating_sub(1).to_string();
        let args = vec![key.to_owned(), "0".into(), last];
        self.command("GETRANGE", args).await
    }

    /// What a board, or a shard, knows of its definition.
    pub async fn load_head(&self, tag: &str) -> Result<Head, StoreError> {
        let key = keys::head(tag);
        let found = self.type_of(&key).await?;
        if found != "hash" {
            return Ok(Head {
                found,
                ..Head::default()
            });
        }
        let fields = vec![key, "version".into(), "definition".into()];
        let (version, definition) = self.command("HMGET", fields).await?;
        Ok(Head {
            found,
            version,
            definition,
        })
    }

    /// The version that a head tells of; `None` if it is none.
    pub async fn version_at(&self, head: &str) -> Result<Option<String>, StoreError> {
        if self.type_of(head).await? != "hash" {
            return Ok(None);
        }
        let args = vec![head.to_owned(), "version".into()];
        self.command("HGET", args).await
    }

    /// Has scripts go by the version that a board's definition names, if all is still as it was seen. Returns whether it
    /// was.
    pub async fn restore_version(&self, board: &Board, seen: &Head) -> Result<bool, StoreError> {
        let args = [
            seen.version.clone().unwrap_or_default(),
            String::new(),
            board.version(),
            seen.definition.clone().unwrap_or_default(),
            "*".to_owned(),
        ];
        let args = args.map(Value::from).to_vec();
        let reply = self.write_head(board, &script::DEFINE, args).await?;
        Ok(Reply::new(reply)?.text()? == "OK")
    }

    /// How long a key lasts, in milliseconds; -1: for ever, -2: it is not there.
    pub async fn lasts_ms(&self, key: &str) -> Result<i64, StoreError> {
        self.command("PTTL", vec![key.to_owned()]).await
    }

    /// Whether a board's id is in the list of all boards, and under which score.
    pub async fn live_score(&self, id: &BoardId) -> Result<Option<f64>, StoreError> {
        let args = vec![keys::LIVE.into(), id.to_string()];
        self.command("ZSCORE", args).await
    }

    /// All ids in the list of boards, whatever their scores.
    pub async fn live_ids(&self) -> Result<Vec<BoardId>, StoreError> {
        let args = [keys::LIVE, "0", "-1"].map(str::to_owned).to_vec();
        let ids: Vec<String> = self.command("ZRANGE", args).await?;
        let ids = ids.iter().filter_map(|id| BoardId::parse(id).ok());
        Ok(ids.collect())
    }

    /// Begins a walk over the names of all keys that match a pattern, on all servers.
    pub fn scan_keys(&self, pattern: String) -> KeyScan {
        KeyScan {
            nodes: self.primaries(),
            pattern,
            cursor: "0".to_owned(),
        }
    }

    /// Compares the total of a large standing with the sum of its scores. Redis tells whether anything has changed in
    /// between (WATCH); then it begins anew, a few times.
    pub async fn check_total(
        &self,
        shard: &Shard,
        zset: &str,
        mends: bool,
    ) -> Result<Total, StoreError> {
        let all: Vec<String> = keys::of_sorted_set(zset.to_owned(), shard.layout()).collect();
        let watch = Watch::connect(self, all).await?;
        for _ in 0..TOTAL_ATTEMPTS {
            let total = self.add_up(shard, zset, mends, &watch).await?;
            if total != Total::Changing {
                return Ok(total);
            }
        }
        Ok(Total::Changing)
    }

    async fn add_up(
        &self,
        shard: &Shard,
        zset: &str,
        mends: bool,
        watch: &Watch,
    ) -> Result<Total, StoreError> {
        let total = keys::part(zset, Kind::Total);
        let id = watch.begin().await?;
        let (mut sum, mut count, mut cursor) = (0_i128, 0_u64, "0".to_owned());
        loop {
            let (next, members) = self.scan_members(shard, zset, &cursor).await?;
            count += members.len() as u64;
            sum += members
                .iter()
                .map(|member| i128::from(member.score.unwrap_or(0)))
                .sum::<i128>();
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        let (size, key) = if shard.layout().hashed {
            ("HLEN", keys::part(zset, Kind::Members))
        } else {
            ("ZCARD", zset.to_owned())
        };
        let size: u64 = self.command(size, vec![key]).await?;
        let fields = vec![total.clone(), "high".into(), "low".into()];
        let stored: (Option<i64>, Option<i64>) = self.command("HMGET", fields).await?;
        let stored = whole_of(stored.0.unwrap_or(0), stored.1.unwrap_or(0));
        let (high, low) = (sum.div_euclid(LOW), sum.rem_euclid(LOW));
        let fields = ["high", &high.to_string(), "low", &low.to_string()].map(str::to_owned);
        let write = [vec![total], fields.to_vec()].concat();
        // A walk may meet a member twice; it misses none.
        let is_exact = count == size;
        let write = (mends && is_exact && stored != sum).then_some(("HSET", write));
        let is_mended = write.is_some();
        if !watch.end(id, write).await? || !is_exact {
            return Ok(Total::Changing);
        }
        Ok(if stored == sum {
            Total::Agrees
        } else {
            Total::Differs {
                stored,
                sum,
                is_mended,
            }
        })
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
        let reply: Value = node.command("SCAN", args).await?;
        let mut reply = Reply::new(reply)?;
        self.cursor = reply.text()?;
        let mut part = reply.list()?;
        let mut names = Vec::new();
        while !part.is_empty() {
            // Names of ours are text.
            names.extend(String::from_utf8(part.bytes()?.into()));
        }
        if self.cursor == "0" {
            self.nodes.pop();
        }
        Ok(Some(names))
    }
}

/// How much one of `high` is worth (`scripts/lib/standing.lua`).
const LOW: i128 = 1 << 32;

/// The number that is stored in these two parts.
pub fn whole_of(high: i64, low: i64) -> i128 {
    i128::from(high) * LOW + i128::from(low)
}

/// Notices whether any of some keys changes. That is a matter of one connection, so it has its own.
struct Watch {
    connection: Connection,
    keys: Vec<String>,
}

impl Watch {
    async fn connect(store: &Store, keys: Vec<String>) -> Result<Self, StoreError> {
        let connection = store.connect_to(&keys[0])?;
        let begun = Instant::now();
        while let Err(error) = connection.check() {
            if begun.elapsed() > CONNECT_TIME_MAX {
                return Err(error);
            }
            tokio::time::sleep(CONNECT_INTERVAL).await;
        }
        Ok(Self { connection, keys })
    }

    /// Watches from now on. Returns the number of the connection: one that was made anew has another, and watches nothing.
    async fn begin(&self) -> Result<i64, StoreError> {
        let id = client_id(&self.connection).await?;
        let _: Value = self.connection.command("WATCH", self.keys.clone()).await?;
        Ok(id)
    }

    /// Carries a command out if nothing has changed since the beginning. Returns whether nothing has.
    async fn end(
        &self,
        id: i64,
        write: Option<(&'static str, Vec<String>)>,
    ) -> Result<bool, StoreError> {
        if client_id(&self.connection).await? != id {
            return Ok(false);
        }
        let command = async |name, args| -> Result<Value, Failure> {
            self.connection.command(name, args).await
        };
        command("MULTI", Vec::new()).await?;
        if let Some((name, args)) = write {
            command(name, args).await?;
        }
        let done = command("EXEC", Vec::new()).await?;
        Ok(!done.is_null() && client_id(&self.connection).await? == id)
    }
}

async fn client_id(connection: &Connection) -> Result<i64, Failure> {
    connection.command("CLIENT", vec!["ID".into()]).await
}

/// The reply of a script that has looked at a standing, or why it found nothing to look at. `impossible` is its code where
/// it can say nothing of the standing.
fn looked<T>(reply: Value, impossible: &str) -> Result<Result<Reply, Look<T>>, StoreError> {
    let (code, reply) = Reply::versioned(reply)?;
    Ok(match code.as_str() {
        "OK" => Ok(reply),
        "GONE" => Err(Look::Gone),
        code if code == impossible => Err(Look::Impossible),
        other => return unknown_code(other),
    })
}

fn differences(reply: &mut Reply) -> Result<Vec<Difference>, StoreError> {
    let mut found = Vec::new();
    while !reply.is_empty() {
        let mut parts = reply.list()?;
        let (code, is_mended) = (parts.text()?, parts.integer()? == 1);
        let mut stored = Vec::new();
        while !parts.is_empty() {
            // Damaged data need not be text.
            stored.push(String::from_utf8_lossy(&parts.bytes()?).into_owned());
        }
        found.push(Difference {
            code,
            is_mended,
            stored,
        });
    }
    Ok(found)
}
