//! Carries out corrections in a shard.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::carrying::Change;
use super::counting::{Concerned, Counted, Following};
use crate::core::write::store::events::{RowArgs, update_name};
use crate::core::write::store::key_list::KeyList;
use crate::domain::board::{Board, Uniques};
use crate::domain::clock::Clock;
use crate::domain::event::Event;
use crate::domain::ids::{EventId, MemberId};
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::Timestamp;
use crate::history::store::{CALL_ROWS_MAX, PlacedRow, placed_rows};
use crate::redis::args::{LayoutArgs, closes_ms};
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::reply::{Reply, require, unknown_code};
use crate::redis::{StoreError, keys, script};

/// For how long others wait for a correction, in milliseconds.
const WATCH_MS: i64 = 5_000;

/// A correction that runs in a shard.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    number: String,
    member: MemberId,
}

impl Watch {
    /// What no other correction of the board has.
    pub(super) fn occasion(&self, shard: &Shard) -> String {
        format!("{}:{}", shard.tag(), self.number)
    }
}

/// What correct.lua needs of an event that is added: its fingerprint, its tie key, and its voter, empty for none.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AddedArgs(u64, u64, String);

impl AddedArgs {
    /// Those of an event that counts for this instant.
    pub(super) fn new(board: &Board, event: &Event, at: Timestamp) -> Self {
        let tie_key = TieKey::new(board.definition.ties, at).number();
        let voter = event.origin.voter.as_ref();
        let voter = voter.map_or_else(String::new, ToString::to_string);
        Self(event.fingerprint(), tie_key, voter)
    }
}

/// What the rows read so far add to each of the standings; empty at the beginning.
pub(super) type Folds = Vec<Bytes>;
/// What further rows add to each of them.
pub(super) type Added<'a> = Vec<Vec<RowArgs<'a>>>;

/// How the last step ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It is done, but for the standings in these places, which have expired.
    Done(Vec<usize>),
    /// Nothing was changed: the member has further rows. With the number of bytes of the listed texts up to them.
    More(usize, Vec<PlacedRow>),
    /// Nothing was changed: the watch has ended, or the row has changed.
    Again,
    /// Nothing was changed: the member is being erased.
    Gone,
    /// Nothing was changed: a period is closed, and the board moves.
    Closed,
    /// Nothing was changed: a score would pass the bound.
    OutOfRange,
    /// Nothing was added: the member was erased after the event, at this instant.
    Erased(Timestamp),
    /// Nothing was added: an erased event had this id.
    Reused,
}

/// Begins a correction; `None` while another one runs.
pub(super) async fn begin(
    store: &Store,
    shard: &Shard,
    member: &MemberId,
    now: Timestamp,
) -> Result<Option<Watch>, StoreError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    enum Reply {
        Ok(String),
        Wait,
    }
    let call = store
        .call_version(&script::WATCH, shard)
        .field("layout", LayoutArgs::new(shard))
        .field("now", now.ms())
        .field("until", now.ms() + WATCH_MS)
        .field("member", member.as_str());
    Ok(match call.write::<Reply>().await? {
        Reply::Ok(number) => Some(Watch {
            number,
            member: member.clone(),
        }),
        Reply::Wait => None,
    })
}

/// Ends a correction that changes nothing.
pub(super) async fn end(store: &Store, shard: &Shard, watch: &Watch) -> Result<(), StoreError> {
    let call = store
        .call_version(&script::UNWATCH, shard)
        .field("layout", LayoutArgs::new(shard))
        .field("number", &watch.number);
    call.write::<Done>().await.map(drop)
}

/// The row of an event; `None` if it has none.
pub(super) async fn row(
    store: &Store,
    shard: &Shard,
    id: &EventId,
) -> Result<Option<Bytes>, StoreError> {
    let key = keys::single(shard, Kind::Events);
    store.command("HGET", [key.as_str(), id.as_str()]).await
}

/// The rows of some events of a shard; `None` for those without one.
pub(super) async fn rows(
    store: &Store,
    shard: &Shard,
    ids: &[EventId],
) -> Result<Vec<Option<Bytes>>, StoreError> {
    let key = keys::single(shard, Kind::Events);
    let ids = ids.iter().map(EventId::as_str);
    store
        .command("HMGET", std::iter::once(key.as_str()).chain(ids))
        .await
}

/// Of what was accepted before this instant a shard may have removed rows; `None` if it has removed none.
pub(super) async fn events_from(
    store: &Store,
    shard: &Shard,
) -> Result<Option<Timestamp>, StoreError> {
    let head = keys::head(shard.tag());
    let ms: Option<i64> = store
        .command("HGET", [head.as_str(), "events_from"])
        .await?;
    Ok(ms.map(Timestamp::from_ms_clamped))
}

/// Adds what rows add to the folds of the standings.
pub(super) async fn fold(
    call: &CorrectionCall<'_>,
    folds: &Folds,
    added: &Added<'_>,
) -> Result<Option<Folds>, StoreError> {
    let mut reply = call.send(folds, added, None).await?;
    match reply.text()?.as_str() {
        "FOLDED" => reply.all(Reply::bytes).map(Some),
        "AGAIN" => Ok(None),
        "STALE" => Err(StoreError::Stale),
        other => unknown_code(other),
    }
}

