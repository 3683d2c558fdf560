//! The consumer group of the topic: it assigns partitions to instances.
//!
//! A partition may have two consumers for a while, when one learns late that another has taken over. That is harmless:
//! shards skip records that they have taken. The group only ensures that every partition has a consumer, normally one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{
    BaseConsumer, CommitMode, Consumer, ConsumerContext, RebalanceProtocol, StreamConsumer,
};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::client::{Kafka, Logged};
use super::lane::{Lane, LaneProgress, set_lag};
use crate::core::jobs::JobKind;
use crate::core::jobs::faults::Subject;
use crate::core::{Engine, Error};
use crate::domain::intake::Partition;
use crate::runtime::supervise::restarted;
use crate::runtime::throttle;

/// The defaults of the group. After `session.timeout.ms` without a heartbeat a consumer's partitions go to others.
const OPTIONS: [(&str, &str); 13] = [
    ("session.timeout.ms", "10000"),
    ("heartbeat.interval.ms", "2000"),
    ("max.poll.interval.ms", "30000"),
    // A consumer that joins or leaves holds up only the partitions that change hands.
    ("partition.assignment.strategy", "cooperative-sticky"),
    // How much of each partition is prefetched, and the pause when that limit is reached.
    ("queued.min.messages", "5000"),
    ("queued.max.messages.kbytes", "4096"),
    ("fetch.queue.backoff.ms", "20"),
    ("fetch.error.backoff.ms", "200"),
    ("fetch.message.max.bytes", "1048576"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "false"),
    // A lane has to notice when records were removed before they were read.
    ("auto.offset.reset", "error"),
];
const COMMIT_INTERVAL: Duration = Duration::from_secs(2);
/// How long a shutdown waits for leaving the group.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(5);
/// The pause before joining the group again, after an error that the client does not survive.
const REJOIN_PAUSE: Duration = Duration::from_secs(1);

pub(super) type GroupConsumer = StreamConsumer<Rebalancing>;

/// Partitions assigned to this consumer, or revoked.
#[derive(Debug)]
enum Change {
    Came(Vec<i32>),
    Went(Vec<i32>),
}

/// Receives the assignments of the group.
pub(super) struct Rebalancing(UnboundedSender<Change>);

impl ClientContext for Rebalancing {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        Logged.log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        Logged.error(error, reason);
    }
}

impl ConsumerContext for Rebalancing {
    /// A partition is paused until its lane knows the offset to read from.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let numbers: Vec<i32> = partitions
            .elements()
            .into_iter()
            .map(|one| one.partition())
            .collect();
        let is_gradual = matches!(
            consumer.rebalance_protocol(),
            RebalanceProtocol::Cooperative
        );
        let done = if kind == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            let assigned = assign(consumer, partitions, is_gradual);
            // While the consumer is closed nobody listens any more.
            let _ = self.0.send(Change::Came(numbers));
            assigned
        } else {
            let _ = self.0.send(Change::Went(numbers));
            if is_gradual {
                consumer.incremental_unassign(partitions)
            } else {
                consumer.unassign()
            }
        };
        if let Err(error) = done {
            tracing::warn!(%error, "kafka: partitions could not be reassigned");
        }
    }
}

fn assign(
    consumer: &BaseConsumer<Rebalancing>,
    partitions: &mut TopicPartitionList,
    is_gradual: bool,
) -> KafkaResult<()> {
    partitions.set_all_offsets(Offset::Offset(0))?;
    if is_gradual {
        consumer.incremental_assign(partitions)?;
    } else {
        consumer.assign(partitions)?;
    }
    consumer.pause(partitions)
}

/// Consumes the topic as a member of its group until it has to stop.
pub(super) async fn consume(kafka: Arc<Kafka>, engine: Arc<Engine>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let group = Subject::log(kafka.settings.topic());
        let begun = Membership::begin(&kafka, &engine);
        let (now, fault) = (engine.clock.now(), begun.as_ref().err());
        engine.faults.record(JobKind::Queues, &group, now, fault);
        if let Ok(mut membership) = begun {
            let error = membership.take_part(&stop).await;
            membership.end().await;
            let Some(error) = error else { return };
            tracing::error!(%error, "kafka: joining the group again");
        }
        let slept = tokio::time::sleep(REJOIN_PAUSE);
        stop.run_until_cancelled(slept).await;
    }
}

/// This instance as a member of the group.
struct Membership {
    kafka: Arc<Kafka>,
    engine: Arc<Engine>,
    consumer: Arc<GroupConsumer>,
    changes: UnboundedReceiver<Change>,
    lanes: HashMap<i32, Running>,
}

/// A running lane, or one that is about to end.
struct Running {
    lane: Arc<Lane>,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it, and waits until it has ended.
    async fn end(mut self) {
        self.lane.stop.cancel();
        // How it ended makes no difference.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.lane.stop.cancel();
    }
}

