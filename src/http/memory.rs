//! How much memory all requests together may hold.
//!
//! A request takes memory before the work that fills it. When its answer is written as JSON, it gives back what the answer
//! does not need, and the rest with the last byte of the answer. A request that finds no memory waits for a while, and is
//! then refused; `supply.rs` says which one is served first. Small and large requests have separate supplies, so that a
//! small one never waits behind large ones.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use super::problem::{INTERNAL, OVERLOADED, Problem};
use super::supply::{Supply, Taken, Takers};
use crate::domain::data::DATA_BYTES_MAX;
use crate::domain::event::Detail;
use crate::domain::include::{Include, Includes};
use crate::domain::profile::PROFILE_BYTES_MAX;
use crate::runtime::timeouts::within;

/// The most that one entry takes while it is read and written, in bytes: Redis' reply, the entry, and its JSON.
const ENTRY_BYTES: usize = 1 << 10;
/// The most that one profile takes, in bytes: Redis' reply, the profile, and its JSON.
const PROFILE_BYTES: usize = 3 * PROFILE_BYTES_MAX;
/// The most that the data of one entry takes, in bytes: Redis' reply, the data, and its JSON.
const DATA_BYTES: usize = 3 * DATA_BYTES_MAX;
/// The most that one event of a batch takes, in bytes.
const EVENT_BYTES: usize = 1 << 10;
/// The most that one takes with an outcome that names all standings of a board with 16 windows, in bytes.
const OUTCOME_BYTES: usize = 4 << 10;
/// The maximum number of entries of a small read: a page of the maximum size, and the entry of a member.
pub const SMALL_ENTRIES_MAX: usize = 1_001;
/// The maximum number of events of a small batch.
const SMALL_EVENTS_MAX: usize = 100;
/// About how many bytes a small answer has.
const JSON_BYTES: usize = 1 << 10;
/// The longest wait for memory.
const WAIT_TIME_MAX: Duration = Duration::from_secs(5);

/// The memory that is set aside for requests, in bytes.
#[derive(Debug)]
pub struct Memory {
    small_reads: Supply,
    large_reads: Supply,
    small_batches: Supply,
    large_batches: Supply,
    bodies: Supply,
}

/// An answer's bytes, and the memory that was taken for them.
struct Held {
    bytes: Bytes,
    _taken: Taken,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Memory {
    /// Memory of this size: a quarter each for small reads, large reads, batches of events, and bodies of requests.
    pub fn new(bytes: usize) -> Self {
        Self {
            small_reads: Supply::new(bytes / 4),
            large_reads: Supply::new(bytes / 4),
            small_batches: Supply::new(bytes / 8),
            large_batches: Supply::new(bytes / 8),
            bodies: Supply::new(bytes / 4),
        }
    }

    /// Waits for the memory of a read of this many entries.
    pub async fn for_read(&self, by: &Takers, entries: usize) -> Result<Taken, Problem> {
        self.for_entries(by, entries, Includes::default()).await
    }

    /// Waits for the memory of a read whose entries include this.
    pub async fn for_entries(
        &self,
        by: &Takers,
        entries: usize,
        includes: Includes,
    ) -> Result<Taken, Problem> {
        let supply = match entries {
            ..=SMALL_ENTRIES_MAX => &self.small_reads,
            _ => &self.large_reads,
        };
        let more = includes.words().map(|word| match word {
            Include::Profile => PROFILE_BYTES,
            Include::Data => DATA_BYTES,
        });
        let bytes = ENTRY_BYTES + more.sum::<usize>();
        take(supply, by, (entries + 1).saturating_mul(bytes)).await
    }

    /// Waits for the memory of a request that writes this many profiles.
    pub async fn for_profiles(&self, by: &Takers, profiles: usize) -> Result<Taken, Problem> {
        let bytes = profiles.saturating_mul(2 * PROFILE_BYTES);
        take(self.batches(profiles), by, bytes).await
    }

    /// Waits for the memory of a batch of this many events, with `data` bytes of data in total.
    pub async fn for_batch(
        &self,
        by: &Takers,
        events: usize,
        (detail, data): (Detail, usize),
    ) -> Result<Taken, Problem> {
        let bytes = match detail {
            Detail::Status => EVENT_BYTES,
            Detail::Standings | Detail::Ranks => OUTCOME_BYTES,
        };
        // The data is held by the event, and again by the call that carries it out.
        let bytes = events.saturating_mul(bytes) + 2 * data;
        take(self.batches(events), by, bytes).await
    }

    fn batches(&self, events: usize) -> &Supply {
        match events {
            ..=SMALL_EVENTS_MAX => &self.small_batches,
            _ => &self.large_batches,
        }
    }

    /// Takes the memory that a body of this size still lacks. It does not wait: the requests that will give memory back may
    /// be waiting too.
    pub fn for_body(
        &self,
        by: &Takers,
        taken: &mut Option<Taken>,
        bytes: usize,
    ) -> Result<(), Problem> {
        let has_room = if let Some(taken) = taken {
            taken.grow(bytes.saturating_sub(taken.amount()))
        } else {
            *taken = self.bodies.try_take(by, bytes);
            taken.is_some()
        };
        has_room.then_some(()).ok_or_else(overloaded)
    }
}

/// Takes this many bytes, and waits for them for a while.
async fn take(supply: &Supply, by: &Takers, bytes: usize) -> Result<Taken, Problem> {
    let taken = within(WAIT_TIME_MAX, supply.take(by, bytes)).await;
    taken.ok_or_else(overloaded)
}

impl Taken {
    /// Writes an answer. The memory that it does not need is given back at once, the rest with its last byte.
    pub fn write<T: Serialize>(self, answer: &T) -> Result<Written, Problem> {
        Ok(self.hold(json_of(answer)?))
    }

