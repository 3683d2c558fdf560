//! Appending events to the topic.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};

use super::client::Logged;
use super::settings::Settings;
use crate::core::Error;
use crate::domain::problems::Problem;

/// The maximum memory for events in flight to the brokers, in KiB.
const BUFFER_KIB: &str = "65536";
/// How long events are gathered before they are sent.
const LINGER_MS: &str = "2";

type Sending = FutureProducer<Logged>;

/// Appends records in order; the client itself sends none twice.
pub(super) struct Producer {
    config: ClientConfig,
    /// Replaced after a fatal error, when the client does nothing any more.
    current: ArcSwap<Sending>,
}

impl Producer {
    pub(super) fn new(settings: &Settings) -> Result<Self, String> {
        let patience_ms = settings.request_timeout().as_millis().to_string();
        let config = settings.client([
            ("queue.buffering.max.kbytes", BUFFER_KIB),
            ("linger.ms", LINGER_MS),
            // The default of Java producers, so that a key is always in one partition, whichever program writes.
            ("partitioner", "murmur2_random"),
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("message.timeout.ms", &patience_ms),
        ]);
        let current = start(&config).map_err(|error| error.to_string())?;
        Ok(Self {
            config,
            current: ArcSwap::new(Arc::new(current)),
        })
    }

    /// The current client, which can also query brokers.
    pub(super) fn current(&self) -> Arc<Sending> {
        self.current.load_full()
    }

    /// Appends a record. When this returns, all in-sync replicas have it.
    ///
    /// # Errors
    ///
    /// [`Problem::queue_full`]: not sent, as too much is in flight. [`Error::Log`]: it may or may not be in the topic.
    pub(super) async fn append(&self, record: FutureRecord<'_, [u8], [u8]>) -> Result<(), Error> {
        let current = self.current();
        let sent = current.send(record, Duration::ZERO).await;
        let Err((error, _)) = sent else {
            return Ok(());
        };
        if current.client().fatal_error().is_some() {
            self.replace(&current);
        }
        Err(match error {
            KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) => {
                Problem::queue_full().into()
            }
            error => error.into(),
        })
    }

    /// Replaces this client, unless that has happened already.
    fn replace(&self, failed: &Arc<Sending>) {
        match start(&self.config) {
            Ok(next) => {
                let before = self.current.compare_and_swap(failed, Arc::new(next));
                if Arc::ptr_eq(&before, failed) {
                    tracing::error!("kafka: the producer failed permanently; a new one takes over");
                }
            }
            Err(error) => tracing::error!(%error, "kafka: a new producer can't be started"),
        }
    }
}

fn start(config: &ClientConfig) -> Result<Sending, KafkaError> {
    config.create_with_context(Logged)
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use rdkafka::mocking::MockCluster;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

    use super::*;
    use crate::domain::problems::QUEUE_FULL;
    use crate::runtime::timeouts::TimeoutFactor;

    fn settings(brokers: &str, options: &str) -> Settings {
        Settings {
            url: format!("kafka://{brokers}/events").parse().unwrap(),
            group: "standings".to_owned(),
            dead_letter_topic: None,
            options: options.parse().unwrap(),
            timeouts: TimeoutFactor::default(),
        }
    }

    fn producer(brokers: &str, options: &str) -> Producer {
        Producer::new(&settings(brokers, options)).unwrap()
    }

    async fn append(producer: &Producer) -> Result<(), Error> {
        let record = FutureRecord::to("events").payload(&b"{}"[..]);
        producer.append(record).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_temporarily_refused_record_is_appended_later() {
        let cluster = MockCluster::new(3).unwrap();
        cluster.create_topic("events", 2, 3).unwrap();
        let settings = settings(&cluster.bootstrap_servers(), "retry.backoff.ms=10");
        let producer = Producer::new(&settings).unwrap();
        append(&producer).await.unwrap();
        let few = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
        cluster.request_errors(RDKafkaApiKey::Produce, &[few, few, few]);
        append(&producer).await.unwrap();
        // Not `broker_down`: restarting a broker aborts the process if its port has been taken.
        let answer_after = |delay| {
            for broker in 1..=3 {
                cluster.broker_round_trip_time(broker, delay).unwrap();
            }
        };
        answer_after(10 * settings.request_timeout());
        let error = append(&producer).await.unwrap_err();
        assert!(matches!(error, Error::Log(_)), "{error}");
        answer_after(Duration::ZERO);
        append(&producer).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_with_a_fatal_error_is_replaced_once() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("events", 1, 1).unwrap();
        let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
        cluster.request_errors(RDKafkaApiKey::InitProducerId, &[refused]);
        let producer = producer(&cluster.bootstrap_servers(), "");
        let first = producer.current();
        let error = append(&producer).await.unwrap_err();
        assert!(matches!(error, Error::Log(_)), "{error}");
        assert!(first.client().fatal_error().is_some());
        let second = producer.current();
        assert!(!Arc::ptr_eq(&first, &second));
        append(&producer).await.unwrap();
        // A caller may still hold the first one.
        producer.replace(&first);
        assert!(Arc::ptr_eq(&second, &producer.current()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_brokers_events_are_refused_after_a_while_and_beyond_a_bound_at_once() {
        let producer = producer("127.0.0.1:1", "queue.buffering.max.messages=3");
        let results = join_all((0..5).map(|_| append(&producer))).await;
        let is_full =
            |result: &&Result<(), Error>| matches!(result, Err(error) if error.is(QUEUE_FULL));
        let is_away = |result: &&Result<(), Error>| matches!(result, Err(Error::Log(_)));
        let counts = (
            results.iter().filter(is_full).count(),
            results.iter().filter(is_away).count(),
        );
        assert_eq!(counts, (2, 3), "{results:?}");
    }
}
