//! Players of leagues, and their seats. `core/write/seats.rs` has the protocol; these calls are its steps.

use std::collections::HashMap;

use bytes::Bytes;
use serde::Deserialize;

use crate::domain::board::Board;
use crate::domain::ids::MemberId;
use crate::domain::league::Section;
use crate::domain::league::player::{Played, Player, Seat};
use crate::domain::period::{Period, Unit};
use crate::domain::series::{List, Series, Standing};
use crate::domain::shard::Shard;
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::redis::args::{LayoutArgs, each, stored_score};
use crate::redis::decode::{Done, Flat, Raw, Tail, ms, tie_key, us};
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::reply::for_each_of;
use crate::redis::stored::{read_json, to_json};
use crate::redis::{StoreError, keys, script};
use crate::runtime::join::try_join_all;

/// The maximum number of members in one call: about a millisecond of Redis.
pub const CALL_MEMBERS_MAX: usize = 100;
/// How many lines of a history are kept.
pub const HISTORY_LINES_MAX: usize = 500;
/// How many lines of a list of periods one call reads.
const CALL_LINES_MAX: usize = 300;

/// A player as stored. A newer release may have written it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPlayer {
    json: String,
    pub player: Player,
}

impl StoredPlayer {
    fn read(json: Bytes) -> Result<Option<Self>, StoreError> {
        if json.is_empty() {
            return Ok(None);
        }
        let unreadable =
            |error| StoreError::Unexpected(format!("a stored player can't be read: {error}"));
        let json = String::from_utf8(json.into()).map_err(unreadable)?;
        let player = read_json("a player", &json)?;
        Ok(Some(Self { json, player }))
    }
}

/// What is known about a member.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownMember {
    /// The player, if there is one.
    pub stored: Option<StoredPlayer>,
    /// Whether the member was erased and has had no data since, so that a hide may be stored with the erasure.
    pub was_erased: bool,
}

#[derive(Clone, Debug)]
pub struct PlayerChange {
    pub member: MemberId,
    /// What the caller read.
    pub seen: Option<StoredPlayer>,
    /// What to store.
    pub new: Player,
    /// A line for the history.
    pub played: Option<Played>,
}

impl PlayerChange {
    /// When its seat was taken; 0 without a seat.
    fn taken(&self) -> u64 {
        let before = self
            .seen
            .as_ref()
            .and_then(|seen| seen.player.seat.as_ref());
        let new = self.new.seat.as_ref().filter(|seat| before != Some(*seat));
        new.map_or(0, |seat| tie_key_of(seat.joined_at))
    }
}

/// The result of a step of seating for one member.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Stepped<T = ()> {
    #[serde(rename = "OK")]
    Done(T),
    /// The player is not what the caller read.
    Changed,
    /// All seats of the cohort are taken, until an erased member is removed.
    Full,
    /// The period is closed: the shard has closed its periods up to this instant.
    #[serde(deserialize_with = "ms")]
    Closed(Timestamp),
    /// The seat was not taken after the member's last erasure, which was at this instant.
    #[serde(deserialize_with = "tie_key")]
    Erased(Timestamp),
    /// Some data of the erased member may be left.
    Erasing,
}

/// A wish for a cohort of a tier.
#[derive(Clone, Debug)]
pub struct Wish {
    pub period: Period,
    pub tier: u8,
    pub member: MemberId,
    /// When it was made.
    pub at: Timestamp,
}

/// A member to seat in its cohort.
#[derive(Clone, Debug)]
pub struct Sitter {
    pub member: MemberId,
    pub period: Period,
    /// The seat in it, as the member's home shard knows it.
    pub seat: Seat,
    /// When it joins.
    pub at: Timestamp,
    /// Whether it joins by itself, and so reaches its opening score; otherwise its event lists it.
    pub joins: bool,
}

/// A member that is seated in its cohort.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub struct Seated {
    #[serde(deserialize_with = "us")]
    pub joined_at: Timestamp,
    pub is_listed_now: bool,
}

/// How many seats of a tier were given out in a period.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TierSeats {
    /// All that were given out, cohort after cohort.
    pub taken: u64,
    /// How many of them were given back.
    pub free: u64,
}

