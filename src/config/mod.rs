//! The settings: each is a flag, and a variable of the environment or of the file `.env`. A flag overrides the environment,
//! and that overrides the file.
//!
//! `ServeArgs` has a field for each, with its description and default: `--help`, `.env.example` and the table in
//! docs/settings.md come from it. `reading.rs` reads them once, before anything starts, and reports what is invalid by name;
//! `env_file.rs` reads `.env`, which for an installed program must not belong to another user.

pub mod env_file;
mod reading;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use thiserror::Error;
use tracing_subscriber::filter::LevelFilter;

use crate::access::ApiKeys;
use crate::api::router::Options;
use crate::cli::args::{ACCESS, CLIENT, PlayerKeyArgs, REDIS, RedisArgs, named, read};
use crate::cli::check::CheckArgs;
use crate::cli::erasures::ErasuresArgs;
use crate::cli::export::ExportArgs;
use crate::cli::import::ImportArgs;
use crate::cli::import::sorted_set::CompareArgs;
use crate::cli::reshard::ReshardArgs;
use crate::cli::token::TokenArgs;
use crate::core::read::snapshot::SnapshotBounds;
use crate::domain::blocklist::Blocklist;
use crate::domain::profile::{Hosts, Rules};
use crate::domain::time::Span;
use crate::embed::EmbedOrigins;
use crate::http::cors::CorsOrigins;
use crate::http::proxies::TrustedProxies;
use crate::kafka::settings::{ClientOptions, Settings, TopicName, TopicUrl};
use crate::profiles::search::NameSearch;
use crate::queue::capacity::QueueBounds;
use crate::runtime::timeouts::TimeoutFactor;

pub use self::reading::{CliError, settings, warnings};

