//! The Kafka client: its options, its log, and the partitions of the topic.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::types::RDKafkaConfRes;
use tokio::sync::Semaphore;

use super::producer::Producer;
use super::reading::READERS_MAX;
use super::settings::Settings;
use crate::core::Error;
use crate::domain::intake::{Extent, Partition};
use crate::queue::intake::EventLog;
use crate::runtime::throttle;

/// The longest time for a request to a broker, and for appending an event.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(8);
/// The longest time until a new partition is noticed.
const REFRESH_MS: u32 = 30_000;
/// The longest pause before reconnecting to a broker.
const RECONNECT_MS_MAX: u32 = 1_000;

/// The topic that is the queue, and its clients.
pub(super) struct Kafka {
    pub(super) settings: Settings,
    pub(super) producer: Producer,
    pub(super) readers: Semaphore,
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kafka")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Forwards the client's log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged;

impl ClientContext for Logged {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Debug => tracing::debug!(facility, "kafka: {line}"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                tracing::info!(facility, "kafka: {line}");
            }
            _ => throttle::say(&format!("kafka: {facility}"), |more| {
                tracing::warn!(facility, more, "kafka: {line}");
            }),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        throttle::say(&format!("kafka: {error}"), |more| {
            tracing::warn!(%error, more, "kafka: {reason}");
        });
    }
}

impl ConsumerContext for Logged {}

impl From<KafkaError> for Error {
    /// The text contains no value of an option.
    fn from(error: KafkaError) -> Self {
        Self::Log(error.to_string())
    }
}

/// Runs a blocking call on another thread.
pub(super) async fn blocking<T, E>(
    call: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Error>
where
    T: Send + 'static,
    E: Into<Error> + Send + 'static,
{
    let called = tokio::task::spawn_blocking(call).await;
    called
        .map_err(|error| Error::Log(error.to_string()))?
        .map_err(Into::into)
}

impl Settings {
    /// The client's configuration: `options` are defaults, which the operator can override. Options that the service relies
    /// on can't be set (`settings.rs`).
    pub(super) fn client<'a>(
        &'a self,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Info);
        config.set("client.id", "standings");
        config.set("log.connection.close", "false");
        config.set("topic.metadata.refresh.interval.ms", REFRESH_MS.to_string());
        config.set("reconnect.backoff.max.ms", RECONNECT_MS_MAX.to_string());
        for (name, value) in options.into_iter().chain(self.options.pairs()) {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.url.brokers);
        config
    }

    pub(super) fn topic(&self) -> &str {
        self.url.topic.as_str()
    }

    pub(super) fn request_timeout(&self) -> Duration {
        self.timeouts.times(ANSWER_TIME_MAX)
    }

    /// Checks whether the client accepts its options.
    ///
    /// # Errors
    ///
    /// The option that it rejects, for people, without values.
    pub fn check_options(&self) -> Result<(), String> {
        let Err(error) = self.client([]).create_native_config() else {
            return Ok(());
        };
        Err(match error {
            KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, name, _) => {
                format!("there is no option {name}")
            }
            KafkaError::ClientConfig(_, _, name, _) => {
                format!("the value of the option {name} is invalid")
            }
            error => error.to_string(),
        })
    }

    /// Creates the clients of the topic; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The client can't be created with these options, for example because a certificate is missing.
    pub fn connect(self) -> Result<Arc<dyn EventLog>, String> {
        self.check_options()?;
        Ok(Arc::new(Kafka {
            producer: Producer::new(&self)?,
            settings: self,
            readers: Semaphore::new(READERS_MAX),
        }))
    }
}

impl Kafka {
    pub(super) async fn partitions(&self) -> Result<Vec<Partition>, Error> {
        let (client, request_timeout) = (self.producer.current(), self.settings.request_timeout());
        let topic = self.settings.topic().to_owned();
        blocking(move || {
            let metadata = client
                .client()
                .fetch_metadata(Some(&topic), request_timeout)?;
            let found = metadata
                .topics()
                .iter()
                .find(|found| found.name() == topic)
                .filter(|found| found.error().is_none());
            let found: Vec<_> = found
                .iter()
                .flat_map(|found| found.partitions())
                .map(|one| Partition::new(&topic, one.id()))
                .collect();
            if found.is_empty() {
                return Err(Error::Log(format!("there is no topic {topic}")));
            }
            Ok(found)
        })
        .await
    }

    /// The range of readable records of a partition: it ends where the first open transaction begins.
    pub(super) async fn extent(&self, partition: &Partition) -> Result<Extent, Error> {
        let (client, request_timeout) = (self.producer.current(), self.settings.request_timeout());
        let Partition { topic, number } = partition.clone();
        let (first, end) = blocking(move || {
            client
                .client()
                .fetch_watermarks(&topic, number, request_timeout)
        })
        .await?;
        Ok(Extent { first, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::timeouts::TimeoutFactor;

    fn settings(options: &str) -> Settings {
        Settings {
            url: "kafka://127.0.0.1:1/events".parse().unwrap(),
            group: "standings".to_owned(),
            dead_letter_topic: None,
            options: options.parse().unwrap(),
            timeouts: TimeoutFactor::default(),
        }
    }

    #[test]
    fn options_are_checked_at_startup_and_no_value_is_shown() {
        let secure = "security.protocol=SASL_SSL;sasl.mechanism=SCRAM-SHA-512;sasl.username=a;sasl.password=hush";
        assert_eq!(settings(secure).check_options(), Ok(()));
        let kafka = settings(secure).connect().unwrap();
        assert!(!format!("{kafka:?}").contains("hush"));
        for (options, said) in [
            ("sasl.pasword=hush", "sasl.pasword"),
            ("security.protocol=hush", "security.protocol"),
            ("ssl.ca.location=/nowhere/hush;security.protocol=ssl", ""),
        ] {
            let error = settings(options).connect().unwrap_err();
            assert!(error.contains(said), "{error}");
            assert!(said.is_empty() || !error.contains("hush"), "{error}");
        }
    }
}
