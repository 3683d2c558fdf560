//! Moves a board's data to other shards.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::args::{LayoutArgs, StoredScore, pack};
use super::boards;
use super::dead_letters::{DEAD_LETTERS_KEPT, DeadLetter};
use super::decode::{Done, Flat, Raw};
use super::dispatch::Store;
use super::intake::former_field;
use super::keys::Captured;
use super::kinds::{Copying, Kind};
use super::moving::RETIRED;
use super::reply::Reply;
use super::{StoreError, keys, script};
use crate::domain::board::Board;
use crate::domain::intake::FormerOffsets;
use crate::domain::series::Series;
use crate::domain::shard::{Shard, Sharding};
use crate::domain::ties::TIE_KEY_BYTES;
use crate::domain::time::Timestamp;

/// How many entries one call reads or writes: less than a millisecond of Redis.
const CALL_ENTRIES_MAX: u32 = 300;
/// How many changes one call tells at the most.
pub const CHANGES_MAX: u32 = CALL_ENTRIES_MAX;
/// The revision of shards that have not been opened yet.
const NOT_OPEN: u64 = 0;
/// What stands in `copied` for what was copied, and not dropped afterwards.
const DONE: &str = "done";

/// A member of a standing, as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredMember {
    /// Its id.
    pub id: String,
    /// Its stored score; `None` where it is not listed.
    pub score: Option<i64>,
    /// Its time, 0 where the layout has none (`scripts/lib/standing.lua`).
    pub time: i64,
    /// Its data, empty for none.
    pub data: String,
}

/// Something that has changed in a shard that is being copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What, as it was captured, and how often it was.
    pub noted: (String, String),
    /// The kind of the key that has changed.
    pub kind: Kind,
    /// This key; of a standing its sorted set.
    pub key: String,
    /// When it expires, in milliseconds since the epoch; 0 for never.
    pub expires_at_ms: i64,
    /// How it is now.
    pub now: Changed,
}

/// How something is that has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// A member of a standing.
    Member(StoredMember),
    /// The line of a member, or of another name; `None` if it has none.
    Line(String, Option<Bytes>),
    /// What was counted, by the tags of those who have.
    Counts(Vec<(String, i64)>),
    /// Voters, or those of this member; `None` if there are none.
    Voters(Option<String>, Option<Bytes>),
}

/// A standing of a derived series, as `scripts/lib/derived.lua` describes it; complete ones alone are taken along.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DerivedEntry {
    /// Where its newest period begins, in milliseconds since the epoch.
    pub start: i64,
    oldest: i64,
    /// Whether all of its members are listed.
    pub done: bool,
    used_at: i64,
    #[serde(flatten)]
    own: StandingKeys,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    events: Option<StandingKeys>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    floor: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<i64>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct StandingKeys {
    zset: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dense: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total: Option<String>,
}

impl StandingKeys {
    fn moved(&self, from: &Shard, to: &Shard) -> Option<Self> {
        let optional = |key: &Option<String>| match key {
            Some(key) => keys::moved(key, from, to).map(Some),
            None => Some(None),
        };
        Some(Self {
            zset: keys::moved(&self.zset, from, to)?,
            hash: optional(&self.hash)?,
            dense: optional(&self.dense)?,
            total: optional(&self.total)?,
        })
    }
}

impl DerivedEntry {
    /// Its sorted set.
    pub fn zset(&self) -> &str {
        &self.own.zset
    }

    /// The same in another shard.
    pub fn moved(&self, from: &Shard, to: &Shard) -> Option<Self> {
        let events = match &self.events {
            Some(events) => Some(events.moved(from, to)?),
            None => None,
        };
        Some(Self {
            own: self.own.moved(from, to)?,
            events,
            ..self.clone()
        })
    }
}

/// Data for one new shard: the keys and arguments of copy_in.lua as they come together.
pub struct CopyIn<'a> {
    shard: &'a Shard,
    keys: Vec<String>,
    args: CopyInArgs,
    strings: Vec<Bytes>,
    /// How many entries are in it.
    pub entries: usize,
}

/// A standing and some of its members, as copy_in.lua takes them.
type MembersArgs = (
    usize,
    i64,
    bool,
    Vec<String>,
    Vec<StoredScore>,
    Vec<i64>,
    Vec<String>,
);

