//! Votes in a topic, and what a naive model makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::broker::Topic;
use crate::harness::Client;
use crate::harness::redis::eventually;

/// The board.
pub const BOARD: &str = "show";
/// How many members it has.
const MEMBERS: usize = 150;
/// How long a broker may take for what a test asks it.
const PATIENCE: Duration = Duration::from_mins(1);

/// How the board is defined.
pub fn definition() -> Value {
    json!({"windows": ["all"], "ingest": "async", "shards": 3, "finalize": "0s"})
}

/// The vote with this number. Every third says who has sent it.
pub fn vote(number: usize) -> Value {
    let mut vote = json!({
        "board": BOARD, "id": format!("v-{number}"), "member": member(number), "score": score(number),
    });
    if number.is_multiple_of(3) {
        vote["voter"] = json!(format!("who-{}", number % 1_000));
    }
    vote
}

/// The member that the vote with this number is for.
pub fn member(number: usize) -> String {
    format!("m{}", number * 7 % MEMBERS)
}

fn score(number: usize) -> u64 {
    number as u64 % 9 + 1
}

/// Sends votes in one request, again until the brokers have confirmed all: a busy machine may not do so in time. Returns the results.
pub async fn send(client: &Client, numbers: Range<usize>) -> Vec<Value> {
    let batch = json!({"events": numbers.map(vote).collect::<Vec<_>>()});
    let results = Mutex::default();
    eventually("the brokers have all votes", async || {
        let mut answer = client.post("/v1/events", batch.clone()).await.expect(200);
        let all: Vec<Value> = serde_json::from_value(answer["results"].take()).unwrap();
        let is_queued = all.iter().all(|result| result["status"] == "queued");
        *results.lock() = all;
        is_queued
    })
    .await;
    results.into_inner()
}

/// Values that nobody can take.
pub fn poison(number: usize) -> Option<Vec<u8>> {
    let text = match number / 100 % 8 {
        0 => "no JSON",
        1 => r#"{"board": "show", "score": 1}"#,
        2 => r#"{"board": "nowhere", "id": "x", "member": "ann", "score": 1}"#,
        3 => r#"{"board": "league", "id": "x", "member": "ann", "score": 1}"#,
        4 => r#"{"board": "show", "id": "x", "member": "ann", "score": 1, "more": true}"#,
        5 => r#"{"board": "show", "id": "x", "member": "ann", "score": "1"}"#,
        6 => return None,
        _ => return Some(vec![0xff, 0xfe, 0]),
    };
    Some(text.as_bytes().to_vec())
}

/// What the standing has to be: the score of each member.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scores(pub BTreeMap<String, u64>);

impl Scores {
    /// Those of the votes with these numbers, each counted once.
    pub fn of(numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut scores = Self::default();
        for number in numbers.into_iter().collect::<BTreeSet<_>>() {
            *scores.0.entry(member(number)).or_default() += score(number);
        }
        scores
    }

    /// What an instance shows.
    pub async fn shown(client: &Client) -> Self {
        let path = format!("/v1/boards/{BOARD}/standings/all?size=1000");
        let page = client.get(&path).await.expect(200);
        let entries = page["entries"].as_array().unwrap().iter();
        let entry = |entry: &Value| {
            let member = entry["member"].as_str().unwrap().to_owned();
            (member, entry["score"].as_u64().unwrap())
        };
        Self(entries.map(entry).collect())
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Waits until an instance shows no less than this, and compares.
    pub async fn wait_for(&self, client: &Client) {
        eventually("all votes are counted", async || {
            Self::shown(client).await.total() >= self.total()
        })
        .await;
        assert_eq!(&Self::shown(client).await, self);
    }
}

/// Writes into a topic, as other services do.
pub struct Writer {
    producer: BaseProducer,
    topic: String,
}

impl Writer {
    pub fn new(topic: &Topic) -> Self {
        Self::with(topic, &[])
    }

    /// The same with these options.
    fn with(topic: &Topic, options: &[(&str, &str)]) -> Self {
        let mut client = topic.client();
        for (name, value) in options {
            client.set(*name, *value);
        }
        client.set("acks", "all").set("linger.ms", "5");
        Self {
            producer: client.create().unwrap(),
            topic: topic.name.clone(),
        }
    }

