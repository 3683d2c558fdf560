//! Settings that several commands have.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::access::players::PlayerKeys;
use crate::redis::embedded::EmbeddedConfig;

/// The heading of the settings of the commands that call the service.
pub(crate) const CLIENT: &str = "Commands that call the service";
/// The heading of the settings of who may do what.
pub(crate) const ACCESS: &str = "Access";
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

/// The keys of players' tokens.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = ACCESS)]
pub struct PlayerKeyArgs {
    /// A file with the keys that players' tokens are signed with: a JWK set (RFC 7517).
    ///
    /// It has secrets for HS256, and public keys for EdDSA or ES256. It is read at startup. See docs/keys.md#players.
    #[arg(long, env = "STANDINGS_JWT_KEYS")]
    pub jwt_keys: Option<PathBuf>,
    /// A single key for tokens without `kid`: a secret of at least 32 bytes, or a JWK.
    #[arg(long, env = "STANDINGS_JWT_KEY", hide_env_values = true)]
    pub jwt_key: Option<Secret>,
    /// The `aud` that players' tokens must have.
    #[arg(long, env = "STANDINGS_JWT_AUDIENCE", default_value = "standings")]
    pub jwt_audience: String,
}

impl PlayerKeyArgs {
    /// The keys. Reads the file.
    pub fn keys(&self) -> Result<PlayerKeys, String> {
        let set = named(self.jwt_keys.as_ref()).map(|path| read(path, Ok));
        let single = self.jwt_key.as_ref().map(|key| key.0.as_str());
        let single = single.filter(|key| !key.is_empty());
        PlayerKeys::read(set.transpose()?.as_deref(), single, &self.jwt_audience)
    }
}

/// The file of a setting; an empty name means none.
pub(crate) fn named(path: Option<&PathBuf>) -> Option<&PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

/// Reads and parses a file. The error names the file.
pub(crate) fn read<T>(
    path: &Path,
    parse: impl Fn(String) -> Result<T, String>,
) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let read = text.and_then(parse);
    read.map_err(|error| format!("{}: {error}", path.display()))
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