#[derive(Default, Serialize)]
struct CopyInArgs {
    generation: String,
    lease: u64,
    layout: LayoutArgs,
    lines: Vec<(&'static str, String, usize, usize)>,
    standings: Vec<MembersArgs>,
    turnouts: Vec<(usize, i64, String, i64)>,
    voters: Vec<(usize, i64, usize)>,
    states: Vec<(usize, usize)>,
    dropped: Vec<usize>,
    letters: Vec<(String, Vec<usize>)>,
    letters_kept: u64,
    closed_until: Option<i64>,
    final_until: Option<i64>,
}

impl<'a> CopyIn<'a> {
    /// Nothing yet, for this shard, read under this lease.
    pub fn new(shard: &'a Shard, lease: u64) -> Self {
        let mut keys = keys::head_and_registry(shard);
        keys.push(keys::single(shard, Kind::Scratch));
        Self {
            shard,
            keys,
            args: CopyInArgs {
                generation: shard.generation.to_string(),
                lease,
                layout: LayoutArgs::new(shard),
                letters_kept: DEAD_LETTERS_KEPT.ms(),
                ..CopyInArgs::default()
            },
            strings: Vec::new(),
            entries: 0,
        }
    }

    fn key(&mut self, key: String) -> usize {
        self.keys.push(key);
        self.keys.len()
    }

    fn string(&mut self, string: Bytes) -> usize {
        self.strings.push(string);
        self.strings.len() + 1
    }

    /// A line of a kind, by the member that it is about or another name; `None` if there is none.
    ///
    /// `key`: of kinds that a shard has many keys of.
    pub fn line(&mut self, kind: Kind, key: Option<String>, name: String, line: Option<Bytes>) {
        let place = line.map_or(0, |line| self.string(line));
        let key = key.map_or(0, |key| self.key(key));
        self.entries += 1;
        self.args.lines.push((kind.code(), name, place, key));
    }

    /// Members of the standing of this kind with this sorted set.
    pub fn members(
        &mut self,
        kind: Kind,
        zset: String,
        expires_at_ms: i64,
        mut members: Vec<StoredMember>,
    ) {
        let first = self.keys.len() + 1;
        for key in keys::of_sorted_set(zset, self.shard.layout()) {
            self.key(key);
        }
        self.entries += members.len();
        let score = |member: &StoredMember| member.score.into();
        let scores = members.iter().map(score).collect();
        let times = members.iter().map(|member| member.time).collect();
        let data = if self.shard.layout().data {
            let data = members.iter_mut().map(|member| &mut member.data);
            data.map(std::mem::take).collect()
        } else {
            Vec::new()
        };
        let names = members.into_iter().map(|member| member.id).collect();
        let lists_all = kind.lists_all();
        let standing = (first, expires_at_ms, lists_all, names, scores, times, data);
        self.args.standings.push(standing);
    }

    /// How many events a shard with this tag has counted.
    pub fn turnout(&mut self, key: String, expires_at_ms: i64, tag: String, count: i64) {
        let place = self.key(key);
        self.entries += 1;
        self.args.turnouts.push((place, expires_at_ms, tag, count));
    }

    /// A dead letter. They come in their order, behind those that are there.
    pub fn letter(&mut self, letter: DeadLetter) {
        let fields = letter.fields.into_iter();
        let places = fields.map(|field| self.string(field)).collect();
        self.entries += 1;
        self.args.letters.push((letter.place.to_string(), places));
    }

    /// No dead letters are to be there.
    pub fn drop_letters(&mut self) {
        self.drop_key(keys::single(self.shard, Kind::DeadLetters));
    }

    /// Voters.
    pub fn voters(&mut self, key: String, expires_at_ms: i64, voters: Bytes) {
        let (place, voters) = (self.key(key), self.string(voters));
        self.entries += 1;
        self.args.voters.push((place, expires_at_ms, voters));
    }

    /// The greatest barrier of the old shards, and up to where periods are final in all of them.
    pub fn barriers(&mut self, raised: Option<Timestamp>, seen: Option<Timestamp>) {
        self.args.closed_until = raised.map(Timestamp::ms);
        self.args.final_until = seen.map(Timestamp::ms);
    }

    /// What the old shards have taken out of a partition of the log.
    pub fn intake(&mut self, partition: &str, former: &[FormerOffsets]) -> Result<(), StoreError> {
        let (field, offsets) = former_field(partition, former)?;
        self.line(Kind::Intake, None, field, Some(offsets));
        Ok(())
    }

    /// Which standings of a derived series are there.
    pub fn state(&mut self, series: Series, entries: &[DerivedEntry]) -> Result<(), StoreError> {
        let packed = rmp_serde::to_vec_named(entries)
            .map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let place = self.key(keys::state(self.shard, series));
        let packed = self.string(packed.into());
        self.entries += 1;
        self.args.states.push((place, packed));
        Ok(())
    }

    /// A standing that is not to be there.
    pub fn drop_standing(&mut self, zset: String) {
        let hidden = keys::hidden_parts(&zset);
        for key in keys::of_sorted_set(zset, self.shard.layout()).chain(hidden) {
            self.drop_key(key);
        }
    }

