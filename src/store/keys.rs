//! The form of every key.
//!
//! All keys of a board share the hash tag `{board}`, so that they lie in one slot of a cluster and one
//! script can reach them all; those of a shard `{board:16:3}`. Behind it comes the generation, a stamp which tells a board from a deleted one of the
//! same name; the table has `1` in its place. Periods appear as users read them.
//!
//! | key | type | holds |
//! | --- | --- | --- |
//! | `st:{b}` | hash | `version`, `definition` (JSON), `used` once there are events |
//! | `st:{b}:1:keys` | set | the names of all keys below that don't expire by themselves, and of standings that do, for deletion |
//! | `st:{b}:1:day:2026-11-21` | sorted set | a standing (`scripts/lib/standing.lua` says what is in it) |
//! | `st:{b}:1:base-day:2026-11-21` | sorted set | the same without what was carried over, for rolling windows |
//! | `st:{b}:1:last-7-days:2026-11-21` | sorted set | a rolling standing |
//! | `st:{b}:1:initial-day:2026-11-21` | sorted set | a period's standing with the initial scores |
//! | `st:{b}:1:initial-scores:all` | sorted set | the initial scores |
//! | `st:{b}:1:real-day:2026-11-21`, … | sorted set | the same as without `real-`, without weights |
//! | …`:members`, …`:scores`, …`:total` | hash, sorted set, hash | a standing's members, its distinct scores, the sum of its scores, where its layout has them |
//! | `st:{b}:1:last-7-days`, `st:{b}:1:initial-day` | string | which standings of a derived series are there (`scripts/lib/derived.lua`) |
//! | `st:{b}:1:events-day:2026-11-21` | hash | how many events were taken in a period, where voters are counted, by the tag of the shard that took them |
//! | `st:{b}:1:voters-day:2026-11-21`, …`␟alice` | HyperLogLog | who has voted in a period, and for a member |
//! | `st:{b}:1:sketch:3` | HyperLogLog | the voters of a shard, while those of all shards are counted |
//! | `st:{b}:1:e:run-88231` | string | a remembered event id and its outcome; expires |
//! | `st:{b}:1:q:0:voter-hour:hour:2026-11-21T05:00Z`… | string, sorted set | what was taken of a quota (`scripts/lib/quota.lua`); expires where it can |
//! | `st:{b}:1:quotas` | set | the names of those that don't expire, for deletion |
//! | `st:{b:16:3}` | hash | of a shard: `version`, `used` once there are events; of a later sharding `st:{b:16:3:1}` |
//! | `st:{b}:1:changes`, `st:{b}:1:copied` | hash | what has changed, and what was copied, of a shard that moves away (`scripts/lib/moving.lua`) |
//! | `st:{b:16:3}:counts` | hash | of a shard where counts of quotas lie: `version` |
//! | `st:{b:16:3}:1:reserved` | hash | of a shard: what is reserved of the quotas whose counts lie there, by tokens (`scripts/reserve.lua`) |
//! | `st:{b:16:3}:1:reserving` | hash | pool → how many reservations of it are open |
//! | `st:{b:16:3}:1:t:`token | string | the outcome of an event without id, remembered under the token of its reservation; expires |
//! | `st:{b:16:3}:1:f:`token | string | events with the reservation of this token are void (`scripts/void.lua`); expires |
//! | `st:{boards}:live` | sorted set | the ids of all boards, all under score 0 |
//! | `st:{boards}:changes` | sorted set | board ids by the sequence number of their last change |
//! | `st:{boards}:sequence`, `st:{boards}:epoch` | integer, string | the last of these numbers; of what epoch they are (`scripts/announce.lua`) |
//! | `st:{boards}:stamp` | integer | the last stamp given out (`scripts/begin.lua`) |
//! | `st:{boards}:begun` | sorted set | `board stamp` by stamp: changes that were begun and not announced |
//! | `st:{boards}:moving` | set | the ids of boards that are on their way to other shards, and perhaps of some that were |
//! | `st:{boards}:deleted` | set | `generation board` that was deleted, and whose events are to be forgotten |
//! | `st:{boards}:leases` | hash | which instance does some work for all boards (`scripts/lease.lua`) |
//! | `st:{boards}:unneeded` | set | `generation board sharding` whose data is to be unlinked once nothing needs it |
//!
//! A window that was taken from a board and added again has its epoch behind its name: `day@5`.

