//! A log that is made up, its consumers, and a world that has one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use standings::core::write::events::IncomingEvent;
use standings::core::{Error, Outdated};
use standings::domain::board::Board;
use standings::domain::clock::Clock;
use standings::domain::event::Origin;
use standings::domain::ids::{BoardId, EventId, MemberId};
use standings::domain::intake::{Extent, Partition};
use standings::domain::problems::Problem;
use standings::domain::queued::QueuedEvent;
use standings::domain::time::Timestamp;
use standings::queue::capacity::QueueBounds;
use standings::queue::intake::{DeadRecord, EventLog, Intake, LogEvent, Sought, Taking, start};

use crate::harness::jobs::ApplyQueues;
use crate::harness::redis::eventually;
use crate::harness::{Client, Instance, RedisServer, clock_at};

pub(super) const NOW: &str = "2026-11-21T12:00:00Z";
/// How many partitions the log has.
pub(super) const PARTITIONS: i32 = 3;

/// A partition: its records, by offsets that ascend, and where it begins and ends.
#[derive(Debug, Default)]
struct Records {
    events: BTreeMap<i64, LogEvent>,
    first: i64,
    end: i64,
}

/// The log.
#[derive(Debug, Default)]
pub(super) struct Log {
    partitions: Mutex<BTreeMap<i32, Records>>,
    /// Whether it does not answer.
    pub(super) is_away: AtomicBool,
    /// How many records it looks at for one question.
    pub(super) looks_max: AtomicUsize,
}

pub(super) fn partition(number: i32) -> Partition {
    Partition::new("votes", number)
}

pub(super) fn instant(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// A record of a point for a member of a board, at the usual time.
pub(super) fn record(board: &str, id: Option<&str>, member: &str) -> LogEvent {
    LogEvent {
        offset: 0,
        generation: None,
        incoming: IncomingEvent {
            board: BoardId::parse(board).unwrap(),
            id: id.map(|id| EventId::parse(id).unwrap()),
            member: MemberId::parse(member).unwrap(),
            score: "1".to_owned(),
            at: None,
            arrived_at: instant(NOW),
            origin: Origin::default(),
            data: None,
            queued: None,
        },
        logged_at: instant(NOW),
    }
}

impl Log {
    pub(super) fn new() -> Arc<Self> {
        let log = Self::default();
        for number in 0..PARTITIONS {
            log.partitions.lock().insert(number, Records::default());
        }
        log.looks_max.store(1_000, Ordering::Relaxed);
        Arc::new(log)
    }

    /// Appends a record to a partition, and returns its offset.
    pub(super) fn write(&self, number: i32, event: LogEvent) -> i64 {
        let mut partitions = self.partitions.lock();
        let records = partitions.entry(number).or_default();
        let offset = records.end;
        records.end += 1;
        records.events.insert(offset, LogEvent { offset, ..event });
        offset
    }

    /// Removes the first records of a partition.
    pub(super) fn trim(&self, number: i32, first: i64) {
        let mut partitions = self.partitions.lock();
        let records = partitions.entry(number).or_default();
        records.events.retain(|offset, _| *offset >= first);
        records.first = first;
    }

    /// Has a partition begin anew, as if its topic had been made anew.
    pub(super) fn clear(&self, number: i32) {
        self.partitions.lock().insert(number, Records::default());
    }

    pub(super) fn extent(&self, number: i32) -> Extent {
        let mut partitions = self.partitions.lock();
        let records = partitions.entry(number).or_default();
        Extent {
            first: records.first,
            end: records.end,
        }
    }

    /// The next records from an offset on, at most so many, and the offset behind them.
    fn read(&self, number: i32, from: i64, count: usize) -> (Vec<LogEvent>, i64) {
        let mut partitions = self.partitions.lock();
        let records = partitions.entry(number).or_default();
        let events: Vec<LogEvent> = records
            .events
            .range(from..)
            .take(count)
            .map(|(_, event)| event.clone())
            .collect();
        let upto = if events.len() < count {
            records.end
        } else {
            events.last().map_or(from, |last| last.offset + 1)
        };
        (events, upto)
    }

    /// All records that it has.
    pub(super) fn all(&self) -> Vec<(i32, LogEvent)> {
        let partitions = self.partitions.lock();
        let records = partitions.iter();
        let records = records.flat_map(|(number, records)| {
            let events = records.events.values();
            events.map(|event| (*number, event.clone()))
        });
        records.collect()
    }

    fn check(&self) -> Result<(), Error> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(Error::Log("nobody is there".to_owned()));
        }
        Ok(())
    }
}

