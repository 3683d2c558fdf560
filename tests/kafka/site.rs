//! A topic, a Redis server, and instances of the program that use both.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::process::Command;

use crate::broker::{Broker, Topic};
use crate::harness::RedisServer;
use crate::harness::program::{self, Program};

/// An instance that is silent for so long is gone: shorter than by default, so that tests need not wait.
const OPTIONS: &str = "session.timeout.ms=2000;heartbeat.interval.ms=500";
/// The same as far as every broker takes it.
const OPTIONS_OF_ANY: &str = "session.timeout.ms=6000;heartbeat.interval.ms=1000";

/// All that the instances share; it ends with this value.
pub struct Site {
    /// `None`: that of somebody else.
    pub broker: Option<Broker>,
    pub topic: Topic,
    pub dead_letters: Topic,
    pub redis: RedisServer,
    group: String,
}

impl Site {
    /// A broker of its own, with a topic of so many partitions.
    pub async fn start(partitions: i32) -> Self {
        let broker = Broker::start().await;
        let servers = format!("127.0.0.1:{}", broker.port());
        Self::on(Some(broker), &servers, partitions).await
    }

    /// With the broker that `STANDINGS_TEST_KAFKA` names, if it names one.
    pub async fn start_on_any(partitions: i32) -> Self {
        match std::env::var("STANDINGS_TEST_KAFKA") {
            Ok(servers) if !servers.is_empty() => Self::on(None, &servers, partitions).await,
            _ => Self::start(partitions).await,
        }
    }

    async fn on(broker: Option<Broker>, servers: &str, partitions: i32) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let name = format!("standings-test-{}-{}", std::process::id(), since.as_nanos());
        Self {
            broker,
            topic: Topic::create(servers, &name, partitions).await,
            dead_letters: Topic::create(servers, &format!("{name}-dead"), 1).await,
            redis: RedisServer::start().await,
            group: name,
        }
    }

    /// `standings serve` with the topic as its queue.
    pub fn command(&self) -> Command {
        let redis = self.redis.url();
        let (url, dead) = (self.topic.url(), self.dead_letters.name.as_str());
        let mut command = program::command(&["--listen", "127.0.0.1:0", "--drain-seconds", "0"]);
        command.args(["--redis-url", &redis, "--queue-url", &url]);
        let options = if self.broker.is_some() {
            OPTIONS
        } else {
            OPTIONS_OF_ANY
        };
        command.args(["--kafka-group", &self.group, "--kafka-options", options]);
        command.args(["--kafka-dead-letter-topic", dead]);
        // A broker that is away is told after 8 s.
        command.env("STANDINGS_TIMEOUT_FACTOR", "1");
        command
    }

    /// Starts an instance; returns when it is ready.
    pub async fn serve(&self) -> Program {
        Program::run_until_ready(&mut self.command()).await
    }
}