use super::reservations::Token;
use crate::domain::ids::{BoardId, EventId};
use crate::domain::period::{Period, Unit};
use crate::domain::quota::Pool;
use crate::domain::series::{Layout, List, Series, Standing, Track};
use crate::domain::shard::{Shard, ShardId, Sharding};
use crate::domain::window::Window;

/// The set of shardings of boards whose data is to be unlinked.
pub const UNNEEDED: &str = "st:{boards}:unneeded";
/// The set of boards that were deleted and may have left what no registry names.
pub const DELETED: &str = "st:{boards}:deleted";
/// The leases of work for all boards.
pub const LEASES: &str = "st:{boards}:leases";
/// The pattern of keys that no registry names, since they expire by themselves.
pub const EXPIRING: &str = "st:{*}:*:[eqtf]:*";
/// The ids of all boards.
pub const LIVE: &str = "st:{boards}:live";
/// The ids of boards on their way to other shards.
pub const MOVING: &str = "st:{boards}:moving";
/// Board ids by the sequence number of their last change.
pub const CHANGES: &str = "st:{boards}:changes";
/// The last sequence number of a change.
pub const SEQUENCE: &str = "st:{boards}:sequence";
/// The epoch of the sequence numbers.
pub const EPOCH: &str = "st:{boards}:epoch";
/// The last stamp.
pub const STAMP: &str = "st:{boards}:stamp";
/// The changes that were begun.
pub const BEGUN: &str = "st:{boards}:begun";
/// What the keys of a standing end with beside that of its sorted set: members, distinct scores, their sum.
const PARTS: [&str; 3] = [":members", ":scores", ":total"];
/// The tag of the keys that all boards share; a board may have the same.
const SHARED_TAG: &str = "boards";
/// Stands before the id of a member in a key. Ids have no control characters.
const SEPARATOR: char = '\u{1f}';

/// The key of a board's definition; of a shard, of what it knows of it.
pub fn head(tag: &str) -> String {
    format!("st:{{{tag}}}")
}

/// The key of the names of a board's or a shard's keys.
pub fn registry(tag: &str, generation: u64) -> String {
    format!("st:{{{tag}}}:{generation}:keys")
}

/// The key of the names of a shard's counts of quotas that don't expire. They stay where they are when the board moves.
pub fn quotas_registry(tag: &str, generation: u64) -> String {
    format!("st:{{{tag}}}:{generation}:quotas")
}

/// The head of a shard where counts of quotas lie. It is the shard's own only where they lie with the board, since they
/// stay when the board moves.
pub fn counts_head(tag: &str, sharding: Sharding) -> String {
    if sharding.is_together() {
        head(tag)
    } else {
        format!("st:{{{tag}}}:counts")
    }
}

/// The key of what has changed in a shard that moves away.
pub fn changes(shard: &Shard) -> String {
    own(shard, "changes")
}

/// The key of what was copied of it.
pub fn copied(shard: &Shard) -> String {
    own(shard, "copied")
}

/// A key for the use of one script call.
pub fn scratch(shard: &Shard) -> String {
    own(shard, "scratch")
}

/// What a name in a registry is the key of, as far as it is copied to other shards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Named<'a> {
    /// A standing's sorted set.
    Standing {
        /// Whether it is a sum of others.
        is_derived: bool,
        /// Whether it lists all members whatever the layout says.
        lists_all: bool,
    },
    /// The number of events of a period.
    Events,
    /// The voters of a period, or of a member in it.
    Voters(Option<&'a str>),
}

/// What a name in the registry of a shard is the key of; `None` for what is not copied by itself.
pub fn named<'a>(shard: &Shard, name: &'a str) -> Option<Named<'a>> {
    let (series, rest) = name.strip_prefix(&own(shard, ""))?.split_once(':')?;
    let list = series.strip_prefix("real-").unwrap_or(series);
    if list.starts_with("events-") {
        return Some(Named::Events);
    }
    if list.starts_with("voters-") {
        let member = rest.split_once(SEPARATOR).map(|(_, member)| member);
        return Some(Named::Voters(member));
    }
    if PARTS.iter().any(|part| rest.ends_with(part)) {
        return None;
    }
    let lists_all = list == "initial-scores";
    Some(Named::Standing {
        is_derived: !lists_all && (list.starts_with("last-") || list.starts_with("initial-")),
        lists_all,
    })
}

