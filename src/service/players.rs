//! Seats in leagues: joining, the seat of a member, and what its seats before have led to.

use std::sync::Arc;

use super::moderation::hide_of;
use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::decision::Move;
use crate::domain::league::player::{Place, Played, start_of};
use crate::domain::league::{Cohort, Section};
use crate::domain::part::Part;
use crate::domain::period::Period;
use crate::domain::score::Score;
use crate::domain::series::{List, Series, Standing};
use crate::domain::time::Timestamp;
use crate::engine::reader::Reader;
use crate::engine::seats::{FoundPlayer, Reason, TakenSeat};
use crate::engine::{Engine, LiveBoard};
use crate::problems::Problem;
use crate::store::seats;
use crate::store::standings::{Page, Query, Selection, Sight};
use crate::store::{Freshness, StoreError};

/// What a league says of a member in one of its periods.
#[derive(Clone, Debug)]
pub struct Playing {
    /// Its seat in the period; `None`: it has none.
    pub seat: Option<OwnSeat>,
    /// Where it would be seated, if it has no seat in a period that is not over; `None` while its last seat is turned over.
    pub place: Option<Place>,
    /// What its last seat before the period has led to.
    pub last: Option<Played>,
}

/// The seat of a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OwnSeat {
    /// The cohort.
    pub cohort: Cohort,
    /// With which score the member began.
    pub opening: Score,
    /// Where the seat has led, if it was turned.
    pub moved: Option<Move>,
}

impl Playing {
    /// Reads what a league says of a member in a period.
    pub(super) async fn read(
        engine: &Engine,
        live: &LiveBoard,
        period: &Period,
        member: &MemberId,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let mut player = live.player(member).await?.map(|known| known.player);
        let running = live.board.calendar.containing(period.unit, now);
        let own = player.as_ref();
        let is_over = own.is_some_and(|own| own.is_to_be_turned(&running));
        let has_seat = own.is_some_and(|own| own.seat_in(period).is_some());
        let is_past = period.end_ms <= now.ms();
        let mut place = None;
        if (is_over || !(has_seat || is_past))
            && let Some(found) = look_up(engine, live, member).await?
        {
            place = found.place.filter(|_| !is_past).map(|place| {
                let tier = live.board.tier_in(place.tier, &found.period, period);
                Place { tier, ..place }
            });
            player = Some(found.player);
        }
        let seat = player.as_ref().and_then(|player| player.seat_in(period));
        let seat = seat.map(|seat| OwnSeat {
            cohort: seat.cohort,
            opening: seat.opening,
            moved: None,
        });
        let before = player.and_then(|player| player.before);
        let is_later = |played: &Played| start_of(period) > played.start;
        if seat.is_some() || before.as_ref().is_none_or(is_later) {
            let last = before;
            return Ok(Self { seat, place, last });
        }
        let shard = &live.shard_of(member).shard;
        let history = seats::played(&engine.store, shard, member)
            .await?
            .into_iter();
        let mut history = history.skip_while(|played| played.start > start_of(period));
        let (own, last) = match history.next() {
            Some(first) if first.start == start_of(period) => (Some(first), history.next()),
            newest => (None, newest),
        };
        let seat = own.map(|played| OwnSeat {
            cohort: played.cohort,
            opening: Score::default(),
            moved: Some(played.moved),
        });
        Ok(Self { seat, place, last })
    }
}

/// A member that has its seat.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The seat.
    pub taken: TakenSeat,
    /// Its cohort: how many members that has, and, as `me`, where the member stands, unless it is hidden.
    pub cohort: Arc<Page>,
}

/// Seats a member in the running period of a league, and lists it, unless it is there.
pub async fn join(service: &Service, id: &BoardId, member: &MemberId) -> Result<Joined, Error> {
    let taken = service.engine.seat(id, member, Reason::Join).await?;
    let section = Section {
        period: taken.period,
        cohort: Some(taken.seat.cohort),
    };
    let series = Series::shown(List::Period(section.period.unit));
    let look = async |live: Arc<LiveBoard>| {
        let [shard] = live.shards_of(section) else {
            panic!("invariant: a cohort lies in one shard");
        };
        let query = Query::Page {
            standing: Standing::of(series, section),
            selection: Selection::Behind(0),
            count: 1,
            member: Some(member.clone()),
        };
        let reader = Reader::new(&service.engine, &live, Freshness::Current);
        reader.ask(shard, series, query).await
    };
    let cohort = service.engine.with_board(id, look).await?;
    Ok(Joined { taken, cohort })
}

/// The seats of a member of a league that are turned: up to `count` of them, the newest first, before the period with a
/// key; with the board. Of a hidden member, who is not seen, nothing is told.
pub async fn history(
    service: &Service,
    id: &BoardId,
    member: &MemberId,
    (before, count): (Option<&str>, usize),
    sight: Sight,
) -> Result<(Arc<LiveBoard>, Part<Played>), Error> {
    let engine = &service.engine;
    engine
        .with_board(id, async |live| {
            let unit = live.board.league_unit();
            let unit = unit.ok_or_else(|| Problem::no_league(id))?;
            let calendar = &live.board.calendar;
            let before = before.map(|key| calendar.parse_key(unit, key)).transpose();
            let before = before.map_err(|error| Problem::invalid_parameter("before", error))?;
            let stored = live.player(member).await?;
            let running = calendar.containing(unit, engine.clock.now());
            if stored.is_some_and(|own| own.player.is_to_be_turned(&running)) {
                look_up(engine, &live, member).await?;
            }
            let shard = &live.shard_of(member).shard;
            let seats = seats::played(&engine.store, shard, member)
                .await?
                .into_iter();
            let is_seen = sight == Sight::Everybody || hide_of(engine, id, member).await?.is_none();
            let end = before.map_or(Timestamp::MAX, |period| start_of(&period));
            let seats = seats.filter(|played| is_seen && played.start < end);
            let key = |last: &Played| live.board.period_key_at(last.start);
            let part = Part::split(seats.take(count + 1).collect(), count, key);
            Ok((live, part))
        })
        .await
}

/// What is known of a member whose last seat is turned over, if it was to be. `None` where that can't be done: the board is
/// closed, or Redis takes no writes.
async fn look_up(
    engine: &Engine,
    live: &LiveBoard,
    member: &MemberId,
) -> Result<Option<FoundPlayer>, Error> {
    match engine.player(&live.board.id, member).await {
        Ok(found) => Ok(Some(found)),
        Err(Error::Rejected { .. } | Error::Store(StoreError::Full(_))) => Ok(None),
        Err(error) => Err(error),
    }
}
