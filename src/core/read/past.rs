//! Builds past derived standings on request.
//!
//! The derived standings of the running period and of the one before are kept (`rollover.rs`). An older one is built when
//! it is read, and then kept for a while. Without a bound, a client that reads many of them would leave Redis no time for
//! others. So an instance builds for one request at a time, and rests after each step for as long as the step took. Other
//! requests wait in line, one at a time for each client. A client that has used up its allowance is refused for a while.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::timeout;

use crate::core::Error;
use crate::domain::access::Taker;
use crate::domain::clock::Clock;
use crate::domain::problems::Problem;
use crate::domain::time::Timestamp;

/// How long a client waits until it may take another step, in milliseconds. A step is about a millisecond of Redis.
const STEP_MS: u64 = 10;
/// How many steps a client may take in advance.
const STEPS_MAX: u64 = 1_000;
/// How many reads of a client may wait: more than one request may have.
const WAITING_MAX: usize = 128;
/// How many reads may wait in all.
const WAITING_IN_ALL_MAX: usize = 512;
/// From this many clients on, those whose allowance is whole are forgotten.
const TAKERS_KNOWN: usize = 1_024;

#[derive(Debug)]
pub(crate) struct BuildQueue {
    places: Arc<Semaphore>,
    turn: Arc<Semaphore>,
    shares: Mutex<HashMap<Taker, Arc<Share>>>,
}

impl Default for BuildQueue {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(WAITING_IN_ALL_MAX)),
            turn: Arc::new(Semaphore::new(1)),
            shares: Mutex::default(),
        }
    }
}

/// A client's share of the line.
#[derive(Debug)]
struct Share {
    places: Arc<Semaphore>,
    turn: Arc<Semaphore>,
    ahead: Mutex<Ahead>,
}

/// How far a client is ahead of its allowance.
#[derive(Debug)]
struct Ahead {
    /// In how many milliseconds its allowance is whole.
    ms: u64,
    /// The time from which this counts.
    as_of: Timestamp,
}

impl Share {
    fn new(now: Timestamp) -> Self {
        Self {
            places: Arc::new(Semaphore::new(WAITING_MAX)),
            turn: Arc::new(Semaphore::new(1)),
            ahead: Mutex::new(Ahead { ms: 0, as_of: now }),
        }
    }

    /// In how many milliseconds the client's allowance is whole, after `steps` more steps.
    fn spend(&self, steps: u64, now: Timestamp) -> u64 {
        let mut ahead = self.ahead.lock();
        // A clock that was set back makes no client wait longer.
        let passed = u64::try_from(now.ms() - ahead.as_of.ms()).unwrap_or(0);
        ahead.ms = ahead.ms.saturating_sub(passed) + steps * STEP_MS;
        ahead.as_of = now;
        ahead.ms
    }

    /// How long the client must wait until some of its allowance is left; `None`: some is left.
    fn used_up_for(&self, now: Timestamp) -> Option<Duration> {
        let over_ms = self.spend(0, now).checked_sub(STEPS_MAX * STEP_MS)?;
        (over_ms > 0).then(|| Duration::from_millis(over_ms))
    }
}

/// The patience of a request, shared by all of its attempts: until when it waits for standings that are being completed,
/// whether for its turn or for steps, and its turn to build those of the past, once it has one.
#[derive(Debug)]
pub(crate) struct Patience {
    taker: Option<Taker>,
    until: OnceLock<Instant>,
    turn: OnceCell<Turn>,
}

impl Patience {
    /// That of a request of this client; `None`: one whose building has no limit.
    pub(crate) fn of(taker: Option<Taker>) -> Self {
        Self {
            taker,
            until: OnceLock::new(),
            turn: OnceCell::new(),
        }
    }

    /// Until when the request waits: for so long after it first had to.
    pub(crate) fn until(&self, wait_max: Duration) -> Instant {
        *self.until.get_or_init(|| Instant::now() + wait_max)
    }

    /// The turn of the request, for which it waits until this instant; `None` if its building has no limit.
    ///
    /// # Errors
    ///
    /// Those of [`BuildQueue::turn`].
    pub(crate) async fn turn(
        &self,
        line: &BuildQueue,
        clock: &Clock,
        until: Instant,
    ) -> Result<Option<&Turn>, Error> {
        let Some(taker) = &self.taker else {
            return Ok(None);
        };
        let left = until.saturating_duration_since(Instant::now());
        let turn = || line.turn(taker, clock, left);
        Ok(Some(self.turn.get_or_try_init(turn).await?))
    }
}

/// The turn of a request. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    share: Arc<Share>,
    /// The shards of a board build one after the other.
    pub(crate) alone: tokio::sync::Mutex<()>,
    _held: [OwnedSemaphorePermit; 4],
}

impl Turn {
    /// Counts a step that took this long and ends now, and rests.
    pub(crate) async fn rest(&self, took: Duration, now: Timestamp) {
        self.share.spend(1, now);
        tokio::time::sleep(took).await;
    }
}

impl BuildQueue {
    /// Waits for the turn of a request of this client.
    ///
    /// # Errors
    ///
    /// [`Error::TooMuchPast`] if too many requests wait, the turn does not come in time, or the allowance is used up.
    pub(crate) async fn turn(
        &self,
        taker: &Taker,
        clock: &Clock,
        wait_max: Duration,
    ) -> Result<Turn, Error> {
        let share = self.share_of(taker, clock.now());
        let own_place = place(&share.places)?;
        let place = place(&self.places)?;
        let turns = async {
            let own_turn = Arc::clone(&share.turn).acquire_owned().await;
            if let Some(wait) = share.used_up_for(clock.now()) {
                return Err(Error::TooMuchPast(wait));
            }
            let turn = Arc::clone(&self.turn).acquire_owned().await;
            let never =
                |_| Error::from(Problem::internal("the queue for past standings has ended"));
            Ok([own_turn.map_err(never)?, turn.map_err(never)?])
        };
        let [own_turn, turn] = timeout(wait_max, turns)
            .await
            .unwrap_or(Err(Error::TooMuchPast(Duration::ZERO)))?;
        Ok(Turn {
            share,
            alone: tokio::sync::Mutex::default(),
            _held: [own_place, place, own_turn, turn],
        })
    }

