//! Carries out a command of the program.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::import::sorted_set;
use crate::cli::{Failure, check, erasures, export, healthcheck, import, reshard, token};
use crate::config::Command;
use crate::http::packed;
use crate::server;
use crate::setup;

/// How long the end of the process waits for calls that block. A call that leaves a group of Kafka never returns if the brokers
/// are away.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// Carries out a command; returns the exit status. Not an `async fn`: the calling crate would compile again what that awaits.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let status = runtime.block_on(carry_out(command));
    runtime.shutdown_timeout(END_TIME_MAX);
    status
}

async fn carry_out(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(args) => server::serve(*args, stop_signal()?).await?,
        Command::Worker(args) => server::work(*args, stop_signal()?).await?,
        Command::Import(args) => return Ok(import::command(*args).await),
        Command::Compare(args) => return Ok(sorted_set::compare(*args).await),
        Command::Export(args) => export::command(*args).await?,
        Command::Reshard(args) => reshard::command(*args).await?,
        Command::Check(args) => {
            return Ok(check::command(*args, setup::engine, stop_signal()?).await);
        }
        Command::Erasures(args) => {
            return Ok(erasures::command(*args, setup::engine, stop_signal()?).await);
        }
        Command::Token(args) => token::command(&args)?,
        Command::Openapi => io::stdout().write_all(&packed::document())?,
        Command::Healthcheck { url } => healthcheck::command(&url).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends when the process is signalled to stop.
fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
