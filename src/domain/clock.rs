//! The time, on which all instances of the service agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use chrono::Utc;
use parking_lot::Mutex;

use super::time::Timestamp;

/// By how many milliseconds Redis' clock may deviate from what is expected since the last look: a look is exact to half of
/// its duration, which the time-out of commands bounds.
const JUMP_MS_MAX: i64 = 5_000;
/// Clocks that are being corrected run faster or slower by one part in this many.
const SLEW: i64 = 1_000;
/// By how many milliseconds Redis' clock and this machine's may differ if both are to be trusted.
const APART_MS_MAX: i64 = 60_000;
/// How long no clock is trusted after one has jumped: it may jump back.
const DOUBT: Duration = Duration::from_mins(10);
/// How old the last look may be: after that both clocks may have jumped.
const LOOK_AGE_MAX: Duration = Duration::from_mins(1);

/// How far earlier arrival times may be ahead of the clock, in microseconds. If the clock goes back by up to this much, the
/// order of arrivals is kept; if by more, they follow the clock.
const ARRIVALS_AHEAD_US_MAX: i64 = 1_000_000;

/// A look at Redis' clock.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// What Redis' clock showed, in microseconds since the epoch.
    pub redis_us: i64,
    /// What this machine's clock showed at the middle of the look, in microseconds since the epoch.
    pub local_us: i64,
    /// The same moment on a clock that never jumps.
    pub at: Instant,
}

impl Look {
    /// A look from an exchange that began and ended at these times.
    pub fn between(redis_us: i64, began: (i64, Instant), ended: (i64, Instant)) -> Self {
        Self {
            redis_us,
            local_us: i64::midpoint(began.0, ended.0),
            at: began.1 + ended.1.saturating_duration_since(began.1) / 2,
        }
    }

    /// By how many milliseconds Redis' clock has jumped forward or back since an earlier look, if at all.
    fn jump_since(&self, earlier: &Self) -> Option<i64> {
        self.jump(earlier, |look| look.redis_us)
    }

    /// By how many milliseconds this machine's clock has jumped since an earlier look, if at all.
    fn local_jump_since(&self, earlier: &Self) -> Option<i64> {
        self.jump(earlier, |look| look.local_us)
    }

    fn jump(&self, earlier: &Self, shown_us: impl Fn(&Self) -> i64) -> Option<i64> {
        let elapsed = self.at.saturating_duration_since(earlier.at);
        let elapsed_ms = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        let jump_ms = shown_us(self).saturating_sub(shown_us(earlier)) / 1_000 - elapsed_ms;
        (jump_ms.abs() > JUMP_MS_MAX + elapsed_ms / SLEW).then_some(jump_ms)
    }
}

/// The observations of the clocks.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: Option<Look>,
    /// When a clock jumped last.
    jumped: Option<Instant>,
}

impl Seen {
    /// Why the clocks may be far off; `None` if there is no sign of that.
    fn doubt(&self, at: Instant) -> Option<String> {
        let ago = |earlier| at.saturating_duration_since(earlier);
        let Some(look) = self.last.filter(|look| ago(look.at) <= LOOK_AGE_MAX) else {
            return Some("the clock of Redis has not been read for a minute".to_owned());
        };
        let apart_ms = look.redis_us.saturating_sub(look.local_us) / 1_000;
        if apart_ms.abs() > APART_MS_MAX {
            let seconds = apart_ms / 1_000;
            return Some(format!(
                "the clock of Redis differs from that of this machine by {seconds} s"
            ));
        }
        let jumped = self.jumped.map(ago).filter(|ago| *ago < DOUBT)?;
        let (ago_s, doubt_s) = (jumped.as_secs(), DOUBT.as_secs());
        Some(format!(
            "the clock of Redis or of this machine jumped {ago_s} s ago; the clocks are trusted again {doubt_s} s after that"
        ))
    }
}

/// A clock that follows Redis' clock, or stands where a test has set it. Clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    kind: Kind,
    /// The last arrival time, in microseconds since the epoch.
    last_arrival_us: Arc<AtomicI64>,
}

#[derive(Clone, Debug)]
enum Kind {
    System {
        ahead_us: Arc<AtomicI64>,
        seen: Arc<Mutex<Seen>>,
    },
    Set {
        now_ms: Arc<AtomicI64>,
        is_doubted: Arc<AtomicBool>,
        /// Whether arrivals get the clock's time unchanged.
        arrivals_stand: bool,
    },
}

