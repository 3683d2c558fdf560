//! The commands other than the service itself.
//!
//! | folder or file | command |
//! | --- | --- |
//! | `import/` | sends a file of events to a service, or the members of sorted sets |
//! | `import/sorted_set/` | tells how far sorted sets and a board agree |
//! | `export.rs` | writes a whole standing |
//! | `reshard.rs` | spreads a board over another number of shards |
//! | `healthcheck.rs` | asks a service whether it is ready |
//! | `check.rs` | looks for contradictions in the data in Redis |
//! | `erasures.rs` | keeps erasures in a file, and carries them out again after a restore |
//! | `token.rs` | prints a player's token for trying |
//!
//! The commands that work on Redis itself share `engine.rs`. The commands that use the HTTP interface share a client (`client.rs`), which repeats requests whose failure may pass.

pub mod args;
pub mod check;
mod client;
pub mod engine;
pub mod erasures;
pub mod export;
pub mod healthcheck;
pub mod import;
pub mod reshard;
mod text;
pub mod token;

use std::fmt;
use std::io::{self, Write};

use self::args::{CLIENT, Secret};
use self::text::printable;

/// Why a command failed, if nothing depends on the kind of error.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The service that a command works with.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = CLIENT)]
pub struct ServiceArgs {
    /// The address of the service, for `import`, `compare`, `export`, `reshard` and `healthcheck`.
    #[arg(long, env = "STANDINGS_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// The API key that `import`, `compare`, `export` and `reshard` send. `import` needs the scopes `read` and `write`, `export`
    /// needs `read`, `reshard` needs `configure`; `compare` and `import --from-redis` need `read`, `write`, `configure` and
    /// `moderate`. `serve` and `worker` do not start with this setting: their own keys are `STANDINGS_API_KEYS`.
    #[arg(long, env = "STANDINGS_API_KEY", hide_env_values = true)]
    pub api_key: Option<Secret>,
}

/// Writes why a command failed, on one line of standard error.
fn print_error(error: &dyn fmt::Display) {
    // If standard error is closed, the exit status still reports it.
    let _ = writeln!(io::stderr(), "standings: {}", printable(&error.to_string()));
}
