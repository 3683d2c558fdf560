//! The commands of the program beside the service itself.
//!
//! | module | command |
//! | --- | --- |
//! | [`import`] | sends a file of events to a service |
//! | [`reshard`] | has a service spread a board over another number of shards |
//! | [`healthcheck`] | asks a service whether it is ready |
//! | [`check`] | looks in Redis for what contradicts itself |
//!
//! Those that work through the HTTP interface share one client (`client.rs`), which repeats what may pass.

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

/// Why a command failed, where nothing depends on the kind of error.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Which service a command works with.
#[derive(clap::Args, Clone, Debug)]
pub struct ServiceArgs {
    /// The service's address.
    #[arg(long, env = "STANDINGS_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// An API key: for `import` with the scopes `read` and `write`, for `reshard` with `configure`.
    #[arg(long, env = "STANDINGS_API_KEY", hide_env_values = true)]
    pub key: Option<Secret>,
}

/// Tells why a command failed, on one line of the standard error.
fn tell(error: &dyn fmt::Display) {
    // Where nobody listens, the exit status still tells.
    let _ = writeln!(io::stderr(), "standings: {}", printable(&error.to_string()));
}
