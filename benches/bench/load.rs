//! The load generator: connections that send the next request when they have the answer to the last one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::Result;
use crate::http::{Answer, Connection};
use crate::process::{Process, cpu_seconds, own_cpu_seconds};
use crate::redis::Redis;
use crate::requests::{Expected, Requests};
use crate::service::Service;

/// The part of the time at whose end measuring begins.
const WARM_UP: f64 = 0.1;
/// The body of every so-many-th answer of a connection is looked at, and that of the first.
const LOOK_AT: u64 = 256;
/// The most Redis servers of a measurement.
pub const NODES_MAX: usize = 3;

/// What is loaded, and for how long.
pub struct Load {
    /// Where the server listens.
    pub address: SocketAddr,
    /// For how long; a tenth of it more is for warming up.
    pub time: Duration,
    /// What the answers must be.
    pub expected: Expected,
    /// Whose CPU time is told.
    pub watched: Watched,
}

impl Load {
    /// A load of the service, whose CPU time and that of its Redis server are told.
    pub fn on(service: &Service, redis: &Redis, time: Duration, expected: Expected) -> Self {
        Self {
            address: service.address(),
            time,
            expected,
            watched: Watched::of(redis, service.process()),
        }
    }
}

/// The processes whose CPU time is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// The Redis servers.
    pub redis: [Option<u32>; NODES_MAX],
    /// The service, or its reference.
    pub service: Option<u32>,
}

/// CPU seconds; `None` where the system doesn't tell, or nobody is there.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cpu {
    /// Of the Redis servers.
    pub redis: Option<f64>,
    /// Of the service, or its reference.
    pub service: Option<f64>,
    /// Of the load generator.
    pub generator: Option<f64>,
}

/// What a load gave.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// What is counted, in a second.
    pub per_second: f64,
    /// Half of the answers took at most so many milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 did.
    pub p99_ms: f64,
    /// Over how many seconds.
    pub seconds: f64,
    /// CPU time in these seconds.
    pub cpu: Cpu,
}

impl Sample {
    /// The same, counted in parts of which each thing has so many.
    pub fn times(self, parts: usize) -> Self {
        Self {
            per_second: self.per_second * float(parts as u64),
            ..self
        }
    }
}

impl Watched {
    /// A Redis server, and the service or what stands for it.
    pub fn of(redis: &Redis, process: &Process) -> Self {
        Self {
            redis: [Some(redis.id()), None, None],
            service: Some(process.id()),
        }
    }

    /// The CPU time up to now.
    pub fn cpu(self) -> Cpu {
        Cpu {
            redis: self.redis.into_iter().flatten().map(cpu_seconds).sum(),
            service: self.service.and_then(cpu_seconds),
            generator: own_cpu_seconds(),
        }
    }
}

impl Cpu {
    /// What was used since an earlier time.
    pub fn since(self, earlier: Self) -> Self {
        let used = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        Self {
            redis: used(self.redis, earlier.redis),
            service: used(self.service, earlier.service),
            generator: used(self.generator, earlier.generator),
        }
    }
}

/// When answers count.
#[derive(Clone, Copy)]
struct Times {
    from: Instant,
    to: Instant,
}

impl Load {
    /// Sends requests on as many connections as there are series of them; counts them once each.
    pub async fn run(&self, series: Vec<Requests>) -> Result<Sample> {
        let warm_up = self.time.mul_f64(WARM_UP);
        let from = Instant::now() + warm_up;
        let times = Times {
            from,
            to: from + self.time,
        };
        // Latencies in microseconds.
        let latencies = Arc::new(Mutex::new(Histogram::<u64>::new(3)?));
        let mut connections = self.start(series, times, &latencies).await?;
        tokio::time::sleep_until(times.from.into()).await;
        let before = self.watched.cpu();
        tokio::time::sleep_until(times.to.into()).await;
        let cpu = self.watched.cpu().since(before);
        while let Some(ended) = connections.join_next().await {
            ended??;
        }
        let latencies = latencies.lock();
        let seconds = self.time.as_secs_f64();
        Ok(Sample {
            per_second: float(latencies.len()) / seconds,
            p50_ms: float(latencies.value_at_quantile(0.5)) / 1_000.0,
            p99_ms: float(latencies.value_at_quantile(0.99)) / 1_000.0,
            seconds,
            cpu,
        })
    }

    /// Sends requests until there are none left.
    pub async fn run_all(&self, series: Vec<Requests>) -> Result<()> {
        let from = Instant::now();
        let to = from + self.time;
        let latencies = Arc::new(Mutex::new(Histogram::<u64>::new(3)?));
        let mut connections = self.start(series, Times { from, to }, &latencies).await?;
        while let Some(ended) = connections.join_next().await {
            ended??;
        }
        Ok(())
    }

    async fn start(
        &self,
        series: Vec<Requests>,
        times: Times,
        latencies: &Arc<Mutex<Histogram<u64>>>,
    ) -> Result<JoinSet<Result<()>>> {
        let mut connections = JoinSet::new();
        for requests in series {
            let connection = Connection::open(self.address).await?;
            let latencies = Arc::clone(latencies);
            connections.spawn(send(connection, requests, self.expected, times, latencies));
        }
        Ok(connections)
    }
}

async fn send(
    mut connection: Connection,
    mut requests: Requests,
    expected: Expected,
    times: Times,
    latencies: Arc<Mutex<Histogram<u64>>>,
) -> Result<()> {
    let mut begun = Instant::now();
    let mut count: u64 = 0;
    while begun < times.to {
        let Some(request) = requests.next() else {
            break;
        };
        let answer = connection.exchange(request).await?;
        check(&answer, expected, count.is_multiple_of(LOOK_AT))?;
        count += 1;
        let ended = Instant::now();
        if ended >= times.from && ended < times.to {
            let micros = ended.duration_since(begun).as_micros();
            latencies.lock().record(u64::try_from(micros)?)?;
        }
        begun = ended;
    }
    Ok(())
}

fn check(answer: &Answer<'_>, expected: Expected, in_full: bool) -> Result<()> {
    let is_right = answer.status == expected.status
        && (!in_full || {
            let body = String::from_utf8_lossy(answer.body);
            body.matches(expected.text).count() == expected.times
        });
    if is_right {
        return Ok(());
    }
    let head = String::from_utf8_lossy(answer.head);
    let body = String::from_utf8_lossy(answer.body);
    let start: String = body.chars().take(1_000).collect();
    Err(format!("{expected:?}, and not:\n{head}{start}").into())
}

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub fn float(count: u64) -> f64 {
    count as f64
}