impl Membership {
    fn begin(kafka: &Arc<Kafka>, engine: &Arc<Engine>) -> Result<Self, Error> {
        let settings = &kafka.settings;
        let group = ("group.id", &*settings.group);
        let config = settings.client(OPTIONS.into_iter().chain([group]));
        let (heard, changes) = unbounded_channel();
        let consumer: GroupConsumer = config.create_with_context(Rebalancing(heard))?;
        consumer.subscribe(&[settings.topic()])?;
        Ok(Self {
            kafka: Arc::clone(kafka),
            engine: Arc::clone(engine),
            consumer: Arc::new(consumer),
            changes,
            lanes: HashMap::new(),
        })
    }

    /// Runs a lane for each assigned partition until it has to stop. Returns an error if the client is not usable any
    /// more.
    async fn take_part(&mut self, stop: &CancellationToken) -> Option<KafkaError> {
        let mut ticks = tokio::time::interval(COMMIT_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let consumer = Arc::clone(&self.consumer);
        loop {
            tokio::select! {
                () = stop.cancelled() => return None,
                Some(change) = self.changes.recv() => self.hear(change),
                _ = ticks.tick() => self.commit(),
                // The client handles group events only while it receives. Records go to the lanes; any that arrive here
                // were read before their lane began.
                received = consumer.recv() => match received {
                    Ok(_) => {}
                    Err(error @ KafkaError::MessageConsumptionFatal(_)) => return Some(error),
                    Err(error) => throttle::say(&format!("kafka: {error}"), |more| {
                        tracing::warn!(%error, more, "kafka: the topic can't be read; trying again");
                    }),
                },
            }
        }
    }

    fn hear(&mut self, change: Change) {
        match change {
            Change::Came(numbers) => {
                for number in numbers {
                    let before = self.lanes.remove(&number);
                    let partition = Partition::new(self.kafka.settings.topic(), number);
                    let next = self.begin_lane(partition, before);
                    self.lanes.insert(number, next);
                }
            }
            Change::Went(numbers) => {
                for running in numbers.iter().filter_map(|number| self.lanes.get(number)) {
                    running.lane.stop.cancel();
                }
            }
        }
    }

    /// Begins to take records of a partition, after the lane before has ended: two lanes must never read one partition with
    /// one client, or one would get the records of the other.
    fn begin_lane(&self, partition: Partition, before: Option<Running>) -> Running {
        let lane = Arc::new(Lane {
            kafka: Arc::clone(&self.kafka),
            engine: Arc::clone(&self.engine),
            consumer: Arc::clone(&self.consumer),
            partition,
            progress: LaneProgress::default(),
            stop: CancellationToken::new(),
        });
        let own = Arc::clone(&lane);
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                before.end().await;
            }
            let work = || async {
                tokio::select! {
                    () = own.run() => {}
                    () = own.measure() => {}
                }
            };
            restarted("kafka-lane", work).await;
        });
        Running { lane, task }
    }

    /// Commits the lanes' positions. For information only: no consumer begins there.
    fn commit(&mut self) {
        self.lanes.retain(|number, running| {
            let is_over = running.lane.stop.is_cancelled() && running.task.is_finished();
            if is_over {
                set_lag(*number, 0);
            }
            !is_over
        });
        commit(&self.consumer, &self.positions());
    }

    /// The positions of the lanes. All are committed each time, as the group refuses commits while partitions change hands.
    fn positions(&self) -> TopicPartitionList {
        let mut positions = TopicPartitionList::new();
        let topic = self.kafka.settings.topic();
        for (number, Running { lane, .. }) in &self.lanes {
            let position = lane.progress.position();
            if position > 0 && !lane.stop.is_cancelled() {
                let added =
                    positions.add_partition_offset(topic, *number, Offset::Offset(position));
                debug_assert!(added.is_ok(), "a position is an offset");
            }
        }
        positions
    }

    /// Ends the lanes, and leaves the group.
    async fn end(mut self) {
        let positions = self.positions();
        for (number, running) in self.lanes.drain() {
            running.end().await;
            set_lag(number, 0);
        }
        let consumer = self.consumer;
        let left = spawn_blocking(move || {
            commit(&consumer, &positions);
            drop(consumer);
        });
        if tokio::time::timeout(LEAVE_TIME_MAX, left).await.is_err() {
            tracing::warn!(
                "kafka: leaving the group took too long; other members take over after the session timeout"
            );
        }
    }
}

fn commit(consumer: &GroupConsumer, positions: &TopicPartitionList) {
    if positions.count() > 0
        && let Err(error) = consumer.commit(positions, CommitMode::Async)
    {
        tracing::debug!(%error, "kafka: offsets were not committed");
    }
}
