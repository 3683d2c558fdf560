//! Configuration: every setting is a flag and an environment variable, and `.env` is read.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use axum::http::HeaderValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use thiserror::Error;

use crate::check::CheckArgs;
use crate::http::auth::ApiKeys;
use crate::import::ImportArgs;
use crate::reshard::ReshardArgs;

/// Exact leaderboards and vote rankings over HTTP, on Redis.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    /// What to do; `serve` if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The settings of `serve`, where nothing is said.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve HTTP, and do the background work.
    Serve(Box<ServeArgs>),
    /// Do only the background work, beside other instances that serve.
    Worker(Box<ServeArgs>),
    /// Send a file of events to a service.
    Import(Box<ImportArgs>),
    /// Spread a board over another number of shards, while events and reads go on.
    Reshard(Box<ReshardArgs>),
    /// Look in Redis for what contradicts itself, and mend what follows from the rest.
    Check(Box<CheckArgs>),
    /// Print the OpenAPI document.
    Openapi,
    /// Ask a service whether it is ready; the exit status says so.
    Healthcheck {
        /// The service's address.
        #[arg(long, env = "STANDINGS_URL", default_value = "http://127.0.0.1:8080")]
        url: String,
    },
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The settings of the service.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// The address to serve on.
    #[arg(long, env = "STANDINGS_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// The Redis to use.
    #[command(flatten)]
    pub redis: RedisArgs,
    /// How many replicas must have a write before it is acknowledged; otherwise the answer is 503, and a retry with
    /// the same id is safe. Not with the private server, which has none.
    #[arg(long, env = "STANDINGS_MIN_REPLICAS", default_value_t = 0)]
    pub min_replicas: u8,
    /// Reads may be answered by replicas that are at most so many milliseconds behind, as such an answer says in
    /// `Max-Staleness-Ms`; 0: by primaries only. Not with the private server, which has no replicas.
    #[arg(long, env = "STANDINGS_MAX_STALENESS_MS", default_value_t = 0)]
    pub max_staleness_ms: u32,
    /// For how many seconds /readyz says no before the service takes no more connections, once it is told to stop: so
    /// that a load balancer sends requests elsewhere first. Not with the private server, which has but one service.
    #[arg(long, env = "STANDINGS_DRAIN_SECONDS", default_value_t = 2)]
    pub drain_seconds: u16,
    /// API keys, `role:key,role:key`, with the roles read < write < admin. Without any the service is open,
    /// and serves on a loopback address only.
    #[arg(
        long,
        env = "STANDINGS_API_KEYS",
        default_value = "",
        hide_env_values = true
    )]
    pub api_keys: ApiKeys,
    /// Be open to everybody on an address that is not loopback, without API keys.
    #[arg(long, env = "STANDINGS_ALLOW_OPEN", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub allow_open: bool,
    /// Origins that browsers may call from, separated by commas: `https://a.example`.
    #[arg(long, env = "STANDINGS_CORS_ORIGINS", value_delimiter = ',')]
    pub cors_origins: Vec<HeaderValue>,
    /// Do the background work in this instance: completing rolling windows ahead, unlinking deleted boards.
    #[arg(long, env = "STANDINGS_BACKGROUND", default_value_t = true, action = clap::ArgAction::Set)]
    pub background: bool,
    /// What is logged: a filter as `info` or `standings=debug`.
    #[arg(long, env = "STANDINGS_LOG", default_value = "info,fred=off")]
    pub log: String,
    /// How it is written.
    #[arg(long, env = "STANDINGS_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// Which Redis is used.
#[derive(Args, Clone, Debug)]
pub struct RedisArgs {
    /// The Redis or Valkey server to use: redis://, rediss://, redis-cluster://, redis-sentinel:// or
    /// unix:///path. Without one the service runs a private server of its own.
    #[arg(long, env = "STANDINGS_REDIS_URL", hide_env_values = true)]
    pub redis_url: Option<Secret>,
    /// Where the private server keeps its data.
    #[arg(long, env = "STANDINGS_DATA_DIR", default_value = "./data")]
    pub data_dir: PathBuf,
    /// The program of the private server; otherwise redis-server or valkey-server is looked for.
    #[arg(long, env = "STANDINGS_REDIS_SERVER")]
    pub redis_server: Option<PathBuf>,
}

