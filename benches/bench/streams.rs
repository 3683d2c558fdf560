//! Live boards: what a watcher who waits takes of the service's memory, how long after it was sent a change is on all screens, and what
//! that takes of the CPU.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::http::{self, Connection};
use crate::load::float;
use crate::process::cpu_seconds;
use crate::queue::{LOOK_INTERVAL, lag_ms};
use crate::rows::{Figures, Measured};
use crate::service::Service;
use crate::{Options, Result, redis, say};

/// How many watch a standing that does not change; a tenth in a quick run.
const WAITING: usize = 10_000;
/// How many watch one that does; a tenth in a quick run.
const WATCHING: usize = 1_000;
/// The pause between two changes.
const CHANGE_INTERVAL: Duration = Duration::from_millis(50);
/// For how long it changes; a tenth in a quick run.
const CHANGE_TIME: Duration = Duration::from_secs(20);
/// How many connections are opened side by side.
const AT_ONCE: usize = 100;
/// The longest that anything may take that is waited for.
const WITHIN: Duration = Duration::from_mins(1);
/// What the service is told that takes so many.
const ROOMY: [(&str, &str); 3] = [
    ("STANDINGS_MAX_CONNECTIONS", "15000"),
    ("STANDINGS_MAX_STREAMS", "14000"),
    ("STANDINGS_MAX_STREAMS_PER_ADDRESS", "14000"),
];
const BOARD: &str = "streams";
/// The score of the member that changes, before the first change: it is the first already.
const FIRST_SCORE: u64 = 1_000_000;
/// What stands before the score of the first in a message.
const BEFORE_SCORE: &[u8] = br#""entries":[{"rank":1,"member":"probe","score":"#;

/// Measures the memory of a watcher who waits, how long after it was sent a change is on all screens, and what that takes of
/// the CPU.
pub async fn measure(options: &Options) -> Result<Figures> {
    let redis = redis::start().await;
    let service = Service::start_with(&options.service, &redis, &ROOMY).await?;
    let part = options.part();
    fill(&service).await?;
    let memory = memory(&service, WAITING / part).await?;
    let time = CHANGE_TIME / u32::try_from(part)?;
    let (delays, cpu) = watch(&service, WATCHING / part, time).await?;
    let count = delays.len();
    say(&format!("streams: {count} messages were looked at"));
    Ok(vec![
        ("memory", Measured::told(memory)),
        ("delay", lag_ms(&delays).into()),
        ("cpu", Measured::told(cpu)),
    ])
}

async fn fill(service: &Service) -> Result<()> {
    service.define(BOARD, &json!({"windows": ["all"]})).await?;
    service.call(&event("probe", FIRST_SCORE), &[200]).await?;
    for number in 0..20 {
        let member = format!("member-{number:04}");
        service
            .call(&event(&member, 1_000 - number), &[200])
            .await?;
    }
    Ok(())
}

fn event(member: &str, score: u64) -> String {
    let body = format!(r#"{{"member": "{member}", "score": {score}}}"#);
    http::with_json("POST", &format!("/v1/boards/{BOARD}/events"), &body)
}

/// The memory of the service for each of so many who wait, in kB.
async fn memory(service: &Service, count: usize) -> Result<Option<f64>> {
    // What the first ones need once.
    let first = open_all(service.address(), AT_ONCE).await?;
    let before = service.process().memory();
    let others = open_all(service.address(), count).await?;
    let after = service.process().memory();
    drop((first, others));
    let more = before
        .zip(after)
        .map(|(before, after)| after.now.saturating_sub(before.now));
    Ok(more.map(|more| float(more) / float(count as u64) / 1e3))
}

/// Opens so many streams, each with its first message.
async fn open_all(address: SocketAddr, count: usize) -> Result<Vec<Screen>> {
    let mut screens = Vec::with_capacity(count);
    while screens.len() < count {
        let more = AT_ONCE.min(count - screens.len());
        let opened = (0..more).map(|_| Screen::open(address));
        screens.extend(futures::future::try_join_all(opened).await?);
    }
    Ok(screens)
}

/// One who watches.
struct Screen {
    stream: TcpStream,
    rest: Vec<u8>,
    /// The last score that was shown.
    shown: u64,
}

impl Screen {
    async fn open(address: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        let path = format!("/v1/boards/{BOARD}/standings/all/stream");
        stream.write_all(http::get(&path, "").as_bytes()).await?;
        let mut screen = Self {
            stream,
            rest: Vec::new(),
            shown: 0,
        };
        while screen.shown == 0 {
            screen.read().await?;
        }
        Ok(screen)
    }

    /// Takes what has come.
    async fn read(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.rest).await? == 0 {
            return Err("a stream has ended".into());
        }
        while let Some((score, behind)) = next_score(&self.rest) {
            self.shown = score;
            self.rest.drain(..behind);
        }
        Ok(())
    }
}