/// The key index of the seats, their number, when the period ends, when the keys expire, and indexes of members.
type CohortArgs = (usize, u32, i64, i64, Vec<usize>);

/// The time of a seat in the form in which it is compared with erasures.
fn tie_key_of(at: Timestamp) -> u64 {
    TieKey::new(Ties::First, at).number()
}

fn latest(times: impl Iterator<Item = Timestamp>) -> Timestamp {
    times.max().unwrap_or(Timestamp::MIN)
}

/// The settings of a cohort for its keys: how many seats it has, when its period ends, and when its keys expire; times in
/// milliseconds since the epoch, 0 for keys that do not expire.
fn terms_of(board: &Board, period: &Period) -> (u32, i64, i64) {
    let league = board.league_of(period);
    let size = league
        .expect("invariant: a board with seats is a league")
        .cohort_size;
    let ends = board.end_of(period).unwrap_or(Timestamp::MAX).ms();
    (size, ends, board.kept_until_ms(period).unwrap_or(0))
}

/// The players among these members of a league, whose home is this shard. One that can't be read is an error of its own.
pub async fn players(
    store: &Store,
    shard: &Shard,
    members: &[MemberId],
) -> Result<Vec<Result<Option<StoredPlayer>, StoreError>>, StoreError> {
    let known = known_members(store, shard, members).await?;
    Ok(known.into_iter().map(|known| Ok(known?.stored)).collect())
}

/// What is known about members of a league whose home is this shard.
pub async fn known_members(
    store: &Store,
    shard: &Shard,
    members: &[MemberId],
) -> Result<Vec<Result<KnownMember, StoreError>>, StoreError> {
    let texts = texts_of(store, shard, Kind::Players, members).await?;
    Ok(texts
        .into_iter()
        .map(|(text, was_erased)| {
            let stored = StoredPlayer::read(text)?;
            Ok(KnownMember { stored, was_erased })
        })
        .collect())
}

/// The history of a member of this shard: its last seats that counted, newest first.
pub async fn played(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
) -> Result<Vec<Played>, StoreError> {
    let texts = texts_of(store, shard, Kind::Played, std::slice::from_ref(member)).await?;
    texts
        .iter()
        .flat_map(|(text, _)| text.split(|byte| *byte == b'\n'))
        .filter(|line| !line.is_empty())
        .map(|line| read_json("a history", line))
        .collect()
}

/// What this shard has of members in a hash of texts, and whether they were erased and have had no data since.
async fn texts_of(
    store: &Store,
    shard: &Shard,
    kind: Kind,
    members: &[MemberId],
) -> Result<Vec<(Bytes, bool)>, StoreError> {
    let mut found = Vec::with_capacity(members.len());
    for members in members.chunks(CALL_MEMBERS_MAX) {
        let Done::Ok(Tail(Flat(texts))) = store
            .call_shard(&script::PLAYERS, shard)
            .key(keys::single(shard, kind))
            .arg(shard.version())
            .args(members.iter().map(MemberId::as_str))
            .read::<Done<Tail<Flat<_>>>>()
            .await?;
        let texts = for_each_of(texts, members.len())?.into_iter();
        found.extend(texts.map(|(Raw(text), was_erased)| (text, was_erased)));
    }
    Ok(found)
}

/// Carries out changes of players of this shard, up to [`CALL_MEMBERS_MAX`], each independently.
pub async fn write_players(
    store: &Store,
    shard: &Shard,
    changes: &[PlayerChange],
) -> Result<Vec<Stepped>, StoreError> {
    let new = changes.iter().map(|change| to_json(&change.new));
    let played = changes.iter().map(|change| {
        let played = change.played.as_ref().map(to_json).transpose();
        played.map(Option::unwrap_or_default)
    });
    let Done::Ok(Tail(written)) = store
        .call_version(&script::WRITE_PLAYERS, shard)
        .keys([Kind::Players, Kind::Played].map(|kind| keys::single(shard, kind)))
        .field("lines", HISTORY_LINES_MAX)
        .field("names", each(changes, |change| change.member.as_str()))
        .field(
            "seen",
            each(changes, |change| {
                change.seen.as_ref().map_or("", |seen| &seen.json)
            }),
        )
        .field("new", new.collect::<Result<Vec<_>, _>>()?)
        .field("played", played.collect::<Result<Vec<_>, _>>()?)
        .field("taken", each(changes, PlayerChange::taken))
        .write::<Done<Tail<Vec<_>>>>()
        .await?;
    for_each_of(written, changes.len())
}

