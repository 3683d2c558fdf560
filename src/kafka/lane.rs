//! A lane: takes the records of one partition into the queues of their shards, batch by batch.
//!
//! It holds one batch, and reads no more of the partition until that is taken. So a shard that is full or unavailable delays only
//! partitions that have records for it, and memory is bounded: the client prefetches only a bounded amount.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use metrics::{counter, gauge};
use rdkafka::consumer::Consumer;
use rdkafka::consumer::stream_consumer::StreamPartitionQueue;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, OwnedMessage};
use rdkafka::{Message, Offset, TopicPartitionList};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::client::{Kafka, blocking};
use super::group::{GroupConsumer, Rebalancing};
use super::record::{self, Illegible};
use crate::core::jobs::JobKind;
use crate::core::jobs::faults::Subject;
use crate::core::{Engine, Error, Outdated};
use crate::domain::intake::Partition;
use crate::queue::intake::{DeadCause, Intake, LogEvent, PASS_INTERVAL, Taking, start};
use crate::runtime::throttle;

/// The maximum number of records in a batch.
const RECORDS_MAX: usize = 1_000;
/// The first and the longest pause before a retry.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const MEASURED_EVERY: Duration = Duration::from_secs(2);
const SEEK_TIME_MAX: Duration = Duration::from_secs(5);
/// After this time without a record the lane checks whether the rest of the log has any.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// The progress of a lane, for reports.
#[derive(Debug, Default)]
pub(super) struct LaneProgress {
    position: AtomicI64,
    end: AtomicI64,
}

impl LaneProgress {
    pub(super) fn position(&self) -> i64 {
        self.position.load(Ordering::Relaxed)
    }

    /// About how many records remain; `None` if the lane has not begun.
    fn lag(&self) -> Option<u64> {
        let position = self.position();
        let left = self.end.load(Ordering::Relaxed) - position;
        (position > 0 || left > 0).then(|| u64::try_from(left).unwrap_or(0))
    }
}

/// Returns a pause, and doubles the next one.
fn doubled(pause: &mut Duration) -> Duration {
    let next = (*pause * 2).min(PAUSE_MAX);
    std::mem::replace(pause, next)
}

/// The task that takes the records of one partition.
pub(super) struct Lane {
    pub(super) kafka: Arc<Kafka>,
    pub(super) engine: Arc<Engine>,
    pub(super) consumer: Arc<GroupConsumer>,
    pub(super) partition: Partition,
    pub(super) progress: LaneProgress,
    pub(super) stop: CancellationToken,
}

type Queue = StreamPartitionQueue<Rebalancing>;

/// A batch: records that were read in a row.
#[derive(Default)]
struct RecordBatch {
    events: Vec<LogEvent>,
    illegible: Vec<(i64, Illegible)>,
    /// The raw records, if dead ones go to a topic.
    messages: Vec<OwnedMessage>,
    count: usize,
    upto: i64,
}

impl RecordBatch {
    /// An empty batch, before the record at this offset.
    fn at(position: i64) -> Self {
        Self {
            upto: position,
            ..Self::default()
        }
    }

    fn add(&mut self, message: &BorrowedMessage<'_>, keeps_messages: bool) {
        if message.offset() < self.upto {
            return;
        }
        self.count += 1;
        self.upto = message.offset() + 1;
        match record::read(message) {
            Ok(event) => self.events.push(event),
            Err(illegible) => self.illegible.push((message.offset(), illegible)),
        }
        if keeps_messages {
            self.messages.push(message.detach());
        }
    }

    fn message(&self, offset: i64) -> Option<&OwnedMessage> {
        let found = self.messages.binary_search_by_key(&offset, Message::offset);
        self.messages.get(found.ok()?)
    }
}

impl Lane {
    /// Takes records until it has to stop.
    pub(super) async fn run(&self) {
        let mut pause = PAUSE_MIN;
        while !self.stop.is_cancelled() {
            let before = self.progress.position();
            match self.consume().await {
                Ok(()) => return,
                Err(Error::Again(Outdated::Intake)) => {
                    let partition = &self.partition;
                    tracing::warn!(%partition, "Redis has an older position of a partition; its records are read again");
                }
                Err(error) => self.fail(&error),
            }
            if self.progress.position() > before {
                pause = PAUSE_MIN;
            }
            let slept = sleep(doubled(&mut pause));
            self.stop.run_until_cancelled(slept).await;
        }
    }