/// Adds what rows add, and changes these rows and all entries. `seen`: how many bytes of the listed texts the caller has seen.
pub(super) async fn correct(
    call: &CorrectionCall<'_>,
    folds: &Folds,
    added: &Added<'_>,
    (changes, seen): (&[Change], usize),
) -> Result<Ended, StoreError> {
    let mut reply = call.send(folds, added, Some((changes, seen))).await?;
    Ok(match reply.text()?.as_str() {
        "OK" => Ended::Done(reply.all(Reply::index)?),
        "MORE" => {
            let seen = reply.read()?;
            Ended::More(seen, placed_rows(&mut reply)?)
        }
        "AGAIN" => Ended::Again,
        "GONE" => Ended::Gone,
        "CLOSED" => Ended::Closed,
        "OUT_OF_RANGE" => Ended::OutOfRange,
        "ERASED" => {
            let instant = TieKey::from_number(reply.read()?).instant(Ties::First);
            Ended::Erased(require(instant, "a tie key has no instant")?)
        }
        "REUSED" => Ended::Reused,
        "STALE" => return Err(StoreError::Stale),
        other => return unknown_code(other),
    })
}

/// What all calls of a correction have.
pub(super) struct CorrectionCall<'a> {
    pub(super) store: &'a Store,
    pub(super) shard: &'a Shard,
    pub(super) watch: &'a Watch,
    pub(super) concerned: &'a Concerned,
    pub(super) clock: &'a Clock,
}

/// A standing in the arguments of correct.lua.
#[derive(Serialize)]
struct StandingArgs<'a>(usize, i64, i64, String, bool, &'a [RowArgs<'a>], i64);

/// A derived series in them.
#[derive(Serialize)]
struct SumArgs {
    state: usize,
    starts: Vec<i64>,
    has_initial: bool,
    periods: Vec<(i64, usize)>,
}

impl CorrectionCall<'_> {
    async fn send(
        &self,
        folds: &Folds,
        added: &Added<'_>,
        last: Option<(&[Change], usize)>,
    ) -> Result<Reply, StoreError> {
        let &Self {
            store,
            shard,
            watch,
            concerned,
            clock,
        } = self;
        let now = clock.now();
        let mut keys = KeyList::of(shard);
        let standing = |(counted, added): (&Counted, _)| {
            let index = keys.standing(counted.standing);
            let period = &counted.standing.period;
            let end = shard.end_of(period);
            StandingArgs(
                index,
                counted.expires_at_ms.unwrap_or(0),
                end.map_or(0, Timestamp::ms),
                counted.result_title(shard).unwrap_or_default(),
                shard.has_unkept(period),
                added,
                shard.expires_at_ms(period).unwrap_or(0),
            )
        };
        let added = added.iter().map(Vec::as_slice);
        let standings: Vec<_> = concerned
            .standings
            .iter()
            .zip(added)
            .map(standing)
            .collect();
        let following = concerned.following.iter().filter(|_| last.is_some());
        let sums: Vec<_> = following
            .map(|following| sum_args(&mut keys, following))
            .collect();
        let has_initial = sums.iter().any(|sum| sum.has_initial);
        let initial = if has_initial {
            keys.standing(shard.initial_scores())
        } else {
            0
        };
        let turnouts: Vec<_> = concerned
            .turnouts
            .iter()
            .map(|(period, counted)| {
                let events = keys.add(keys::of_period(shard, Kind::Turnout, period));
                let voters = keys.add(keys::voters(shard, period));
                let [kept_until, end, closed] = [
                    shard.kept_until_ms(period),
                    shard.end_of(period).map(Timestamp::ms),
                    shard.expires_at_ms(period),
                ]
                .map(Option::unwrap_or_default);
                (events, voters, kept_until, end, closed, *counted)
            })
            .collect();
        let changes = last.map_or(&[][..], |(changes, _)| changes);
        let added_args = changes.iter().find_map(|change| change.added.as_ref());
        let mut call = store
            .call_version(&script::CORRECT, shard)
            .with_keys(keys.all)
            .field("now", now.ms())
            .field("layout", LayoutArgs::new(shard))
            .field("update", update_name(shard))
            .field("score_max", shard.definition.decimals.score_max().scaled())
            .field("number", &watch.number)
            .field("member", watch.member.as_str())
            .field("standings", standings)
            .field("is_last", last.is_some())
            .field("is_moving", shard.placement.next.is_some())
            .field("seen", last.map_or(0, |(_, seen)| seen))
            .field("rows_max", CALL_ROWS_MAX)
            .field("until", now.ms() + WATCH_MS)
            .field("sums", sums)
            .field("initial", initial)
            .field("closes", closes_ms(shard))
            .field("turnouts", turnouts)
            .field("tag", shard.tag())
            .field(
                "by_member",
                shard.definition.uniques == Some(Uniques::Member),
            )
            .field("revocation", shard.last_revocation())
            .field("added", added_args)
            .args(folds.iter().cloned());
        for change in changes {
            let before = change.before.as_ref().map(|(stored, _)| stored.clone());
            call = call.arg(change.id.as_str()).arg(before.unwrap_or_default());
            call = call.arg(change.stored()?);
        }
        Reply::new(call.write_for_reply().await?)
    }
}

fn sum_args(keys: &mut KeyList<'_>, following: &Following) -> SumArgs {
    let derived = &following.derived;
    let periods = following.periods.iter().map(|period| {
        let standing = Standing::of(derived.base, *period);
        (period.start_ms, keys.standing(standing))
    });
    SumArgs {
        periods: periods.collect(),
        state: keys.state(derived.series),
        starts: following.starts.clone(),
        has_initial: derived.has_initial,
    }
}
