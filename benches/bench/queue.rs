//! Events in queues: how fast they are taken, what they need while they wait, how fast they are applied, and how long after its
//! answer an event is shown.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use crate::bare::{Bare, STREAM};
use crate::boards::{Board, QUEUED, QUEUED_VOTE, SIX_VOTE};
use crate::http::{self, Connection};
use crate::load::{Load, Watched, float};
use crate::process::Process;
use crate::redis::{self, Redis};
use crate::requests::{self, ID, MEMBER, Members, Requests};
use crate::rows::{Figures, Measured};
use crate::service::{Service, call};
use crate::session::Session;
use crate::workload::{Kind, Workload};
use crate::{Options, Result, memory, say, table};

/// How many events wait whose memory is told; a tenth in a quick run.
const WAITING: usize = 1_000_000;
/// How many votes wait whose applying is timed; a tenth in a quick run.
pub const VOTES: usize = 100_000;
/// For how long the lag is looked at, and for how long the peak goes on; a tenth in a quick run.
pub const LOOK_TIME: Duration = Duration::from_secs(20);
/// How many times faster than they are applied events come at the peak.
const PEAK: f64 = 10.0;
/// How many events a paced request has: few, so that they come evenly.
const PACED_BATCH: usize = 100;
/// On how many connections paced requests come.
const PACED_CONNECTIONS: usize = 16;
/// The pause between two looks at a queue, and at a member.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// The longest that anything may take that is waited for.
pub const WITHIN: Duration = Duration::from_mins(10);
/// What a service is told whose queues take all that comes.
pub const ROOMY: [(&str, &str); 2] = [
    ("STANDINGS_QUEUE_MB", "512"),
    ("STANDINGS_QUEUES_MB", "1024"),
];
/// What one is told that applies nothing.
pub const TAKES_ONLY: (&str, &str) = ("STANDINGS_APPLY_QUEUES", "false");
/// The member by which it is seen when events are shown.
const PROBE: &str = "probe";

/// A Redis server of its own, and a service on it that takes events and applies none.
pub struct Taker<'a> {
    session: &'a Session,
    /// The service.
    pub service: Service,
    /// Its Redis server.
    pub redis: Redis,
}

/// Measures how fast single events are taken.
pub async fn measure_single(session: &Session, options: &Options) -> Result<Measured> {
    let taker = Taker::start(session, &options.service, &[]).await?;
    QUEUED.define(&taker.service).await?;
    taker.take_singles().await
}

/// Measures how fast batches are taken, and what becomes of the events that wait.
pub async fn measure(session: &Session, options: &Options) -> Result<Figures> {
    let taker = Taker::start(session, &options.service, &[]).await?;
    taker.measure(&options.service, options.part()).await
}

impl<'a> Taker<'a> {
    /// Starts both, with further settings.
    pub async fn start(
        session: &'a Session,
        program: &Path,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let redis = redis::start().await;
        let settings = [&[ROOMY[0], ROOMY[1], TAKES_ONLY], settings].concat();
        Ok(Self {
            session,
            service: Service::start_with(program, &redis, &settings).await?,
            redis,
        })
    }

    /// Measures all figures, with a part of what is measured with otherwise.
    async fn measure(self, program: &Path, part: usize) -> Result<Figures> {
        QUEUED.define(&self.service).await?;
        let (batch, memory) = self.take_many(WAITING / part).await?;
        QUEUED_VOTE.define(&self.service).await?;
        self.put(&QUEUED_VOTE, VOTES / part).await?;
        let votes = Votes::find(&self.redis).await?;
        let session = self.session;
        let service = Service::start_with(program, &self.redis, &ROOMY).await?;
        let speed = votes.speed(VOTES / part).await?;
        let unqueued = self.speed_without_queue(&service).await?;

        let time = LOOK_TIME / u32::try_from(part)?;
        let probe = Probe::start(&service, session.take_series(1)).await?;
        let half = pace(session, &service, speed / 2.0, time).await?;
        let lags = probe.stop().await?;
        votes.drained().await?;

        let peak = pace(session, &service, speed * PEAK, time).await?;
        let ended = Instant::now();
        let left = votes.waiting().await?;
        votes.drained().await?;
        let count = |count: f64| table::number(count.round());
        say(&format!(
            "queues: {} events/s are applied; at {} the lags of {} events were looked at; the peak left {left} of {}",
            count(speed),
            count(half),
            lags.len(),
            count(peak * time.as_secs_f64())
        ));
        Ok(vec![
            ("batch", batch.into()),
            ("memory", memory.into()),
            ("speed", Measured::beside(speed, unqueued)),
            ("lag", lag_ms(&lags).into()),
            ("peak", Measured::beside(peak, speed)),
            ("recovery", ended.elapsed().as_secs_f64().into()),
        ])
    }