    /// A key that is not to be there.
    pub fn drop_key(&mut self, key: String) {
        let place = self.key(key);
        self.entries += 1;
        self.args.dropped.push(place);
    }
}

/// What is to be noted of a shard that is being copied, before it is told what has changed there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes<'a> {
    /// These keys were copied.
    pub copied: &'a [String],
    /// These have changed.
    pub changed: &'a [String],
    /// These changes, captured so often, were copied as they are; one that was captured again since stays noted.
    pub done: &'a [(String, String)],
}

/// Makes the shards of a sharding known that is not in use yet.
pub async fn announce_shards(
    store: &Store,
    board: &Arc<Board>,
    to: Sharding,
) -> Result<(), StoreError> {
    boards::tell_version(store, board, to, NOT_OPEN)
        .await
        .map(drop)
}

/// Makes shards refuse all calls, for ever.
pub async fn retire_shards(
    store: &Store,
    board: &Arc<Board>,
    from: Sharding,
) -> Result<(), StoreError> {
    if from.is_together() {
        // The head is the board's own: what was planned for an older definition is refused anyway.
        return Ok(());
    }
    boards::tell_version(store, board, from, RETIRED)
        .await
        .map(drop)
}

/// Has a shard note what changes from now on.
pub async fn capture(store: &Store, shard: &Shard) -> Result<(), StoreError> {
    let captured = store
        .call_shard(&script::CAPTURE, shard)
        .keys([Kind::Changes, Kind::Copied].map(|kind| keys::single(shard, kind)))
        .arg(shard.generation)
        .write::<Done>();
    match captured.await {
        Ok(Done::Ok(())) | Err(StoreError::Stale) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A part of the names of a shard's keys, and the cursor of the next, `0` at the end. Names may come twice.
pub async fn names(
    store: &Store,
    shard: &Shard,
    cursor: &str,
) -> Result<(String, Vec<String>), StoreError> {
    let registry = keys::registry(shard.tag(), shard.generation);
    scan(store, "SSCAN", registry, cursor).await
}

/// A part of what a key holds, and the cursor of the next, `0` at the end.
async fn scan<T: DeserializeOwned>(
    store: &Store,
    command: &'static str,
    key: String,
    cursor: &str,
) -> Result<(String, T), StoreError> {
    store
        .call(&script::SCAN, &key)
        .key(&key)
        .arg(command)
        .arg(cursor)
        .arg(CALL_ENTRIES_MAX)
        .read()
        .await
}

/// What of a shard was copied, and has not been dropped since.
pub async fn copied(store: &Store, shard: &Shard) -> Result<HashMap<String, bool>, StoreError> {
    let key = keys::single(shard, Kind::Copied);
    let copied: HashMap<String, String> = store.command("HGETALL", [key]).await?;
    let copied = copied.into_iter().map(|(name, how)| (name, how == DONE));
    Ok(copied.collect())
}

/// When a key expires, in milliseconds since the epoch; 0 for never.
pub async fn expires_at_ms(store: &Store, key: &str) -> Result<i64, StoreError> {
    let expires: i64 = store.command("PEXPIRETIME", [key]).await?;
    Ok(expires.max(0))
}

/// A part of the members of the standing with this sorted set, and the cursor of the next, `0` at the end.
pub async fn scan_members(
    store: &Store,
    shard: &Shard,
    zset: &str,
    cursor: &str,
) -> Result<(String, Vec<StoredMember>), StoreError> {
    let is_hashed = shard.layout().hashed;
    let (command, key) = if is_hashed {
        ("HSCAN", keys::part(zset, Kind::Members))
    } else {
        ("ZSCAN", zset.to_owned())
    };
    let (cursor, Flat(found)) = scan(store, command, key, cursor).await?;
    let members = found.into_iter().map(|(id, Raw(stored))| {
        let member = if is_hashed {
            packed_member(id, &stored)
        } else {
            plain_member(id, &stored)
        };
        member
            .ok_or_else(|| StoreError::Unexpected(format!("a member that is stored as {stored:?}")))
    });
    Ok((cursor, members.collect::<Result<_, _>>()?))
}

/// A part of the lines that a hash has of members, and the cursor of the next, `0` at the end.
pub async fn scan_lines(
    store: &Store,
    key: String,
    cursor: &str,
) -> Result<(String, Vec<(String, Bytes)>), StoreError> {
    let (cursor, Flat(lines)) = scan(store, "HSCAN", key, cursor).await?;
    let lines = lines.into_iter().map(|(name, Raw(line))| (name, line));
    Ok((cursor, lines.collect()))
}

/// What has changed in a shard: how much in all, and how `count` of it, at the most [`CHANGES_MAX`], are now. Stale if
/// nothing is noted there any more: the board was deleted, or its move has ended.
pub async fn changes(
    store: &Store,
    shard: &Shard,
    notes: Notes<'_>,
    count: u32,
) -> Result<(u64, Vec<Change>), StoreError> {
    let kinds = Kind::ALL.iter();
    let copying = kinds.map(|kind| (kind.code(), kind.copying()));
    let changes = store
        .call(&script::CHANGES, shard.tag())
        .key(keys::head(shard.tag()))
        .keys([Kind::Changes, Kind::Copied].map(|kind| keys::single(shard, kind)))
        .field("generation", shard.generation.to_string())
        .field("layout", LayoutArgs::new(shard))
        .field("copying", copying.collect::<HashMap<_, _>>())
        .field("copied", notes.copied)
        .field("noted", notes.changed)
        .field("done", notes.done)
        .field("count", count.min(CHANGES_MAX));
    let mut reply = Reply::answer(changes.write_for_reply().await?)?;
    let left = reply.count()?;
    let mut changes = Vec::new();
    while !reply.is_empty() {
        changes.push(change(reply.list()?)?);
    }
    Ok((left, changes))
}

/// The standings of a derived series that are there.
pub async fn derived_entries(
    store: &Store,
    shard: &Shard,
    series: Series,
) -> Result<Vec<DerivedEntry>, StoreError> {
    let key = keys::state(shard, series);
    let state: Option<Bytes> = store.command("GET", [key]).await?;
    let entries = state.map(|state| rmp_serde::from_slice(&state)).transpose();
    entries
        .map(Option::unwrap_or_default)
        .map_err(|error| StoreError::Unexpected(format!("a state of {series:?}: {error}")))
}

/// Has a shard take data over; once it has been opened, it has everything. Returns whether the lease is the last one:
/// otherwise it takes nothing, as where its board was deleted.
pub async fn copy_in(store: &Store, data: CopyIn<'_>) -> Result<bool, StoreError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    enum Reply {
        Ok,
        Open,
        Superseded,
    }
    let copied = store
        .call(&script::COPY_IN, data.shard.tag())
        .keys(data.keys)
        .arg(pack(&data.args)?)
        .args(data.strings);
    Ok(match copied.write().await? {
        Reply::Ok | Reply::Open => true,
        Reply::Superseded => false,
    })
}

/// A member as a standing's hash holds it: its time, its score and its data.
fn packed_member(id: String, stored: &[u8]) -> Option<StoredMember> {
    let mut packed = stored;
    let time = packed.try_get_uint(TIE_KEY_BYTES).ok()?;
    // It has a sign.
    let unused_bits = u64::BITS - 8 * u32::try_from(TIE_KEY_BYTES).ok()?;
    let time = (time << unused_bits).cast_signed() >> unused_bits;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "stored scores are whole numbers"
    )]
    let score = packed.try_get_f64().ok()? as i64;
    Some(StoredMember {
        id,
        score: Some(score),
        time,
        data: str::from_utf8(packed).ok()?.to_owned(),
    })
}