/// What a key is for, as its name tells. The table above has all of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// What a board, or a shard, knows of its definition.
    Head,
    /// The same, where counts of quotas lie.
    CountsHead,
    /// The names of the others.
    Registry,
    /// What is in the registry: standings, states, turnouts.
    Data,
    /// What is noted while a shard is copied elsewhere.
    Moving,
    /// What was taken or is reserved of quotas; it stays where it is when a board moves.
    Quota,
    /// What is remembered of an event; it expires.
    Remembered,
    /// What is there for the time of a call.
    Passing,
    /// No such thing.
    Unknown,
}

/// The name of a key, taken apart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Name {
    /// Of which board,
    pub id: BoardId,
    /// of which of its shards,
    pub shard: ShardId,
    /// and of which generation of it it is; `None` of those that have none.
    pub generation: Option<u64>,
    /// What it is for.
    pub kind: Kind,
}

/// Whose a key is; `None` for those that all boards share, and those of others.
pub fn take_apart(key: &str) -> Option<Name> {
    let (tag, rest) = key.strip_prefix("st:{")?.split_once('}')?;
    let (id, shard) = ShardId::of_tag(tag)?;
    let name = |generation, kind| {
        Some(Name {
            id,
            shard,
            generation,
            kind,
        })
    };
    match rest {
        "" => return name(None, Kind::Head),
        ":counts" => return name(None, Kind::CountsHead),
        _ => {}
    }
    let Some((generation, rest)) = rest.strip_prefix(':')?.split_once(':') else {
        return (tag != SHARED_TAG).then(|| name(None, Kind::Unknown))?;
    };
    match generation.parse() {
        Ok(generation) => name(Some(generation), kind_of(rest)),
        Err(_) => name(None, Kind::Unknown),
    }
}

/// What a key is for by its name behind the generation.
fn kind_of(name: &str) -> Kind {
    match name {
        "keys" => return Kind::Registry,
        "changes" | "copied" => return Kind::Moving,
        "quotas" | "reserved" | "reserving" => return Kind::Quota,
        "scratch" => return Kind::Passing,
        _ => {}
    }
    let (series, _) = name.split_once(':').unwrap_or((name, ""));
    match series {
        "q" => Kind::Quota,
        "e" | "t" | "f" => Kind::Remembered,
        "sketch" => Kind::Passing,
        _ if list_of(series).is_some() => Kind::Data,
        _ => Kind::Unknown,
    }
}

/// The list of a series as keys name it, and its unit; `None` for what is no list. Turnouts are those of their periods.
fn list_of(series: &str) -> Option<List> {
    let (series, epoch) = series.split_once('@').unwrap_or((series, "0"));
    let _: u64 = epoch.parse().ok()?;
    let list = series.strip_prefix("real-").unwrap_or(series);
    let unit = |prefix| list.strip_prefix(prefix)?.parse().ok();
    if list == "initial-scores" {
        return Some(List::InitialScores);
    }
    if let Some(unit) = unit("base-") {
        return Some(List::Base(unit));
    }
    if let Some(unit) = unit("initial-") {
        return Some(List::Initial(unit));
    }
    if let Some(unit) = unit("events-").or_else(|| unit("voters-")) {
        return Some(List::Period(unit));
    }
    Some(match list.parse().ok()? {
        Window::Period(unit) => List::Period(unit),
        rolling @ Window::Rolling { .. } => List::Rolling(rolling),
    })
}

/// The standing with this sorted set, as far as the board's calendar knows its period. Its data may be that of an
/// earlier epoch.
pub fn standing_of(shard: &Shard, zset: &str) -> Option<Standing> {
    let (series, key) = zset.strip_prefix(&own(shard, ""))?.split_once(':')?;
    let list = list_of(series)?;
    let track = if series.starts_with("real-") {
        Track::Real
    } else {
        Track::Shown
    };
    let series = Series { list, track };
    let unit = series.window().map_or(Unit::All, Window::unit);
    let period = shard.calendar.parse_key(unit, key).ok()?;
    Some(Standing { series, period })
}

/// The sorted set that a key of a standing belongs to.
pub fn sorted_set_of(key: &str) -> &str {
    let part = PARTS.iter().find_map(|part| key.strip_suffix(part));
    part.unwrap_or(key)
}