    /// Single events, beside a server that does one `XADD`.
    async fn take_singles(&self) -> Result<Measured> {
        let workload = Workload {
            board: &QUEUED,
            kind: Kind::Single,
        };
        let form = workload.form(&self.service).await?;
        let mut first = Requests::new(&form, Members::Random(1), self.session.take_series(1));
        let first = std::str::from_utf8(first.next().ok_or("no request")?)?.to_owned();
        let answer = self.service.call(&first, &[202]).await?;
        let bare = Bare::start_appending(&answer, &self.redis).await?;
        let load = async |address, process: &Process, time| {
            let load = Load {
                address,
                time,
                expected: workload.expected(),
                watched: Watched::of(&self.redis, process),
            };
            let series = self.session.take_series(workload.connections());
            load.run(workload.requests(&form, QUEUED.members(0), series))
                .await
        };
        let extent = &self.session.extent;
        let ours = async || {
            let service = &self.service;
            load(service.address(), service.process(), extent.load).await
        };
        let theirs = async || {
            let sample = load(bare.address(), bare.process(), extent.reference).await;
            self.redis.call(&["UNLINK", STREAM]).await?;
            sample
        };
        self.session.in_turn(ours, theirs).await
    }

    /// Puts many events into a queue: how fast that is, and how many bytes each takes. They are gone afterwards.
    async fn take_many(&self, count: usize) -> Result<(f64, f64)> {
        let before = memory::used(&self.redis).await?;
        let rate = self.put(&QUEUED, count).await?;
        let bytes = memory::used(&self.redis).await? - before;
        let delete = format!(
            "DELETE /v1/boards/{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            QUEUED.name
        );
        self.service.call(&delete, &[204]).await?;
        Ok((rate, bytes / float(count as u64)))
    }

    /// Puts events into the queue of a board, in batches; returns how many that were in a second.
    pub async fn put(&self, board: &'static Board, count: usize) -> Result<f64> {
        let workload = Workload {
            board,
            kind: Kind::BATCH,
        };
        let load = Load::on(&self.service, &self.redis, WITHIN, workload.expected());
        let form = workload.form(&self.service).await?;
        let connections = workload.connections();
        let first = self.session.take_series(connections);
        let each = Members::each(count);
        let requests = Requests::of_connections(&form, &each, first, connections);
        let begun = Instant::now();
        load.run_all(requests).await?;
        Ok(float(count as u64) / begun.elapsed().as_secs_f64())
    }

    /// How fast the same votes are applied that are answered afterwards.
    pub async fn speed_without_queue(&self, service: &Service) -> Result<f64> {
        SIX_VOTE.define(service).await?;
        let workload = Workload {
            board: &SIX_VOTE,
            kind: Kind::BATCH,
        };
        let time = self.session.extent.load;
        let load = Load::on(service, &self.redis, time, workload.expected());
        let form = workload.form(service).await?;
        let series = self.session.take_series(workload.connections());
        let requests = workload.requests(&form, SIX_VOTE.members(0), series);
        let sample = load.run(requests).await?.times(workload.count());
        Ok(sample.per_second)
    }
}

/// The queue of votes.
struct Votes<'a> {
    redis: &'a Redis,
    queue: String,
}

impl<'a> Votes<'a> {
    /// Finds it in Redis, where it is the only one that the board has.
    async fn find(redis: &'a Redis) -> Result<Self> {
        let pattern = format!("st:{{{}}}:*:queue", QUEUED_VOTE.name);
        let found = redis.keys(&pattern).await?.into_iter().next();
        let queue = found.ok_or("there is no queue of votes")?;
        Ok(Self { redis, queue })
    }

    /// How many votes wait.
    async fn waiting(&self) -> Result<u64> {
        self.redis.number(&["XLEN", &self.queue]).await
    }

