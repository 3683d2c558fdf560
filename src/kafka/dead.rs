//! Dead records: those that can't be taken. They stop nobody: each is counted, told in the log without its content, and brought to
//! the topic for dead records, if one is named, before the position passes it.

use metrics::counter;
use rdkafka::Message;
use rdkafka::message::{Header, Headers, OwnedHeaders, OwnedMessage};

use super::client::Kafka;
use super::producer::Appended;
use super::record::with;
use crate::domain::intake::Partition;
use crate::engine::Error;
use crate::throttle;

/// Why a record is dead, and where it was: what a dead record has beside its own headers.
const REASON: &str = "standings-dead-reason";
const DETAIL: &str = "standings-dead-detail";
const TOPIC: &str = "standings-dead-topic";
const PARTITION: &str = "standings-dead-partition";
const OFFSET: &str = "standings-dead-offset";

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
        let Dead {
            partition,
            offset,
            reason,
            ..
        } = dead;
        throttle::say(&format!("dead record: {reason}"), |more| {
            tracing::warn!(%partition, offset, reason, more, "a record of kafka can't be taken");
        });
        Ok(())
    }
}

impl Dead<'_> {
    fn headers(&self, message: &OwnedMessage) -> OwnedHeaders {
        let mut headers = OwnedHeaders::new();
        for Header { key, value } in message.headers().iter().flat_map(|own| own.iter()) {
            headers = headers.insert(Header { key, value });
        }
        let (number, offset) = (self.partition.number.to_string(), self.offset.to_string());
        for (name, value) in [
            (REASON, self.reason),
            (DETAIL, self.detail),
            (TOPIC, &*self.partition.topic),
            (PARTITION, &number),
            (OFFSET, &offset),
        ] {
            headers = with(headers, name, value);
        }
        headers
    }
}
