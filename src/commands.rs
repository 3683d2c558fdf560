//! Carries out a command of the program.

use std::io::{self, Write};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Failure, check, healthcheck, import, reshard, token};
use crate::config::Command;
use crate::http::packed;
use crate::server;
use crate::setup;

/// Carries out a command; returns the exit status. Not an `async fn`: the calling crate would compile again what that awaits.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    tokio::runtime::Runtime::new()?.block_on(async {
        match command {
            Command::Serve(args) => server::serve(*args, stop_signal()?).await?,
            Command::Worker(args) => server::work(*args, stop_signal()?).await?,
            Command::Import(args) => return Ok(import::command(*args).await),
            Command::Reshard(args) => reshard::command(*args).await?,
            Command::Check(args) => {
                return Ok(check::command(*args, setup::engine, stop_signal()?).await);
            }
            Command::Token(args) => token::command(&args)?,
            Command::Openapi => io::stdout().write_all(&packed::document())?,
            Command::Healthcheck { url } => healthcheck::command(&url).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
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
