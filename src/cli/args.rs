//! Settings that several commands have.

use std::fmt;
use std::path::PathBuf;

use clap::Args;

use crate::redis::embedded::EmbeddedConfig;

/// The heading of the settings of the commands that call the service.
pub(crate) const CLIENT: &str = "Commands that call the service";
/// The heading of the settings of Redis.
pub(crate) const REDIS: &str = "Redis";

/// Which Redis the service uses.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = REDIS)]
pub struct RedisArgs {
    /// The Redis (7.0 or newer) or Valkey (7.2 or newer) server, such as `redis://host:6379`. If it is empty, the service runs a
    /// private server.
    ///
    /// See docs/redis.md#your-own-server for clusters, sentinels, TLS, sockets and passwords.
    #[arg(long, env = "STANDINGS_REDIS_URL", hide_env_values = true)]
    pub redis_url: Option<Secret>,
    /// The directory of the private server's data.
    #[arg(long, env = "STANDINGS_DATA_DIR", default_value = "./data")]
    pub data_dir: PathBuf,
    /// The program of the private server. If it is empty, the service looks for `redis-server` and `valkey-server`: next to its own
    /// program, then on the `PATH`, and in a clone also in `.tools/`.
    #[arg(long, env = "STANDINGS_REDIS_SERVER")]
    pub redis_server: Option<PathBuf>,
}

impl RedisArgs {
    /// The address of the server to use, if one is given.
    pub fn url(&self) -> Option<&str> {
        let url = self.redis_url.as_ref().map(|url| url.0.as_str());
        url.filter(|url| !url.is_empty())
    }

    /// The settings of the private server.
    pub fn embedded(&self) -> EmbeddedConfig {
        EmbeddedConfig {
            data_dir: self.data_dir.clone(),
            server: self.redis_server.clone(),
        }
    }
}

/// A setting that may contain a password, and is never shown.
#[derive(Clone)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