    /// Writes a record without waiting.
    pub fn write(&self, key: &str, value: Option<&[u8]>, headers: &[(&str, &str)]) {
        let mut all = OwnedHeaders::new();
        for (key, value) in headers {
            all = all.insert(Header {
                key,
                value: Some(*value),
            });
        }
        let mut record = BaseRecord::<str, [u8]>::to(&self.topic)
            .key(key)
            .headers(all);
        record.payload = value;
        while let Err((_, back)) = self.producer.send(record) {
            self.producer.poll(Duration::from_millis(20));
            record = back;
        }
    }

    /// Writes a vote.
    pub fn vote(&self, number: usize) {
        let vote = vote(number);
        let key = format!("{BOARD}/{}", member(number));
        self.write(&key, Some(vote.to_string().as_bytes()), &[]);
    }

    /// Writes votes: every tenth once more, and something that nobody can take after every hundredth.
    pub fn write_all(&self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            self.vote(number);
            if number.is_multiple_of(10) {
                self.vote(number / 2);
            }
            if number.is_multiple_of(100) {
                self.write("poison", poison(number).as_deref(), &[]);
            }
        }
    }

    /// Waits until the brokers have all of it.
    pub fn flush(&self) {
        self.producer.flush(PATIENCE).unwrap();
    }
}

/// Writes votes in transactions.
pub struct Transactions(Writer);

impl Transactions {
    pub fn begin(topic: &Topic) -> Self {
        let writer = Writer::with(topic, &[("transactional.id", &topic.name)]);
        writer.producer.init_transactions(PATIENCE).unwrap();
        Self(writer)
    }

    /// Begins one, and writes votes into it.
    pub fn write(&self, numbers: Range<usize>) {
        self.0.producer.begin_transaction().unwrap();
        for number in numbers {
            self.0.vote(number);
        }
        self.0.flush();
    }

    /// Ends the one that was begun.
    pub fn end(&self, commits: bool) {
        let producer = &self.0.producer;
        let ended = if commits {
            producer.commit_transaction(PATIENCE)
        } else {
            producer.abort_transaction(PATIENCE)
        };
        ended.unwrap();
    }

    pub fn commit(&self, numbers: Range<usize>) {
        self.write(numbers);
        self.end(true);
    }

    pub fn abort(&self, numbers: Range<usize>) {
        self.write(numbers);
        self.end(false);
    }
}

/// Whether an instance tells that it has taken all records of its partitions.
pub async fn has_no_lag(client: &Client) -> bool {
    let text = client.get("/metrics").await.text;
    let lags = text
        .lines()
        .filter(|line| line.starts_with("standings_kafka_lag{"));
    lags.clone().count() > 0 && lags.clone().all(|line| line.ends_with(" 0"))
}

/// All records of a topic.
pub fn read(topic: &Topic) -> Vec<OwnedMessage> {
    let mut client = topic.client();
    client.set("group.id", "a-reader-of-the-tests");
    client.set("enable.auto.commit", "false");
    client.set("enable.partition.eof", "true");
    let consumer: BaseConsumer = client.create().unwrap();
    let mut all = TopicPartitionList::new();
    for number in 0..topic.partitions {
        all.add_partition_offset(&topic.name, number, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&all).unwrap();
    let (mut records, mut ended) = (Vec::new(), BTreeSet::new());
    while ended.len() < usize::try_from(topic.partitions).unwrap() {
        match consumer.poll(PATIENCE) {
            Some(Ok(message)) => records.push(message.detach()),
            Some(Err(KafkaError::PartitionEOF(number))) => {
                ended.insert(number);
            }
            Some(Err(error)) => panic!("{error}"),
            None => panic!("the broker does not answer"),
        }
    }
    records
}

/// The value of a header.
pub fn header(message: &OwnedMessage, name: &str) -> Option<String> {
    let mut headers = message.headers()?.iter();
    let found = headers.find(|header| header.key == name)?;
    Some(String::from_utf8(found.value?.to_vec()).unwrap())
}
