//! What an error of Redis means to the caller.

use fred::error::{Error, ErrorKind};

use super::StoreError;

/// Why a node has not done what it was asked to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The slot is elsewhere; nothing was done.
    Moved(String),
    /// The slot is moving, and some of its keys have moved; nothing was done.
    Moving(String),
    /// Another error.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Moved(text) | Failure::Moving(text) => Self::Unavailable(text),
            Failure::Store(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (details, text) = (error.details(), error.to_string());
        if details.starts_with("MOVED ") {
            return Self::Moved(text);
        }
        if says_moving(details) {
            return Self::Moving(text);
        }
        if details.starts_with("OOM ") {
            let reason = "its memory is full (maxmemory)";
            return StoreError::Full(reason.into()).into();
        }
        if let Some(reason) = why_no_writes(details) {
            return StoreError::Full(format!("{reason} ({details})")).into();
        }
        if let Some(reason) = why_unusable(details) {
            return StoreError::Unusable(format!("{reason} ({details})")).into();
        }
        // A script that fails while it runs, or a key of another type, is a fault of this program or of the data;
        // everything else concerns the server.
        let in_script = text.contains("user_script") && !text.contains("cluster is down");
        let is_own_fault = in_script || details.starts_with("WRONGTYPE");
        if is_own_fault || *error.kind() == ErrorKind::Parse {
            StoreError::Unexpected(text).into()
        } else {
            StoreError::Unavailable(text).into()
        }
    }
}

/// Whether an error is a reply of the server, rather than a missing one.
pub(crate) fn is_reply(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Auth)
}

/// Why there is no connection to a server, which "it" begins.
pub(crate) fn why_no_connection(error: &Error) -> String {
    let details = error.details();
    if details.contains("ConnectionRefused") {
        return "refuses the connection".to_owned();
    }
    if *error.kind() == ErrorKind::Timeout {
        return "does not answer".to_owned();
    }
    // The message of the operating system, without how Rust shows it.
    let message = details
        .split_once("message: \"")
        .map(|(_, message)| message);
    let message = message.and_then(|message| message.split('"').next());
    format!("can't be reached ({})", message.unwrap_or(details))
}

/// Whether Redis does not know a script: it was restarted or flushed, or is new.
pub(crate) fn says_unknown_script(error: &Error) -> bool {
    error.details().starts_with("NOSCRIPT")
}

/// Whether a cluster node has refused a call because its slot is moving. Scripts detect that before their first write
/// (`scripts/lib/slot.lua`).
fn says_moving(details: &str) -> bool {
    let refusals = ["ASK ", "TRYAGAIN"];
    refusals.iter().any(|refusal| details.starts_with(refusal)) || details.contains("non local key")
}

/// Why a server takes no writes for a while, if the reply says so.
fn why_no_writes(details: &str) -> Option<&'static str> {
    const BEGINNINGS: [(&str, &str); 3] = [
        ("MISCONF ", "it can't write to its disk"),
        ("NOREPLICAS ", "too few of its replicas are connected"),
        ("READONLY ", "it is a replica"),
    ];
    let found = BEGINNINGS
        .iter()
        .find(|(beginning, _)| details.starts_with(beginning));
    found.map(|(_, reason)| *reason)
}

/// Why a server can't be used as it is set up, if the reply says so.
fn why_unusable(details: &str) -> Option<&'static str> {
    const BEGINNINGS: [(&str, &str); 11] = [
        ("WRONGPASS", PASSWORD),
        ("NOAUTH", PASSWORD),
        ("ERR invalid password", PASSWORD),
        // Users came with Redis 6.
        ("ERR wrong number of arguments for 'auth'", RELEASE),
        ("NOPERM", PERMISSION),
        ("ERR DB index", DATABASE),
        ("ERR invalid DB index", DATABASE),
        ("ERR SELECT is not allowed", DATABASE),
        ("ERR This instance has cluster support disabled", CLUSTER),
        ("DENIED", PROTECTED),
        ("ERR unknown command", RELEASE),
    ];
    const CONTAINED: [(&str, &str); 3] = [
        ("The user executing the script can't", PERMISSION),
        ("InvalidCertificate", CERTIFICATE),
        ("InvalidContentType", NO_TLS),
    ];
    let begins = BEGINNINGS
        .iter()
        .find(|(beginning, _)| details.starts_with(beginning));
    let contains = || CONTAINED.iter().find(|(part, _)| details.contains(part));
    begins.or_else(contains).map(|(_, reason)| *reason)
}

const PASSWORD: &str = "the user or the password in its URL is wrong or missing";
/// The user lacks a permission.
pub(crate) const PERMISSION: &str =
    "its user lacks a permission; docs/redis.md lists the required ones";
const DATABASE: &str = "it does not have the database in its URL";
const PROTECTED: &str = "it is in protected mode, and accepts local connections only";
const CERTIFICATE: &str = "its certificate is not trusted. For a private authority, set SSL_CERT_FILE to the file of its certificate";
/// The servers that are needed, if a server is too old or another product.
pub(crate) const RELEASE: &str = "Redis 7.0, Valkey 7.2 or newer is needed";
/// The URL is for a cluster, but the server is not one.
pub(crate) const CLUSTER: &str = "it is not a cluster: use redis:// or rediss:// in its URL";
/// The URL asks for TLS, but the server does not use it.
pub(crate) const NO_TLS: &str =
    "the server does not use TLS on this port: use redis:// instead of rediss://";

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_of(details: &'static str) -> Failure {
        Failure::from(Error::new(ErrorKind::Unknown, details))
    }

    #[test]
    fn refusals_of_a_cluster_are_distinguished_from_failures() {
        let moved = failure_of("MOVED 12 127.0.0.1:7000");
        assert!(matches!(moved, Failure::Moved(_)), "{moved:?}");
        for moving in [
            "ASK 12 127.0.0.1:7000",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "ERR Script attempted to access a non local key in a cluster node script: 0123, on @user_script:9.",
        ] {
            let found = failure_of(moving);
            assert!(matches!(found, Failure::Moving(_)), "{found:?}");
        }
        for unavailable in [
            "CLUSTERDOWN The cluster is down",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "ERR Script attempted to execute a command while the cluster is down script: 0123, on @user_script:9.",
        ] {
            let found = failure_of(unavailable);
            assert!(
                matches!(found, Failure::Store(StoreError::Unavailable(_))),
                "{found:?}"
            );
        }
        let bug = failure_of("ERR user_script:9: attempt to index a nil value");
        assert!(matches!(bug, Failure::Store(StoreError::Unexpected(_))));
    }

    #[test]
    fn a_full_or_unusable_server_is_distinguished_from_an_absent_one() {
        for full in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
            "MISCONF Errors writing to the AOF file: No space left on device",
            "NOREPLICAS Not enough good replicas to write.",
            "READONLY You can't write against a read only replica.",
        ] {
            let found = failure_of(full);
            assert!(
                matches!(found, Failure::Store(StoreError::Full(_))),
                "{found:?}"
            );
        }
        for unusable in [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "ERR wrong number of arguments for 'auth' command",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "ERR The user executing the script can't run this command or subcommand script: 01, on @user_script:2.",
            "ERR DB index is out of range",
            "ERR This instance has cluster support disabled",
            "Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }",
        ] {
            let found = failure_of(unusable);
            assert!(
                matches!(found, Failure::Store(StoreError::Unusable(_))),
                "{found:?}"
            );
        }
    }
}