    fn fail(&self, error: &Error) {
        self.note(Some(error));
        let partition = &self.partition;
        throttle::say(&format!("lane {partition}: {error}"), |more| {
            tracing::warn!(%partition, %error, more, "Kafka records can't be processed; trying again");
        });
    }

    fn note(&self, error: Option<&Error>) {
        let (faults, now) = (&self.engine.faults, self.engine.clock.now());
        faults.record(JobKind::Queues, &Subject::log(&self.partition), now, error);
    }

    /// Measures the lag regularly.
    pub(super) async fn measure(&self) {
        loop {
            sleep(MEASURED_EVERY).await;
            if let Ok(extent) = self.kafka.extent(&self.partition).await {
                self.progress.end.store(extent.end, Ordering::Relaxed);
                if let Some(lag) = self.progress.lag() {
                    set_lag(self.partition.number, lag);
                }
            }
        }
    }

    /// Begins at the shards' offset, and takes records until it has to stop.
    async fn consume(&self) -> Result<(), Error> {
        let begin = async {
            let start = start::find(&self.engine, &self.partition).await?;
            let extent = self.kafka.extent(&self.partition).await?;
            Intake::new(Arc::clone(&self.engine), start, extent)
        };
        let Some(intake) = self.stop.run_until_cancelled(begin).await else {
            return Ok(());
        };
        let mut intake = intake?;
        self.report_removed(intake.removed());
        self.progress
            .position
            .store(intake.position(), Ordering::Relaxed);
        // This is never cancelled: a late seek would move the next lane of this partition.
        let queue = self.open(intake.position()).await?;
        self.note(None);
        let reading = self.read(&mut intake, &queue);
        let read = self.stop.run_until_cancelled(reading).await;
        read.unwrap_or(Ok(()))
    }

    /// Reports that records were removed before they were taken.
    fn report_removed(&self, removed: i64) {
        let Some(count) = u64::try_from(removed).ok().filter(|count| *count > 0) else {
            return;
        };
        counter!("standings_kafka_records_removed_total").increment(count);
        let partition = &self.partition;
        tracing::error!(
            %partition, count,
            "Kafka has deleted records before they were read, and they are lost. Raise retention.ms or retention.bytes of the topic"
        );
    }

    /// Makes the client read from an offset, into a queue that has only this partition's records.
    async fn open(&self, position: i64) -> Result<Queue, Error> {
        let (consumer, partition) = (Arc::clone(&self.consumer), self.partition.clone());
        let begun = Instant::now();
        blocking(move || {
            let Partition { topic, number } = &partition;
            // The client needs a moment until it knows a new partition.
            while let Err(error) =
                consumer.seek(topic, *number, Offset::Offset(position), SEEK_TIME_MAX)
            {
                if begun.elapsed() > SEEK_TIME_MAX {
                    return Err(Error::from(error));
                }
                std::thread::sleep(PAUSE_MIN);
            }
            let queue = consumer
                .split_partition_queue(topic, *number)
                .ok_or_else(|| Error::Log(format!("{partition} is not there")))?;
            let mut own = TopicPartitionList::new();
            own.add_partition(topic, *number);
            consumer.resume(&own)?;
            Ok(queue)
        })
        .await
    }

    /// Takes records as they arrive.
    async fn read(&self, intake: &mut Intake, queue: &Queue) -> Result<(), Error> {
        let mut passing = tokio::time::interval(PASS_INTERVAL);
        passing.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last_record = Instant::now();
        loop {
            tokio::select! {
                message = queue.recv() => {
                    last_record = Instant::now();
                    let batch = self.gather(intake.position(), message, queue)?;
                    self.take(intake, batch).await?;
                }
                _ = passing.tick() => self.pass(intake).await?,
            }
            let is_behind = self.progress.lag().is_some_and(|lag| lag > 0);
            if is_behind && last_record.elapsed() > SETTLED_AFTER {
                self.settle(intake).await?;
                last_record = Instant::now();
            }
        }
    }