/// The maximum of `STANDINGS_MAX_STALENESS_MS`: hiding a member or deleting a board takes this long, and a request must not take forever.
const MAX_STALENESS_MS_MAX: i64 = 10_000;
// The headings under which the settings are listed.
const SERVER: &str = "Server";
const LIMITS: &str = "Limits";
const CONTENT: &str = "Audit log, profiles and webhooks";
const BACKGROUND: &str = "Background work";
const KAFKA: &str = "Kafka";
/// Exact leaderboards and vote rankings over HTTP, on Redis.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    /// What to do; `serve` by default.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The settings of `serve`, for a call without a command.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve HTTP and do the background work.
    Serve(Box<ServeArgs>),
    /// Do only the background work, for other instances that serve.
    Worker(Box<ServeArgs>),
    /// Send a file of events, or the members of sorted sets, to a service.
    Import(Box<ImportArgs>),
    /// Compare the members of sorted sets with those of a board.
    Compare(Box<CompareArgs>),
    /// Write a whole standing to standard output, as of one instant.
    Export(Box<ExportArgs>),
    /// Spread a board over another number of shards while events and reads go on.
    Reshard(Box<ReshardArgs>),
    /// Look for contradictions in the data in Redis, and repair them.
    Check(Box<CheckArgs>),
    // A comment here would replace the help, which is at the arguments.
    Erasures(Box<ErasuresArgs>),
    /// Print a player's token for trying: valid for ten minutes, and signed with the secret of the settings.
    Token(Box<TokenArgs>),
    /// Print the OpenAPI document.
    Openapi,
    /// Ask a service whether it is ready. The exit status is 0 if it is, and otherwise 1.
    Healthcheck {
        /// The address of the service, for `import`, `compare`, `export`, `reshard` and `healthcheck`.
        #[arg(long, env = "STANDINGS_URL", default_value = "http://127.0.0.1:8080", help_heading = CLIENT)]
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

/// The settings of the service, in the order of the help, docs/settings.md and `.env.example`, which are generated from these comments.
///
/// `-h` and `.env.example` show only the first paragraph of a comment. In docs/settings.md the name of a page, such as
/// docs/redis.md, becomes a link.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting")]
pub struct ServeArgs {
    /// The address to serve on. An address that is not loopback requires API keys.
    #[arg(long, env = "STANDINGS_LISTEN", default_value = "127.0.0.1:8080", help_heading = SERVER)]
    pub listen: SocketAddr,
    /// How many seconds the service keeps accepting connections after SIGTERM. It has no effect with the private Redis server,
    /// which serves only one instance.
    ///
    /// During this time /readyz returns 503, so that a load balancer sends requests elsewhere. See docs/backup.md#stop-and-upgrade.
    #[arg(long, env = "STANDINGS_DRAIN_SECONDS", default_value_t = 2, help_heading = SERVER)]
    pub drain_seconds: u16,
    /// Multiplies the time limits: for a slow machine or a distant Redis. 1 to 100.
    ///
    /// It applies to how long the service waits for Redis before it returns 503, and to the 20 seconds that a request may take.
    #[arg(long, env = "STANDINGS_TIMEOUT_FACTOR", default_value = "1", help_heading = SERVER)]
    pub timeout_factor: TimeoutFactor,
    /// What to log: a level or a filter, such as `info` or `standings=debug`. `fred` is the Redis client.
    #[arg(long, env = "STANDINGS_LOG", default_value = "info,fred=off", value_parser = log_filter, help_heading = SERVER)]
    pub log: String,
    /// The format of the log: `text` or `json`.
    #[arg(long, env = "STANDINGS_LOG_FORMAT", value_enum, default_value_t, hide_possible_values = true, help_heading = SERVER)]
    pub log_format: LogFormat,
    /// The Redis to use.
    #[command(flatten)]
    pub redis: RedisArgs,
    /// How many replicas must have a write before the service acknowledges it. With the private server, which has no replicas, the
    /// service starts only with 0.
    ///
    /// If too few have it, the answer is 503, and a retry with the same id is safe. See docs/high-availability.md.
    #[arg(long, env = "STANDINGS_MIN_REPLICAS", default_value_t = 0, help_heading = REDIS)]
    pub min_replicas: u8,
    /// How many milliseconds behind a replica may be to answer reads, up to 10000. With 0 only primaries answer. With the private
    /// server, which has no replicas, the service starts only with 0.
    ///
    /// Answers from replicas have the header `Max-Staleness-Ms`. Hiding a member and deleting a board wait for the largest value of
    /// all instances. See docs/high-availability.md#reads-from-replicas.
    #[arg(long, env = "STANDINGS_MAX_STALENESS_MS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=MAX_STALENESS_MS_MAX), help_heading = REDIS)]
    pub max_staleness_ms: u32,
    /// API keys, as `role:key,role:key`. Without keys anyone may do anything, and the service serves only on a loopback address.
    ///
    /// With the role `read` a key reads standings, with `write` it also sends events, and with `admin` it may do everything. A key has at
    /// least 8 visible ASCII characters and no comma. Spaces around commas are ignored. See docs/keys.md#keys-of-the-configuration.
    #[arg(
        long,
        env = "STANDINGS_API_KEYS",
        default_value = "",
        hide_env_values = true,
        help_heading = ACCESS
    )]
    pub api_keys: ApiKeys,
    /// Allows an address that is not loopback without API keys: anyone who reaches it may do anything.
    #[arg(long, env = "STANDINGS_ALLOW_OPEN", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", help_heading = ACCESS)]
    pub allow_open: bool,
    /// The keys of players' tokens.
    #[command(flatten)]
    pub player_keys: PlayerKeyArgs,
    /// The networks of the proxies whose `X-Forwarded-For` is trusted, such as `10.0.0.0/8,192.168.1.7`.
    ///
    /// If it is empty, all clients behind a proxy count as one address. See docs/overload.md#fair-shares.
    #[arg(long, env = "STANDINGS_TRUSTED_PROXIES", default_value = "", help_heading = ACCESS)]
    pub trusted_proxies: TrustedProxies,
    /// The origins that browsers may call from, such as `https://a.example,https://b.example`, or `*` for all. If it is empty, only
    /// the service's own pages may.
    ///
    /// Write an origin as browsers send it: without a path and without a slash at the end. `capacitor://localhost` and
    /// `tauri://localhost` are origins of apps. `null` is allowed only with API keys: any web page can make it its origin. With API
    /// keys, `*` gives a page no more than its key or token allows, since `/v1` takes no cookies. Without keys and on a loopback
    /// address, `*` lets pages read; only pages of a listed origin may write.
    #[arg(long, env = "STANDINGS_CORS_ORIGINS", default_value = "", help_heading = ACCESS)]
    pub cors_origins: CorsOrigins,
    /// The origins whose pages may show public boards in a frame (`/embed`), such as `https://a.example`; `*` for all, `none` for
    /// none.
    #[arg(long, env = "STANDINGS_EMBED_ORIGINS", default_value = "*", help_heading = ACCESS)]
    pub embed_origins: EmbedOrigins,
    /// How many connections clients may have. With 0, as many as the limit of file descriptors allows, up to 20,000.
    ///
    /// The service keeps 392 file descriptors for itself, Redis and webhooks. If fewer than this setting are left, it logs a warning
    /// and accepts that many connections, but at least 16. See docs/overload.md#connections for what happens beyond the limit.
    #[arg(long, env = "STANDINGS_MAX_CONNECTIONS", default_value_t = 0, help_heading = LIMITS)]
    pub max_connections: u32,
    /// How many streams there may be. With 0, half as many as connections.
    ///
    /// Beyond that the response is 503 `overloaded`. See docs/frontends.md#live.
    #[arg(long, env = "STANDINGS_MAX_STREAMS", default_value_t = 0, help_heading = LIMITS)]
    pub max_streams: u32,
    /// How many streams an API key may have, including those of tokens that were made with it.
    ///
    /// Each key of `STANDINGS_API_KEYS` counts separately. Beyond that the response is 429 `too-many-streams`.
    #[arg(long, env = "STANDINGS_MAX_STREAMS_PER_KEY", default_value_t = 5_000, help_heading = LIMITS)]
    pub max_streams_per_key: u32,
    /// How many streams one player may have, and how many one address may have in total, not counting clients that send an API key.
    ///
    /// Both limits apply to a player. An IPv6 network of 64 bits counts as one address. Behind a proxy, set
    /// `STANDINGS_TRUSTED_PROXIES`. Beyond that the response is 429 `too-many-streams`.
    #[arg(long, env = "STANDINGS_MAX_STREAMS_PER_ADDRESS", default_value_t = 100, help_heading = LIMITS)]
    pub max_streams_per_address: u32,
    /// How many MiB of memory all requests together may take, at least 64.
    ///
    /// Beyond that requests wait for up to 5 seconds and then get 503 `overloaded`. Request bodies do not wait. See
    /// docs/overload.md#memory.
    #[arg(long, env = "STANDINGS_REQUEST_MEMORY_MB", default_value_t = 256, value_parser = clap::value_parser!(u16).range(64..), help_heading = LIMITS)]
    pub request_memory_mb: u16,
    /// How many MiB of memory all exports of standings that are not final may take together.
    ///
    /// An entry takes 17 bytes and its member's id. A standing that does not fit returns 409 `export-too-large`; while others use the
    /// memory, an export returns 503 `overloaded`. See docs/results.md#a-standing-that-is-not-final.
    #[arg(long, env = "STANDINGS_EXPORT_MB", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..), help_heading = LIMITS)]
    pub export_mb: u16,
    /// How many MiB the events of one queue may take: those that wait on one shard of a board.
    ///
    /// Beyond that the response is 503 `queue-full`. See docs/queue.md#when-a-queue-is-full.
    #[arg(long, env = "STANDINGS_QUEUE_MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..), help_heading = LIMITS)]
    pub queue_mb: u32,
    /// How many MiB all queues of a Redis server together may take, if it has no `maxmemory`. With `maxmemory`, the limit is a
    /// quarter of it.
    #[arg(long, env = "STANDINGS_QUEUES_MB", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..), help_heading = LIMITS)]
    pub queues_mb: u32,
    /// How many days the audit log is kept, up to 36500. With 0, until it has 256 MiB.
    ///
    /// See docs/audit.md#how-long-lines-are-kept.
    #[arg(long, env = "STANDINGS_AUDIT_DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(..=36_500), help_heading = CONTENT)]
    pub audit_days: u16,
    /// The hosts that members' pictures may be on, such as `img.example.com,*.example.org`. If it is empty, any host.
    ///
    /// `*.example.org` stands for all names under `example.org`. See docs/profiles.md#pictures.
    #[arg(long, env = "STANDINGS_AVATAR_HOSTS", default_value = "", help_heading = CONTENT)]
    pub avatar_hosts: Hosts,
    /// A file with patterns of names that are blocked at once: one regular expression per line.
    ///
    /// It is read at startup. See docs/profiles.md#the-list-of-patterns.
    #[arg(long, env = "STANDINGS_NAME_BLOCKLIST", help_heading = CONTENT)]
    pub name_blocklist: Option<PathBuf>,
    /// Lets moderators find members by the words of their names, for which an index is stored.
    ///
    /// It takes up to 200 bytes of Redis for each member with a profile. Set it to the same on all instances. See
    /// docs/profiles.md#finding-members-by-name.
    #[arg(long, env = "STANDINGS_NAME_SEARCH", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", help_heading = CONTENT)]
    pub name_search: bool,
    /// Lets webhooks send to private addresses, and without TLS: for tests and closed networks.
    ///
    /// Anyone who may configure webhooks can then send requests to every machine that the service reaches. See
    /// docs/webhooks.md#where-messages-may-go.
    #[arg(long, env = "STANDINGS_WEBHOOK_ALLOW_PRIVATE", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", help_heading = CONTENT)]
    pub webhook_allow_private: bool,
    /// Whether this instance does background work, such as closing periods and preparing rolling windows.
    ///
    /// At least one instance has to do it. See docs/scaling.md#several-instances.
    #[arg(long, env = "STANDINGS_BACKGROUND", default_value_t = true, action = clap::ArgAction::Set, help_heading = BACKGROUND)]
    pub background: bool,
    /// Whether an instance that serves and does background work also applies queued events.
    ///
    /// If no instance does, run `standings worker`, which always applies them.
    #[arg(long, env = "STANDINGS_APPLY_QUEUES", default_value_t = true, action = clap::ArgAction::Set, help_heading = BACKGROUND)]
    pub apply_queues: bool,
    /// The address at which `standings worker` answers /livez, /readyz and /metrics, such as `127.0.0.1:8081`. If it is empty, the
    /// worker opens no port.
    #[arg(long, env = "STANDINGS_WORKER_LISTEN", help_heading = BACKGROUND)]
    pub worker_listen: Option<SocketAddr>,
    /// Kafka as the queue.
    #[command(flatten)]
    pub kafka: KafkaArgs,
}

