//! The configured address of Redis.

use std::path::PathBuf;

use fred::types::config::{Config, ServerConfig};

use super::StoreError;

/// The schemes of a server's URL.
const SCHEMES: &str = "redis://, rediss:// (with TLS), redis-cluster://, rediss-cluster://, redis-sentinel://, \
    rediss-sentinel:// or unix:///path";

/// How to escape these characters of a password.
const ESCAPES: &str = "in a password, write / as %2F, # as %23, ? as %3F and @ as %40";

/// The address of a Redis server.
#[derive(Clone)]
pub enum Address {
    /// A socket in the file system.
    Socket(PathBuf),
    /// `redis://`, `rediss://`, `redis-cluster://` or `redis-sentinel://`.
    Url(String),
}

impl Address {
    /// Parses a configured address: a URL, or `unix:///path`.
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix("unix://") {
            Some(path) => Self::Socket(path.into()),
            None => Self::Url(text.to_owned()),
        }
    }

    /// The client library's configuration. Errors never quote the URL, which may have a password.
    pub(crate) fn config(&self) -> Result<Config, StoreError> {
        match self {
            Self::Socket(path) => Ok(Config {
                server: ServerConfig::new_unix_socket(path),
                ..Config::default()
            }),
            Self::Url(url) => {
                check(url)?;
                Config::from_url(url).map_err(|error| StoreError::Url(error.details().into()))
            }
        }
    }
}

/// Rejects URLs that the client library would misread or partly ignore.
fn check(url: &str) -> Result<(), StoreError> {
    let unknown = || StoreError::Url(format!("it must begin with {SCHEMES}"));
    let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
    let kind = ["redis", "valkey"]
        .iter()
        .find_map(|name| scheme.strip_prefix(name))
        .ok_or_else(unknown)?;
    if kind == "+unix" {
        return Ok(());
    }
    let kind = kind.strip_prefix('s').unwrap_or(kind);
    if !["", "-cluster", "-sentinel"].contains(&kind) {
        return Err(unknown());
    }
    if rest.contains('#') {
        return Err(StoreError::Url(format!("it must not have a #; {ESCAPES}")));
    }
    let path = rest.split('?').next().unwrap_or_default();
    let (_, database) = path.split_once('/').unwrap_or_default();
    match database {
        "" | "0" => Ok(()),
        // The text in the place of the database may be part of a password.
        database if database.parse::<u8>().is_err() => Err(StoreError::Url(format!(
            "the text after the / must be the database, a number up to {}; {ESCAPES}",
            u8::MAX
        ))),
        database if kind == "-cluster" => Err(StoreError::Url(format!(
            "a cluster has only the database 0, not {database}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(url: &str) -> Option<String> {
        let config = Address::parse(url).config();
        config.err().map(|error| error.to_string())
    }

    #[test]
    fn a_url_has_a_known_scheme_and_a_valid_database() {
        for url in [
            "redis://h",
            "redis://user:pa%2Fss@h:6379/15",
            "redis-cluster://h:7000?node=i:7000",
            "redis-cluster://h:7000/0",
            "redis-sentinel://h/1?sentinelServiceName=main",
            "valkey://h",
            "unix:///run/redis.sock",
            "redis+unix://user:pass@localhost/run/redis.sock",
        ] {
            assert_eq!(error_of(url), None, "{url}");
        }
        for (url, part) in [
            ("http://h", "rediss://"),
            ("h:6379", "rediss://"),
            ("redis:h", "rediss://"),
            ("redis-clusters://h", "rediss://"),
            ("redisss://h", "rediss://"),
            ("redis://h/256", "number up to 255"),
            ("redis://h/one", "number up to 255"),
            ("redis-cluster://h/3", "not 3"),
            ("redis://user:a/hush@h", "write / as %2F"),
            ("redis-cluster://user:a/hush@h", "write / as %2F"),
            ("redis://user:6379#hush@h", "# as %23"),
            ("redis://user:a?hush@h", "STANDINGS_REDIS_URL"),
        ] {
            let error = error_of(url).unwrap();
            assert!(error.contains(part), "{url}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