/// Suggests cohorts to members whose tiers are in this shard, up to [`CALL_MEMBERS_MAX`]: the number of one with room.
pub async fn suggest_cohorts(
    store: &Store,
    shard: &Shard,
    wishes: &[Wish],
) -> Result<Vec<Stepped<u32>>, StoreError> {
    let mut suggested = vec![Stepped::Erasing; wishes.len()];
    let mut of_tiers: HashMap<_, Vec<usize>> = HashMap::new();
    for (index, Wish { period, tier, .. }) in wishes.iter().enumerate() {
        of_tiers.entry((*period, *tier)).or_default().push(index);
    }
    let calls = of_tiers.values().map(async |indexes| {
        let wishes: Vec<&Wish> = indexes.iter().map(|index| &wishes[*index]).collect();
        let numbers = suggest(store, shard, &wishes).await?;
        Ok::<_, StoreError>((indexes, numbers))
    });
    for (indexes, numbers) in try_join_all(calls).await? {
        for (index, number) in indexes.iter().zip(numbers) {
            suggested[*index] = number;
        }
    }
    Ok(suggested)
}

/// Suggests cohorts of one tier.
async fn suggest(
    store: &Store,
    shard: &Shard,
    wishes: &[&Wish],
) -> Result<Vec<Stepped<u32>>, StoreError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    enum Reply {
        Ok(Tail<Vec<u32>>),
        Closed,
    }
    let Wish { period, tier, .. } = wishes[0];
    let now = latest(wishes.iter().map(|wish| wish.at));
    let terms = shard
        .league_of(period)
        .expect("invariant: a board with seats is a league");
    let (size, ends, expires) = terms_of(shard, period);
    let suggested = store
        .call_version(&script::TAKE_SEAT, shard)
        .keys(keys::of_tier_seats(shard, period, *tier))
        .field("now", now.ms())
        .field("size", size)
        .field("is_late", now.ms() >= terms.joined_freely_until_ms(period))
        .field("ends", ends)
        .field("expires", expires)
        .field("names", each(wishes, |wish| wish.member.as_str()));
    Ok(match suggested.write().await? {
        Reply::Ok(Tail(numbers)) => for_each_of(numbers, wishes.len())?
            .into_iter()
            .map(|number| match number {
                0 => Stepped::Erasing,
                number => Stepped::Done(number),
            })
            .collect(),
        Reply::Closed => {
            let end = shard.end_of(period).unwrap_or(Timestamp::MAX);
            vec![Stepped::Closed(end); wishes.len()]
        }
    })
}

/// Gives back the seat that was suggested to a member, in a cohort of a tier of this shard. Repeating it changes nothing.
pub async fn give_back(
    store: &Store,
    shard: &Shard,
    wish: &Wish,
    number: u32,
) -> Result<(), StoreError> {
    let given_back = store
        .call(&script::GIVE_BACK, shard.tag())
        .keys(keys::of_tier_seats(shard, &wish.period, wish.tier))
        .arg(wish.member.as_str())
        .arg(number);
    given_back.write::<Done>().await.map(drop)
}

