//! Reads the periods of a window: how each stands, and the results of those that are final.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use futures::future::try_join_all;

use super::period::{Choice, Target, find_window};
use super::{Error, Service};
use crate::domain::ids::BoardId;
use crate::domain::period::Unit;
use crate::domain::series::Track;
use crate::domain::state::PeriodState;
use crate::domain::window::Window;
use crate::engine::merge::Merged;
use crate::engine::reader::{ReadError, Reader};
use crate::engine::results::winner_of;
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::closings::Keys;
use crate::store::results::{Moderated, PeriodResult, Recorded, Winner};
use crate::store::standings::{Page, Selection};
use crate::store::{Freshness, StoreError, Versioned};

/// How a period stands.
#[derive(Clone, Debug)]
pub struct FoundPeriod {
    /// The period.
    pub target: Target,
    /// Its state.
    pub state: Option<PeriodState>,
    /// How many members it has.
    pub total: u64,
    /// The first of them.
    pub winner: Option<Winner>,
    /// Its result, if it has one.
    pub result: Option<PeriodResult>,
}

/// Some periods of a window.
#[derive(Clone, Debug)]
pub struct FoundPeriods {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The periods, the newest first.
    pub periods: Vec<FoundPeriod>,
    /// Before which key the next part lies; `None`: this was the last.
    pub next: Option<String>,
}

/// A period, and what its result has beside.
#[derive(Clone, Debug)]
pub struct FoundResult {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The period.
    pub period: FoundPeriod,
    /// Whether hides are not taken into account yet.
    pub is_revising: bool,
    /// The digest of its result; `None` where it is being made, or can't be made any more.
    pub digest: Option<String>,
}

/// What the heads of the shards say of hides and erasures, by their tags.
type Basis = BTreeMap<String, Moderated>;

/// Between which keys periods lie, both excluded.
#[derive(Clone, Debug, Default)]
pub struct Between {
    /// They are newer than this one.
    pub after: Option<String>,
    /// They are older than this one.
    pub before: Option<String>,
}

impl Service {
    /// The periods of a window that have data or a result: up to `count` of them, the newest first.
    pub async fn periods(
        &self,
        id: &BoardId,
        window: &str,
        between: &Between,
        count: usize,
    ) -> Result<FoundPeriods, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(id).await?;
            let (named, unit) = unit_of(&live, window)?;
            between.check(&live, unit)?;
            // One more than wanted tells whether there is a next part.
            let Some(mut keys) = self.keys_between(&live, unit, between, count + 1).await? else {
                self.engine.reload(id).await?;
                continue;
            };
            let is_more = keys.len() > count;
            keys.truncate(count);
            let next = keys.last().filter(|_| is_more).cloned();
            let store = &self.engine.store;
            let recorded = store.results(&live.board, named, &keys).await?;
            let found = keys.iter().zip(recorded);
            let found = found.map(|(key, recorded)| self.find_period(&live, window, key, recorded));
            match try_join_all(found).await {
                Ok(periods) => {
                    return Ok(FoundPeriods {
                        live,
                        periods,
                        next,
                    });
                }
                Err(ReadError::Retry) => {}
                Err(ReadError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::busy())
    }

