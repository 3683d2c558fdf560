//! Erases members of a board, and removes their data (`scripts/lib/erasures.lua`).

use std::collections::HashMap;
use std::sync::Arc;

use crate::redis::sha1_hash;
use serde::{Deserialize, Serialize};

use crate::core::board::store::boards::{self, Begun};
use crate::domain::erasure::Erasure;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Cohort;
use crate::domain::league::player::{Played, Player};
use crate::domain::series::{Derived, Track};
use crate::domain::shard::Shard;
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::redis::args::{LayoutArgs, closes_ms};
use crate::redis::call::ScriptCall;
use crate::redis::decode::{Coded, Done, Flat, Tail};
use crate::redis::dispatch::Store;
use crate::redis::kinds::{Form, Kind};
use crate::redis::reply::require;
use crate::redis::{StoreError, keys, random, script};

/// About how many keys a call of [`forget`] looks at: about a millisecond of Redis.
pub const FORGET_KEYS: u32 = 300;
/// The longest that a call may be in flight, in milliseconds; in fact none takes so long.
const UNDER_WAY_MS: i64 = 600_000;
/// How many members one call of [`erasing`] returns.
const ERASING_READ_MAX: u32 = 100;

/// How many erasures one call lists or stores.
const CALL_ERASURES_MAX: usize = 300;

/// The length of the tag of a line that stays, in bytes, and of the salt of its id.
const TAG_BYTES: usize = 2;
const SALT_BYTES: usize = 16;
/// The length of the key for the names of erased members, in bytes.
const KEY_BYTES: usize = 20;

/// A series of a window with final standings, as forget.lua takes it.
#[derive(Serialize)]
struct FinalArgs {
    last: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rewards: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    initial: Option<InitialArgs>,
}

#[derive(Serialize)]
struct InitialArgs {
    events: String,
    derived: String,
    state: String,
}

/// The series of a board's windows that have final standings at this barrier, by their names.
fn finals(shard: &Shard, barrier: Timestamp) -> HashMap<String, Arc<FinalArgs>> {
    let mut finals = HashMap::new();
    // The names of cohorts continue after the keys of their periods.
    let behind = if shard.is_league() { "/~" } else { "" };
    for window in &shard.definition.windows {
        let &Window::Period(unit) = window else {
            continue;
        };
        let Some(last) = shard.last_final(unit, barrier) else {
            continue;
        };
        let shown = shard.series(*window, Track::Shown);
        let name = |series| keys::series_name(shard, series);
        let of = |rewards: bool, derived: Option<Derived>| {
            let initial = derived.map(|derived| InitialArgs {
                events: name(derived.base),
                derived: name(derived.series),
                state: keys::state(shard, derived.series),
            });
            Arc::new(FinalArgs {
                last: format!("{}{behind}", shard.calendar.key(&last)),
                rewards: rewards.then(|| keys::of_unit(shard, unit)),
                initial,
            })
        };
        finals.insert(name(shard.series(*window, Track::Raw)), of(false, None));
        let derived = shard.derived_as(shown);
        let of_shown = of(true, derived);
        if let Some(derived) = derived {
            finals.insert(name(derived.base), Arc::clone(&of_shown));
        }
        finals.insert(name(shown), of_shown);
    }
    finals
}

/// The last erasure of a member, as a shard knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct KnownErasure {
    /// The key of the hash that names the member.
    pub(crate) key: String,
    /// That hash: see [`name_under`].
    pub(crate) name: String,
    pub(crate) erasure: Erasure,
}

/// The result of erasing a member.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Erased {
    #[serde(rename = "OK")]
    Done,
    /// Nothing was done: earlier hides of the member are not in all results of the board yet.
    Behind,
}

/// The result of a call that removes data of an erased member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Forgotten {
    /// It has removed some data, and there may be more.
    More,
    /// No data is left.
    Done,
    /// Nothing was done: lines of the member stay in standings that are final at this barrier, and the script needs their
    /// places in other shards.
    Places(Timestamp, Vec<WantedPlace>),
}