    /// Waits until no more than so many wait.
    async fn falls_to(&self, most: u64) -> Result<()> {
        let begun = Instant::now();
        while self.waiting().await? > most {
            if begun.elapsed() > WITHIN {
                return Err("the queue is never as short as that".into());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Waits until none waits.
    async fn drained(&self) -> Result<()> {
        self.falls_to(0).await
    }

    /// How many of so many that wait are applied in a second, once that has begun.
    async fn speed(&self, votes: usize) -> Result<f64> {
        self.falls_to(votes as u64 * 9 / 10).await?;
        let (begun, left) = (Instant::now(), self.waiting().await?);
        self.drained().await?;
        if left == 0 {
            return Err("too few votes wait".into());
        }
        Ok(float(left) / begun.elapsed().as_secs_f64())
    }
}

/// Sends votes in batches, so many in a second for so long, as far as the service answers in time. Returns how many it was.
pub async fn pace(session: &Session, service: &Service, rate: f64, time: Duration) -> Result<f64> {
    let workload = Workload {
        board: &QUEUED_VOTE,
        kind: Kind::Batch {
            query: "",
            size: PACED_BATCH,
            connections: PACED_CONNECTIONS,
        },
    };
    let form = workload.form(service).await?;
    let series = session.take_series(PACED_CONNECTIONS);
    let all = workload.requests(&form, QUEUED_VOTE.members(0), series);
    let interval = Duration::from_secs_f64(float((PACED_BATCH * PACED_CONNECTIONS) as u64) / rate);
    let expected = workload.expected();
    let (begun, mut connections) = (Instant::now(), JoinSet::new());
    for (mut requests, place) in all.into_iter().zip(0..) {
        // One behind the other.
        let first = begun + interval * place / u32::try_from(PACED_CONNECTIONS)?;
        let mut connection = Connection::open(service.address()).await?;
        connections.spawn(async move {
            let mut ticks = tokio::time::interval_at(first.into(), interval);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut sent = 0;
            while begun.elapsed() < time {
                ticks.tick().await;
                let request = requests.next().ok_or("no request")?;
                let answer = connection.exchange(request).await?;
                let body = String::from_utf8_lossy(answer.body);
                if body.matches(expected.text).count() != expected.times {
                    let start: String = body.chars().take(1_000).collect();
                    return Err(format!("not all events were queued: {start}").into());
                }
                sent += PACED_BATCH;
            }
            Ok::<_, crate::Failure>(sent)
        });
    }
    let mut sent = 0;
    while let Some(ended) = connections.join_next().await {
        sent += ended??;
    }
    Ok(float(sent as u64) / begun.elapsed().as_secs_f64())
}

/// The lag that 99 of 100 votes have at most.
pub fn lag_ms(lags: &Histogram<u64>) -> f64 {
    float(lags.value_at_quantile(0.99)) / 1_000.0
}

/// Sends one vote after the other for a member, each when the one before is shown, and notes how long after its answer that was.
pub struct Probe {
    is_over: Arc<AtomicBool>,
    task: AbortOnDropHandle<Result<Histogram<u64>>>,
}

impl Probe {
    /// Begins.
    pub async fn start(service: &Service, series: u64) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let form = requests::single(&QUEUED_VOTE).replace(MEMBER, &padded(PROBE));
        debug_assert!(form.contains(ID));
        let requests = Requests::new(&form, Members::Random(1), series);
        let connection = Connection::open(service.address()).await?;
        let look = look(
            connection,
            requests,
            service.address(),
            Arc::clone(&is_over),
        );
        Ok(Self {
            is_over,
            task: AbortOnDropHandle::new(tokio::spawn(look)),
        })
    }

    /// Ends; returns the lags, in microseconds.
    pub async fn stop(self) -> Result<Histogram<u64>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

async fn look(
    mut connection: Connection,
    mut requests: Requests,
    address: std::net::SocketAddr,
    is_over: Arc<AtomicBool>,
) -> Result<Histogram<u64>> {
    let mut lags = Histogram::new(3)?;
    let member = padded(PROBE);
    let path = format!(
        "/v1/boards/{}/standings/all/members/{member}",
        QUEUED_VOTE.name
    );
    let shown = http::get(&path, "");
    let mut votes = 0;
    while !is_over.load(Ordering::Relaxed) {
        let request = requests.next().ok_or("no request")?;
        let answer = connection.exchange(request).await?;
        if answer.status != 202 {
            return Err(format!("a vote is answered {}", answer.status).into());
        }
        let begun = Instant::now();
        votes += 1;
        loop {
            let answer = call(address, &shown).await?;
            let score = match answer.status {
                200 => serde_json::from_slice::<Value>(&answer.body)?["score"].as_u64(),
                _ => None,
            };
            if score == Some(7 * votes) {
                break;
            }
            if begun.elapsed() > WITHIN {
                return Err("a vote is never shown".into());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        lags.record(u64::try_from(begun.elapsed().as_micros())?)?;
    }
    Ok(lags)
}

/// A member's id with the width that ids of members have in requests.
fn padded(member: &str) -> String {
    format!("{member:-<width$}", width = MEMBER.len())
}
