//! `standings check`: looks in Redis for what contradicts itself, and mends what follows from the rest.
//!
//! It works on Redis itself, with the settings of `serve`, and beside services that use it. Where a private server is
//! used, and no service runs, it runs the server for as long as it takes.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::clock::Clock;
use crate::config::RedisArgs;
use crate::domain::ids::BoardId;
use crate::service::check::Report;
use crate::service::{self, Service};
use crate::store::embedded::{EmbeddedConfig, EmbeddedError, EmbeddedServer, socket_in};
use crate::store::{Address, Store, StoreError};
use crate::timeouts::TimeoutFactor;
use crate::worker::Step;

/// The exit status where nothing contradicts itself, or nothing does any more.
const SOUND: u8 = 0;
/// The exit status where something does.
const UNSOUND: u8 = 1;
/// The exit status where that could not be found out.
const UNKNOWN: u8 = 2;
/// How long it tries to reach Redis.
const CONTACT_TIME_MAX: Duration = Duration::from_secs(15);
/// The pause between two tries.
const CONTACT_INTERVAL: Duration = Duration::from_millis(50);

/// Look in Redis for what contradicts itself, and mend what follows from the rest.
///
/// The exit status is 0 if nothing contradicts itself (any more), 1 if something does, and 2 if that could not be found
/// out.
#[derive(clap::Args, Clone, Debug)]
pub struct CheckArgs {
    /// Which board; all if none is named.
    #[arg(value_parser = BoardId::parse)]
    pub board: Option<BoardId>,
    /// Mend what follows from the rest. What can't be known is told and left.
    #[arg(long)]
    pub repair: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The Redis to look in.
    #[command(flatten)]
    pub redis: RedisArgs,
}

/// Why nothing could be checked.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The private server could not be started.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// Redis can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The check has failed.
    #[error(transparent)]
    Service(#[from] service::Error),
    /// It was told to stop.
    #[error("stopped before it had ended")]
    Stopped,
    /// Its output has nobody to go to.
    #[error("the report can't be written: {0}")]
    Output(#[from] io::Error),
    /// The report is no JSON.
    #[error("the report can't be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// Runs the command until `stop` ends.
pub async fn command(args: CheckArgs, stop: impl Future<Output = ()>) -> ExitCode {
    let checked = run(&args, stop).await;
    let printed = checked.and_then(|report| {
        print(&report, args.json, io::stdout().lock())?;
        Ok(report)
    });
    match printed {
        Ok(report) if report.is_sound() => SOUND.into(),
        Ok(_) => UNSOUND.into(),
        Err(error) => {
            // Where nobody listens, the exit status still tells.
            let _ = writeln!(io::stderr(), "standings: {error}");
            UNKNOWN.into()
        }
    }
}

async fn run(args: &CheckArgs, stop: impl Future<Output = ()>) -> Result<Report, CheckError> {
    let mut stop = std::pin::pin!(stop);
    let opened = tokio::select! {
        opened = open(&args.redis) => opened?,
        () = &mut stop => return Err(CheckError::Stopped),
    };
    let (address, embedded) = opened;
    let checked = tokio::select! {
        checked = check(&address, args) => checked,
        () = &mut stop => Err(CheckError::Stopped),
    };
    if let Some(server) = embedded {
        server.stop().await;
    }
    checked
}

/// Where Redis is: the private server of a service that runs, or else one for this time alone.
async fn open(redis: &RedisArgs) -> Result<(Address, Option<EmbeddedServer>), CheckError> {
    if let Some(url) = redis.url() {
        return Ok((Address::parse(url), None));
    }
    // Asked first: a start would make the directory.
    let socket = socket_in(&redis.data_dir)?;
    let config = EmbeddedConfig {
        data_dir: redis.data_dir.clone(),
        server: redis.redis_server.clone(),
    };
    match EmbeddedServer::start(config).await {
        Ok(server) => Ok((Address::Socket(server.socket().to_owned()), Some(server))),
        Err(EmbeddedError::DataDirInUse(..)) => Ok((Address::Socket(socket), None)),
        Err(error) => Err(error.into()),
    }
}

async fn check(address: &Address, args: &CheckArgs) -> Result<Report, CheckError> {
    let service = Service::new(
        Store::connect(address, TimeoutFactor::default())?,
        Clock::system(),
    );
    let begun = Instant::now();
    while let Err(error) = service.engine.store.prepare().await {
        if begun.elapsed() > CONTACT_TIME_MAX {
            return Err(error.into());
        }
        tokio::time::sleep(CONTACT_INTERVAL).await;
    }
    Step::Clock.run(&service.engine).await?;
    Ok(service.check(args.board.as_ref(), args.repair).await?)
}

fn print(report: &Report, is_json: bool, mut out: impl Write) -> Result<(), CheckError> {
    if is_json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return Ok(writeln!(out)?);
    }
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let Report {
        boards,
        standings,
        contradictions,
        mended,
        ..
    } = report;
    let found = match contradictions {
        0 => "nothing contradicts itself".to_owned(),
        _ => format!("{contradictions} contradictions, {mended} of them mended"),
    };
    Ok(writeln!(
        out,
        "{boards} boards, {standings} standings: {found}"
    )?)
}
