//! Settings: the Kafka topic that is the queue, and how to connect to it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::domain::texts::checked_text;
use crate::runtime::timeouts::TimeoutFactor;

/// The scheme of a topic's address.
const SCHEME: &str = "kafka://";
/// The longest name of a topic: Kafka's own limit.
const TOPIC_BYTES_MAX: usize = 249;
/// What separates the options of one line.
const SEPARATOR: char = ';';
/// Client options that can't be set, with reasons: the service sets these itself and relies on them.
const RESERVED: [(&str, &str); 5] = [
    (
        "bootstrap.servers metadata.broker.list",
        "STANDINGS_QUEUE_URL names the brokers",
    ),
    ("group.id", "STANDINGS_KAFKA_GROUP names the group"),
    (
        "acks request.required.acks enable.idempotence message.timeout.ms delivery.timeout.ms transactional.id",
        "the service's responses depend on it",
    ),
    (
        "auto.offset.reset enable.auto.commit auto.commit.enable enable.auto.offset.store enable.partition.eof group.protocol \
         statistics.interval.ms",
        "the service keeps the offsets itself",
    ),
    ("isolation.level", "uncommitted records must not count"),
];

/// The error for an invalid setting. It must not contain the value of an option.
fn wrong<T>(what: &str) -> Result<T, String> {
    Err(what.to_owned())
}

checked_text! {
    /// The name of a topic: 1 to 249 of the characters `A-Z a-z 0-9 . _ -`, and not `.` or `..`.
    TopicName, check_topic, &'static str
}

fn check_topic(text: &str) -> Result<&str, &'static str> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = (1..=TOPIC_BYTES_MAX).contains(&text.len())
        && text.bytes().all(is_known)
        && ![".", ".."].contains(&text);
    is_name
        .then_some(text)
        .ok_or("a topic must have 1 to 249 of the characters A-Z a-z 0-9 . _ -")
}

/// The address of a topic: `kafka://host:9092,host2:9092/topic`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TopicUrl {
    /// The bootstrap brokers, as `host:port,host:port`.
    pub brokers: String,
    pub topic: TopicName,
}

impl FromStr for TopicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "must be kafka://host:9092,host2:9092/topic";
        let Some((brokers, topic)) = text
            .strip_prefix(SCHEME)
            .and_then(|rest| rest.split_once('/'))
        else {
            return wrong(form);
        };
        if brokers.contains('@') {
            return wrong(
                "must not have a user or a password: set them as options (STANDINGS_KAFKA_OPTIONS_FILE)",
            );
        }
        let is_broker = |broker: &str| {
            let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
            !broker.is_empty() && broker.bytes().all(is_known)
        };
        if !brokers.split(',').all(is_broker) {
            return wrong(form);
        }
        Ok(Self {
            brokers: brokers.to_owned(),
            topic: TopicName::parse(topic)?,
        })
    }
}

/// Options of the Kafka client (librdkafka), in the order in which they were given. Their values are never shown.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct ClientOptions(Vec<(String, String)>);

impl ClientOptions {
    /// Reads a file of options: `name=value` in each line; skips empty lines and comments that begin with `#`.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        (1..)
            .zip(text.lines().map(str::trim))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(number, line)| {
                option(line).map_err(|error| format!("{name}: line {number}: {error}"))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The names and values; a later one overrides an earlier one of that name.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Appends these options to others.
    #[must_use]
    pub fn behind(mut self, mut others: Self) -> Self {
        others.0.append(&mut self.0);
        others
    }
}

impl FromStr for ClientOptions {
    type Err = String;

    /// Reads options in one line: `name=value;name=value`.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split(SEPARATOR)
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(option)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.pairs().map(|(name, _)| name))
            .finish()
    }
}

fn option(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once('=') else {
        return wrong("an option must be name=value");
    };
    let (name, value) = (name.trim(), value.trim());
    let is_known =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_known) {
        return wrong("the name of an option must have only the characters a-z 0-9 . _");
    }
    for (names, why) in RESERVED {
        if names
            .split_ascii_whitespace()
            .any(|reserved| reserved == name)
        {
            return Err(format!("{name} can't be set: {why}"));
        }
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// The queue's topic, and how to connect to it.
#[derive(Clone, Debug)]
pub struct Settings {
    pub url: TopicUrl,
    pub group: String,
    /// The topic for records that can't be taken and events that can't be applied, if any.
    pub dead_letter_topic: Option<TopicName>,
    pub options: ClientOptions,
    /// The factor for the client's timeouts.
    pub timeouts: TimeoutFactor,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_brokers_and_a_topic_but_no_password() {
        let url: TopicUrl = "kafka://a.example:9092,[::1]:9093/events.v-1_x"
            .parse()
            .unwrap();
        assert_eq!(url.brokers, "a.example:9092,[::1]:9093");
        assert_eq!(url.topic.as_str(), "events.v-1_x");
        for bad in [
            "",
            "kafka://",
            "kafka://a",
            "kafka://a/",
            "kafka:///events",
            "kafka://a,/events",
            "kafka://a/b/c",
            "kafka://a b/events",
            "http://a/events",
            "kafka://a/..",
            "kafka://u:hush@a:9092/events",
        ] {
            let error = bad.parse::<TopicUrl>().unwrap_err();
            assert!(!error.contains("hush"), "{error}");
        }
        assert!(TopicName::parse(&"t".repeat(250)).is_err());
    }

    #[test]
    fn options_are_read_and_their_values_are_not_shown() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("client.properties");
        std::fs::write(
            &path,
            "# of the cluster\n\nsasl.password = hush=;1 \nssl.ca.location=/b\n",
        )
        .unwrap();
        let options: ClientOptions = "security.protocol=SASL_SSL; ssl.ca.location=/a;"
            .parse()
            .unwrap();
        let all = ClientOptions::read(&path).unwrap().behind(options);
        let expected = [
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", "/a"),
            ("sasl.password", "hush=;1"),
            ("ssl.ca.location", "/b"),
        ];
        assert_eq!(all.pairs().collect::<Vec<_>>(), expected);
        let shown = format!("{all:?}");
        assert!(
            shown.contains("sasl.password") && !shown.contains("hush"),
            "{shown}"
        );
        assert_eq!("".parse(), Ok(ClientOptions::default()));
    }

    #[test]
    fn options_that_the_service_relies_on_are_refused_without_showing_values() {
        for (bad, said) in [
            ("hush", "name=value"),
            ("Sasl.Password=hush", "characters"),
            ("=hush", "characters"),
            ("acks=hush", "acks can't be set"),
            ("a=b;group.id=hush", "STANDINGS_KAFKA_GROUP"),
            ("isolation.level=hush", "committed"),
        ] {
            let error = bad.parse::<ClientOptions>().unwrap_err();
            assert!(error.contains(said) && !error.contains("hush"), "{error}");
        }
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("client.properties");
        assert!(
            ClientOptions::read(&path)
                .unwrap_err()
                .contains("client.properties: ")
        );
        std::fs::write(&path, "\nenable.idempotence=hush\n").unwrap();
        let error = ClientOptions::read(&path).unwrap_err();
        assert!(
            error.contains("line 2: enable.idempotence") && !error.contains("hush"),
            "{error}"
        );
    }
}
