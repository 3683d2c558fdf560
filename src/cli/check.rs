//! `standings check`: looks in Redis for what contradicts itself, and mends what follows from the rest.
//!
//! It works on Redis itself, with the settings of `serve`, and beside services that use it. Where a private server is
//! used, and no service runs, it runs the server for as long as it takes.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::{Failure, tell};
use crate::clock::Clock;
use crate::config::RedisArgs;
use crate::domain::ids::BoardId;
use crate::engine::jobs::JobKind;
use crate::service::Service;
use crate::service::check::Report;
use crate::store::embedded::{EmbeddedError, EmbeddedServer, socket_in};
use crate::store::{Address, Store};
use crate::timeouts::TimeoutFactor;
use crate::worker;

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

/// Runs the command until `stop` ends.
pub async fn command(args: CheckArgs, stop: impl Future<Output = ()>) -> ExitCode {
    let checked = run(&args, stop).await;
    let printed = checked.and_then(|report| {
        let printed = print(&report, args.json, io::stdout().lock());
        printed.map_err(|error| format!("the report can't be written: {error}"))?;
        Ok(report)
    });
    match printed {
        Ok(report) if report.is_sound() => SOUND.into(),
        Ok(_) => UNSOUND.into(),
        Err(error) => {
            tell(&error);
            UNKNOWN.into()
        }
    }
}

async fn run(args: &CheckArgs, stop: impl Future<Output = ()>) -> Result<Report, Failure> {
    let mut stop = std::pin::pin!(stop);
    let opened = tokio::select! {
        opened = open(&args.redis) => opened?,
        () = &mut stop => return Err("stopped before it had ended".into()),
    };
    let (address, embedded) = opened;
    let checked = tokio::select! {
        checked = check(&address, args) => checked,
        () = &mut stop => Err("stopped before it had ended".into()),
    };
    if let Some(server) = embedded {
        server.stop().await;
    }
    checked
}

/// Where Redis is: the private server of a service that runs, or else one for this time alone.
async fn open(redis: &RedisArgs) -> Result<(Address, Option<EmbeddedServer>), Failure> {
    if let Some(url) = redis.url() {
        return Ok((Address::parse(url), None));
    }
    // Asked first: a start would make the directory.
    let socket = socket_in(&redis.data_dir)?;
    match EmbeddedServer::start(redis.embedded()).await {
        Ok(server) => Ok((Address::Socket(server.socket().to_owned()), Some(server))),
        Err(EmbeddedError::DataDirInUse(..)) => Ok((Address::Socket(socket), None)),
        Err(error) => Err(error.into()),
    }
}

async fn check(address: &Address, args: &CheckArgs) -> Result<Report, Failure> {
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
    worker::run(JobKind::Clock, &service.engine).await?;
    Ok(service.check(args.board.as_ref(), args.repair).await?)
}

fn print(report: &Report, is_json: bool, mut out: impl Write) -> io::Result<()> {
    if is_json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
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
    writeln!(out, "{boards} boards, {standings} standings: {found}")
}
