//! Finds the seat of a member of a league, and what its seat before has led to.

use std::sync::Arc;

use super::{Error, Service};
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Cohort;
use crate::domain::league::decision::Move;
use crate::domain::league::player::{Place, Played, Player, start_of};
use crate::domain::part::Part;
use crate::domain::period::{Period, Unit};
use crate::domain::score::Score;
use crate::domain::time::Timestamp;
use crate::engine::seats::FoundPlayer;
use crate::engine::{Engine, LiveBoard};
use crate::problems::Problem;
use crate::store::StoreError;
use crate::store::standings::Sight;

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
        let stored = stored(live, member).await?;
        let running = live.board.calendar.containing(period.unit, now);
        let is_over = stored
            .as_ref()
            .is_some_and(|own| own.is_to_be_turned(&running));
        let has_seat = stored
            .as_ref()
            .is_some_and(|own| own.seat_in(period).is_some());
        let is_past = period.end_ms <= now.ms();
        if !is_over && (has_seat || is_past) {
            return Self::of_player(engine, live, period, (member, stored), None).await;
        }
        let found = look_up(engine, live, member).await?;
        let place = found.as_ref().filter(|_| !is_past).and_then(|found| {
            let place = found.place?;
            let tier = live.board.tier_in(place.tier, &found.period, period);
            Some(Place { tier, ..place })
        });
        let player = found.map_or(stored, |found| Some(found.player));
        Self::of_player(engine, live, period, (member, player), place).await
    }

    /// What follows from what is stored of a member.
    async fn of_player(
        engine: &Engine,
        live: &LiveBoard,
        period: &Period,
        (member, player): (&MemberId, Option<Player>),
        place: Option<Place>,
    ) -> Result<Self, Error> {
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
        let history = engine.store.played(shard, member).await?.into_iter();
        let mut history = history.skip_while(|played| played.start > start_of(period));
        let newest = history.next();
        let (own, last) = match newest {
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

impl Service {
    /// The seats of a member of a league that are turned: up to `count` of them, the newest first, before the period with a
    /// key; with the board. Of a hidden member, who is not seen, nothing is told.
    pub async fn history(
        &self,
        id: &BoardId,
        member: &MemberId,
        (before, count): (Option<&str>, usize),
        sight: Sight,
    ) -> Result<(Arc<LiveBoard>, Part<Played>), Error> {
        self.engine
            .with_board(id, async |live| {
                let unit = live.board.league_unit();
                let unit = unit.ok_or_else(|| Problem::no_league(id))?;
                let before = before.map(|key| start_before(&live.board, unit, key));
                let before = before.transpose()?.unwrap_or(Timestamp::MAX);
                let seats = self.all_seats(&live, unit, member).await?;
                let is_seen = sight == Sight::Everybody || !self.is_hidden(id, member).await?;
                let seats = seats.into_iter().filter(|played| played.start < before);
                let seats = seats.filter(|_| is_seen).take(count + 1).collect();
                let key = |last: &Played| live.board.period_key_at(last.start);
                let part = Part::split(seats, count, key);
                Ok((live, part))
            })
            .await
    }

    async fn all_seats(
        &self,
        live: &LiveBoard,
        unit: Unit,
        member: &MemberId,
    ) -> Result<Vec<Played>, Error> {
        let stored = stored(live, member).await?;
        let running = live
            .board
            .calendar
            .containing(unit, self.engine.clock.now());
        if stored.is_some_and(|own| own.is_to_be_turned(&running)) {
            look_up(&self.engine, live, member).await?;
        }
        let shard = &live.shard_of(member).shard;
        Ok(self.engine.store.played(shard, member).await?)
    }

    /// Whether a member of a board is hidden.
    pub(super) async fn is_hidden(&self, id: &BoardId, member: &MemberId) -> Result<bool, Error> {
        let members = std::slice::from_ref(member);
        Ok(!self.engine.hidden_among(id, members).await?.is_empty())
    }
}

/// The beginning of the period with a key, before which seats are wanted.
fn start_before(board: &Board, unit: Unit, key: &str) -> Result<Timestamp, Error> {
    let period = board.calendar.parse_key(unit, key);
    let period = period.map_err(|error| Problem::invalid_parameter("before", error))?;
    Ok(start_of(&period))
}

/// What is stored of a member.
async fn stored(live: &LiveBoard, member: &MemberId) -> Result<Option<Player>, StoreError> {
    let known = live.player(member).await?;
    Ok(known.map(|stored| stored.player))
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