/// Which topic of Kafka is the queue.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = KAFKA)]
pub struct KafkaArgs {
    /// The Kafka topic in which events are queued, as `kafka://host:9092,host2:9092/topic`. If it is empty, they are queued in
    /// Redis.
    ///
    /// See docs/kafka.md.
    #[arg(long, env = "STANDINGS_QUEUE_URL", hide_env_values = true)]
    pub queue_url: Option<TopicUrl>,
    /// The consumer group of the service, the same for all instances.
    #[arg(long, env = "STANDINGS_KAFKA_GROUP", default_value = "standings")]
    pub kafka_group: String,
    /// The topic for rejected records, and for copies of boards' dead letters.
    ///
    /// If it is empty, rejected records are only counted and logged. See
    /// docs/dead-letters.md#dead-records-in-kafka.
    #[arg(long, env = "STANDINGS_KAFKA_DEAD_LETTER_TOPIC", value_parser = TopicName::parse)]
    pub kafka_dead_letter_topic: Option<TopicName>,
    /// Options of the Kafka client (librdkafka), such as TLS and SASL, as `name=value;name=value`.
    ///
    /// See docs/kafka.md#tls-passwords-and-other-options.
    #[arg(
        long,
        env = "STANDINGS_KAFKA_OPTIONS",
        default_value = "",
        hide_env_values = true
    )]
    pub kafka_options: ClientOptions,
    /// A file with options of the Kafka client, for secrets: one `name=value` per line. It overrides `STANDINGS_KAFKA_OPTIONS`.
    #[arg(long, env = "STANDINGS_KAFKA_OPTIONS_FILE")]
    pub kafka_options_file: Option<PathBuf>,
}