/// An entry whose place among the entries of other shards is needed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct WantedPlace {
    /// The sorted set of its standing.
    zset: String,
    /// Its stored score.
    score: i64,
    /// Its tie key, if members have one.
    time: Option<i64>,
}

/// The ids in other shards directly before and after a member, among entries with its score and time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Places(HashMap<String, (String, String)>);

impl Places {
    /// Adds the answer of one more shard: the id before and the id after, empty for none.
    fn add(&mut self, wanted: &WantedPlace, ahead: String, behind: String) {
        let place = self.0.entry(wanted.zset.clone()).or_default();
        if ahead > place.0 {
            place.0 = ahead;
        }
        if place.1.is_empty() || (!behind.is_empty() && behind < place.1) {
            place.1 = behind;
        }
    }
}

/// A tag for the lines of a member that stay: it leads to the member's shard.
fn tag_of(shard: &Shard, member: &MemberId) -> Result<String, StoreError> {
    let own = shard.board.shard_of(member);
    loop {
        let tag = random::hexadecimal::<TAG_BYTES>("")?;
        if shard.board.shard_of(&MemberId::nameless(&tag)) == own {
            return Ok(tag);
        }
    }
}

/// Begins an erasure on a board: notes it, so that it is finished even if this process dies, and returns its number.
pub async fn begin(store: &Store, id: &BoardId) -> Result<u64, StoreError> {
    boards::begin(store, id, keys::ERASING).await
}

/// Notes an erasure on another board.
pub async fn note(store: &Store, id: &BoardId, number: u64) -> Result<(), StoreError> {
    let (id, stamp) = (id.clone(), number);
    let noted = Begun { id, stamp }.to_string();
    let args = [keys::ERASING, &number.to_string(), &noted];
    store.command("ZADD", args).await
}

/// Removes the note of an erasure: nothing is left of the member, or the board does not exist.
pub async fn end(store: &Store, id: &BoardId, number: u64) -> Result<(), StoreError> {
    boards::end(store, id, number, keys::ERASING).await
}

/// The known seats in a league that an erased member of this shard has left: when their periods begin, and their cohorts.
pub async fn seats_left(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
) -> Result<Vec<(Timestamp, Cohort)>, StoreError> {
    let read = async |kind| {
        let field = [&keys::single(shard, kind), member.as_str()];
        let text: Option<String> = store.command("HGET", field).await?;
        Ok::<_, StoreError>(text.unwrap_or_default())
    };
    let (stored, history) = (read(Kind::Players).await?, read(Kind::Played).await?);
    // Data that can't be read names no cohort.
    let player: Option<Player> = serde_json::from_str(&stored).ok();
    let seat = player.and_then(|player| player.seat);
    let seats = history
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .map(|line: Played| (line.start, line.cohort));
    let seat = seat.map(|seat| (seat.start, seat.cohort));
    Ok(seat.into_iter().chain(seats).collect())
}

/// Some of the noted erasures.
pub async fn begun(store: &Store) -> Result<Vec<Begun>, StoreError> {
    boards::begun(store, keys::ERASING, 0).await
}

/// Whether an erasure was begun so long ago that none of its calls is in flight any more.
pub async fn is_settled(store: &Store, begun: &Begun) -> Result<bool, StoreError> {
    let stamp = boards::stamp_ago(store, UNDER_WAY_MS).await?;
    Ok(i64::try_from(begun.stamp).is_ok_and(|begun| begun <= stamp))
}

/// Erases a member of this shard. From then on no read shows it. `revised`: up to which number the hides of the shard are
/// in all results of the board, if the caller knows.
pub async fn erase(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
    erasure: &Erasure,
    revised: Option<u64>,
) -> Result<Erased, StoreError> {
    let instant = TieKey::new(Ties::First, erasure.at).number();
    let erased = store
        .call_version(&script::ERASE, shard)
        .field("member", member)
        .field("number", erasure.number)
        .field("instant", instant)
        .field("key", hash_key(store).await?)
        .field("tag", tag_of(shard, member)?)
        .field("salt", random::hexadecimal::<SALT_BYTES>("")?)
        .field("revised", revised);
    erased.write().await
}

