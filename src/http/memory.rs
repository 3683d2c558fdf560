//! How much memory all requests together may hold.
//!
//! A request takes memory before the work that fills it. When its answer is written as JSON, it gives back what the answer
//! does not need, and the rest with the last byte of the answer. A request that finds no memory waits in order for a while,
//! and is then refused. Small requests and large ones have a lane each, so that a small one never waits behind large ones.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{INTERNAL, OVERLOADED, Problem};
use crate::domain::data::DATA_BYTES_MAX;
use crate::domain::event::Detail;
use crate::domain::include::{Include, Includes};
use crate::domain::profile::PROFILE_BYTES_MAX;

/// What one entry may take at the most while it is read and written out, in bytes: Redis' reply, the entry, and its JSON.
const ENTRY_BYTES: usize = 1 << 10;
/// What one profile may take at the most, in bytes: Redis' reply, the profile, and its JSON.
const PROFILE_BYTES: usize = 3 * PROFILE_BYTES_MAX;
/// What the data of one entry may take at the most, in bytes: Redis' reply, the data, and its JSON.
const DATA_BYTES: usize = 3 * DATA_BYTES_MAX;
/// What one event of a batch may take at the most, in bytes.
const EVENT_BYTES: usize = 1 << 10;
/// The same with an outcome that names all standings of a board with 16 windows.
const OUTCOME_BYTES: usize = 4 << 10;
/// The most entries of a small read: a page of the greatest size, and the entry of a member.
pub const SMALL_ENTRIES_MAX: usize = 1_001;
/// The most events of a small batch.
const SMALL_EVENTS_MAX: usize = 100;
/// The longest wait for memory.
const WAIT_TIME_MAX: Duration = Duration::from_secs(5);
/// How exactly memory is counted, in bytes.
const UNIT_BYTES: usize = 1 << 10;

/// The memory that is set aside for requests.
#[derive(Debug)]
pub struct Memory {
    small_reads: Lane,
    large_reads: Lane,
    small_batches: Lane,
    large_batches: Lane,
    bodies: Lane,
}

/// A part of the memory, for requests of one kind.
#[derive(Debug)]
struct Lane {
    units: Arc<Semaphore>,
    units_max: usize,
}

/// Memory that was taken; it is given back with this value.
#[derive(Debug)]
pub struct Taken(OwnedSemaphorePermit);

/// An answer's bytes, and the memory that they were written to.
struct Held {
    bytes: Vec<u8>,
    _taken: Taken,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Memory {
    /// So many bytes: a quarter each for small reads, for large ones, for batches of events, and for the bodies of
    /// requests.
    pub fn new(bytes: usize) -> Self {
        Self {
            small_reads: Lane::new(bytes / 4),
            large_reads: Lane::new(bytes / 4),
            small_batches: Lane::new(bytes / 8),
            large_batches: Lane::new(bytes / 8),
            bodies: Lane::new(bytes / 4),
        }
    }

    /// Waits for the memory of a read of so many entries.
    pub async fn for_read(&self, entries: usize) -> Result<Taken, Problem> {
        self.for_entries(entries, Includes::default()).await
    }

    /// The same where the entries have this beside their scores.
    pub async fn for_entries(&self, entries: usize, includes: Includes) -> Result<Taken, Problem> {
        let lane = if entries <= SMALL_ENTRIES_MAX {
            &self.small_reads
        } else {
            &self.large_reads
        };
        let more = includes.words().map(|word| match word {
            Include::Profile => PROFILE_BYTES,
            Include::Data => DATA_BYTES,
        });
        let bytes = ENTRY_BYTES + more.sum::<usize>();
        lane.take((entries + 1).saturating_mul(bytes)).await
    }

    /// Waits for the memory of a request that writes so many profiles.
    pub async fn for_profiles(&self, profiles: usize) -> Result<Taken, Problem> {
        let lane = if profiles <= SMALL_EVENTS_MAX {
            &self.small_batches
        } else {
            &self.large_batches
        };
        lane.take(profiles.saturating_mul(2 * PROFILE_BYTES)).await
    }

    /// Waits for the memory of a batch of so many events, which bring so many bytes of data along.
    pub async fn for_batch(
        &self,
        events: usize,
        detail: Detail,
        data: usize,
    ) -> Result<Taken, Problem> {
        let lane = if events <= SMALL_EVENTS_MAX {
            &self.small_batches
        } else {
            &self.large_batches
        };
        let bytes = match detail {
            Detail::Status => EVENT_BYTES,
            Detail::Standings | Detail::Ranks => OUTCOME_BYTES,
        };
        // The data is held by the event, and once more by the call that carries it out.
        lane.take(events.saturating_mul(bytes) + 2 * data).await
    }

    /// Takes what a body lacks of which so many bytes have come in. It does not wait: who is to give memory back may be
    /// waiting too.
    pub fn for_body(&self, taken: &mut Option<Taken>, bytes: usize) -> Result<(), Problem> {
        let has = taken.as_ref().map_or(0, |taken| taken.0.num_permits());
        let lacks = bytes.saturating_sub(has * UNIT_BYTES);
        if lacks == 0 {
            return Ok(());
        }
        let units = self.bodies.units_of(lacks);
        let more = Arc::clone(&self.bodies.units).try_acquire_many_owned(units);
        let more = more.map_err(|_| overloaded())?;
        match taken {
            Some(taken) => taken.0.merge(more),
            None => *taken = Some(Taken(more)),
        }
        Ok(())
    }
}

impl Lane {
    fn new(bytes: usize) -> Self {
        let units_max = (bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self {
            units: Arc::new(Semaphore::new(units_max)),
            units_max,
        }
    }

    /// No more than all of them: the largest request is carried out alone at least.
    fn units_of(&self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT_BYTES).min(self.units_max);
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    async fn take(&self, bytes: usize) -> Result<Taken, Problem> {
        let units = Arc::clone(&self.units).acquire_many_owned(self.units_of(bytes));
        match tokio::time::timeout(WAIT_TIME_MAX, units).await {
            Ok(Ok(taken)) => Ok(Taken(taken)),
            Ok(Err(_)) | Err(_) => Err(overloaded()),
        }
    }
}

impl Taken {
    /// Writes an answer out. What it does not need is given back at once, the rest with its last byte.
    pub fn write<T: Serialize>(self, answer: &T) -> Result<Written, Problem> {
        let json = serde_json::to_vec(answer);
        json.map(|json| Written(self.hold(json)))
            .map_err(|error| Problem::new(INTERNAL, error.to_string()))
    }

