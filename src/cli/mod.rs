//! The commands of the program. Those other than the service itself lie here.
//!
//! | module | command |
//! | --- | --- |
//! | [`import`] | sends a file of events to a service |
//! | [`reshard`] | spreads a board over another number of shards |
//! | [`healthcheck`] | asks a service whether it is ready |
//! | [`check`] | looks for contradictions in the data in Redis |
//!
//! The commands that use the HTTP interface share one client (`client.rs`). It repeats requests whose failure may pass.

pub mod check;
mod client;
pub mod healthcheck;
pub mod import;
pub mod reshard;
mod text;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use self::text::printable;
use crate::config::{CLIENT, Command, Secret};
use crate::{http, server};

/// Why a command failed, if nothing depends on the kind of error.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The service that a command works with.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = CLIENT)]
pub struct ServiceArgs {
    /// The address of the service, for `import`, `reshard` and `healthcheck`.
    #[arg(long, env = "STANDINGS_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// The API key that `import` and `reshard` send. `import` needs the scopes `read` and `write`, `reshard` needs `configure`.
    /// `serve` and `worker` do not start with this setting: their own keys are `STANDINGS_API_KEYS`.
    #[arg(long, env = "STANDINGS_API_KEY", hide_env_values = true)]
    pub key: Option<Secret>,
}

/// Carries out a command; returns the exit status. It is no `async fn`: what such a function awaits is compiled again in the crate that calls it.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    tokio::runtime::Runtime::new()?.block_on(async {
        match command {
            Command::Serve(args) => server::serve(*args, stop_signal()?).await?,
            Command::Worker(args) => server::work(*args, stop_signal()?).await?,
            Command::Import(args) => return Ok(import::command(*args).await),
            Command::Reshard(args) => reshard::command(*args).await?,
            Command::Check(args) => return Ok(check::command(*args, stop_signal()?).await),
            Command::Openapi => {
                let document = http::document::text()?;
                writeln!(io::stdout(), "{document}")?;
            }
            Command::Healthcheck { url } => healthcheck::command(&url).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Ends when the process is told to stop.
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

/// Tells why a command failed, on one line of the standard error.
fn tell(error: &dyn fmt::Display) {
    // If nobody reads the output, the exit status still tells.
    let _ = writeln!(io::stderr(), "standings: {}", printable(&error.to_string()));
}
