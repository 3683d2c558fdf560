//! The cohorts in which a league member sat: its history has the newest seats. Earlier ones are found by the data that they
//! left.

use std::collections::HashSet;

use super::store;
use crate::core::write::store::seats::{self, HISTORY_LINES_MAX};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::MemberId;
use crate::domain::league::Section;
use crate::domain::period::Period;
use crate::domain::window::Window;
use crate::periods::rewards;
use crate::runtime::join::try_join_all;

/// How many cohorts are checked concurrently.
const COHORTS_AT_ONCE: usize = 100;

/// The known seats of a league member, unordered, including one that is not turned yet; and the period before which there
/// may be others, because a long history loses its first lines; `None`: there are no others.
pub(crate) async fn of_member(
    engine: &Engine,
    live: &LiveBoard,
    member: &MemberId,
) -> Result<(HashSet<Section>, Option<Period>), Error> {
    let home = &live.shard_of(member).shard;
    // The player first: a seat that is turned meanwhile is then in its history.
    let found = live.player(member).await?;
    let played = seats::played(&engine.store, home, member).await?;
    let seat = found
        .and_then(|found| found.player.seat)
        .into_iter()
        .map(|seat| live.cohort_at(seat.start, seat.cohort));
    let played = played
        .iter()
        .map(|played| live.cohort_at(played.start, played.cohort));
    let seats: HashSet<Section> = seat.chain(played).collect();
    let is_cut = seats.len() >= HISTORY_LINES_MAX;
    let first = seats
        .iter()
        .map(|seat| seat.period)
        .min_by_key(|period| period.start_ms);
    Ok((seats, first.filter(|_| is_cut)))
}

/// The cohort in which a league member sat in a period; if its history no longer has that period, the one in which it has
/// rewards.
pub(crate) async fn rewarded_seat(
    engine: &Engine,
    live: &LiveBoard,
    member: &MemberId,
    period: &Period,
) -> Result<Option<Section>, Error> {
    engine
        .with_board(&live.board.id, async |live| {
            let (seats, first) = of_member(engine, &live, member).await?;
            let known = seats.iter().find(|seat| seat.period == *period);
            let is_earlier = |first: Period| period.start_ms < first.start_ms;
            if known.is_some() || !first.is_some_and(is_earlier) {
                return Ok(known.copied());
            }
            let (board, window) = (&live.board, Window::Period(period.unit));
            let key = board.calendar.key(period);
            // After the names of its cohorts.
            let mut before = format!("{key}0");
            loop {
                let between = (Some(key.as_str()), Some(before.as_str()));
                let names =
                    store::final_periods(&engine.store, board, window, between, COHORTS_AT_ONCE)
                        .await?;
                let won = names
                    .iter()
                    .filter_map(|name| board.section_named(period.unit, name))
                    .map(async |section| {
                        let shard = &live.shard_in(section, member).shard;
                        let won = rewards::store::of_member(
                            &engine.store,
                            shard,
                            &section,
                            member.as_str(),
                        );
                        Ok::<_, Error>((!won.await?.is_empty()).then_some(section))
                    });
                let won = try_join_all(won).await?;
                if let Some(found) = won.into_iter().flatten().next() {
                    return Ok(Some(found));
                }
                match names.into_iter().nth(COHORTS_AT_ONCE - 1) {
                    Some(last) => before = last,
                    None => return Ok(None),
                }
            }
        })
        .await
}
