//! How much room queues have, so that queued events never take the memory that standings need.
//!
//! The limit of one queue is exact: the script that puts events checks it. The limit of all queues of a server is checked
//! against a *sample* of their sizes, which each instance takes every second, plus what the instance has put since. So
//! several instances together may exceed it by what they put within a second.
//!
//! A queue that can't be read is left out of the sample. For a server that does not answer, the last sample stays. So
//! neither takes room from others.

use std::collections::BTreeMap;

use metrics::gauge;
use parking_lot::Mutex;

use super::store::queues::{self, QueueName, QueueSample, QueueSize, QueuesOfServer, Room};
use crate::core::jobs::JobKind;
use crate::core::jobs::faults::Subject;
use crate::core::{Engine, Error};
use crate::domain::shard::Shard;
use crate::redis::Store;
use crate::runtime::throttle;

/// The fraction of a server's `maxmemory` that its queues may use: one in this many.
const MEMORY_SHARE: u64 = 4;

/// The limits of queues, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueBounds {
    pub queue_bytes: u64,
    /// For all queues of a server together, if it has no `maxmemory`; otherwise the limit is a quarter of that.
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

/// What is known about the room in queues.
#[derive(Debug, Default)]
pub struct Rooms {
    pub bounds: QueueBounds,
    servers: Mutex<BTreeMap<String, Fill>>,
    /// The queues in the index when it was last read.
    listed: Mutex<Vec<QueueName>>,
}

/// How full the queues of a server are.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    sampled: QueuesOfServer,
    /// What this instance put before the sample in progress was begun, and since then.
    put_before: u64,
    put: u64,
}

impl Fill {
    fn bytes(&self) -> u64 {
        self.sampled.size.bytes + self.put_before + self.put
    }
}

impl Rooms {
    /// With these limits; nothing else is known yet.
    pub fn new(bounds: QueueBounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    pub(crate) fn of(&self, store: &Store, shard: &Shard) -> Room {
        let server = queues::server_of(store, shard.tag());
        let fill = self.servers.lock().get(&server).copied();
        let fill = fill.unwrap_or_default();
        let of_memory = fill.sampled.memory_max.map(|memory| memory / MEMORY_SHARE);
        let bytes_max = of_memory.unwrap_or(self.bounds.server_bytes);
        Room {
            queue_bytes_max: self.bounds.queue_bytes,
            bytes: bytes_max.saturating_sub(fill.bytes()),
        }
    }

    /// Records that `bytes` were put into the queue of a shard.
    pub(crate) fn note(&self, store: &Store, shard: &Shard, bytes: u64) {
        let server = queues::server_of(store, shard.tag());
        self.servers.lock().entry(server).or_default().put += bytes;
    }

    /// How much waited in all queues when they were last measured.
    pub(crate) fn waiting(&self) -> QueueSize {
        let mut all = QueueSize::default();
        for fill in self.servers.lock().values() {
            all.add(fill.sampled.size);
        }
        all
    }

    fn begin_sample(&self) {
        for fill in self.servers.lock().values_mut() {
            fill.put_before += std::mem::take(&mut fill.put);
        }
    }

    fn end_sample(&self, sample: &QueueSample) {
        let mut servers = self.servers.lock();
        servers.retain(|server, _| sample.servers.contains_key(server));
        for (server, queues) in &sample.servers {
            let fill = servers.entry(server.clone()).or_default();
            if let Some(sampled) = *queues {
                *fill = Fill {
                    sampled,
                    put_before: 0,
                    put: fill.put,
                };
            }
        }
    }
}

/// Measures how much waits in all queues.
pub(crate) async fn sample(engine: &Engine) {
    super::of(engine).rooms.begin_sample();
    let sample = queues::sample(&engine.store, listed(engine).await).await;
    let now = engine.clock.now();
    for (name, read) in &sample.queues {
        let subject = Subject::part(&name.id, name.shard.tag(&name.id));
        let error = read.clone().err().map(Error::from);
        let faults = &engine.faults;
        faults.record(JobKind::QueueSizes, &subject, now, error.as_ref());
    }
    let unknown = sample.servers.iter().filter(|(_, queues)| queues.is_none());
    // An outage is logged separately.
    for (server, _) in unknown.filter(|_| engine.store.outage().is_none()) {
        // A single server has no name.
        let server = Some(server).filter(|name| !name.starts_with(':'));
        throttle::say(&format!("queue sizes: {server:?}"), |more| {
            tracing::warn!(
                server,
                more,
                "the queued events of a server can't be counted; trying again"
            );
        });
    }
    let rooms = &super::of(engine).rooms;
    rooms.end_sample(&sample);
    let all = rooms.waiting();
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    let set = |name: &'static str, value: u64| gauge!(name).set(value as f64);
    set("standings_queue_length", all.events);
    set("standings_queue_bytes", all.bytes);
}

/// The queues in the index; while its server is away, the last known ones.
async fn listed(engine: &Engine) -> Vec<QueueName> {
    match queues::listed(&engine.store).await {
        Ok(listed) => *super::of(engine).rooms.listed.lock() = listed,
        Err(_) if engine.store.outage().is_some() => {}
        Err(error) => throttle::say("index of queues", |more| {
            tracing::warn!(%error, more, "the index of queues can't be read; trying again");
        }),
    }
    super::of(engine).rooms.listed.lock().clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_server_stay_while_it_does_not_answer() {
        let rooms = Rooms::default();
        let sampled = |bytes| {
            let size = QueueSize { events: 1, bytes };
            Some(QueuesOfServer {
                size,
                memory_max: Some(100),
            })
        };
        let sample = |servers: &[(&str, Option<QueuesOfServer>)]| {
            let servers = servers.iter();
            rooms.begin_sample();
            rooms.end_sample(&QueueSample {
                servers: servers
                    .map(|(name, of)| ((*name).to_owned(), *of))
                    .collect(),
                queues: Vec::new(),
            });
            rooms.waiting()
        };
        let all = sample(&[("a", sampled(10)), ("b", sampled(20))]);
        assert_eq!((all.events, all.bytes), (2, 30));
        for fill in rooms.servers.lock().values_mut() {
            fill.put = 7;
        }
        let all = sample(&[("a", sampled(5)), ("b", None)]);
        assert_eq!((all.events, all.bytes), (2, 25));
        let servers = rooms.servers.lock().clone();
        assert_eq!((servers["a"].bytes(), servers["b"].bytes()), (5, 27));
        assert_eq!(servers["b"].sampled.memory_max, Some(100));
        let all = sample(&[("a", None)]);
        assert_eq!((all.events, all.bytes), (1, 5), "b is gone");
    }
}
