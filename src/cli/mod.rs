//! The commands of the program other than the service itself.
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

use self::text::printable;
use crate::config::Secret;

/// Why a command failed, if nothing depends on the kind of error.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The service that a command works with.
#[derive(clap::Args, Clone, Debug)]
pub struct ServiceArgs {
    /// The service's address.
    #[arg(long, env = "STANDINGS_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// An API key. `import` needs the scopes `read` and `write`, `reshard` needs `configure`.
    #[arg(long, env = "STANDINGS_API_KEY", hide_env_values = true)]
    pub key: Option<Secret>,
}

/// Tells why a command failed, on one line of the standard error.
fn tell(error: &dyn fmt::Display) {
    // If nobody reads the output, the exit status still tells.
    let _ = writeln!(io::stderr(), "standings: {}", printable(&error.to_string()));
}
