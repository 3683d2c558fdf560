//! First contact: checks that a server can be used, before the service works with it.

use fred::types::Value;
use futures::future::join_all;

use super::decode::decode;
use super::dispatch::Store;
use super::failure::{CLUSTER, Failure, PERMISSION, RELEASE};
use super::node::Node;
use super::reply::info_fields;
use super::{StoreError, keys, script, tls};

/// The first release with scripts that begin with `#!lua`.
const SERVER_MAJOR_MIN: u32 = 7;
/// Commands used directly, in addition to those in scripts and in the checks here.
const COMMANDS: &str = "HSETNX MGET SMEMBERS SRANDMEMBER ZRANDMEMBER HSCAN SSCAN ZSCAN ZREVRANK";

impl Store {
    /// Checks that every connection is up, and that all servers answer, can be used, and have the scripts; loads missing
    /// ones. [`StoreError::Unusable`] means that waiting does not help.
    pub async fn prepare(&self) -> Result<(), StoreError> {
        let is_cluster = self.topology.is_cluster();
        let nodes = self.topology.nodes();
        all(nodes.iter().map(async |node| {
            node.check_connected()?;
            let info: String = node.readers.command("INFO", vec!["server".into()]).await?;
            check_server(&info, is_cluster).map_err(Failure::from)
        }))
        .await?;
        if !self.topology.is_complete() {
            return Err(StoreError::Unavailable(
                "no server has some of the slots".into(),
            ));
        }
        let nodes = self.topology.nodes();
        all(nodes.iter().map(async |node| {
            node.load_scripts().await?;
            check_permissions(node).await
        }))
        .await?;
        self.check_format().await
    }

    /// The address for people, without user and password.
    pub fn address(&self) -> String {
        self.topology.access.address()
    }

    /// Which server has no connection, and why; `None` if all are connected.
    pub fn outage(&self) -> Option<String> {
        self.topology.nodes().iter().find_map(|node| {
            let address = node.access.address();
            match node.check_connected().err()? {
                StoreError::Unavailable(reason) => {
                    let reason = reason.strip_prefix("it ").unwrap_or(&reason);
                    Some(format!("Redis at {address} {reason}"))
                }
                StoreError::Unusable(reason) => {
                    Some(format!("Redis at {address} can't be used: {reason}"))
                }
                error => Some(format!("Redis at {address}: {error}")),
            }
        })
    }

    /// Checks whether an unreachable server speaks TLS although its URL says otherwise, or vice versa; then fails with
    /// [`StoreError::Unusable`].
    pub async fn check_protocol(&self) -> Result<(), StoreError> {
        tls::check_protocol(&self.topology.access.config).await
    }
}

/// All have to succeed; errors that waiting can't fix come first.
async fn all(
    checks: impl Iterator<Item = impl Future<Output = Result<(), Failure>>>,
) -> Result<(), StoreError> {
    let worst = join_all(checks)
        .await
        .into_iter()
        .filter_map(Result::err)
        .map(StoreError::from)
        .max_by_key(|error| matches!(error, StoreError::Unusable(_)));
    worst.map_or(Ok(()), Err)
}

fn check_server(info: &str, is_cluster: bool) -> Result<(), StoreError> {
    let fields = info_fields(info);
    let field = |name: &str| fields.get(name).copied();
    let version = field("redis_version").unwrap_or("another product");
    let major = version.split('.').next().and_then(|text| text.parse().ok());
    if major.is_none_or(|major: u32| major < SERVER_MAJOR_MIN) {
        return Err(StoreError::Unusable(format!("{RELEASE}, not {version}")));
    }
    match field("redis_mode").or_else(|| field("server_mode")) {
        Some("cluster") if !is_cluster => Err(StoreError::Unusable(
            "it is a node of a cluster: use redis-cluster:// or rediss-cluster:// in its URL"
                .into(),
        )),
        Some("standalone") if is_cluster => Err(StoreError::Unusable(CLUSTER.into())),
        _ => Ok(()),
    }
}

/// Checks that the user has all permissions that are needed.
async fn check_permissions(node: &Node) -> Result<(), Failure> {
    let mut args: Vec<Value> = vec![keys::LIVE.into()];
    let commands = script::commands().into_iter().chain(COMMANDS.split(' '));
    args.extend(commands.map(Value::from));
    let names: Vec<String> = decode(node.run(&script::REFUSED, args).await?)?;
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join(" ");
    let text = format!("{PERMISSION} (missing, on keys that begin with st: {names})");
    Err(StoreError::Unusable(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_new_enough_and_of_the_kind_that_its_url_says() {
        let info = |fields: &str| format!("# Server\r\n{fields}\r\nos:Linux\r\n");
        let redis = info("redis_version:7.0.0\r\nredis_mode:standalone");
        assert!(check_server(&redis, false).is_ok());
        let valkey = info("redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nserver_mode:cluster");
        assert!(check_server(&valkey, true).is_ok());
        for (info, is_cluster, part) in [
            (redis, true, "redis://"),
            (valkey, false, "redis-cluster://"),
            (
                info("redis_version:6.2.14\r\nredis_mode:standalone"),
                false,
                "not 6.2.14",
            ),
            (info("garnet_version:1.0"), false, "another product"),
        ] {
            let error = check_server(&info, is_cluster).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