/// The key of the state of the series of the derived standing with this sorted set.
pub fn state_of(zset: &str) -> &str {
    // A tag has colons, a generation and a series have none.
    let behind_tag = zset.find('}').unwrap_or_default();
    let mut colons = zset[behind_tag..].match_indices(':').skip(2);
    let end = colons.next().map_or(zset.len(), |(at, _)| behind_tag + at);
    &zset[..end]
}

/// A name without what all keys of the board, or shard, have in common.
pub fn short<'a>(shard: &Shard, name: &'a str) -> &'a str {
    name.strip_prefix(&own(shard, "")).unwrap_or(name)
}

/// What the names of the keys of a board match, or of all boards.
pub fn pattern(id: Option<&BoardId>) -> String {
    // No id has characters that mean something in a pattern.
    id.map_or_else(|| "st:{*".to_owned(), |id| format!("st:{{{id}[:}}]*"))
}

/// The same key of another shard of the board.
pub fn moved(name: &str, from: &Shard, to: &Shard) -> Option<String> {
    let name = name.strip_prefix(&own(from, ""))?;
    Some(own(to, name))
}

/// The keys of the standing with this sorted set, [`width`] of them.
pub fn of_sorted_set(zset: String, layout: Layout) -> impl Iterator<Item = String> {
    let [members, scores, total] = PARTS;
    let parts = [
        (members, layout.hashed),
        (scores, layout.dense),
        (total, layout.summed),
    ];
    let parts = parts.into_iter().filter(|(_, is_there)| *is_there);
    let parts: Vec<String> = parts.map(|(part, _)| format!("{zset}{part}")).collect();
    std::iter::once(zset).chain(parts)
}

/// The hash of the members of the standing with this sorted set, where its layout has one.
pub fn members(zset: &str) -> String {
    let [members, _, _] = PARTS;
    format!("{zset}{members}")
}

/// The hash of the sum of the scores of the standing with this sorted set, where its layout has one.
pub fn total(zset: &str) -> String {
    let [_, _, total] = PARTS;
    format!("{zset}{total}")
}

/// The sorted set and the member that a change of a standing names.
pub fn member_of(change: &str) -> Option<(&str, &str)> {
    change.split_once(SEPARATOR)
}

/// The keys that most scripts begin with: the head and the registry.
pub fn head_and_registry(shard: &Shard) -> Vec<String> {
    let tag = shard.tag();
    vec![head(tag), registry(tag, shard.generation)]
}

/// The key of a remembered event id.
pub fn event(shard: &Shard, id: &EventId) -> String {
    own(shard, &format!("e:{id}"))
}

/// The key of what was taken of a quota's pool.
pub fn quota(shard: &Shard, pool: &Pool) -> String {
    own(shard, &format!("q:{}", pool.name))
}

/// The key of what is reserved of the quotas whose counts lie in this shard.
pub fn reserved(shard: &Shard) -> String {
    own(shard, "reserved")
}

/// The key of how many reservations are open of each pool in this shard.
pub fn reserving(shard: &Shard) -> String {
    own(shard, "reserving")
}

/// The key under which an event without id is remembered by the token of its reservation.
pub fn event_of(shard: &Shard, token: Token) -> String {
    own(shard, &format!("t:{token}"))
}

/// The key of the mark that voids this token.
pub fn void(shard: &Shard, token: Token) -> String {
    own(shard, &format!("f:{token}"))
}

/// A key of the board's data.
fn own(shard: &Shard, name: &str) -> String {
    format!("st:{{{}}}:{}:{name}", shard.tag(), shard.generation)
}

/// The key of a series: of the state of a derived one, and the beginning of its standings' keys.
pub fn series(shard: &Shard, series: Series) -> String {
    let track = match series.track {
        Track::Shown => "",
        Track::Real => "real-",
    };
    let list = match series.list {
        List::Period(unit) => unit.to_string(),
        List::Base(unit) => format!("base-{unit}"),
        List::Rolling(window) => window.to_string(),
        List::Initial(unit) => format!("initial-{unit}"),
        List::InitialScores => "initial-scores".to_owned(),
    };
    recorded(shard, series.window(), &format!("{track}{list}"))
}

/// The key of something that is recorded from the epoch of a window on.
fn recorded(shard: &Shard, window: Option<Window>, name: &str) -> String {
    let epoch = match shard.epoch(window) {
        0 => String::new(),
        epoch => format!("@{epoch}"),
    };
    own(shard, &format!("{name}{epoch}"))
}