    fn hold(mut self, mut bytes: Vec<u8>) -> Bytes {
        bytes.shrink_to_fit();
        let needed = bytes.len().div_ceil(UNIT_BYTES);
        let spare = self.0.num_permits().saturating_sub(needed);
        drop(self.0.split(spare));
        Bytes::from_owner(Held {
            bytes,
            _taken: self,
        })
    }
}

/// An answer that was written out, as JSON. Its copies share its memory.
#[derive(Clone, Debug)]
pub struct Written(pub Bytes);

impl IntoResponse for Written {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, json)], self.0).into_response()
    }
}

fn overloaded() -> Problem {
    Problem::new(
        OVERLOADED,
        "the requests that are under way take all the memory that is set aside for them; try again",
    )
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LARGE: usize = 10_000;

    #[tokio::test]
    async fn a_small_read_passes_large_ones_that_wait() {
        let memory = Memory::new(64 << 20);
        let first = memory.for_read(LARGE).await.unwrap();
        let mut second = Box::pin(memory.for_read(LARGE));
        assert!(
            (&mut second).now_or_never().is_none(),
            "there is room for one"
        );
        for _ in 0..10 {
            let small = memory.for_read(SMALL_ENTRIES_MAX).now_or_never();
            assert!(small.unwrap().is_ok());
        }
        drop(first);
        assert!(second.await.is_ok());
    }

    #[tokio::test]
    async fn who_has_waited_long_enough_is_refused() {
        let memory = Memory::new(64 << 20);
        let _first = memory.for_read(LARGE).await.unwrap();
        let problem = memory.for_read(LARGE).await.unwrap_err();
        assert_eq!(problem.kind, OVERLOADED);
    }

    #[tokio::test]
    async fn an_answer_holds_what_it_needs_until_its_last_byte_is_gone() {
        let memory = Memory::new(64 << 20);
        let free = |memory: &Memory| memory.large_reads.units.available_permits();
        let all = free(&memory);
        let taken = memory.for_read(LARGE).await.unwrap();
        assert_eq!(all - free(&memory), LARGE + 1);
        let answer = taken.hold(vec![0; 100 * UNIT_BYTES]);
        assert_eq!(all - free(&memory), 100);
        let shared = answer.slice(5..7);
        drop(answer);
        assert_eq!(all - free(&memory), 100);
        drop(shared);
        assert_eq!(free(&memory), all);
    }

    #[test]
    fn bodies_are_counted_as_they_come_in() {
        let memory = Memory::new(4 * UNIT_BYTES * 4);
        let (mut one, mut other) = (None, None);
        for bytes in 1..=3 * UNIT_BYTES {
            assert!(memory.for_body(&mut one, bytes).is_ok());
        }
        assert!(memory.for_body(&mut other, 1).is_ok());
        let refused = memory.for_body(&mut other, UNIT_BYTES + 1).unwrap_err();
        assert_eq!(refused.kind, OVERLOADED);
        drop(one);
        assert!(memory.for_body(&mut other, 4 * UNIT_BYTES).is_ok());
    }
}
