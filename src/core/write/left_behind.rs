//! The job that settles reservations that were left behind, by the outcomes of their events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use parking_lot::Mutex;

use super::homes::CALL_SETTLED_MAX;
use super::store::reservations::{self, OpenReservation, Settlement, VOID_MS};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::domain::ids::BoardId;
use crate::domain::shard::Shard;

/// How many reservations of a shard are settled at once.
const SETTLED_AT_ONCE: usize = 8;

/// The boards whose homes are searched for reservations that are left behind, and when each is due. This repeats endlessly.
#[derive(Debug, Default)]
pub(crate) struct Homes(Mutex<BTreeMap<BoardId, Instant>>);

impl Homes {
    /// Adds a board that is new in memory, or removes one that left it.
    pub(crate) fn plan(&self, id: &BoardId, reserves: bool) {
        let mut homes = self.0.lock();
        if reserves {
            homes.insert(id.clone(), Instant::now());
        } else {
            homes.remove(id);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LeftBehind {
    /// The age from which a reservation counts as left behind.
    pub older_than: Duration,
    /// How often a home is searched.
    pub interval: Duration,
}

impl LeftBehind {
    /// What instances use.
    pub const USUAL: Self = Self {
        older_than: Duration::from_secs(15),
        interval: Duration::from_secs(5),
    };
}

impl Job for LeftBehind {
    type Item = Shard;
    const KIND: JobKind = JobKind::Reservations;

    fn subject(&self, home: &Shard) -> Subject {
        Subject::part(&home.board.id, home.tag())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Shard>, Error> {
        let (now, mut due) = (Instant::now(), Vec::new());
        let _planning = engine.boards.planning();
        engine.left_behind.0.lock().retain(|id, due_at| {
            if *due_at > now {
                return true;
            }
            *due_at = now + self.interval;
            let live = engine.boards.get(id);
            let homes = live.iter().flat_map(|live| &live.homes);
            due.extend(homes.map(|home| home.home.clone()));
            live.is_some()
        });
        Ok(due)
    }

    async fn step(&self, engine: &Engine, home: &mut Shard) -> Result<Progress, Error> {
        let older_than_ms = i64::try_from(self.older_than.as_millis()).unwrap_or(i64::MAX);
        let open = reservations::list_open(&engine.store, home, older_than_ms).await;
        let open = engine.unless_again(&home.id, open).await?;
        let ends: Vec<Result<Option<Settlement>, Error>> = stream::iter(open.unwrap_or_default())
            .map(async |open| engine.find_out(home, &open).await)
            .buffer_unordered(SETTLED_AT_ONCE)
            .collect()
            .await;
        let known: Vec<Settlement> = ends.iter().filter_map(|end| *end.as_ref().ok()?).collect();
        for part in known.chunks(CALL_SETTLED_MAX) {
            reservations::settle(&engine.store, home, part).await?;
        }
        ends.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Progress::Done)
    }
}

impl Engine {
    /// What to do with a reservation; `None`: try again later.
    async fn find_out(
        &self,
        home: &Shard,
        open: &OpenReservation,
    ) -> Result<Option<Settlement>, Error> {
        let token = open.token;
        if open.age_ms > VOID_MS {
            // The record may have expired, so the outcome can't be found out. Better one vote too few than one too many.
            return Ok(Some(Settlement {
                token,
                is_kept: true,
            }));
        }
        let voided = reservations::void(&self.store, home, open).await;
        let is_kept = self.unless_again(&home.id, voided).await?;
        Ok(is_kept.map(|is_kept| Settlement { token, is_kept }))
    }
}