/// The key of the number of events of a period.
pub fn events(shard: &Shard, period: &Period) -> String {
    turnout(shard, "events", period)
}

/// The key of the voters of a period; with a separator and a member's id behind it, of those of the member.
pub fn voters(shard: &Shard, period: &Period) -> String {
    turnout(shard, "voters", period)
}

fn turnout(shard: &Shard, what: &str, period: &Period) -> String {
    let unit = period.unit;
    let series = recorded(shard, Some(Window::Period(unit)), &format!("{what}-{unit}"));
    format!("{series}:{}", shard.calendar.key(period))
}

/// The key of the voters of a member in a period.
pub fn member_voters(voters: &str, member: &str) -> String {
    format!("{voters}{SEPARATOR}{member}")
}

/// The key of the voters that sketch.lua and union.lua work on, of a board or shard; it is there for the time of a call
/// alone.
pub fn sketch(shard: &Shard, index: usize) -> String {
    own(shard, &format!("sketch:{index}"))
}

/// How many keys a standing has.
pub fn width(layout: Layout) -> usize {
    1 + [layout.hashed, layout.dense, layout.summed]
        .map(usize::from)
        .iter()
        .sum::<usize>()
}

/// The keys of a standing, [`width`] of them: its sorted set, its members, its distinct scores, their sum.
pub fn standing(shard: &Shard, standing: &Standing) -> impl Iterator<Item = String> + use<> {
    of_sorted_set(sorted_set(shard, standing), shard.layout())
}