    /// The same for an answer that was written before.
    pub fn hold(mut self, bytes: Bytes) -> Written {
        self.shrink_to(bytes.len());
        Written(Bytes::from_owner(Held {
            bytes,
            _taken: self,
        }))
    }
}

/// An answer written as JSON. Its copies share its memory.
#[derive(Clone, Debug)]
pub struct Written(pub Bytes);

impl Written {
    /// An answer so small that it takes no memory of a supply.
    pub fn new<T: Serialize>(answer: &T) -> Result<Self, Problem> {
        json_of(answer).map(Self)
    }
}

/// Writes an answer.
pub fn json_of<T: Serialize>(answer: &T) -> Result<Bytes, Problem> {
    let mut json = Vec::with_capacity(JSON_BYTES);
    serde_json::to_writer(&mut json, answer)
        .map_err(|error| Problem::new(INTERNAL, error.to_string()))?;
    json.shrink_to_fit();
    Ok(json.into())
}

impl IntoResponse for Written {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        let mut answer = Response::new(Body::from(self.0));
        answer.headers_mut().insert(header::CONTENT_TYPE, json);
        answer
    }
}

fn overloaded() -> Problem {
    Problem::new(
        OVERLOADED,
        "other requests use all the memory for requests; try again",
    )
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::super::supply::Taker;
    use super::*;
    use crate::domain::quota::Network;

    const LARGE: usize = 10_000;
    const MEMORY: usize = 64 << 20;

    fn address(text: &str) -> Takers {
        Takers::one(Taker::Address(Network::parse(text).unwrap()))
    }

    /// How much one more request could take.
    fn free(supply: &Supply) -> usize {
        let nobody = Takers::default();
        let (mut least, mut most) = (0, MEMORY);
        while least < most {
            let middle = (least + most).div_ceil(2);
            match supply.try_take(&nobody, middle) {
                Some(taken) if taken.amount() == middle => least = middle,
                _ => most = middle - 1,
            }
        }
        least
    }

    #[tokio::test]
    async fn a_small_read_overtakes_waiting_large_ones() {
        let (memory, by) = (Memory::new(MEMORY), address("10.0.0.1"));
        let first = memory.for_read(&by, LARGE).await.unwrap();
        let mut second = Box::pin(memory.for_read(&by, LARGE));
        assert!(
            (&mut second).now_or_never().is_none(),
            "there is room for one"
        );
        for _ in 0..10 {
            let small = memory.for_read(&by, SMALL_ENTRIES_MAX).now_or_never();
            assert!(small.unwrap().is_ok());
        }
        drop(first);
        assert!(second.await.is_ok());
    }

    #[tokio::test]
    async fn a_request_that_waited_too_long_is_refused() {
        let (memory, by) = (Memory::new(MEMORY), address("10.0.0.1"));
        let _first = memory.for_read(&by, LARGE).await.unwrap();
        let problem = memory.for_read(&by, LARGE).await.unwrap_err();
        assert_eq!(problem.kind, OVERLOADED);
    }

    #[tokio::test]
    async fn an_answer_holds_its_memory_until_its_last_byte_is_sent() {
        let (memory, by) = (Memory::new(MEMORY), address("10.0.0.1"));
        let all = free(&memory.large_reads);
        let held = || all - free(&memory.large_reads);
        let taken = memory.for_read(&by, LARGE).await.unwrap();
        assert_eq!(held(), (LARGE + 1) * ENTRY_BYTES);
        let answer = taken.hold(vec![0; 100_000].into()).0;
        assert_eq!(held(), 100_000);
        let shared = answer.slice(5..7);
        drop(answer);
        assert_eq!(held(), 100_000);
        drop(shared);
        assert_eq!(held(), 0);
    }

    #[test]
    fn bodies_are_counted_as_they_arrive_and_one_address_leaves_room_for_others() {
        let memory = Memory::new(4 * 8_000);
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let (mut first, mut second, mut third) = (None, None, None);
        for bytes in 1..=6_000 {
            assert!(memory.for_body(&one, &mut first, bytes).is_ok());
        }
        assert!(memory.for_body(&one, &mut second, 1_000).is_ok());
        let refused = memory.for_body(&one, &mut second, 1_001).unwrap_err();
        assert_eq!(refused.kind, OVERLOADED);
        assert!(memory.for_body(&other, &mut third, 1_000).is_ok());
        drop(first);
        assert!(memory.for_body(&one, &mut second, 6_000).is_ok());
    }
}