/// A filter of the log. A single word has to be a level: as the name of a module it would silence all others.
fn log_filter(text: &str) -> Result<String, String> {
    let name = text.split(',').map(str::trim).find(|part| {
        let is_level = part.is_empty() || part.parse::<LevelFilter>().is_ok();
        !is_level && !part.contains(['=', '['])
    });
    match name {
        Some(name) => Err(format!(
            "`{name}` must be a level (error, warn, info, debug, trace, off), or a name with a level, such as `{name}=info`"
        )),
        None => Ok(text.to_owned()),
    }
}

/// Settings that can't be combined, or can't be used.
#[derive(Debug, Error, PartialEq)]
pub enum ConfigError {
    /// Anyone on the network could do anything.
    #[error(
        "no API keys are configured, and {0} is not a loopback address: set STANDINGS_API_KEYS; or, to let anyone do everything, STANDINGS_ALLOW_OPEN=true"
    )]
    OpenToTheNetwork(SocketAddr),
    /// Any web page could do anything.
    #[error(
        "STANDINGS_CORS_ORIGINS lists null, which any web page can make its origin: without STANDINGS_API_KEYS it could do everything"
    )]
    NullOrigin,
    /// There is no server to work on.
    #[error("a worker needs the Redis server of the serving instances: set STANDINGS_REDIS_URL")]
    NoRedis,
    /// The keys of players' tokens can't be used.
    #[error(
        "the keys for players' tokens (STANDINGS_JWT_KEYS, STANDINGS_JWT_KEY) can't be used: {0}"
    )]
    PlayerKeys(String),
    /// The patterns of names can't be used.
    #[error("the patterns of names (STANDINGS_NAME_BLOCKLIST) can't be used: {0}")]
    NameBlocklist(String),
    /// The settings of Kafka can't be used.
    #[error("the queue in Kafka (STANDINGS_QUEUE_URL, STANDINGS_KAFKA_…) can't be set up: {0}")]
    Kafka(String),
    /// The private server has no replicas.
    #[error("{0} needs STANDINGS_REDIS_URL: the private Redis server has no replicas")]
    NoReplicas(&'static str),
}

