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
use crate::load::{Sample, float};
use crate::session::Session;
use crate::{Result, say};

/// The window that is completed.
const WINDOW: &str = "last-7-days";
/// How many days back the day lies that leaves the window tomorrow.
const LEAVING: Days = Days::new(6);
/// The pause of the probe between two calls.
const PROBE_INTERVAL: Duration = Duration::from_micros(200);
/// For how long it looks at a server that does nothing.
const IDLE_TIME: Duration = Duration::from_secs(3);

/// What completing a standing took.
#[derive(Clone, Copy, Debug)]
pub struct Rollover {
    /// Members of the standing in a second, how long the probe waited meanwhile, and CPU time.
    pub load: Sample,
    /// The longest wait of the probe meanwhile.
    pub longest_ms: f64,
    /// The longest wait of the probe while nothing was done.
    pub idle_longest_ms: f64,
}

/// Completes tomorrow's standing of a board, of which each member has a score of today and one of the day
/// that leaves the window. The read of it does so by itself, as fast as it can.
pub async fn measure(session: &Session, board: &'static Board) -> Result<Rollover> {
    if let Some(known) = session.rollovers.borrow().get(board.name) {
        return Ok(*known);
    }
    session.ready(board).await?;
    let members = session.members(board);
    let leaving = (Utc::now() - LEAVING).format("%FT%TZ").to_string();
    board
        .fill(&session.service, members, Some(&leaving))
        .await?;
    let current = session.service.standing(board.name, WINDOW, "current");
    let today: NaiveDate = current.await?.key.parse()?;
    let tomorrow = (today + Days::new(1)).to_string();

    let probe = Probe::start(session.redis.socket())?;
    tokio::time::sleep(IDLE_TIME).await;
    let idle = probe.stop()?;
    let probe = Probe::start(session.redis.socket())?;
    let watched = session.watched(session.service.process());
    let (begun, before) = (Instant::now(), watched.cpu());
    let completed = session
        .service
        .standing(board.name, WINDOW, &tomorrow)
        .await?;
    let seconds = begun.elapsed().as_secs_f64();
    let busy = probe.stop()?;
    completed.check(members)?;
    say(&format!(
        "{}: tomorrow was completed in {seconds:.1} s; of the waits meanwhile 99.9 % were at most {:.2} ms",
        board.name,
        ms(busy.value_at_quantile(0.999)),
    ));
    let rollover = Rollover {
        load: Sample {
            per_second: float(members as u64) / seconds,
            p50_ms: ms(busy.value_at_quantile(0.5)),
            p99_ms: ms(busy.value_at_quantile(0.99)),
            seconds,
            cpu: watched.cpu().since(before),
        },
        longest_ms: ms(busy.max()),
        idle_longest_ms: ms(idle.max()),
    };
    session.rollovers.borrow_mut().insert(board.name, rollover);
    Ok(rollover)
}

/// Another client of Redis, on a thread of its own: notes how long it waits for the smallest of calls.
pub struct Probe {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Histogram<u64>>>,
}

impl Probe {
    /// Begins to look.
    pub fn start(socket: PathBuf) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        // In microseconds.
        let waits = Histogram::new(3)?;
        let told = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || probe(&socket, waits, &told));
        Ok(Self { is_over, thread })
    }

    /// Ends; returns how long its calls took, in microseconds.
    pub fn stop(self) -> Result<Histogram<u64>> {
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
