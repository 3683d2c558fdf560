//! A program that was built without the feature `kafka`: it has no way to a topic, and says so.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use crate::domain::board::Board;
use crate::domain::intake::Partition;
use crate::domain::queued::QueuedEvent;
use crate::engine::intake::{EventLog, LogEvent, Sought};
use crate::engine::{Engine, Error};

/// The way to a topic: there is none.
#[derive(Debug)]
pub enum Kafka {}

impl Settings {
    /// Says that the program was built without Kafka.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn check_options(&self) -> Result<(), String> {
        let what = "this program was built without it; build it with `cargo build --release --features kafka`, or take the Docker image";
        Err(what.to_owned())
    }
}

impl Kafka {
    /// Makes no way to a topic.
    ///
    /// # Errors
    ///
    /// Always.
    #[expect(clippy::needless_pass_by_value, reason = "as with Kafka")]
    pub fn new(settings: Settings) -> Result<Arc<Self>, String> {
        settings.check_options()?;
        unreachable!("the check always fails")
    }
}

impl EventLog for Kafka {
    fn append<'a>(&'a self, _: &'a Board, _: &'a QueuedEvent) -> BoxFuture<'a, Result<(), Error>> {
        match *self {}
    }

    fn ends(&self) -> BoxFuture<'_, Result<Vec<(Partition, i64)>, Error>> {
        match *self {}
    }

    fn find<'a>(&'a self, _: Sought<'a>) -> BoxFuture<'a, Result<Vec<LogEvent>, Error>> {
        match *self {}
    }
}

/// Consumes nothing.
pub async fn consume(kafka: Arc<Kafka>, _: Arc<Engine>, _: CancellationToken) {
    match *kafka {}
}