impl ServeArgs {
    /// The settings of HTTP. Reads the file of keys.
    pub fn options(&self) -> Result<Options, ConfigError> {
        Ok(Options {
            keys: self.api_keys.clone(),
            cors_origins: self.cors_origins.clone(),
            embed_origins: self.embed_origins.clone(),
            players: self.player_keys.keys().map_err(ConfigError::PlayerKeys)?,
            proxies: self.trusted_proxies.clone(),
            profile_rules: self.profile_rules()?,
            is_local: self.listen.ip().is_loopback(),
        })
    }

    /// For how long lines of the audit log are kept; `None`: until the log is too large.
    pub fn audit_retention(&self) -> Option<Span> {
        (self.audit_days > 0).then(|| Span::days(self.audit_days.into()))
    }

    /// Whether members can be found by their names.
    pub fn name_search(&self) -> NameSearch {
        NameSearch {
            is_on: self.name_search,
        }
    }

    /// What exports of standings that are not final may take.
    pub fn snapshot_bounds(&self) -> SnapshotBounds {
        SnapshotBounds {
            bytes: u64::from(self.export_mb) << 20,
            ..SnapshotBounds::default()
        }
    }

    /// How many bytes queues may have.
    pub fn queue_bounds(&self) -> QueueBounds {
        QueueBounds {
            queue_bytes: u64::from(self.queue_mb) << 20,
            server_bytes: u64::from(self.queues_mb) << 20,
        }
    }

