//! How long a board remembers ids, and so until when rows can be sent again without counting twice.

use std::time::{Duration, Instant};

use crate::cli::client::REQUEST_TIME_MAX;
use crate::domain::time::{Span, Timestamp};

/// What the board remembers of rows that may have been taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// For how long the board remembers ids, at least.
    pub(super) idempotency: Span,
    /// Rows that an earlier run may have sent.
    pub(super) unsure: Option<Unsure>,
}

/// Rows of an earlier run that may have been taken without being acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsure {
    /// The number of the last of them.
    pub(super) sent_rows: u64,
    /// None of them was sent before this time.
    pub(super) since: Timestamp,
    /// Until when they can be sent again; `None` if the user vouches for it.
    pub(super) until: Option<Instant>,
}

impl Memory {
    /// For how long rows can be sent again after the first time: less than the board remembers their ids,
    /// because the last request takes time to arrive.
    pub(super) fn resend_time(idempotency: Span) -> Duration {
        let whole = Duration::from_millis(idempotency.ms());
        whole.saturating_sub((whole / 10).min(REQUEST_TIME_MAX))
    }

    /// How much of that time remains for rows that were first sent at `since`; `None` if it is over.
    pub(super) fn remaining(
        idempotency: Span,
        since: Timestamp,
        now: Timestamp,
    ) -> Option<Duration> {
        // A clock that was set back in between must not make old rows look recent.
        let age = Duration::from_millis(now.ms().abs_diff(since.ms()));
        Self::resend_time(idempotency)
            .checked_sub(age)
            .filter(|remaining| !remaining.is_zero())
    }

    /// The end of that time for rows that were first sent at `since`.
    pub(super) fn end(idempotency: Span, since: Timestamp) -> Timestamp {
        let ms = i64::try_from(Self::resend_time(idempotency).as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_ms_clamped(since.ms().saturating_add(ms))
    }

    /// The rows that an earlier run may have sent, if the row after this many is one of them.
    pub(super) fn unsure_at(&self, rows: u64) -> Option<Unsure> {
        self.unsure.filter(|unsure| rows < unsure.sent_rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_resent_only_while_the_board_remembers_them() {
        assert_eq!(
            Memory::resend_time(Span::hours(1)),
            Duration::from_secs(3_600 - 35)
        );
        assert_eq!(
            Memory::resend_time(Span::seconds(10)),
            Duration::from_secs(9)
        );
    }

    #[test]
    fn a_wrong_clock_does_not_make_rows_look_recent() {
        let at = |seconds: i64| Timestamp::from_ms_clamped(seconds * 1_000);
        let remaining = |now| Memory::remaining(Span::seconds(10), at(100), at(now));
        assert_eq!(remaining(100), Some(Duration::from_secs(9)));
        assert_eq!(remaining(108), Some(Duration::from_secs(1)));
        assert_eq!(remaining(109), None);
        assert_eq!(remaining(99), Some(Duration::from_secs(8)));
        assert_eq!(remaining(50), None);
    }

    #[test]
    fn only_sent_rows_are_uncertain() {
        let until = Instant::now();
        let unsure = Unsure {
            sent_rows: 20,
            since: Timestamp::MIN,
            until: Some(until),
        };
        let memory = Memory {
            idempotency: Span::hours(1),
            unsure: Some(unsure),
        };
        let until_of = |rows| memory.unsure_at(rows).map(|unsure| unsure.until);
        assert_eq!((until_of(19), until_of(20)), (Some(Some(until)), None));
    }
}