/// Seats members in cohorts of this shard, up to [`CALL_MEMBERS_MAX`], no member twice.
pub async fn seat(
    store: &Store,
    shard: &Shard,
    sitters: &[Sitter],
) -> Result<Vec<Stepped<Seated>>, StoreError> {
    let mut keys = keys::head_and_registry(shard);
    let mut cohorts: Vec<CohortArgs> = Vec::new();
    let mut place_of: HashMap<Section, usize> = HashMap::new();
    for (index, Sitter { period, seat, .. }) in sitters.iter().enumerate() {
        let section = Section {
            period: *period,
            cohort: Some(seat.cohort),
        };
        let place = *place_of.entry(section).or_insert_with(|| {
            let (size, ends, expires) = terms_of(shard, period);
            let series = Series::shown(List::Period(period.unit));
            let standing = Standing::of(series, section);
            let first = keys.len() + 1;
            keys.push(keys::part(&keys::sorted_set(shard, &standing), Kind::Seats));
            keys.extend(keys::standing(shard, &standing));
            cohorts.push((first, size, ends, expires, Vec::new()));
            cohorts.len() - 1
        });
        cohorts[place].4.push(index + 1);
    }
    let Done::Ok(Tail(seated)) = store
        .call(&script::SEAT, shard.tag())
        .keys(keys)
        .field("version", shard.version())
        .field("now", latest(sitters.iter().map(|sitter| sitter.at)).ms())
        .field("layout", LayoutArgs::new(shard))
        .field("names", each(sitters, |sitter| sitter.member.as_str()))
        .field("cohorts", cohorts)
        .field(
            "taken",
            each(sitters, |sitter| tie_key_of(sitter.seat.joined_at)),
        )
        .field(
            "openings",
            each(sitters, |sitter| stored_score(shard, sitter.seat.opening)),
        )
        .field("joined", each(sitters, |sitter| sitter.at.us()))
        .field(
            "listed",
            each(sitters, |sitter| {
                if sitter.joins {
                    tie_key_of(sitter.at)
                } else {
                    0
                }
            }),
        )
        .write::<Done<Tail<Vec<_>>>>()
        .await?;
    for_each_of(seated, sitters.len())
}

/// How many seats of tiers were given out in a period, in their order.
pub async fn tier_seats(
    store: &Store,
    board: &std::sync::Arc<Board>,
    period: &Period,
    tiers: &[u8],
) -> Result<Vec<TierSeats>, StoreError> {
    let shards = board.shards();
    let reads = tiers.iter().map(async |tier| {
        let key = keys::of_tier(
            &shards[board.shard_of_tier(period, *tier)],
            Kind::Tiers,
            period,
            *tier,
        );
        let fields = [&key, "taken", "free"];
        let (taken, free): (Option<u64>, Option<String>) = store.command("HMGET", fields).await?;
        let free = free.unwrap_or_default();
        Ok(TierSeats {
            taken: taken.unwrap_or(0),
            free: free.split_whitespace().count() as u64,
        })
    });
    try_join_all(reads).await
}

/// The keys of the periods of a unit in which a member of this shard was seated, from one key to another, exclusive.
pub async fn seated_in_shard(
    store: &Store,
    shard: &Shard,
    unit: Unit,
    range: (&str, &str),
) -> Result<Vec<String>, StoreError> {
    let keys = [keys::head(shard.tag()), keys::periods(shard, unit)];
    seated(store, shard, keys, range, true).await
}

/// The keys of the final periods in which a member was seated.
pub async fn seated_in_final(
    store: &Store,
    board: &Board,
    unit: Unit,
    range: (&str, &str),
) -> Result<Vec<String>, StoreError> {
    let finals = keys::of_results(board, Kind::FinalPeriods, Window::Period(unit));
    let keys = [keys::head(board.id.as_str()), finals];
    seated(store, board, keys, range, false).await
}

async fn seated(
    store: &Store,
    board: &Board,
    keys: [String; 2],
    (from, to): (&str, &str),
    is_index: bool,
) -> Result<Vec<String>, StoreError> {
    let (mut from, mut found) = (from.to_owned(), Vec::new());
    loop {
        let part = store
            .call(&script::SEATED, board.id.as_str())
            .keys(&keys)
            .arg(board.version())
            .arg(from)
            .arg(to)
            .arg(is_index)
            .arg(CALL_LINES_MAX);
        let periods: Tail<Vec<String>>;
        Done::Ok((from, periods)) = part.read().await?;
        found.extend(periods.0);
        if from.is_empty() {
            return Ok(found);
        }
    }
}