impl EventLog for Log {
    fn append<'a>(
        &'a self,
        board: &'a Board,
        event: &'a QueuedEvent,
    ) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            self.check()?;
            let bytes = event.member.as_str().bytes();
            let number = i32::from(bytes.fold(0_u8, u8::wrapping_add)) % PARTITIONS;
            let record = LogEvent {
                offset: 0,
                generation: Some(board.generation),
                incoming: IncomingEvent {
                    board: board.id.clone(),
                    id: Some(event.id.clone()),
                    member: event.member.clone(),
                    score: event.score.clone(),
                    at: event.sent_at,
                    arrived_at: event.queued_at,
                    origin: event.origin.clone(),
                    data: event.data.clone(),
                    queued: None,
                },
                logged_at: event.queued_at,
            };
            self.write(number, record);
            Ok(())
        }
        .boxed()
    }

    fn ends(&self) -> BoxFuture<'_, Result<Vec<(Partition, i64)>, Error>> {
        async move {
            self.check()?;
            let partitions = self.partitions.lock();
            let ends = partitions
                .iter()
                .map(|(number, records)| (partition(*number), records.end));
            Ok(ends.collect())
        }
        .boxed()
    }

    fn find<'a>(&'a self, sought: Sought<'a>) -> BoxFuture<'a, Result<Vec<LogEvent>, Error>> {
        async move {
            self.check()?;
            let (mut found, mut looks) = (Vec::new(), 0);
            for (number, event) in self.all() {
                let from = sought.from.iter().find(|(of, _)| of.number == number);
                if from.is_some_and(|(_, from)| event.offset < *from) {
                    continue;
                }
                looks += 1;
                let is_it = event.incoming.board == sought.board.id
                    && event.incoming.id.as_ref() == Some(sought.id)
                    && sought
                        .member
                        .is_none_or(|member| event.incoming.member == *member);
                found.extend(is_it.then_some(event));
            }
            if found.is_empty() && looks > self.looks_max.load(Ordering::Relaxed) {
                return Err(Problem::log_too_long().into());
            }
            Ok(found)
        }
        .boxed()
    }
}

/// Redis, a log, and instances that share both.
pub(super) struct Site {
    pub(super) redis: RedisServer,
    pub(super) clock: Clock,
    pub(super) log: Arc<Log>,
    pub(super) instances: Vec<Instance>,
}

impl Site {
    pub(super) async fn start(instances: usize) -> Self {
        Self::start_at(instances, NOW, QueueBounds::default()).await
    }

