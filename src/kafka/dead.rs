//! Dead records: those that can't be taken. They don't block others: each is counted, logged without its content, and written
//! to the topic for dead letters, if there is one, before the position passes it. Queued events that can't be applied are
//! written there, too, before they become dead letters of their boards.

use metrics::counter;
use rdkafka::Message;
use rdkafka::message::{OwnedHeaders, OwnedMessage};
use rdkafka::producer::FutureRecord;

use super::client::Kafka;
use super::record::{self, with};
use crate::core::Error;
use crate::domain::intake::Partition;
use crate::queue::intake::DyingEvent;
use crate::runtime::throttle;

/// Headers with the reason and the origin, in addition to the record's own.
const REASON: &str = "standings-dead-reason";
const DETAIL: &str = "standings-dead-detail";
const TOPIC: &str = "standings-dead-topic";
const PARTITION: &str = "standings-dead-partition";
const OFFSET: &str = "standings-dead-offset";
const QUEUE: &str = "standings-dead-queue";
const ENTRY: &str = "standings-dead-entry";

impl Kafka {
    /// Writes an event that is about to become a dead letter to the topic for them, if there is one, in the form of other
    /// records, so that it can be sent again. The value of an unreadable event is empty.
    ///
    /// # Errors
    ///
    /// The event may or may not be in the topic.
    pub(super) async fn bury_event(&self, dead: DyingEvent<'_>) -> Result<(), Error> {
        let Some(topic) = &self.settings.dead_letter_topic else {
            return Ok(());
        };
        let event = dead.event.as_ref();
        let written = event.map(|event| record::write(dead.board, event));
        let (mut record, mut headers) = (FutureRecord::to(topic.as_str()), OwnedHeaders::new());
        let written = written.transpose()?;
        if let Some(written) = &written {
            record = record
                .key(written.key.as_bytes())
                .payload(&written.value[..]);
            record = record.timestamp(written.at_ms);
            headers = written.headers.clone();
        }
        let (queue, entry) = (dead.queue.to_string(), dead.entry.to_string());
        let why = [
            (REASON, dead.reason.name()),
            (DETAIL, dead.detail),
            (QUEUE, &queue),
            (ENTRY, &entry),
        ];
        self.producer
            .append(record.headers(with(headers, why)))
            .await
    }

    /// Writes a dead record to the topic for them, and reports it. After a crash this may happen twice. The name of the reason
    /// contains nothing from the record; `detail` is for people who may see the record. `message`: the record, if there is a
    /// topic for it.
    ///
    /// # Errors
    ///
    /// The topic has not confirmed it: the position must not pass the record.
    pub(super) async fn bury(
        &self,
        partition: &Partition,
        offset: i64,
        (reason, detail): (&'static str, &str),
        message: Option<&OwnedMessage>,
    ) -> Result<(), Error> {
        if let (Some(topic), Some(message)) = (&self.settings.dead_letter_topic, message) {
            let (number, offset) = (partition.number.to_string(), offset.to_string());
            let why = [
                (REASON, reason),
                (DETAIL, detail),
                (TOPIC, &partition.topic),
                (PARTITION, &number),
                (OFFSET, &offset),
            ];
            let own = message.headers().cloned().unwrap_or_default();
            let mut record = FutureRecord::to(topic.as_str()).headers(with(own, why));
            (record.key, record.payload) = (message.key(), message.payload());
            record.timestamp = message.timestamp().to_millis();
            self.producer.append(record).await?;
        }
        counter!("standings_kafka_records_total", "status" => "dead").increment(1);
        throttle::say(&format!("dead record: {reason}"), |more| {
            tracing::warn!(%partition, offset, reason, more, "a Kafka record was rejected");
        });
        Ok(())
    }
}