/// The score in the first message, and where that is behind.
fn next_score(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut places = bytes.windows(BEFORE_SCORE.len());
    let begin = places.position(|part| part == BEFORE_SCORE)? + BEFORE_SCORE.len();
    let length = bytes[begin..].iter().position(|byte| *byte == b',')?;
    let score = str::from_utf8(&bytes[begin..begin + length]).ok()?;
    Some((score.parse().ok()?, begin + length))
}

/// Changes a standing that so many watch: how long each change took to each screen, in microseconds, and how much of a core the service
/// took.
async fn watch(
    service: &Service,
    count: usize,
    time: Duration,
) -> Result<(Histogram<u64>, Option<f64>)> {
    let sent: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (is_over, behind) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut screens = JoinSet::new();
    for mut screen in open_all(service.address(), count).await? {
        let (sent, is_over, behind) =
            (Arc::clone(&sent), Arc::clone(&is_over), Arc::clone(&behind));
        screens.spawn(async move {
            let mut delays = Histogram::<u64>::new(3)?;
            loop {
                let before = screen.shown;
                screen.read().await?;
                let now = Instant::now();
                for score in before + 1..=screen.shown {
                    let index = usize::try_from(score - FIRST_SCORE - 1)?;
                    let begun = sent.lock()[index];
                    delays.record(u64::try_from((now - begun).as_micros())?)?;
                }
                let is_last = screen.shown - FIRST_SCORE == sent.lock().len() as u64;
                if is_over.load(Ordering::Acquire) && is_last {
                    behind.fetch_add(1, Ordering::AcqRel);
                    return Ok::<_, crate::Failure>(delays);
                }
            }
        });
    }
    let process = service.process().id();
    let (cpu_before, begun) = (cpu_seconds(process), Instant::now());
    let mut connection = Connection::open(service.address()).await?;
    let mut ticks = tokio::time::interval(CHANGE_INTERVAL);
    let request = event("probe", 1);
    while begun.elapsed() < time {
        ticks.tick().await;
        sent.lock().push(Instant::now());
        if connection.exchange(request.as_bytes()).await?.status != 200 {
            return Err("a change was not taken".into());
        }
    }
    let (cpu_after, took) = (cpu_seconds(process), begun.elapsed().as_secs_f64());
    // The screens look when something comes: so one more change does.
    is_over.store(true, Ordering::Release);
    sent.lock().push(Instant::now());
    connection.exchange(request.as_bytes()).await?;
    let ended = Instant::now();
    while behind.load(Ordering::Acquire) < count as u64 {
        if ended.elapsed() > WITHIN {
            return Err("a change is never on all screens".into());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    let mut all = Histogram::new(3)?;
    while let Some(delays) = screens.join_next().await {
        all.add(delays??)?;
    }
    let cpu = cpu_before.zip(cpu_after);
    Ok((
        all,
        cpu.map(|(before, after)| 100.0 * (after - before) / took),
    ))
}
