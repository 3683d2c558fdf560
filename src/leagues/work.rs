//! Seats in leagues: joining, a member's seat, and the outcomes of its past seats.

use std::sync::Arc;

use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{Page, Question, Selection, ShardQuery, Visibility};
use crate::core::write::seats::{Reason, TakenSeat};
use crate::core::write::store::seats;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Section;
use crate::domain::league::player::{Played, start_of};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::series::{List, Series, Standing};
use crate::domain::time::Timestamp;
use crate::redis::Freshness;
use crate::standings::playing::look_up;

/// A member and its seat.
#[derive(Clone, Debug)]
pub struct Joined {
    pub taken: TakenSeat,
    /// Its cohort: the total, and the member's entry as `me`, unless it is hidden.
    pub cohort: Arc<Page>,
}

/// Seats a member in the running period of a league, and lists it, unless it is listed already.
pub async fn join(engine: &Engine, id: &BoardId, member: &MemberId) -> Result<Joined, Error> {
    let taken = engine.seat(id, member, Reason::Join).await?;
    let section = Section {
        period: taken.period,
        cohort: Some(taken.seat.cohort),
    };
    let series = Series::shown(List::Period(section.period.unit));
    let look = async |live: Arc<LiveBoard>| {
        let shard = live.shard_of_cohort(section);
        let page = Question::Page {
            selection: Selection::Behind(0),
            count: 1,
            member: Some(member.clone()),
        };
        let reader = Reader::new(engine, &live, Freshness::Current);
        let query = ShardQuery::new(Standing::of(series, section), page);
        reader.ask(shard, query).await
    };
    let cohort = engine.with_board(id, look).await?;
    Ok(Joined { taken, cohort })
}

/// The board, and a member's turned seats before the period with a key: up to `count`, newest first. None for a hidden
/// member.
pub async fn history(
    engine: &Engine,
    id: &BoardId,
    member: &MemberId,
    (before, count): (Option<&str>, usize),
    visibility: Visibility,
) -> Result<(Arc<LiveBoard>, Part<Played>), Error> {
    engine
        .with_board(id, async |live| {
            let unit = live
                .board
                .league_unit()
                .ok_or_else(|| Problem::no_league(id))?;
            let calendar = &live.board.calendar;
            let before = before
                .map(|key| calendar.parse_key(unit, key))
                .transpose()
                .map_err(|error| Problem::invalid_parameter("before", error))?;
            let stored = live.player(member).await?;
            let running = calendar.containing(unit, engine.clock.now());
            if stored.is_some_and(|own| own.player.is_to_be_turned(&running)) {
                look_up(engine, &live, member).await?;
            }
            let shard = &live.shard_of(member).shard;
            let mut seats = seats::played(&engine.store, shard, member).await?;
            let asked = std::slice::from_ref(member);
            let is_seen =
                visibility == Visibility::All || engine.hidden_among(id, asked).await?.is_empty();
            let end = before.map_or(Timestamp::MAX, |period| start_of(&period));
            seats.retain(|played| is_seen && played.start < end);
            let part = Part::split(seats, count, |last| live.board.period_key_at(last.start));
            Ok((live, part))
        })
        .await
}
