//! How much room there is in queues, so that events that wait never take the memory that standings need.
//!
//! The bound of one queue is exact: the script that puts events in compares it. The bound of all queues of a server is
//! compared with a *sample* of their sizes, which each instance takes every second, and with what the instance has put since. So
//! several instances together may go beyond it by what they put within a second.

use std::collections::BTreeMap;

use metrics::gauge;
use parking_lot::Mutex;

use crate::domain::shard::Shard;
use crate::engine::{Engine, Error};
use crate::store::Store;
use crate::store::queues::{QueuesOfServer, Room};

/// The part of a server's `maxmemory` that its queues may take.
const MEMORY_SHARE: u64 = 4;

/// How many bytes queues may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueBounds {
    /// One queue.
    pub queue_bytes: u64,
    /// All queues of a server together, where it has no `maxmemory`; otherwise a quarter of that.
    pub server_bytes: u64,
}

impl Default for QueueBounds {
    fn default() -> Self {
        Self {
            queue_bytes: 256 << 20,
            server_bytes: 1 << 30,
        }
    }
}

/// What is known of the room in queues.
#[derive(Debug, Default)]
pub struct Rooms {
    /// How much there may be.
    pub bounds: QueueBounds,
    servers: Mutex<BTreeMap<String, Fill>>,
}

/// What the queues of a server have.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    /// Their bytes in the last sample, and the `maxmemory` of the server.
    sampled: u64,
    memory_max: Option<u64>,
    /// What this instance has put before the sample was begun that is being taken, and since.
    put_before: u64,
    put: u64,
}

impl Fill {
    fn bytes(&self) -> u64 {
        self.sampled + self.put_before + self.put
    }
}

impl Rooms {
    /// Nothing is known yet, but for the bounds.
    pub fn new(bounds: QueueBounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    /// The room for events of a shard.
    pub(in crate::engine) fn of(&self, store: &Store, shard: &Shard) -> Room {
        let fill = self.servers.lock().get(&store.server_of(shard)).copied();
        let fill = fill.unwrap_or_default();
        let of_memory = fill.memory_max.map(|memory| memory / MEMORY_SHARE);
        let bytes_max = of_memory.unwrap_or(self.bounds.server_bytes);
        Room {
            queue_bytes_max: self.bounds.queue_bytes,
            bytes: bytes_max.saturating_sub(fill.bytes()),
        }
    }

    /// Takes note that so many bytes were put into the queue of a shard.
    pub(in crate::engine) fn note(&self, store: &Store, shard: &Shard, bytes: u64) {
        let mut servers = self.servers.lock();
        servers.entry(store.server_of(shard)).or_default().put += bytes;
    }

    fn begin_sample(&self) {
        for fill in self.servers.lock().values_mut() {
            fill.put_before += std::mem::take(&mut fill.put);
        }
    }

    fn end_sample(&self, sample: &BTreeMap<String, QueuesOfServer>) {
        let mut servers = self.servers.lock();
        servers.retain(|server, _| sample.contains_key(server));
        for (server, queues) in sample {
            let fill = servers.entry(server.clone()).or_default();
            *fill = Fill {
                sampled: queues.size.bytes,
                memory_max: queues.memory_max,
                put_before: 0,
                put: fill.put,
            };
        }
    }
}

impl Engine {
    /// Looks how much waits in all queues.
    pub(crate) async fn sample_queues(&self) -> Result<(), Error> {
        self.rooms.begin_sample();
        let sample = self.store.sample_queues().await?;
        self.rooms.end_sample(&sample);
        let sum = |of: fn(&QueuesOfServer) -> u64| sample.values().map(of).sum::<u64>();
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        let set = |name: &'static str, value: u64| gauge!(name).set(value as f64);
        set("standings_queue_length", sum(|queues| queues.size.events));
        set("standings_queue_bytes", sum(|queues| queues.size.bytes));
        Ok(())
    }
}