    pub(super) async fn start_at(count: usize, now: &str, bounds: QueueBounds) -> Self {
        let (redis, clock, log) = (RedisServer::start().await, clock_at(now), Log::new());
        let mut instances = Vec::new();
        for _ in 0..count {
            let of_instance: Arc<dyn EventLog> = Arc::<Log>::clone(&log);
            let url = redis.url();
            let started = Instance::start_logging(&url, clock.clone(), of_instance, bounds);
            instances.push(started.await);
        }
        Self {
            redis,
            clock,
            log,
            instances,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.instances[0].client
    }

    /// A consumer of an instance that begins.
    pub(super) async fn consumer(&self, instance: usize, number: i32) -> Consumer {
        let mut consumer = Consumer {
            engine: Arc::clone(&self.instances[instance].engine),
            log: Arc::clone(&self.log),
            number,
            intake: None,
            dead: Vec::new(),
        };
        consumer.begin().await;
        consumer
    }

    /// Has new consumers take all that there is, and workers apply it.
    pub(super) async fn finish(&self) {
        let refreshed = self.instances[0].engine.refresh_boards();
        refreshed.await.unwrap();
        for number in 0..PARTITIONS {
            let mut consumer = self.consumer(0, number).await;
            while !consumer.try_to_take_all().await {
                self.apply().await;
            }
        }
        self.drain().await;
    }

    /// Waits until the instances have their connections again, and has them read what may have changed.
    pub(super) async fn reconnect(&self) {
        for instance in &self.instances {
            let engine = &instance.engine;
            eventually("redis is there again", async || {
                engine.store.check().await.is_ok() && engine.refresh_boards().await.is_ok()
            })
            .await;
        }
    }

    /// Has workers apply all that waits in queues.
    pub(super) async fn drain(&self) {
        eventually("nothing waits", async || {
            self.apply().await;
            self.waiting().await == 0
        })
        .await;
    }

    pub(super) async fn apply(&self) {
        let applied = self.instances[0].engine.run(&ApplyQueues).await;
        applied.unwrap();
    }

    /// How many events wait in queues.
    pub(super) async fn waiting(&self) -> i64 {
        let mut waiting = 0;
        let keys: &[&[u8]] = &[b"KEYS", b"st:{*}:*:queue"];
        for key in self.redis.run(keys).await.list() {
            let length = self.redis.run(&[b"XLEN", key.bytes()]).await;
            let crate::harness::redis::Reply::Integer(length) = length else {
                panic!("{length:?}");
            };
            waiting += length;
        }
        waiting
    }

    /// The scores of all time of a board's members.
    pub(super) async fn scores(&self, board: &str) -> BTreeMap<String, i64> {
        let path = format!("/v1/boards/{board}/standings/all?size=1000");
        let page = self.client().get(&path).await.expect(200);
        let entries = page["entries"].as_array().unwrap().iter();
        let score = |entry: &Value| {
            let member = entry["member"].as_str().unwrap().to_owned();
            (member, entry["score"].as_i64().unwrap())
        };
        entries.map(score).collect()
    }

    /// What the scores of a board have to be: each record counts once, and each id.
    pub(super) fn expected(&self, board: &str) -> BTreeMap<String, i64> {
        let (mut scores, mut ids) = (BTreeMap::new(), std::collections::BTreeSet::new());
        for (_, LogEvent { incoming, .. }) in self.log.all() {
            let is_new = incoming.id.is_none_or(|id| ids.insert(id.to_string()));
            let score: Option<i64> = incoming.score.parse().ok();
            if incoming.board.as_str() == board && is_new {
                let of_member = scores.entry(incoming.member.to_string()).or_default();
                *of_member += score.unwrap_or(0);
            }
        }
        scores
    }
}

/// A consumer of a partition.
pub(super) struct Consumer {
    engine: Arc<standings::core::Engine>,
    log: Arc<Log>,
    number: i32,
    pub(super) intake: Option<Intake>,
    /// What was told to be dead.
    pub(super) dead: Vec<DeadRecord>,
}

impl Consumer {
    async fn begin(&mut self) {
        let partition = partition(self.number);
        let start = start::find(&self.engine, &partition).await.unwrap();
        let extent = self.log.extent(self.number);
        self.intake = Some(Intake::new(Arc::clone(&self.engine), start, extent).unwrap());
    }

    pub(super) fn position(&self) -> i64 {
        self.intake.as_ref().unwrap().position()
    }

    /// Takes the next records, as far as that goes without waiting.
    pub(super) async fn take(&mut self, count: usize) -> Taking {
        let intake = self.intake.as_mut().unwrap();
        let (events, upto) = self.log.read(self.number, intake.position(), count);
        let taking = intake.take(events, upto).await;
        self.tell_dead(taking).await
    }

    pub(super) async fn resume(&mut self) -> Taking {
        let taking = self.intake.as_mut().unwrap().resume().await;
        self.tell_dead(taking).await
    }

    async fn tell_dead(&mut self, mut taking: Taking) -> Taking {
        while let Taking::Dead(dead) = taking {
            self.dead.extend(dead);
            taking = self.intake.as_mut().unwrap().resume().await;
        }
        taking
    }

    /// Takes all that there is. Returns whether it came so far; where it did not, another call goes on.
    pub(super) async fn try_to_take_all(&mut self) -> bool {
        let mut taking = self.resume().await;
        loop {
            match taking {
                Taking::Done if self.position() == self.log.extent(self.number).end => return true,
                Taking::Done => taking = self.take(50).await,
                Taking::GoneBack => {
                    self.begin().await;
                    taking = Taking::Done;
                }
                Taking::Waits(_) => return false,
                Taking::Dead(_) => unreachable!("they were told"),
            }
        }
    }

    /// Takes all that there is.
    pub(super) async fn take_all(&mut self) {
        assert!(self.try_to_take_all().await);
    }

    /// Has all shards note the position.
    pub(super) async fn pass_all(&mut self) {
        let passed = self.intake.as_mut().unwrap().pass_all().await;
        self.begin_if_gone_back(passed).await;
    }

    /// What it does while it waits for records.
    pub(super) async fn pass(&mut self) {
        let passed = self.intake.as_mut().unwrap().pass().await;
        self.begin_if_gone_back(passed).await;
    }

    async fn begin_if_gone_back(&mut self, passed: Result<(), Error>) {
        match passed {
            Err(Error::Again(Outdated::Intake)) => self.begin().await,
            passed => passed.unwrap(),
        }
    }
}