impl RedisArgs {
    /// The address of the server to use, if one is given.
    pub fn url(&self) -> Option<&str> {
        self.redis_url
            .as_ref()
            .map(|url| url.0.as_str())
            .filter(|url| !url.is_empty())
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

/// Settings that don't go together.
#[derive(Debug, Error, PartialEq)]
pub enum ConfigError {
    /// Anybody on the network could do anything.
    #[error(
        "no API keys are configured, and {0} is not a loopback address: set STANDINGS_API_KEYS, or STANDINGS_ALLOW_OPEN=true to be open to everybody"
    )]
    OpenToTheNetwork(SocketAddr),
    /// There is no server to work on.
    #[error("a worker shares the Redis server of the serving instances: set STANDINGS_REDIS_URL")]
    NoRedis,
    /// The private server has no replicas.
    #[error("the private server has no replicas: {0} goes with STANDINGS_REDIS_URL")]
    NoReplicas(&'static str),
}

impl ServeArgs {
    /// Checks what depends on several settings.
    pub fn check(&self) -> Result<(), ConfigError> {
        let is_loopback = match self.listen.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback(),
        };
        if self.api_keys.is_open() && !is_loopback && !self.allow_open {
            return Err(ConfigError::OpenToTheNetwork(self.listen));
        }
        let needs_replicas = [
            ("STANDINGS_MIN_REPLICAS", self.min_replicas > 0),
            ("STANDINGS_MAX_STALENESS_MS", self.max_staleness_ms > 0),
        ];
        for (name, _) in needs_replicas.iter().filter(|(_, is_set)| *is_set) {
            if self.redis.url().is_none() {
                return Err(ConfigError::NoReplicas(name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> ServeArgs {
        Cli::parse_from([&["standings"], args].concat()).serve
    }

    #[test]
    fn without_keys_only_loopback_is_served_unless_told_so() {
        assert_eq!(parse(&[]).check(), Ok(()));
        assert_eq!(parse(&["--listen", "[::1]:1"]).check(), Ok(()));
        let open = parse(&["--listen", "0.0.0.0:1"]);
        assert_eq!(
            open.check(),
            Err(ConfigError::OpenToTheNetwork("0.0.0.0:1".parse().unwrap()))
        );
        assert_eq!(
            parse(&["--listen", "0.0.0.0:1", "--allow-open"]).check(),
            Ok(())
        );
        assert_eq!(
            parse(&["--listen", "0.0.0.0:1", "--api-keys", "admin:k"]).check(),
            Ok(())
        );
    }

    #[test]
    fn replicas_go_with_a_server_that_can_have_them() {
        for (flag, name) in [
            ("--min-replicas", "STANDINGS_MIN_REPLICAS"),
            ("--max-staleness-ms", "STANDINGS_MAX_STALENESS_MS"),
        ] {
            let alone = parse(&[flag, "1"]);
            assert_eq!(alone.check(), Err(ConfigError::NoReplicas(name)));
            let with_server = parse(&[flag, "1", "--redis-url", "redis://h"]);
            assert_eq!(with_server.check(), Ok(()));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let args = parse(&["--redis-url", "redis://:hush@h", "--api-keys", "admin:hush"]);
        assert!(!format!("{args:?}").contains("hush"));
    }

    #[test]
    fn the_example_file_names_every_variable() {
        use clap::CommandFactory;
        let example = include_str!("../.env.example");
        let cli = Cli::command();
        let args = cli.get_subcommands().flat_map(clap::Command::get_arguments);
        for name in args
            .chain(cli.get_arguments())
            .filter_map(|arg| arg.get_env())
        {
            let line = format!("{}=", name.to_str().unwrap());
            assert!(example.contains(&line), ".env.example lacks {line}");
        }
    }
}