/// The key of a standing's sorted set.
pub fn sorted_set(shard: &Shard, standing: &Standing) -> String {
    format!(
        "{}:{}",
        series(shard, standing.series),
        shard.calendar.key(&standing.period)
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::board::Board;
    use crate::domain::time::Timestamp;
    use crate::domain::window::Window;

    fn board(json: &str, epochs: &[(Window, u64)]) -> Board {
        let definition = serde_json::from_str(json).unwrap();
        let id = BoardId::parse("run_hero").unwrap();
        Board::new(id, definition, 7, 3, epochs.iter().copied().collect())
    }

    /// The only shard of a board, or its last one.
    fn shard(json: &str, epochs: &[(Window, u64)]) -> Shard {
        Arc::new(board(json, epochs)).shards().pop().unwrap()
    }

    fn shown(list: List) -> Series {
        Series::shown(list)
    }

    fn keys(shard: &Shard, series: Series, at: &str) -> Vec<String> {
        let unit = series.window().map_or(Unit::All, Window::unit);
        let period = shard
            .calendar
            .containing(unit, Timestamp::parse(at).unwrap());
        standing(shard, &Standing { series, period }).collect()
    }

    #[test]
    fn every_key_is_exactly_so() {
        let rolling: Window = "last-7-days".parse().unwrap();
        let first = shard(
            r#"{"windows": ["hour"], "ranking": "dense", "timezone": "Asia/Shanghai"}"#,
            &[],
        );
        assert_eq!(head(first.tag()), "st:{run_hero}");
        assert_eq!(registry(first.tag(), 7), "st:{run_hero}:7:keys");
        assert_eq!(
            event(&first, &EventId::parse("run-88231").unwrap()),
            "st:{run_hero}:7:e:run-88231"
        );
        assert_eq!(
            keys(
                &first,
                shown(List::Period(Unit::Hour)),
                "2026-11-21T00:30:00Z"
            ),
            [
                "st:{run_hero}:7:hour:2026-11-21T00:00Z",
                "st:{run_hero}:7:hour:2026-11-21T00:00Z:members",
                "st:{run_hero}:7:hour:2026-11-21T00:00Z:scores",
            ]
        );
        let plain = shard(
            r#"{"windows": ["day"], "ties": "member"}"#,
            &[(Window::Period(Unit::Day), 2), (rolling, 5)],
        );
        let at = "2026-11-21T00:30:00Z";
        assert_eq!(
            keys(&plain, shown(List::Period(Unit::Day)), at),
            ["st:{run_hero}:7:day@2:2026-11-21"]
        );
        assert_eq!(
            keys(&plain, shown(List::Base(Unit::Day)), at),
            ["st:{run_hero}:7:base-day@2:2026-11-21"]
        );
        assert_eq!(
            keys(&plain, shown(List::Rolling(rolling)), at),
            ["st:{run_hero}:7:last-7-days@5:2026-11-21"]
        );
        assert_eq!(
            series(&plain, shown(List::Rolling(rolling))),
            "st:{run_hero}:7:last-7-days@5"
        );
        assert_eq!(
            keys(&plain, shown(List::Period(Unit::All)), at),
            ["st:{run_hero}:7:all:all"]
        );
        let vote = shard(
            r#"{"windows": ["day"], "ties": "member", "weight": {}, "initial": ["day"], "uniques": "member"}"#,
            &[(Window::Period(Unit::Day), 2)],
        );
        assert_eq!(
            keys(&vote, shown(List::Initial(Unit::Day)), at),
            [
                "st:{run_hero}:7:initial-day@2:2026-11-21",
                "st:{run_hero}:7:initial-day@2:2026-11-21:total",
            ]
        );
        assert_eq!(
            keys(
                &vote,
                vote.series(Window::Period(Unit::Day), Track::Real),
                at
            )[0],
            "st:{run_hero}:7:real-day@2:2026-11-21"
        );
        assert_eq!(
            standing(&vote, &vote.initial_scores()).next().unwrap(),
            "st:{run_hero}:7:initial-scores:all"
        );
        let shard = &shard(
            r#"{"windows": ["day"], "shards": 4, "ties": "member"}"#,
            &[],
        );
        assert_eq!(head(shard.tag()), "st:{run_hero:4:3}");
        assert_eq!(
            keys(shard, shown(List::Period(Unit::Day)), at),
            ["st:{run_hero:4:3}:7:day:2026-11-21"]
        );
        let period = vote
            .calendar
            .containing(Unit::Day, Timestamp::parse(at).unwrap());
        assert_eq!(
            events(&vote, &period),
            "st:{run_hero}:7:events-day@2:2026-11-21"
        );
        assert_eq!(
            member_voters(&voters(&vote, &period), "a"),
            "st:{run_hero}:7:voters-day@2:2026-11-21\u{1f}a"
        );
    }

    #[test]
    fn what_all_boards_share_has_keys_of_its_own() {
        assert_eq!(
            [
                LIVE, CHANGES, SEQUENCE, EPOCH, STAMP, BEGUN, MOVING, UNNEEDED, DELETED, LEASES
            ],
            [
                "live", "changes", "sequence", "epoch", "stamp", "begun", "moving", "unneeded",
                "deleted", "leases"
            ]
            .map(|name| format!("st:{{boards}}:{name}"))
        );
    }

    #[test]
    fn what_is_copied_to_other_shards_is_told_by_its_name() {
        let mut sharded = board(r#"{"windows": ["day"], "shards": 4}"#, &[]);
        sharded.placement = sharded.placement.towards(2).closing();
        let sharded = Arc::new(sharded);
        let [from, to] = [
            &sharded.shards()[3],
            &sharded.shards_of(sharded.placement.next.unwrap().to)[1],
        ];
        let plain = |is_derived, lists_all| Named::Standing {
            is_derived,
            lists_all,
        };
        for (name, kind) in [
            ("day:2026-11-21", Some(plain(false, false))),
            ("real-hour@2:2026-11-21T00:00Z", Some(plain(false, false))),
            ("base-day:2026-11-21", Some(plain(false, false))),
            ("last-7-days:2026-11-21", Some(plain(true, false))),
            ("initial-day:2026-11-21", Some(plain(true, false))),
            ("initial-scores:all", Some(plain(false, true))),
            ("events-day:2026-11-21", Some(Named::Events)),
            ("voters-day:2026-11-21", Some(Named::Voters(None))),
            (
                "voters-day:2026-11-21\u{1f}a:b",
                Some(Named::Voters(Some("a:b"))),
            ),
            ("day:2026-11-21:members", None),
            ("day:2026-11-21:total", None),
            ("last-7-days", None),
            ("changes", None),
            ("copied", None),
        ] {
            let key = own(from, name);
            assert_eq!(named(from, &key), kind, "{name}");
            let there = moved(&key, from, to).unwrap();
            assert_eq!(there, format!("st:{{run_hero:2:1:1}}:7:{name}"));
            assert_eq!(named(from, &there), None, "of another shard");
        }
        let change = format!("{}\u{1f}a:members", own(from, "day:2026-11-21"));
        assert_eq!(
            member_of(&change),
            Some(("st:{run_hero:4:3}:7:day:2026-11-21", "a:members"))
        );
    }

    #[test]
    fn a_key_tells_whose_it_is_and_what_for() {
        let id = BoardId::parse("run_hero").unwrap();
        let [whole, shard] = [(1, 0), (16, 3)].map(|(shards, index)| ShardId {
            index,
            of: Sharding::first(shards),
        });
        for (key, of, generation, kind) in [
            ("st:{run_hero}", whole, None, Kind::Head),
            ("st:{run_hero:16:3}", shard, None, Kind::Head),
            ("st:{run_hero:16:3}:counts", shard, None, Kind::CountsHead),
            ("st:{run_hero}:other", whole, None, Kind::Unknown),
            ("st:{run_hero}:7:keys", whole, Some(7), Kind::Registry),
            ("st:{run_hero}:7:day:2026-11-21", whole, Some(7), Kind::Data),
            (
                "st:{run_hero:16:3}:7:real-last-7-days@5:2026-11-21:members",
                shard,
                Some(7),
                Kind::Data,
            ),
            ("st:{run_hero}:7:last-7-days", whole, Some(7), Kind::Data),
            (
                "st:{run_hero}:7:voters-day:2026-11-21\u{1f}a:b",
                whole,
                Some(7),
                Kind::Data,
            ),
            ("st:{run_hero}:7:copied", whole, Some(7), Kind::Moving),
            ("st:{run_hero}:7:q:0:day", whole, Some(7), Kind::Quota),
            ("st:{run_hero}:7:reserved", whole, Some(7), Kind::Quota),
            ("st:{run_hero}:7:e:é}:x", whole, Some(7), Kind::Remembered),
            ("st:{run_hero}:7:sketch:3", whole, Some(7), Kind::Passing),
            ("st:{run_hero}:7:days", whole, Some(7), Kind::Unknown),
        ] {
            let name = Name {
                id: id.clone(),
                shard: of,
                generation,
                kind,
            };
            assert_eq!(take_apart(key), Some(name), "{key}");
        }
        for other in ["other", "st:{boards}:live", "st:{run_hero:16:99}", LIVE] {
            assert_eq!(take_apart(other), None, "{other}");
        }
        let named = take_apart("st:{boards}:3:keys").unwrap();
        assert_eq!(named.id.as_str(), "boards");
        let zset = "st:{run_hero:16:3}:7:last-2-hours@5:2026-11-21T00:00Z";
        assert_eq!(sorted_set_of(&format!("{zset}:total")), zset);
        assert_eq!(state_of(zset), "st:{run_hero:16:3}:7:last-2-hours@5");
    }

    #[test]
    fn the_standing_of_a_key_is_found_again() {
        let vote = shard(
            r#"{"windows": ["day", "hour", "last-7-days"], "weight": {}, "initial": ["day"],
                "carryover": {"day": 0.5}, "timezone": "Asia/Shanghai"}"#,
            &[(Window::Period(Unit::Day), 2)],
        );
        let at = Timestamp::parse("2026-11-21T00:30:00Z").unwrap();
        let rolling = "last-7-days".parse().unwrap();
        for list in [
            List::Period(Unit::Day),
            List::Period(Unit::Hour),
            List::Base(Unit::Day),
            List::Rolling(rolling),
            List::Initial(Unit::Day),
        ] {
            for track in [Track::Shown, Track::Real] {
                let series = Series { list, track };
                let unit = series.window().unwrap().unit();
                let period = vote.calendar.containing(unit, at);
                let standing = Standing { series, period };
                let key = sorted_set(&vote, &standing);
                assert_eq!(standing_of(&vote, &key), Some(standing), "{key}");
            }
        }
        let scores = vote.initial_scores();
        let key = sorted_set(&vote, &scores);
        assert_eq!(standing_of(&vote, &key), Some(scores));
    }

    #[test]
    fn what_is_reserved_has_keys_of_its_own() {
        let shard = &shard(r#"{"windows": ["day"], "shards": 4}"#, &[]);
        let token = Token::from_bits(0x12_34ab);
        assert_eq!(
            [
                reserved(shard),
                reserving(shard),
                event_of(shard, token),
                void(shard, token)
            ],
            ["reserved", "reserving", "t:rSjEAAAAAAA", "f:rSjEAAAAAAA"]
                .map(|name| format!("st:{{run_hero:4:3}}:7:{name}"))
        );
    }
}
