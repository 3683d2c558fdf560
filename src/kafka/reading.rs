//! Reading a range of the topic outside of the group, and the queries of the engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::FutureRecord;
use rdkafka::{Message, Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::client::{Kafka, Logged, blocking};
use super::{group, record};
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::intake::{Backlog, Extent, Partition};
use crate::domain::problems::Problem;
use crate::domain::queued::QueuedEvent;
use crate::queue::intake::{DyingEvent, EventLog, LogEvent, Sought};

/// The limits of one query: records, and time.
const RECORDS_MAX: usize = 100_000;
const TIME_MAX: Duration = Duration::from_secs(2);
/// The number of partitions queried at the same time.
const AT_ONCE: usize = 16;
/// The number of queries for which an instance reads at the same time. Others wait.
pub(super) const READERS_MAX: usize = 2;

/// The result of reading ranges.
#[derive(Debug, Default)]
pub(super) struct RangesRead {
    pub(super) events: Vec<LogEvent>,
    /// The number of records read.
    pub(super) count: usize,
    /// Whether the ranges were read to their ends.
    pub(super) is_whole: bool,
}

impl Kafka {
    /// Reads a range of offsets of each partition, within the limits.
    pub(super) async fn read(
        &self,
        mut parts: Vec<(Partition, i64, i64)>,
        keeps: impl Fn(&LogEvent) -> bool + Send + 'static,
    ) -> Result<RangesRead, Error> {
        parts.retain(|(_, from, end)| from < end);
        if parts.is_empty() {
            return Ok(RangesRead {
                is_whole: true,
                ..RangesRead::default()
            });
        }
        let time_max = self.settings.timeouts.times(TIME_MAX);
        let options = &[
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "earliest"),
        ];
        self.beside_the_group(options, move |consumer| {
            let mut assigned = TopicPartitionList::new();
            for (Partition { topic, number }, from, _) in &parts {
                assigned.add_partition_offset(topic, *number, Offset::Offset(*from))?;
            }
            consumer.assign(&assigned)?;
            let ends = parts.iter().map(|(part, _, end)| (part.number, *end));
            poll_up_to(consumer, ends.collect(), time_max, keeps)
        })
        .await
    }

    /// Queries the brokers with a consumer outside of the group: without its name, that neither reads nor asks for offsets.
    async fn beside_the_group<T: Send + 'static>(
        &self,
        options: &[(&str, &str)],
        ask: impl FnOnce(&BaseConsumer<Logged>) -> KafkaResult<T> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = self.readers.acquire().await;
        let _permit = permit.map_err(|error| Error::Log(error.to_string()))?;
        let own = [
            ("group.id", &*self.settings.group),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
        ];
        let config = self.settings.client(own.iter().chain(options).copied());
        blocking(move || ask(&config.create_with_context(Logged)?)).await
    }

    /// The ranges of readable records of all partitions.
    async fn extents(&self) -> Result<Vec<(Partition, Extent)>, Error> {
        let asked: Vec<_> = self
            .partitions()
            .await?
            .into_iter()
            .map(|partition| async move {
                let extent = self.extent(&partition).await;
                extent.map(|extent| (partition, extent))
            })
            .collect();
        stream::iter(asked).buffered(AT_ONCE).try_collect().await
    }
}

/// Reads the assigned partitions up to their end offsets, within the limits of records and time.
fn poll_up_to(
    consumer: &BaseConsumer<Logged>,
    mut ends: HashMap<i32, i64>,
    time_max: Duration,
    keeps: impl Fn(&LogEvent) -> bool,
) -> KafkaResult<RangesRead> {
    let begun = Instant::now();
    let mut found = RangesRead::default();
    while !ends.is_empty() && found.count < RECORDS_MAX {
        let Some(left) = time_max.checked_sub(begun.elapsed()) else {
            break;
        };
        match consumer.poll(left) {
            Some(Ok(message)) => {
                let (number, behind) = (message.partition(), message.offset() + 1);
                let end = ends.get(&number).copied().unwrap_or(0);
                if behind >= end {
                    ends.remove(&number);
                }
                // Otherwise it was appended later.
                if behind <= end {
                    found.count += 1;
                    // An unreadable record is not an event.
                    let event = record::read(&message).ok();
                    found.events.extend(event.filter(|event| keeps(event)));
                }
            }
            Some(Err(KafkaError::PartitionEOF(number))) => drop(ends.remove(&number)),
            // The client recovers by itself.
            None
            | Some(Err(KafkaError::MessageConsumption(
                Code::BrokerTransportFailure
                | Code::AllBrokersDown
                | Code::OperationTimedOut
                | Code::Resolve,
            ))) => {}
            Some(Err(error)) => return Err(error),
        }
    }
    found.is_whole = ends.is_empty();
    Ok(found)
}