    /// Collects records that are already there, up to the limit of a batch.
    fn gather(
        &self,
        position: i64,
        first: Result<BorrowedMessage<'_>, KafkaError>,
        queue: &Queue,
    ) -> Result<RecordBatch, Error> {
        let keeps_messages = self.kafka.settings.dead_letter_topic.is_some();
        let mut batch = RecordBatch::at(position);
        batch.add(&first?, keeps_messages);
        while batch.count < RECORDS_MAX
            && let Some(message) = queue.recv().now_or_never()
        {
            match message {
                Ok(message) => batch.add(&message, keeps_messages),
                // Records that were read before the error are taken first; the client reports lasting errors again.
                Err(_) => break,
            }
        }
        Ok(batch)
    }

    /// Takes a batch, however long that takes.
    async fn take(&self, intake: &mut Intake, mut batch: RecordBatch) -> Result<(), Error> {
        if batch.upto <= intake.position() {
            return Ok(());
        }
        for (offset, illegible) in std::mem::take(&mut batch.illegible) {
            let Illegible { code, detail } = illegible;
            self.bury(intake, &batch, offset, (code, &detail)).await?;
        }
        let (mut pause, mut dead_count) = (PAUSE_MIN, 0);
        let events = std::mem::take(&mut batch.events);
        let count = events.len();
        let mut taking = intake.take(events, batch.upto).await;
        let mut waited = false;
        loop {
            taking = match taking {
                Taking::Done => break,
                Taking::GoneBack => return Err(Error::Again(Outdated::Intake)),
                Taking::Dead(records) => {
                    dead_count += records.len();
                    for record in records {
                        let (offset, name) = (record.offset, record.cause.name());
                        let detail = match &record.cause {
                            DeadCause::Unreadable(detail) => detail,
                            _ => name,
                        };
                        self.bury(intake, &batch, offset, (name, detail)).await?;
                    }
                    intake.resume().await
                }
                Taking::Waits(error) => {
                    waited = true;
                    self.fail(&error);
                    self.wait(intake, doubled(&mut pause)).await?;
                    intake.resume().await
                }
            };
        }
        if waited {
            self.note(None);
        }
        self.progress
            .position
            .store(intake.position(), Ordering::Relaxed);
        let taken = count.saturating_sub(dead_count) as u64;
        counter!("standings_kafka_records_total", "status" => "taken").increment(taken);
        Ok(())
    }

    /// Reports a dead record, however long that takes.
    async fn bury(
        &self,
        intake: &mut Intake,
        batch: &RecordBatch,
        offset: i64,
        why: (&'static str, &str),
    ) -> Result<(), Error> {
        let mut pause = PAUSE_MIN;
        loop {
            let message = batch.message(offset);
            let Err(error) = self.kafka.bury(&self.partition, offset, why, message).await else {
                return Ok(());
            };
            self.fail(&error);
            self.wait(intake, doubled(&mut pause)).await?;
        }
    }

    /// Waits, while shards continue to store the position.
    async fn wait(&self, intake: &mut Intake, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            sleep(left.min(PASS_INTERVAL)).await;
            self.pass(intake).await?;
        }
        Ok(())
    }

    async fn pass(&self, intake: &mut Intake) -> Result<(), Error> {
        match intake.pass().await {
            Ok(()) => Ok(()),
            Err(error @ Error::Again(Outdated::Intake)) => Err(error),
            Err(error) => {
                let partition = &self.partition;
                throttle::say(&format!("pass {partition}: {error}"), |more| {
                    tracing::warn!(%partition, %error, more, "the positions in Kafka could not be stored; trying again");
                });
                Ok(())
            }
        }
    }

    /// Moves the position past the end of the log if there are no records: Kafka stores transaction markers there, which no
    /// client gets. Others may be waiting until everything before the end is taken.
    async fn settle(&self, intake: &mut Intake) -> Result<(), Error> {
        let extent = self.kafka.extent(&self.partition).await?;
        let position = intake.position();
        if extent.end <= position {
            return Ok(());
        }
        let from = vec![(self.partition.clone(), position, extent.end)];
        let found = self.kafka.read(from, |_| true).await?;
        if found.is_whole && found.count == 0 {
            return self.take(intake, RecordBatch::at(extent.end)).await;
        }
        Ok(())
    }
}

pub(super) fn set_lag(number: i32, lag: u64) {
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    gauge!("standings_kafka_lag", "partition" => number.to_string()).set(lag as f64);
}