impl Clock {
    /// This machine's clock, corrected by [`Clock::follow`].
    pub fn system() -> Self {
        Self::new(Kind::System {
            ahead_us: Arc::default(),
            seen: Arc::default(),
        })
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            last_arrival_us: Arc::new(AtomicI64::new(i64::MIN)),
        }
    }

    /// A clock that stands still until it is set.
    pub fn set_to(now: Timestamp) -> Self {
        Self::standing(now, false)
    }

    /// A clock that stands still until it is set, also for arrivals: all get the same time, which may also happen with different
    /// instances.
    pub fn stopped_at(now: Timestamp) -> Self {
        Self::standing(now, true)
    }

    fn standing(now: Timestamp, arrivals_stand: bool) -> Self {
        Self::new(Kind::Set {
            now_ms: Arc::new(AtomicI64::new(now.ms())),
            is_doubted: Arc::default(),
            arrivals_stand,
        })
    }

    /// Sets a standing clock; does nothing to a running one.
    pub fn set(&self, now: Timestamp) {
        if let Kind::Set { now_ms, .. } = &self.kind {
            now_ms.store(now.ms(), Ordering::SeqCst);
        }
    }

    /// Sets whether a standing clock is in doubt; does nothing to a running one.
    pub fn set_doubted(&self, doubted: bool) {
        if let Kind::Set { is_doubted, .. } = &self.kind {
            is_doubted.store(doubted, Ordering::SeqCst);
        }
    }

    /// Why the time may be far off: the clocks of Redis and of this machine differ, or one of them has jumped. `None` if
    /// there is no sign of that. While a clock is in doubt, nothing irreversible is done.
    pub fn doubt(&self) -> Option<String> {
        match &self.kind {
            Kind::System { seen, .. } => seen.lock().doubt(Instant::now()),
            Kind::Set { is_doubted, .. } => is_doubted
                .load(Ordering::SeqCst)
                .then(|| "a test doubts it".to_owned()),
        }
    }

    /// Corrects a running clock by a look at Redis' clock. Returns by how many milliseconds Redis' clock has jumped forward
    /// or back since the last look, if at all. A suspended machine takes the time of its suspension for a jump, too.
    pub fn follow(&self, look: Look) -> Option<i64> {
        let Kind::System { ahead_us, seen } = &self.kind else {
            return None;
        };
        ahead_us.store(look.redis_us - look.local_us, Ordering::SeqCst);
        let mut seen = seen.lock();
        let earlier = seen.last.replace(look)?;
        let jump_ms = look.jump_since(&earlier);
        if jump_ms.or(look.local_jump_since(&earlier)).is_some() {
            seen.jumped = Some(look.at);
        }
        jump_ms
    }

    /// This machine's own time in microseconds since the epoch.
    pub fn local_us() -> i64 {
        Utc::now().timestamp_micros()
    }

    /// What Redis' clock shows, which decides when keys expire: the current time, even if a test has set the clock.
    pub fn redis_now(&self) -> Timestamp {
        match &self.kind {
            Kind::System { .. } => self.now(),
            Kind::Set { .. } => Timestamp::from_ms_clamped(Self::local_us().div_euclid(1_000)),
        }
    }

    /// The current time, in whole milliseconds.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_ms_clamped(self.now_us().div_euclid(1_000))
    }

    fn now_us(&self) -> i64 {
        match &self.kind {
            Kind::System { ahead_us, .. } => Self::local_us() + ahead_us.load(Ordering::SeqCst),
            Kind::Set { now_ms, .. } => now_ms.load(Ordering::SeqCst) * 1_000,
        }
    }

    /// The time of something that arrives now. Each is later than all before, which keeps the order of arrival. None is a
    /// whole millisecond, so an event for which a client gives such a time comes first.
    pub fn arrival(&self) -> Timestamp {
        self.arrival_from(Timestamp::MIN)
    }

    /// An arrival time not before `first`.
    pub fn arrival_from(&self, first: Timestamp) -> Timestamp {
        let now_us = self.now_us().max(first.us());
        if let Kind::Set {
            arrivals_stand: true,
            ..
        } = self.kind
        {
            return Timestamp::from_us_clamped(now_us);
        }
        let next_us = |last_us: i64| {
            let is_ahead = last_us.saturating_sub(now_us) > ARRIVALS_AHEAD_US_MAX;
            let us = if is_ahead {
                now_us
            } else {
                now_us.max(last_us.saturating_add(1))
            };
            us + i64::from(us % 1_000 == 0)
        };
        let given =
            self.last_arrival_us
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last_us| {
                    Some(next_us(last_us))
                });
        Timestamp::from_us_clamped(next_us(given.unwrap_or(i64::MIN)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wrong_local_clock_is_corrected() {
        let clock = Clock::system();
        let (local, at) = (Clock::local_us(), Instant::now());
        let later = at + Duration::from_millis(20);
        let (began, ended) = ((local - 10_000, at), (local + 10_000, later));
        let look = Look::between(local + 3_600_000_000, began, ended);
        assert_eq!(clock.follow(look), None);
        let ahead = clock.now().ms() - Clock::local_us() / 1_000;
        assert!((3_599_000..=3_601_000).contains(&ahead), "{ahead}");
    }

    #[test]
    fn a_jump_of_the_redis_clock_is_reported_once_whatever_the_local_clock_does() {
        const YEAR_MS: i64 = 365 * 86_400_000;
        let (clock, begun) = (Clock::system(), Instant::now());
        // Milliseconds since the start, what Redis' clock shows, what the local clock shows, the jump.
        for (after_ms, redis_ms, local_ms, jump_ms) in [
            (0, 1_000, 1_000, None),
            (1_000, 2_000, 2_000, None),
            // The local clock jumps.
            (2_000, 3_000, YEAR_MS, None),
            (3_000, 4_000, 4_000, None),
            // Redis' clock is a year ahead for two and a half seconds.
            (4_000, 5_000 + YEAR_MS, 5_000, Some(YEAR_MS)),
            (5_000, 6_000 + YEAR_MS, 6_000, None),
            (6_500, 7_500, 7_500, Some(-YEAR_MS)),
            (7_500, 8_500, 8_500, None),
            // A look is inexact by half the duration of its exchange.
            (8_500, 13_500, 13_500, None),
            (9_500, 10_500, 10_500, None),
            (10_500, 16_502, 16_502, Some(5_002)),
            // Redis was down for a day, in which its clock was corrected by half a minute.
            (86_410_500, 86_446_502, 86_446_502, None),
        ] {
            let at = begun + Duration::from_millis(after_ms);
            let look = Look {
                redis_us: redis_ms * 1_000,
                local_us: local_ms * 1_000,
                at,
            };
            assert_eq!(clock.follow(look), jump_ms, "after {after_ms} ms");
        }
    }

    #[test]
    fn a_clock_is_in_doubt_for_ten_minutes_after_a_jump_or_difference() {
        const MONTH_MS: i64 = 30 * 86_400_000;
        let begun = Instant::now();
        // Seconds since the start; by how many milliseconds Redis' clock and this machine's are ahead; whether they are in
        // doubt.
        for looks in [
            // They are a month ahead for a minute, and back.
            &[
                (0, 0, 0, false),
                (1, MONTH_MS, MONTH_MS, true),
                (61, 0, 0, true),
                (660, 0, 0, true),
                (662, 0, 0, false),
            ][..],
            // One of them is.
            &[
                (0, 0, 0, false),
                (1, MONTH_MS, 0, true),
                (61, 0, 0, true),
                (662, 0, 0, false),
            ],
            &[
                (0, 0, 0, false),
                (1, 0, MONTH_MS, true),
                (61, 0, 0, true),
                (662, 0, 0, false),
            ],
            // They differ from the start.
            &[
                (0, 61_000, 0, true),
                (900, 61_000, 0, true),
                (901, 59_000, 0, false),
            ],
        ] {
            let clock = Clock::system();
            let Kind::System { seen, .. } = &clock.kind else {
                panic!("a running clock")
            };
            assert!(clock.doubt().is_some(), "nobody has looked");
            for (after_s, redis_ms, local_ms, is_doubted) in looks {
                let at = begun + Duration::from_secs(*after_s);
                let shown_ms = i64::try_from(*after_s).unwrap() * 1_000;
                clock.follow(Look {
                    redis_us: (shown_ms + redis_ms) * 1_000,
                    local_us: (shown_ms + local_ms) * 1_000,
                    at,
                });
                let doubt = seen.lock().doubt(at);
                assert_eq!(
                    doubt.is_some(),
                    *is_doubted,
                    "{looks:?}: {after_s} s: {doubt:?}"
                );
                let later = at + Duration::from_secs(61);
                assert!(
                    seen.lock().doubt(later).is_some(),
                    "nobody has looked since"
                );
            }
        }
    }

    #[test]
    fn a_stopped_clock_follows_nothing() {
        let clock = Clock::set_to(Timestamp::from_ms_clamped(7));
        for redis_us in [0, 1_000_000_000_000] {
            let look = Look {
                redis_us,
                local_us: 0,
                at: Instant::now(),
            };
            assert_eq!(clock.follow(look), None);
        }
        assert_eq!(clock.now().ms(), 7);
    }

    #[test]
    fn arrivals_are_ordered_and_never_whole_milliseconds() {
        let clock = Clock::set_to(Timestamp::from_ms_clamped(7));
        let mut last = clock.now();
        for _ in 0..5_000 {
            let next = clock.arrival();
            assert!(next > last && !next.is_whole_ms(), "{next} after {last}");
            last = next;
        }
        // Arrivals continue if the clock goes back a little, or a later one is requested.
        clock.set(Timestamp::from_ms_clamped(-900));
        assert_eq!(clock.arrival().us(), last.us() + 1);
        let first = Timestamp::from_ms_clamped(60_000);
        let [one, other] = [(); 2].map(|()| clock.arrival_from(first));
        assert_eq!((one.us(), other.us()), (60_000_001, 60_000_002));
        // A clock that was far ahead was wrong.
        assert_eq!(clock.arrival().us(), -899_999);
    }
}
