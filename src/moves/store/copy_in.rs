//! Copies data into a new shard (`scripts/moves/copy_in.lua`).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{DerivedEntry, StoredMember};
use crate::domain::intake::FormerOffsets;
use crate::domain::series::Series;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::queue::dead_letters::store::{DEAD_LETTERS_KEPT, DeadLetter};
use crate::queue::intake::store::former_field;
use crate::redis::args::{LayoutArgs, StoredScore, pack};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys, script};

/// Data for one new shard: the keys and arguments of copy_in.lua, collected.
pub struct CopyIn<'a> {
    shard: &'a Shard,
    keys: Vec<String>,
    args: CopyInArgs,
    strings: Vec<Bytes>,
    pub entries: usize,
}

/// A standing and some of its members, in the form of copy_in.lua.
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
    lines: Vec<(&'static str, String, usize, usize, i64)>,
    standings: Vec<MembersArgs>,
    turnouts: Vec<(usize, i64, String, i64)>,
    voters: Vec<(usize, i64, usize)>,
    states: Vec<(usize, usize)>,
    dropped: Vec<usize>,
    letters: Vec<(String, Vec<usize>)>,
    letters_kept: u64,
    closed_until: Option<i64>,
    final_until: Option<i64>,
    events_from: Option<i64>,
}

impl<'a> CopyIn<'a> {
    /// No data yet; for this shard, read under this lease.
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

    /// Adds a line of a kind, by member or another name; `None` if there is none.
    ///
    /// `key`: for kinds of which a shard has many keys, with its expiry, 0 for none.
    pub fn line(
        &mut self,
        kind: Kind,
        key: Option<(String, i64)>,
        name: String,
        line: Option<Bytes>,
    ) {
        let place = line.map_or(0, |line| self.string(line));
        let (key, expires) = key.map_or((0, 0), |(key, expires)| (self.key(key), expires));
        self.entries += 1;
        self.args
            .lines
            .push((kind.code(), name, place, key, expires));
    }

    /// Adds members of the standing of this kind with this sorted set.
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
            members
                .iter_mut()
                .map(|member| &mut member.data)
                .map(std::mem::take)
                .collect()
        } else {
            Vec::new()
        };
        let names = members.into_iter().map(|member| member.id).collect();
        let lists_all = kind.lists_all();
        let standing = (first, expires_at_ms, lists_all, names, scores, times, data);
        self.args.standings.push(standing);
    }

    /// Adds the number of events that a shard with this tag has counted.
    pub fn turnout(&mut self, key: String, expires_at_ms: i64, tag: String, count: i64) {
        let place = self.key(key);
        self.entries += 1;
        self.args.turnouts.push((place, expires_at_ms, tag, count));
    }

    /// Adds a dead letter. Letters have to be added in order, after those that are there.
    pub fn letter(&mut self, letter: DeadLetter) {
        let places = letter
            .fields
            .into_iter()
            .map(|field| self.string(field))
            .collect();
        self.entries += 1;
        self.args.letters.push((letter.place.to_string(), places));
    }

    /// Removes all dead letters.
    pub fn drop_letters(&mut self) {
        self.drop_key(keys::single(self.shard, Kind::DeadLetters));
    }

    pub fn voters(&mut self, key: String, expires_at_ms: i64, voters: Bytes) {
        let (place, voters) = (self.key(key), self.string(voters));
        self.entries += 1;
        self.args.voters.push((place, expires_at_ms, voters));
    }

    /// Adds the greatest barrier of the old shards, and the instant up to which periods are final in all of them.
    pub fn barriers(&mut self, raised: Option<Timestamp>, seen: Option<Timestamp>) {
        self.args.closed_until = raised.map(Timestamp::ms);
        self.args.final_until = seen.map(Timestamp::ms);
    }

    /// Adds the last of the instants before which the events of the old shards are not kept any more.
    pub fn events_from(&mut self, from: Option<Timestamp>) {
        self.args.events_from = from.map(Timestamp::ms);
    }

    /// Adds the offsets that the old shards have taken from a partition of the log.
    pub fn intake(&mut self, partition: &str, former: &[FormerOffsets]) -> Result<(), StoreError> {
        let (field, offsets) = former_field(partition, former)?;
        self.line(Kind::Intake, None, field, Some(offsets));
        Ok(())
    }

    /// Adds the list of existing standings of a derived series.
    pub fn state(&mut self, series: Series, entries: &[DerivedEntry]) -> Result<(), StoreError> {
        let packed = rmp_serde::to_vec_named(entries)
            .map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let place = self.key(keys::state(self.shard, series));
        let packed = self.string(packed.into());
        self.entries += 1;
        self.args.states.push((place, packed));
        Ok(())
    }

    pub fn drop_standing(&mut self, zset: String) {
        let hidden = keys::hidden_parts(&zset);
        for key in keys::of_sorted_set(zset, self.shard.layout()).chain(hidden) {
            self.drop_key(key);
        }
    }

    pub fn drop_key(&mut self, key: String) {
        let place = self.key(key);
        self.entries += 1;
        self.args.dropped.push(place);
    }
}

/// Sends the data to its shard; if that was opened, it has everything already. Returns whether the lease is the current
/// one: otherwise nothing is written, for example because its board was deleted.
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