    /// The settings of the topic that is the queue, if there is one. Reads the file of options.
    pub fn kafka(&self) -> Result<Option<Settings>, ConfigError> {
        let Some(url) = &self.kafka.queue_url else {
            return Ok(None);
        };
        let path = named(self.kafka.kafka_options_file.as_ref());
        let of_file = path
            .map(|path| ClientOptions::read(path))
            .transpose()
            .map_err(ConfigError::Kafka)?;
        let settings = Settings {
            url: url.clone(),
            group: self.kafka.kafka_group.clone(),
            dead_letter_topic: self.kafka.kafka_dead_letter_topic.clone(),
            options: of_file
                .unwrap_or_default()
                .behind(self.kafka.kafka_options.clone()),
            timeouts: self.timeout_factor,
        };
        settings.check_options().map_err(ConfigError::Kafka)?;
        Ok(Some(settings))
    }

    /// The operator's rules for profiles. Reads the file of patterns.
    fn profile_rules(&self) -> Result<Rules, ConfigError> {
        let path = named(self.name_blocklist.as_ref());
        let list = path
            .map(|path| read(path, |text| Blocklist::parse(&text)))
            .transpose()
            .map_err(ConfigError::NameBlocklist)?;
        Ok(Rules {
            hosts: self.avatar_hosts.clone(),
            blocklist: list.unwrap_or_default(),
        })
    }

    /// Checks what depends on several settings.
    pub fn check(&self) -> Result<(), ConfigError> {
        let options = self.options()?;
        if options.is_open() && !options.is_local && !self.allow_open {
            return Err(ConfigError::OpenToTheNetwork(self.listen));
        }
        if options.is_open() && options.cors_origins.lists_null() {
            return Err(ConfigError::NullOrigin);
        }
        self.kafka()?;
        let needs_replicas = [
            ("STANDINGS_MIN_REPLICAS", self.min_replicas > 0),
            ("STANDINGS_MAX_STALENESS_MS", self.max_staleness_ms > 0),
        ];
        match needs_replicas.into_iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) if self.redis.url().is_none() => Err(ConfigError::NoReplicas(name)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::config::env_file::Variables;

    fn parse(args: &[&str]) -> ServeArgs {
        Cli::parse_from([&["standings"], args].concat()).serve
    }

    #[test]
    fn without_keys_only_loopback_is_served_unless_allowed() {
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
            parse(&["--listen", "0.0.0.0:1", "--api-keys", "admin:CHANGE-ME"]).check(),
            Ok(())
        );
    }