    fn share_of(&self, taker: &Taker, now: Timestamp) -> Arc<Share> {
        let mut shares = self.shares.lock();
        if shares.len() >= TAKERS_KNOWN {
            shares.retain(|_, share| Arc::strong_count(share) > 1 || share.spend(0, now) > 0);
        }
        let share = match shares.entry(taker.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(Arc::new(Share::new(now))),
        };
        Arc::clone(share)
    }
}

fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Error> {
    let full = |_: TryAcquireError| Error::TooMuchPast(Duration::ZERO);
    Arc::clone(places).try_acquire_owned().map_err(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::MemberId;

    const LONG: Duration = Duration::from_mins(1);

    fn clock() -> Clock {
        Clock::set_to(Timestamp::from_ms_clamped(0))
    }

    fn taker(name: &str) -> Taker {
        Taker::Player(MemberId::parse(name).unwrap())
    }

    fn refused(turn: Result<Turn, Error>) -> Duration {
        match turn {
            Err(Error::TooMuchPast(wait)) => wait,
            turn => panic!("{turn:?}"),
        }
    }

    #[tokio::test]
    async fn a_client_has_one_turn_at_a_time_between_others() {
        let line = Arc::new(BuildQueue::default());
        let (one, other) = (taker("one"), taker("other"));
        let first = line.turn(&one, &clock(), LONG).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (taker, name) in [(&one, "one"), (&one, "one again"), (&other, "other")] {
            let (line, taker, order) = (Arc::clone(&line), taker.clone(), Arc::clone(&order));
            let wait = tokio::spawn(async move {
                let _turn = line.turn(&taker, &clock(), LONG).await.unwrap();
                order.lock().push(name);
                tokio::task::yield_now().await;
            });
            waiting.push(wait);
            // It is in line before the next one is.
            tokio::task::yield_now().await;
        }
        assert!(order.lock().is_empty());
        drop(first);
        for wait in waiting {
            wait.await.unwrap();
        }
        let order = order.lock().clone();
        assert_eq!(order, ["other", "one", "one again"]);
    }

    #[tokio::test]
    async fn waiting_for_the_turn_and_for_the_standings_share_one_limit() {
        const WAITED: Duration = Duration::from_millis(20);
        let (line, clock, one) = (BuildQueue::default(), clock(), taker("one"));
        let held = line.turn(&one, &clock, LONG).await.unwrap();
        let patience = Patience::of(Some(one));
        let waits = async {
            let until = patience.until(LONG);
            patience.turn(&line, &clock, until).await.unwrap()
        };
        let holds = async {
            tokio::time::sleep(WAITED).await;
            drop(held);
        };
        let (turn, ()) = tokio::join!(waits, holds);
        let left = patience.until(LONG) - Instant::now();
        assert!(left + WAITED <= LONG, "{left:?}");
        // The next attempt of the request goes on with its turn.
        let again = patience.turn(&line, &clock, Instant::now()).await.unwrap();
        assert!(std::ptr::eq(turn.unwrap(), again.unwrap()));
    }

    #[tokio::test]
    async fn places_and_waits_are_bounded() {
        let (line, clock) = (BuildQueue::default(), clock());
        let one = taker("one");
        let held = line.turn(&one, &clock, LONG).await.unwrap();
        let waited = line.turn(&one, &clock, Duration::ZERO).await;
        assert_eq!(refused(waited), Duration::ZERO);
        let places = Arc::clone(&held.share.places);
        let left = u32::try_from(places.available_permits()).unwrap();
        let _others = places.acquire_many(left).await.unwrap();
        let waited = line.turn(&one, &clock, LONG).await;
        assert_eq!(refused(waited), Duration::ZERO);
        drop(held);
        let other = taker("other");
        line.turn(&other, &clock, LONG).await.unwrap();
    }

    #[tokio::test]
    async fn only_a_client_without_allowance_waits() {
        let (line, clock) = (BuildQueue::default(), clock());
        let (one, other) = (taker("one"), taker("other"));
        let turn = line.turn(&one, &clock, LONG).await.unwrap();
        for _ in 0..STEPS_MAX {
            turn.rest(Duration::ZERO, clock.now()).await;
        }
        drop(turn);
        let turn = line.turn(&one, &clock, LONG).await.unwrap();
        for _ in 0..200 {
            turn.rest(Duration::ZERO, clock.now()).await;
        }
        drop(turn);
        let waits = line.turn(&one, &clock, LONG).await;
        assert_eq!(refused(waits), Duration::from_secs(2));
        line.turn(&other, &clock, LONG).await.unwrap();
        clock.set(Timestamp::from_ms_clamped(1_999));
        let waits = line.turn(&one, &clock, LONG).await;
        assert_eq!(refused(waits), Duration::from_millis(1));
        clock.set(Timestamp::from_ms_clamped(2_000));
        line.turn(&one, &clock, LONG).await.unwrap();
        // A clock that was set back makes no client wait longer.
        clock.set(Timestamp::from_ms_clamped(0));
        line.turn(&one, &clock, LONG).await.unwrap();
    }
}