/// A member as a sorted set alone holds it: its score, as text.
fn plain_member(id: String, stored: &[u8]) -> Option<StoredMember> {
    Some(StoredMember {
        id,
        score: Some(str::from_utf8(stored).ok()?.parse().ok()?),
        time: 0,
        data: String::new(),
    })
}

/// A change as changes.lua tells it.
fn change(mut reply: Reply) -> Result<Change, StoreError> {
    let (captured, times) = (reply.text()?, reply.text()?);
    let unexpected = || StoreError::Unexpected(format!("a change of {captured:?}"));
    let Captured { kind, key, member } = Captured::parse(&captured).ok_or_else(unexpected)?;
    let (key, member) = (key.to_owned(), member.map(str::to_owned));
    let expires_at_ms = reply.integer()?;
    let now = match kind.copying() {
        Copying::Members => Changed::Member(StoredMember {
            id: member.ok_or_else(unexpected)?,
            score: reply.next()?.as_i64(),
            time: reply.integer()?,
            data: reply.text()?,
        }),
        Copying::Whole => {
            let mut counts = Vec::new();
            while !reply.is_empty() {
                counts.push((reply.text()?, reply.integer()?));
            }
            Changed::Counts(counts)
        }
        Copying::Merged => {
            let voters = Some(reply.bytes()?).filter(|voters| !voters.is_empty());
            Changed::Voters(member, voters)
        }
        Copying::Lines | Copying::Everywhere => {
            let line = Some(reply.bytes()?).filter(|line| !line.is_empty());
            Changed::Line(member.ok_or_else(unexpected)?, line)
        }
        Copying::Rebuilt | Copying::Not => return Err(unexpected()),
    };
    Ok(Change {
        noted: (captured, times),
        kind,
        key,
        expires_at_ms,
        now,
    })
}
