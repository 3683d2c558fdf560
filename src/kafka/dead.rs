//! Dead records: those that can't be taken. They stop nobody: each is counted, told in the log without its content, and brought to
//! the topic for dead letters, if one is named, before the position passes it. Events that were taken and can't be applied are brought there, too,
//! before they become dead letters of their boards.

use metrics::counter;
use rdkafka::Message;
use rdkafka::message::{OwnedHeaders, OwnedMessage};

use super::client::Kafka;
use super::producer::Appended;
use super::record::{self, with};
use crate::domain::intake::Partition;
use crate::engine::Error;
use crate::engine::queue::burying::DeadEvent;
use crate::throttle;

/// Why something is dead, and where it was: what it has beside its own headers.
const REASON: &str = "standings-dead-reason";
const DETAIL: &str = "standings-dead-detail";
const TOPIC: &str = "standings-dead-topic";
const PARTITION: &str = "standings-dead-partition";
const OFFSET: &str = "standings-dead-offset";
const QUEUE: &str = "standings-dead-queue";
const ENTRY: &str = "standings-dead-entry";

/// A record that can't be taken.
#[derive(Debug)]
pub(super) struct Dead<'a> {
    pub(super) partition: &'a Partition,
    pub(super) offset: i64,
    /// A name of the reason, which tells nothing of the content.
    pub(super) reason: &'static str,
    /// The same for people who may see the record.
    pub(super) detail: &'a str,
    /// The record, if there is a topic for it.
    pub(super) message: Option<&'a OwnedMessage>,
}

impl Kafka {
    /// Brings an event that is about to be a dead letter to the topic for them, if there is one: as records have it, so that it can be
    /// written again. One that nobody can read has no value there.
    ///
    /// # Errors
    ///
    /// The topic may have it or not.
    pub(super) async fn bury_event(&self, dead: DeadEvent<'_>) -> Result<(), Error> {
        let Some(topic) = &self.settings.dead_letter_topic else {
            return Ok(());
        };
        let event = dead.event.as_ref();
        let written = event.map(|event| record::write(dead.board, event));
        let written = written.transpose()?;
        let own = written.as_ref().map(|written| written.headers.clone());
        let (queue, entry) = (dead.queue.to_string(), dead.entry.to_string());
        let why = [
            (REASON, dead.reason.name()),
            (DETAIL, dead.detail),
            (QUEUE, &queue),
            (ENTRY, &entry),
        ];
        let appended = Appended {
            topic: topic.as_str(),
            key: written.as_ref().map(|written| written.key.as_bytes()),
            value: written.as_ref().map(|written| &written.value[..]),
            headers: with_all(own.unwrap_or_default(), &why),
            at_ms: written.as_ref().map(|written| written.at_ms),
        };
        self.producer.append(appended).await
    }

    /// Brings a dead record to the topic for them, and tells of it. Who dies in between does it again, so that topic may have it twice.
    ///
    /// # Errors
    ///
    /// The topic has not confirmed it: the position is not to pass the record.
    pub(super) async fn bury(&self, dead: &Dead<'_>) -> Result<(), Error> {
        if let (Some(topic), Some(message)) = (&self.settings.dead_letter_topic, dead.message) {
            self.producer
                .append(Appended {
                    topic: topic.as_str(),
                    key: message.key(),
                    value: message.payload(),
                    headers: dead.headers(message),
                    at_ms: message.timestamp().to_millis(),
                })
                .await?;
        }
        counter!("standings_kafka_records_total", "status" => "dead").increment(1);
        let (partition, offset, reason) = (dead.partition, dead.offset, dead.reason);
        throttle::say(&format!("dead record: {reason}"), |more| {
            tracing::warn!(%partition, offset, reason, more, "a record of kafka can't be taken");
        });
        Ok(())
    }
}

impl Dead<'_> {
    fn headers(&self, message: &OwnedMessage) -> OwnedHeaders {
        let own = message.headers().cloned().unwrap_or_default();
        let (number, offset) = (self.partition.number.to_string(), self.offset.to_string());
        let why = [
            (REASON, self.reason),
            (DETAIL, self.detail),
            (TOPIC, &*self.partition.topic),
            (PARTITION, &number),
            (OFFSET, &offset),
        ];
        with_all(own, &why)
    }
}

fn with_all(headers: OwnedHeaders, more: &[(&str, &str)]) -> OwnedHeaders {
    more.iter()
        .fold(headers, |headers, (name, value)| with(headers, name, value))
}