impl EventLog for Kafka {
    fn append<'a>(
        &'a self,
        board: &'a Board,
        event: &'a QueuedEvent,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let written = record::write(board, event)?;
            let record = FutureRecord::to(self.settings.topic())
                .key(written.key.as_bytes())
                .payload(&written.value[..])
                .headers(written.headers)
                .timestamp(written.at_ms);
            self.producer.append(record).await
        })
    }

    fn bury<'a>(&'a self, dead: DyingEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.bury_event(dead))
    }

    fn ends(&self) -> BoxFuture<'_, Result<Vec<(Partition, i64)>, Error>> {
        Box::pin(async move {
            let (partitions, request_timeout) =
                (self.partitions().await?, self.settings.request_timeout());
            // Reading stops at the first open transaction, although there may be confirmed records after its beginning.
            let options = &[("isolation.level", "read_uncommitted")];
            self.beside_the_group(options, move |consumer| {
                partitions
                    .into_iter()
                    .map(|partition| {
                        let Partition { topic, number } = &partition;
                        let (_, end) =
                            consumer.fetch_watermarks(topic, *number, request_timeout)?;
                        Ok((partition, end))
                    })
                    .collect()
            })
            .await
        })
    }

    fn backlog(&self) -> BoxFuture<'_, Result<Vec<Backlog>, Error>> {
        Box::pin(async move {
            let (extents, request_timeout) =
                (self.extents().await?, self.settings.request_timeout());
            self.beside_the_group(&[], move |consumer| {
                let mut asked = TopicPartitionList::new();
                for (Partition { topic, number }, _) in &extents {
                    asked.add_partition(topic, *number);
                }
                let committed = consumer
                    .committed_offsets(asked, request_timeout)?
                    .to_topic_map();
                Ok(extents
                    .into_iter()
                    .map(|(partition, extent)| {
                        let place = (partition.topic.to_string(), partition.number);
                        let taken = committed.get(&place).and_then(|offset| offset.to_raw());
                        Backlog {
                            partition,
                            end: extent.end,
                            // Kafka reports a missing offset as a negative number.
                            taken: taken.filter(|taken| *taken >= 0),
                        }
                    })
                    .collect())
            })
            .await
        })
    }

    fn consume(
        self: Arc<Self>,
        engine: Arc<Engine>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        Box::pin(group::consume(self, engine, stop))
    }

    fn find<'a>(&'a self, sought: Sought<'a>) -> BoxFuture<'a, Result<Vec<LogEvent>, Error>> {
        Box::pin(async move {
            let parts = self
                .extents()
                .await?
                .into_iter()
                .map(|(partition, extent)| {
                    let known = sought.from.iter().find(|(known, _)| *known == partition);
                    let from = known.map_or(extent.first, |(_, from)| extent.first.max(*from));
                    (partition, from, extent.end)
                });
            let (board, id) = (sought.board.id.clone(), sought.id.clone());
            let (generation, member) = (sought.board.generation, sought.member.cloned());
            let is_sought = move |event: &LogEvent| {
                event.incoming.id.as_ref() == Some(&id)
                    && event.incoming.board == board
                    && event.generation.is_none_or(|own| own == generation)
                    && member
                        .as_ref()
                        .is_none_or(|member| event.incoming.member == *member)
            };
            let found = self.read(parts.collect(), is_sought).await?;
            if found.is_whole {
                Ok(found.events)
            } else {
                Err(Problem::log_too_long().into())
            }
        })
    }
}
