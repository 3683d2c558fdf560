//! A league member's data in a period: its seat, or where it would be seated, and the outcome of its last seat.

use crate::core::write::seats::FoundPlayer;
use crate::core::write::store::seats;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::MemberId;
use crate::domain::league::Cohort;
use crate::domain::league::decision::Move;
use crate::domain::league::player::{Place, Played, start_of};
use crate::domain::period::Period;
use crate::domain::score::Score;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;

/// A member's league data in a period.
#[derive(Clone, Debug)]
pub struct Playing {
    /// Its seat in the period, if it has one.
    pub seat: Option<OwnSeat>,
    /// Where it would be seated, if it has no seat in a period that is not over; `None` while its last seat is being
    /// turned.
    pub place: Option<Place>,
    /// The outcome of its last seat before the period.
    pub last: Option<Played>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OwnSeat {
    pub cohort: Cohort,
    /// The score with which the member began.
    pub opening: Score,
    /// The move from this seat, once it is turned.
    pub moved: Option<Move>,
}

impl Playing {
    /// Reads a member's league data in a period.
    pub(crate) async fn read(
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
        let seat = player
            .as_ref()
            .and_then(|player| player.seat_in(period))
            .map(|seat| OwnSeat {
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
        let mut history = seats::played(&engine.store, shard, member)
            .await?
            .into_iter()
            .skip_while(|played| played.start > start_of(period));
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

/// A member's league data, after turning its last seat if that is due. `None` where that can't be done: the board is
/// closed, or Redis takes no writes.
pub(crate) async fn look_up(
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