    #[test]
    fn signing_keys_are_read_and_checked_at_startup() {
        let secret = "a secret that is long enough, by far";
        let closed = ["--listen", "0.0.0.0:1", "--jwt-key", secret];
        assert_eq!(parse(&closed).check(), Ok(()));
        for (wrong, said) in [
            (&["--jwt-key", "hush"][..], "32 bytes"),
            (&["--jwt-keys", "/nowhere/keys.json"], "/nowhere/keys.json"),
        ] {
            let error = parse(wrong).check().unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn name_patterns_are_read_at_startup_and_errors_name_the_line() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("names.txt");
        let path = path.to_str().unwrap();
        let missing = parse(&["--name-blocklist", path]).check().unwrap_err();
        assert!(missing.to_string().contains("names.txt: "), "{missing}");
        std::fs::write(path, "# staff\nadmin\n").unwrap();
        assert_eq!(parse(&["--name-blocklist", path]).check(), Ok(()));
        std::fs::write(path, "admin\n\n(root\n").unwrap();
        let wrong = parse(&["--name-blocklist", path]).check().unwrap_err();
        assert!(wrong.to_string().contains("names.txt: line 3: "), "{wrong}");
        std::fs::write(path, [0xff]).unwrap();
        let binary = parse(&["--name-blocklist", path]).check().unwrap_err();
        assert!(binary.to_string().contains("UTF-8"), "{binary}");
    }

    #[test]
    fn replicas_need_a_server_that_can_have_them() {
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
    fn a_topic_needs_a_build_with_kafka_and_readable_options() {
        let topic = ["--queue-url", "kafka://h:9092/events"];
        let checked = parse(&topic).check();
        if !cfg!(feature = "kafka") {
            let error = checked.unwrap_err().to_string();
            assert!(error.contains("--features kafka"), "{error}");
            return;
        }
        assert_eq!(checked, Ok(()));
        let file = [&topic[..], &["--kafka-options-file", "/nowhere/client"]].concat();
        let error = parse(&file).check().unwrap_err().to_string();
        assert!(error.contains("/nowhere/client"), "{error}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let args = parse(&[
            "--kafka-options",
            "sasl.password=hush",
            "--redis-url",
            "redis://:hush@h",
            "--api-keys",
            "admin:hush-hush",
        ]);
        assert!(!format!("{args:?}").contains("hush"));
    }

    /// The lines that are indented under this line.
    fn under<'a>(text: &'a str, line: &str) -> Vec<&'a str> {
        let depth = |line: &str| line.len() - line.trim_start().len();
        let below = text.lines().skip_while(|other| *other != line).skip(1);
        below
            .take_while(|below| depth(below) > depth(line) || below.is_empty())
            .collect()
    }

    #[test]
    fn compose_passes_on_every_setting_that_the_container_does_not_fix() {
        let (compose, image) = (
            include_str!("../../compose.yaml"),
            include_str!("../../Dockerfile"),
        );
        let service = under(compose, "  standings:").join("\n");
        let has = |line: &str| service.lines().any(|other| other.trim() == line);
        assert!(has("env_file: .env"), "{service}");
        let fixed: Variables = under(&service, "    environment:")
            .into_iter()
            .filter(|line| !line.trim().starts_with('#'))
            .map(|line| line.trim().split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        // `env_file` overrides the image's values, so they have to be set again.
        let (_, of_image) = image.split_once("\nENV ").unwrap();
        let of_image = of_image.split('\n').take_while(|line| line.contains('='));
        for line in of_image {
            let (name, value) = line.trim_end_matches('\\').trim().split_once('=').unwrap();
            assert_eq!(fixed[name], value, "{name}");
        }

        let folder = tempfile::TempDir::new().unwrap();
        let own = "STANDINGS_API_KEYS='admin:long-enough'\nSTANDINGS_TRUSTED_PROXIES=10.0.0.0/8\n\
            STANDINGS_CORS_ORIGINS=https://a.example\nSTANDINGS_JWT_KEY=0123456789abcdef0123456789abcdef\n";
        let copy = format!("{}\n{own}", include_str!("../../.env.example"));
        std::fs::write(folder.path().join(".env"), copy).unwrap();
        let of_file = crate::config::env_file::read(folder.path()).unwrap();
        let read = |command: &str, variables: &Variables| {
            Cli::read(["standings", command].map(OsString::from), variables)
                .unwrap()
                .command
                .unwrap()
        };
        let serve = |variables: &Variables| match read("serve", variables) {
            Command::Serve(args) => *args,
            other => panic!("{other:?}"),
        };
        let mut in_container = of_file.clone();
        for (name, value) in fixed {
            let of_shell = value.strip_prefix(&format!("${{{name}:?"));
            let value = of_shell.map_or(value.clone(), |_| of_file[&name].clone());
            in_container.insert(name, value);
        }
        let (alone, contained) = (serve(&of_file), serve(&in_container));
        assert_eq!(contained.check(), Ok(()));
        assert_eq!(contained.listen.to_string(), "0.0.0.0:8080");
        assert_eq!(contained.redis.url(), Some("redis://valkey:6379"));
        assert!(has("- 127.0.0.1:8080:8080"), "{service}");
        let url = match read("healthcheck", &in_container) {
            Command::Healthcheck { url } => url,
            other => panic!("{other:?}"),
        };
        assert_eq!(url, "http://127.0.0.1:8080");
        // Everything else is as the file says.
        let rest = ServeArgs {
            listen: alone.listen,
            redis: alone.redis.clone(),
            ..contained
        };
        assert_eq!(format!("{rest:?}"), format!("{alone:?}"));
        assert!(!rest.api_keys.is_empty() && rest.player_keys.jwt_key.is_some());
    }

    #[test]
    fn a_log_filter_needs_more_than_a_name() {
        for filter in ["info", "info,fred=off", "standings=debug, warn", "off", ""] {
            assert_eq!(log_filter(filter).as_deref(), Ok(filter));
        }
        for filter in ["nonsense", "info,standings"] {
            let error = log_filter(filter).unwrap_err();
            assert!(error.contains("must be a level"), "{error}");
        }
    }
}
