//! Where the members of a request's events sit in a league, which decides the cohorts of the events.
//!
//! The home shard of a member knows its seat. A seat that was found is kept in memory: it stays valid until its period is
//! over, unless its member is erased. Then the cohort does not know it any more, and says so.

use std::collections::HashMap;
use std::mem;

use futures::stream::{self, StreamExt};
use parking_lot::Mutex;

use super::seats::Reason;
use super::store::seats::KnownMember;
use super::submission::Submission;
use crate::core::{Engine, LiveBoard};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::{Cohort, Section};
use crate::domain::period::{Period, Unit};
use crate::runtime::join::join_all;

/// The maximum number of seats in a list in memory; then a new list begins. Two lists are kept.
const KNOWN_MAX: usize = 20_000;
/// How many members of a request are seated at once.
const SEATED_AT_ONCE: usize = 32;

/// Where a member sits in a period of a league, and where before.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Sitting {
    /// Its cohort in the period; `None` without a seat.
    pub(crate) cohort: Option<Cohort>,
    /// Its last cohort before that, where the ids of its last events are remembered; only if that matters.
    pub(crate) before: Option<Section>,
    /// Whether the member was erased and has had no data since. Then no cohort of its own that remembers ids is known.
    pub(crate) was_erased: bool,
    /// Whether this comes from memory, and so may be wrong.
    pub(crate) is_remembered: bool,
}

impl Sitting {
    fn of(board: &LiveBoard, known: &KnownMember, period: &Period) -> Self {
        let player = known.stored.iter().map(|stored| &stored.player);
        let last = player.clone().flat_map(|player| &player.seat);
        let before = player.flat_map(|player| &player.before);
        let all = last
            .map(|seat| (seat.start, seat.cohort))
            .chain(before.map(|seat| (seat.start, seat.cohort)))
            .map(|(start, cohort)| board.cohort_at(start, cohort));
        let own = all.clone().find(|seat| seat.period == *period);
        let mut earlier = all.filter(|seat| seat.period.start_ms < period.start_ms);
        Self {
            cohort: own.and_then(|own| own.cohort),
            before: earlier.next(),
            was_erased: known.was_erased,
            is_remembered: false,
        }
    }
}

/// Seats that were found, by their members and the beginnings of their periods.
#[derive(Debug, Default)]
pub(crate) struct KnownSeats(Mutex<[HashMap<(MemberId, i64), Sitting>; 2]>);

impl KnownSeats {
    fn get(&self, member: &MemberId, period: &Period) -> Option<Sitting> {
        let key = (member.clone(), period.start_ms);
        let lists = self.0.lock();
        let found = lists.iter().find_map(|list| list.get(&key).copied());
        found.map(|sitting| Sitting {
            is_remembered: true,
            ..sitting
        })
    }

    fn put(&self, member: &MemberId, period: &Period, sitting: Sitting) {
        let mut lists = self.0.lock();
        if lists[0].len() == KNOWN_MAX {
            lists[1] = mem::take(&mut lists[0]);
        }
        lists[0].insert((member.clone(), period.start_ms), sitting);
    }

    /// Forgets a seat that its cohort does not know.
    pub(crate) fn forget(&self, member: &MemberId, period: &Period) {
        let key = (member.clone(), period.start_ms);
        for list in &mut *self.0.lock() {
            list.remove(&key);
        }
    }
}

impl Engine {
    /// Finds out where the members of new events sit in the periods of the events, if the board is a league.
    pub(crate) async fn find_seats(&self, live: &LiveBoard, open: &mut [Submission]) {
        let Some(unit) = live.board.league_unit() else {
            return;
        };
        let mut unknown: HashMap<MemberId, Vec<usize>> = HashMap::new();
        for (index, submission) in open.iter_mut().enumerate() {
            let period = period_of(live, unit, submission);
            let member = &submission.incoming().member;
            match live.known_seats.get(member, &period) {
                Some(sitting) => submission.sitting = sitting,
                None => unknown.entry(member.clone()).or_default().push(index),
            }
        }
        let asked = unknown
            .into_iter()
            .map(async |(member, indexes)| (live.known_member(&member).await, indexes));
        for (found, indexes) in join_all(asked).await {
            for index in indexes {
                let submission = &mut open[index];
                let found = match &found {
                    Ok(found) => found,
                    Err(error) => {
                        submission.stage = error.clone().into();
                        continue;
                    }
                };
                let period = period_of(live, unit, submission);
                submission.sitting = Sitting::of(live, found, &period);
                if submission.sitting.cohort.is_some() {
                    let member = &submission.incoming().member;
                    live.known_seats.put(member, &period, submission.sitting);
                }
            }
        }
    }

    /// Seats members in the running period, for the events with these indexes. If that fails for a member, its events fail.
    pub(crate) async fn seat_all(
        &self,
        id: &BoardId,
        open: &mut [Submission],
        unseated: HashMap<MemberId, Vec<usize>>,
    ) {
        let waiting = &*open;
        let seated = unseated.into_iter().map(async |(member, indexes)| {
            let times = indexes.iter().map(|index| waiting[*index].incoming().at);
            let last = times
                .collect::<Option<Vec<_>>>()
                .and_then(|times| times.into_iter().max());
            let seat = self.seat(id, &member, Reason::Event(last)).await;
            (seat.err(), indexes)
        });
        let seated: Vec<_> = stream::iter(seated.collect::<Vec<_>>())
            .buffer_unordered(SEATED_AT_ONCE)
            .collect()
            .await;
        for (error, indexes) in seated {
            for (index, error) in indexes.into_iter().zip(error.into_iter().cycle()) {
                open[index].stage = error.into();
            }
        }
    }
}

fn period_of(live: &LiveBoard, unit: Unit, submission: &Submission) -> Period {
    live.board.calendar.containing(unit, submission.at())
}