    /// The newest keys of periods that have data or a result; `None` if the definition has changed.
    async fn keys_between(
        &self,
        live: &LiveBoard,
        unit: Unit,
        Between { after, before }: &Between,
        count: usize,
    ) -> Result<Option<Vec<String>>, Error> {
        let bound = |key: &'_ Option<String>| match key {
            Some(key) => Bound::Excluded(key.clone()),
            None => Bound::Unbounded,
        };
        let (from, to) = (bound(before), bound(after));
        let wanted = Keys {
            from: from.as_ref().map(String::as_str),
            to: to.as_ref().map(String::as_str),
            is_newest_first: true,
        };
        let store = &self.engine.store;
        let shards = live.shards.iter();
        let of_shards = shards.map(|shard| store.periods(&shard.shard, unit, wanted, count));
        let mut keys = BTreeSet::new();
        for of_shard in try_join_all(of_shards).await? {
            match of_shard {
                Versioned::Current(of_shard) => keys.extend(of_shard),
                Versioned::Stale => return Ok(None),
            }
        }
        let window = Window::Period(unit);
        let between = (after.as_deref(), before.as_deref());
        let finals = store.final_periods(&live.board, window, between, count);
        keys.extend(finals.await?);
        Ok(Some(keys.into_iter().rev().take(count).collect()))
    }

    /// How a period stands: as its result says, or else as it is read now.
    async fn find_period(
        &self,
        live: &LiveBoard,
        window: &str,
        key: &str,
        recorded: Option<Recorded>,
    ) -> Result<FoundPeriod, ReadError> {
        let now = self.engine.clock.now();
        let choice = Choice::Key(key.to_owned());
        let target = Target::find(live, window, Track::Shown, &choice, now)?;
        if recorded.is_some() {
            let mut found = FoundPeriod {
                target,
                state: None,
                total: 0,
                winner: None,
                result: None,
            };
            found.is_now(recorded);
            return Ok(found);
        }
        let reader = Reader::new(&self.engine, live, Freshness::Current);
        let page = if target.is_expired {
            Page::default()
        } else {
            let list = Merged::new(&reader, target.standing);
            Box::pin(list.page(Selection::Behind(0), 1, None)).await?
        };
        let state = live
            .board
            .state_of(&target.standing.period, reader.seen(), now);
        Ok(FoundPeriod {
            target,
            state,
            total: page.total,
            winner: winner_of(&page),
            result: None,
        })
    }

    /// A period of a window, with its digest if it is final.
    ///
    /// # Errors
    ///
    /// As [`Self::period_to_export`].
    pub async fn period_result(
        &self,
        id: &BoardId,
        window: &str,
        choice: &Choice,
    ) -> Result<FoundResult, Error> {
        let (found, basis) = self.found_result(id, window, choice).await?;
        let FoundResult { live, period, .. } = &found;
        let Some(result) = period.result.as_ref().filter(|_| !found.is_revising) else {
            return Ok(found);
        };
        let of = &period.target.standing.period;
        let digest = self.engine.digest(live, of, result, &basis).await?;
        Ok(FoundResult { digest, ..found })
    }

    /// A period of a window. The result of a final one takes all hides into account that were answered before, as far as
    /// there is time for that.
    ///
    /// # Errors
    ///
    /// [`Error::PeriodNotFound`] if it has neither data nor a result.
    pub async fn period_to_export(
        &self,
        id: &BoardId,
        window: &str,
        choice: &Choice,
    ) -> Result<FoundResult, Error> {
        let (found, _) = self.found_result(id, window, choice).await?;
        Ok(found)
    }

    async fn found_result(
        &self,
        id: &BoardId,
        window: &str,
        choice: &Choice,
    ) -> Result<(FoundResult, Basis), Error> {
        let mut is_finished = false;
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(id).await?;
            let (named, unit) = unit_of(&live, window)?;
            let now = self.engine.clock.now();
            let target = Target::find(&live, window, Track::Shown, choice, now)?;
            let key = target.key.clone();
            let keys = [key.clone()];
            let recorded = self.engine.store.results(&live.board, named, &keys).await?;
            let recorded = recorded.into_iter().flatten().next();
            let found = match self.find_period(&live, window, &key, recorded).await {
                Ok(found) => found,
                Err(ReadError::Retry) => continue,
                Err(ReadError::Failed(error)) => return Err(error),
            };
            if found.result.is_none() && !self.has_data(&live, unit, &found).await? {
                return Err(Error::PeriodNotFound {
                    board: id.clone(),
                    window: window.to_owned(),
                    key,
                });
            }
            let lacks_result = found.state == Some(PeriodState::Final) && found.result.is_none();
            if lacks_result && !is_finished {
                // A result that is missing then never comes: the period ended before `finalize` was set.
                is_finished = self.engine.finish_closing(id).await?;
                continue;
            }
            return self.revised(live, found).await;
        }
        Err(Error::busy())
    }

    /// Whether a period has data, of whomever.
    async fn has_data(
        &self,
        live: &LiveBoard,
        unit: Unit,
        found: &FoundPeriod,
    ) -> Result<bool, Error> {
        if found.total > 0 {
            return Ok(true);
        }
        let key = Bound::Included(found.target.key.as_str());
        let wanted = Keys {
            from: key,
            to: key,
            is_newest_first: false,
        };
        let shards = live.shards.iter();
        let of_shards = shards.map(|shard| {
            let store = &self.engine.store;
            store.periods(&shard.shard, unit, wanted, 1)
        });
        let of_shards = try_join_all(of_shards).await?;
        let is_there = |of_shard: &Versioned<Vec<String>>| match of_shard {
            Versioned::Current(keys) => !keys.is_empty(),
            Versioned::Stale => false,
        };
        Ok(of_shards.iter().any(is_there))
    }

    /// A period whose result takes all hides into account, or else is revising; and what the heads of the shards said before
    /// of hides and erasures.
    async fn revised(
        &self,
        live: Arc<LiveBoard>,
        mut period: FoundPeriod,
    ) -> Result<(FoundResult, Basis), Error> {
        let (mut basis, mut is_revising) = (Basis::new(), false);
        if period.result.is_some() {
            basis = self.engine.moderated(&live).await?;
            is_revising = match self.engine.revise(&live.board.id).await {
                Ok(_) => false,
                // The job goes on.
                Err(Error::Store(StoreError::Unavailable(_) | StoreError::Full(_))) => true,
                Err(error) => return Err(error),
            };
            let (window, keys) = (period.target.window, [period.target.key.clone()]);
            let recorded = self
                .engine
                .store
                .results(&live.board, window, &keys)
                .await?;
            period.is_now(recorded.into_iter().flatten().next());
        }
        let found = FoundResult {
            live,
            is_revising,
            period,
            digest: None,
        };
        Ok((found, basis))
    }
}

impl FoundPeriod {
    /// Takes over what is recorded.
    fn is_now(&mut self, recorded: Option<Recorded>) {
        if let Some(Recorded { result, .. }) = recorded {
            self.total = result.total;
            self.winner.clone_from(&result.winner);
            self.state = Some(PeriodState::Final);
            self.result = Some(result);
        }
    }
}

impl Between {
    /// Whether these are keys of periods.
    fn check(&self, live: &LiveBoard, unit: Unit) -> Result<(), Error> {
        let keys = [("after", &self.after), ("before", &self.before)];
        for (name, key) in keys {
            let Some(key) = key else { continue };
            let parsed = live.board.calendar.parse_key(unit, key);
            parsed.map_err(|error| Error::InvalidParameter {
                name,
                detail: error.to_string(),
            })?;
        }
        Ok(())
    }
}

/// A window that has results, and its unit.
pub(super) fn unit_of(live: &LiveBoard, window: &str) -> Result<(Window, Unit), Error> {
    match find_window(&live.board, window)? {
        window @ Window::Period(unit) => Ok((window, unit)),
        Window::Rolling { .. } => Err(Error::NoPeriods {
            board: live.board.id.clone(),
            window: window.to_owned(),
        }),
    }
}
