//! The job that settles reservations that were left behind, by what became of their events.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};

use super::jobs::faults::Subject;
use super::jobs::schedule::Schedule;
use super::jobs::{Job, JobKind, Progress};
use super::reservations::{CALL_SETTLED_MAX, Settlement, tokens};
use super::{Engine, Error};
use crate::domain::ids::BoardId;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::store::reservations::{OpenReservation, VOID_MS};

/// How many reservations of a shard are looked after side by side.
const SETTLED_AT_ONCE: usize = 8;

/// The boards whose homes are looked at for reservations that are left behind.
#[derive(Debug)]
pub(super) struct Homes {
    /// By milliseconds since the beginning of this instance: a clock that never jumps.
    schedule: Schedule<BoardId>,
    begun: Instant,
}

impl Homes {
    /// Takes note of a board that is new in memory, or gone from there.
    pub(super) fn plan(&self, id: &BoardId, reserves: bool) {
        if reserves {
            self.schedule.set_due(id);
        } else {
            self.schedule.remove(id);
        }
    }

    fn now(&self) -> Timestamp {
        let ms = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_ms_clamped(ms)
    }
}

impl Default for Homes {
    fn default() -> Self {
        Self {
            schedule: Schedule::default(),
            begun: Instant::now(),
        }
    }
}

/// The job: settles reservations that are left behind, by what became of their events.
#[derive(Clone, Copy, Debug)]
pub struct LeftBehind {
    /// How old a reservation is when it is believed to be left behind.
    pub older_than: Duration,
    /// How often a home is looked at.
    pub interval: Duration,
}

impl Default for LeftBehind {
    fn default() -> Self {
        Self {
            older_than: Duration::from_secs(15),
            interval: Duration::from_secs(5),
        }
    }
}

impl Job for LeftBehind {
    type Item = Shard;
    const KIND: JobKind = JobKind::Reservations;

    fn subject(&self, home: &Shard) -> Subject {
        Subject::part(&home.board.id, home.tag())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Shard>, Error> {
        let (homes, now) = (&engine.left_behind, engine.left_behind.now());
        let interval_ms = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
        let mut due = Vec::new();
        let _planning = engine.boards.planning();
        for id in homes.schedule.due(now) {
            let Some(live) = engine.boards.get(&id) else {
                homes.schedule.remove(&id);
                continue;
            };
            homes
                .schedule
                .set(&id, now.ms().saturating_add(interval_ms));
            due.extend(live.homes.iter().map(|home| home.home.clone()));
        }
        Ok(due)
    }

    async fn step(&self, engine: &Engine, home: &mut Shard) -> Result<Progress, Error> {
        let older_than_ms = i64::try_from(self.older_than.as_millis()).unwrap_or(i64::MAX);
        engine.settle_left_behind(home, older_than_ms).await?;
        Ok(Progress::Done)
    }
}

impl Engine {
    async fn settle_left_behind(&self, home: &Shard, older_than_ms: i64) -> Result<(), Error> {
        let open = self.store.open_reservations(home, older_than_ms).await;
        let Some(open) = self.unless_again(&home.id, open).await? else {
            return Ok(());
        };
        let ends: Vec<Result<Option<Settlement>, Error>> = stream::iter(open)
            .map(async |open| self.find_out(home, &open).await)
            .buffer_unordered(SETTLED_AT_ONCE)
            .collect()
            .await;
        let known: Vec<Settlement> = ends.iter().filter_map(|end| *end.as_ref().ok()?).collect();
        for part in known.chunks(CALL_SETTLED_MAX) {
            let [kept, given_back] = tokens(part);
            self.store.settle(home, &kept, &given_back).await?;
        }
        ends.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
    }

    /// What is to become of a reservation; `None` if that has to be asked again.
    async fn find_out(
        &self,
        home: &Shard,
        open: &OpenReservation,
    ) -> Result<Option<Settlement>, Error> {
        let token = open.token;
        if open.age_ms > VOID_MS {
            // The record of its event may have expired, so that nobody can tell any more. One vote too few is better
            // than one too many.
            return Ok(Some(Settlement {
                token,
                is_kept: true,
            }));
        }
        let voided = self.store.void(home, open).await;
        let is_kept = self.unless_again(&home.id, voided).await?;
        Ok(is_kept.map(|is_kept| Settlement { token, is_kept }))
    }
}
