//! Deliveries of messages to webhooks, and when they are retried.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xxhash_rust::xxh3::xxh3_64;

use super::message::MessageId;
use super::texts::words;
use super::time::{Span, Timestamp};

/// The pauses between tries: 24 hours in total, after which the delivery is a dead letter.
const PAUSES: [Span; 8] = [
    Span::seconds(5),
    Span::minutes(1),
    Span::minutes(5),
    Span::minutes(30),
    Span::hours(2),
    Span::hours(5),
    Span::hours(8),
    Span::hours(8),
];
/// Pauses vary by up to a tenth, so that receivers are not called all at once.
const JITTER_PARTS: u64 = 10;

words! {
    // Deliveries are listed in this order.
    /// The status of a delivery.
    #[derive(Ord, PartialOrd, ToSchema)]
    pub enum DeliveryStatus {
        /// It will be tried, or tried again.
        Pending = "pending",
        /// It has failed for too long: a dead letter.
        Dead = "dead",
        /// The receiver has accepted it.
        Delivered = "delivered",
    }
}

/// A message for a webhook, as stored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Delivery {
    /// The body that the receiver gets.
    pub body: String,
    /// Its status.
    pub status: DeliveryStatus,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When it is tried next, was delivered, or was given up. (Scripts sort deliveries by this.)
    pub at: Timestamp,
    /// The number of tries.
    pub tries: u32,
    /// The number of tries since it was queued, or since the last manual retry.
    pub tries_in_row: u32,
    /// The last try; of the response only the status is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Try>,
}

/// The outcome of a try.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Try {
    /// When.
    pub at: Timestamp,
    /// The status of the response, if any.
    pub status: Option<u16>,
    /// The error; `None` if it succeeded.
    pub error: Option<String>,
}

/// The status of a receiver that wants no more messages.
pub const GONE: u16 = 410;

impl Try {
    /// Whether the receiver wants no more messages.
    pub fn is_gone(&self) -> bool {
        self.status == Some(GONE)
    }
}

/// A delivery with its id, which is that of its message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamedDelivery {
    /// The id.
    pub id: MessageId,
    /// The delivery.
    pub delivery: Delivery,
}

impl Delivery {
    /// A message to be sent at once.
    pub fn new(body: String, now: Timestamp) -> Self {
        Self {
            body,
            status: DeliveryStatus::Pending,
            created_at: now,
            at: now,
            tries: 0,
            tries_in_row: 0,
            last: None,
        }
    }

    /// The delivery, given up at once for this reason.
    #[must_use]
    pub fn given_up(self, reason: &str, now: Timestamp) -> Self {
        Self {
            status: DeliveryStatus::Dead,
            last: Some(Try {
                at: now,
                status: None,
                error: Some(reason.to_owned()),
            }),
            ..self
        }
    }

    /// The delivery after a try. `seed` identifies this delivery: it determines the length of the pause.
    #[must_use]
    pub fn after(self, end: Try, seed: &str) -> Self {
        let (tries, tries_in_row) = (self.tries + 1, self.tries_in_row + 1);
        let pause_ms = pause_ms_after(tries_in_row, seed).filter(|_| !end.is_gone());
        let (status, at_ms) = match (&end.error, pause_ms) {
            (None, _) => (DeliveryStatus::Delivered, end.at.ms()),
            (Some(_), Some(pause_ms)) => (DeliveryStatus::Pending, end.at.ms() + pause_ms),
            (Some(_), None) => (DeliveryStatus::Dead, end.at.ms()),
        };
        Self {
            status,
            at: Timestamp::from_ms_clamped(at_ms),
            tries,
            tries_in_row,
            last: Some(end),
            ..self
        }
    }

    /// The delivery, due at once for a manual retry.
    #[must_use]
    pub fn anew(self, now: Timestamp) -> Self {
        Self {
            status: DeliveryStatus::Pending,
            at: now,
            tries_in_row: 0,
            ..self
        }
    }
}

/// The pause after this many tries in milliseconds; `None` if it is given up.
fn pause_ms_after(tries: u32, seed: &str) -> Option<i64> {
    let index = usize::try_from(tries).ok()?.checked_sub(1)?;
    let pause_ms = PAUSES.get(index)?.ms();
    let most_ms = pause_ms / JITTER_PARTS;
    let random = xxh3_64(format!("{seed} {tries}").as_bytes()) % (2 * most_ms + 1);
    i64::try_from(pause_ms - most_ms + random).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn failed(at: Timestamp) -> Try {
        Try {
            at,
            status: Some(500),
            error: Some("status 500".to_owned()),
        }
    }

    #[test]
    fn a_delivery_is_tried_for_a_day_and_is_then_a_dead_letter() {
        let begun = Timestamp::parse("2026-11-23T00:10:00Z").unwrap();
        let mut ends = BTreeSet::new();
        for seed in 0..50 {
            let mut delivery = Delivery::new("{}".to_owned(), begun);
            let mut now = begun;
            while delivery.status == DeliveryStatus::Pending {
                now = delivery.at;
                delivery = delivery.after(failed(now), &seed.to_string());
            }
            assert_eq!(delivery.status, DeliveryStatus::Dead);
            assert_eq!(delivery.tries, 9);
            let hours = (now.ms() - begun.ms()) / 3_600_000;
            assert!((21..=26).contains(&hours), "{hours}");
            ends.insert(now.ms());
            let anew = delivery.anew(now);
            assert_eq!((anew.status, anew.tries), (DeliveryStatus::Pending, 9));
            let again = anew.after(failed(now), "x");
            assert_eq!(again.status, DeliveryStatus::Pending);
            assert!(again.at.ms() - now.ms() <= 5_500, "from the beginning");
        }
        assert!(ends.len() > 40, "tries are spread");
    }

    #[test]
    fn an_accepted_or_unwanted_delivery_is_not_retried() {
        let now = Timestamp::parse("2026-11-23T00:10:00Z").unwrap();
        let new = Delivery::new("{}".to_owned(), now);
        let taken = Try {
            at: now,
            status: Some(204),
            error: None,
        };
        let delivered = new.clone().after(taken, "x");
        assert_eq!(delivered.status, DeliveryStatus::Delivered);
        let gone = Try {
            status: Some(GONE),
            ..failed(now)
        };
        let gone = new.clone().after(gone, "x");
        assert_eq!(gone.status, DeliveryStatus::Dead);
        let full = new.given_up("too many wait", now);
        assert_eq!((full.status, full.tries), (DeliveryStatus::Dead, 0));
    }
}