/// The name of an erased member: a keyed hash of its id.
pub(crate) async fn erased_name(store: &Store, member: &MemberId) -> Result<String, StoreError> {
    Ok(name_under(&hash_key(store).await?, member.as_str()))
}

/// The name of an erased member under this key.
pub(crate) fn name_under(key: &str, member: &str) -> String {
    sha1_hash(&format!("{key}{member}"))
}

/// Creates the key of these hashes, so that the first erasure also works while Redis takes no more data.
pub async fn create_hash_key(store: &Store) -> Result<(), StoreError> {
    store.note_format().await?;
    hash_key(store).await.map(drop)
}

/// The key of the hashes under which erasures are kept, the same for all boards.
pub(crate) async fn hash_key(store: &Store) -> Result<String, StoreError> {
    random::need_secret::<KEY_BYTES>(store, keys::ERASURE_KEY).await
}

/// Gives a database that has no key of these hashes this one.
pub(crate) async fn adopt_hash_key(store: &Store, key: &str) -> Result<(), StoreError> {
    store.command("SETNX", [keys::ERASURE_KEY, key]).await
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum ForgetReply {
    More,
    Done,
    Places(Tail<Flat<WantedPlace>>),
    Barrier(Option<i64>),
}

/// By their codes: the kinds of standings, each with whether it lists all members; and the kinds of parts of standings.
fn forgotten_kinds() -> (HashMap<&'static str, bool>, HashMap<&'static str, bool>) {
    let standings = Kind::ALL
        .iter()
        .filter(|kind| kind.is_standing())
        .map(|kind| (kind.code(), kind.lists_all()));
    let parts = Kind::ALL
        .iter()
        .filter(|kind| kind.form() == Form::Part)
        .map(|kind| (kind.code(), true));
    (standings.collect(), parts.collect())
}

/// Removes some data of an erased member from this shard. `count`: about how many keys to look at; see [`FORGET_KEYS`].
pub async fn forget(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
    places: &Places,
    count: u32,
    now: Timestamp,
) -> Result<Forgotten, StoreError> {
    let has_initial = !shard.definition.initial.is_empty();
    let has_neighbours = shard.placement.current.shards > 1 && !shard.is_league();
    let (standings, parts) = forgotten_kinds();
    let mut barrier = shard.closings.until;
    loop {
        let barrier_ms = barrier.map(|barrier| barrier.ms().to_string());
        let finals = barrier.map(|barrier| finals(shard, barrier));
        let forgotten = store
            .call_version(&script::FORGET, shard)
            .field("layout", LayoutArgs::new(shard))
            .field("member", member)
            .field("standings", &standings)
            .field("parts", &parts)
            .field("count", count)
            .field("barrier", barrier_ms.unwrap_or_default())
            .field("finals", finals.unwrap_or_default())
            // With initial scores a line is a sum, whose terms have the same id in all periods.
            .field("keeps_place", !has_initial)
            .field("league", shard.is_league())
            .field("history", shard.history.is_some())
            // A cohort is in one shard.
            .field("places", has_neighbours.then_some(&places.0))
            .field(
                "initial",
                has_initial.then(|| keys::sorted_set(shard, &shard.initial_scores())),
            )
            .field("closes", closes_ms(shard))
            .field("kept_from", shard.initial_kept_from_ms(now));
        return Ok(match forgotten.write().await? {
            ForgetReply::More => Forgotten::More,
            ForgetReply::Done => Forgotten::Done,
            ForgetReply::Places(Tail(Flat(wanted))) => {
                let barrier = require(barrier, "lines remain, but there is no barrier")?;
                Forgotten::Places(barrier, wanted)
            }
            // A barrier rises when periods are closed.
            ForgetReply::Barrier(other) => {
                barrier = other.map(Timestamp::from_ms_clamped);
                continue;
            }
        });
    }
}

/// Asks another shard for the places there of a member that has these entries in `own`.
pub async fn add_places(
    store: &Store,
    (own, other): (&Shard, &Shard),
    member: &MemberId,
    wanted: &[WantedPlace],
    places: &mut Places,
) -> Result<(), StoreError> {
    let there = wanted.iter().map(|WantedPlace { zset, .. }| {
        let there = keys::moved(zset, own, other);
        require(there, "a standing is not in its shard")
    });
    let entries = wanted.iter().map(|wanted| (wanted.score, wanted.time));
    let ties = store
        .call(&script::TIES, other.tag())
        .key(keys::head(other.tag()))
        .keys(there.collect::<Result<Vec<_>, _>>()?)
        .field("version", other.version())
        .field("prefixed", other.layout().prefixed)
        .field("member", member)
        .field("entries", entries.collect::<Vec<_>>());
    let Done::Ok(Tail(Flat(between))) = ties.read::<Done<Tail<Flat<_>>>>().await?;
    for (wanted, (ahead, behind)) in wanted.iter().zip(between) {
        places.add(wanted, ahead, behind);
    }
    Ok(())
}

/// Some of the erased members of this shard that may still have data.
pub async fn erasing(store: &Store, shard: &Shard) -> Result<Vec<MemberId>, StoreError> {
    let erasing = call_erasures(store, shard, None);
    let Done::Ok((members,)) = erasing.read::<Done<(Vec<MemberId>,)>>().await?;
    Ok(members)
}

/// The last erasure of a member of this shard; `None` if it was never erased.
pub async fn last(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
) -> Result<Option<Erasure>, StoreError> {
    let erased = call_erasures(store, shard, Some(vec![member.as_str()]));
    let Done::Ok(([number], [instant])) = erased.read::<Done<([u64; 1], [u64; 1])>>().await?;
    let at = TieKey::from_number(instant).instant(Ties::First);
    let at = require(at, "an erasure has no instant")?;
    Ok((number > 0).then_some(Erasure { number, at }))
}

/// All erasures of a shard.
pub(crate) async fn all(store: &Store, shard: &Shard) -> Result<Vec<KnownErasure>, StoreError> {
    let (mut all, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let part = store
            .call_version(&script::LIST_ERASURES, shard)
            .field("cursor", &cursor)
            .field("count", CALL_ERASURES_MAX);
        let Done::Ok((next, key, Tail(Flat(found)))) = part
            .read::<Done<(String, String, Tail<Flat<(String, u64, u64)>>)>>()
            .await?;
        for (name, number, instant) in found {
            let at = TieKey::from_number(instant).instant(Ties::First);
            let at = require(at, "an erasure has no instant")?;
            all.push(KnownErasure {
                key: key.clone(),
                name,
                erasure: Erasure { number, at },
            });
        }
        if next == "0" {
            return Ok(all);
        }
        cursor = next;
    }
}

/// Stores erasures that a shard has lost, of members of which it has nothing, by their names under this key. Returns whether
/// the shard's names have this key; otherwise nothing is stored.
pub(crate) async fn restore(
    store: &Store,
    shard: &Shard,
    key: &str,
    erasures: &[(&str, Erasure)],
) -> Result<bool, StoreError> {
    for part in erasures.chunks(CALL_ERASURES_MAX) {
        let lines = part.iter().map(|(name, erasure)| {
            let instant = TieKey::new(Ties::First, erasure.at).number();
            (*name, erasure.number, instant)
        });
        let restored = store
            .call_version(&script::RESTORE_ERASURES, shard)
            .field("key", key)
            .field("erasures", lines.collect::<Vec<_>>());
        if !restored.write::<Coded>().await?.is("OK", "OTHER")? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether any member of a shard was ever erased.
pub async fn has_erased(store: &Store, shard: &Shard) -> Result<bool, StoreError> {
    let field = [&keys::head(shard.tag()), "erased"];
    let last: Option<String> = store.command("HGET", field).await?;
    Ok(last.is_some())
}

fn call_erasures<'a>(
    store: &'a Store,
    shard: &Shard,
    members: Option<Vec<&str>>,
) -> ScriptCall<'a> {
    store
        .call_version(&script::ERASURES, shard)
        .field("members", members)
        .field("count", ERASING_READ_MAX)
}
