//! Completing tomorrow's standing of a rolling window, and how long others wait for Redis meanwhile.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::{Days, NaiveDate, Utc};
use hdrhistogram::Histogram;

use crate::boards::Board;
use crate::load::{Sample, Watched, float};
use crate::rows::{Figures, Measured};
use crate::session::Session;
use crate::{Result, say, table};

/// The window that is completed.
const WINDOW: &str = "last-7-days";
/// How many days back the day lies that leaves the window tomorrow.
const LEAVING: Days = Days::new(6);
/// The pause of the probe between two calls.
const PROBE_INTERVAL: Duration = Duration::from_micros(200);
/// For how long it looks at a server that does nothing.
pub const IDLE_TIME: Duration = Duration::from_secs(3);

/// Completes tomorrow's standing of a board, of which each member has a score of today and one of the day
/// that leaves the window. The read of it does so by itself, as fast as it can.
pub async fn measure(session: &Session, board: &'static Board) -> Result<Figures> {
    session.ready(board).await?;
    let members = session.members(board);
    let leaving = (Utc::now() - LEAVING).format("%FT%TZ").to_string();
    board
        .fill(&session.service, members, Some(&leaving))
        .await?;
    let current = session.service.standing(board.name, WINDOW, "current");
    let today: NaiveDate = current.await?.key.parse()?;
    let tomorrow = (today + Days::new(1)).to_string();
    let idle = idle_waits(session).await?;
    let complete = async || {
        let completed = session.service.standing(board.name, WINDOW, &tomorrow);
        completed.await?.check(members)
    };
    waits_during(session, (board.name, members), &idle, complete).await
}

/// How long a client of Redis waits while nothing is done.
pub async fn idle_waits(session: &Session) -> Result<Histogram<u64>> {
    let probe = Probe::start(session.redis.socket())?;
    tokio::time::sleep(IDLE_TIME).await;
    probe.stop()
}

/// How fast work on so many members is done, and how long a client of Redis waits meanwhile.
pub async fn waits_during(
    session: &Session,
    (name, members): (&str, usize),
    idle: &Histogram<u64>,
    work: impl AsyncFnOnce() -> Result<()>,
) -> Result<Figures> {
    let probe = Probe::start(session.redis.socket())?;
    let watched = Watched::of(&session.redis, session.service.process());
    let (begun, before) = (Instant::now(), watched.cpu());
    work().await?;
    let seconds = begun.elapsed().as_secs_f64();
    let busy = probe.stop()?;
    let count = table::number(float(members as u64));
    say(&format!(
        "{name}: {count} members in {seconds:.1} s; of the waits meanwhile 99.9 % were at most {:.2} ms",
        ms(busy.value_at_quantile(0.999)),
    ));
    let load = Sample {
        per_second: float(members as u64) / seconds,
        p50_ms: ms(busy.value_at_quantile(0.5)),
        p99_ms: ms(busy.value_at_quantile(0.99)),
        seconds,
        cpu: watched.cpu().since(before),
    };
    let speed = Measured {
        load: Some(load),
        ..load.per_second.into()
    };
    let wait = Measured {
        load: Some(load),
        ..Measured::beside(ms(busy.max()), ms(idle.max()))
    };
    Ok(vec![("speed", speed), ("wait", wait)])
}

/// Another client of Redis, on a thread of its own: notes how long it waits for the smallest of calls.
struct Probe {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Histogram<u64>>>,
}

impl Probe {
    /// Begins to look.
    fn start(socket: PathBuf) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        // In microseconds.
        let waits = Histogram::new(3)?;
        let told = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || probe(&socket, waits, &told));
        Ok(Self { is_over, thread })
    }

    /// Ends; returns how long its calls took, in microseconds.
    fn stop(self) -> Result<Histogram<u64>> {
        self.is_over.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the probe panicked")??)
    }
}

fn probe(
    socket: &PathBuf,
    mut waits: Histogram<u64>,
    is_over: &AtomicBool,
) -> std::io::Result<Histogram<u64>> {
    let mut stream = UnixStream::connect(socket)?;
    let mut pong = *b"+PONG\r\n";
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut pong)?;
        waits.saturating_record(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        std::thread::sleep(PROBE_INTERVAL);
    }
    Ok(waits)
}

fn ms(micros: u64) -> f64 {
    float(micros) / 1_000.0
}
