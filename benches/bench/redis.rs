//! The Redis servers of the benchmark: without persistence.

use std::collections::HashSet;

use crate::Result;
pub use crate::kit::redis::RedisServer as Redis;
use crate::kit::redis::Reply;
use crate::kit::servers::RedisServers;

/// At how many keys one step of a scan looks.
const SCAN_STEP: &str = "100000";
/// What has a server keep nothing on a disk.
const IN_MEMORY: [&str; 2] = ["--appendonly", "no"];
/// For how long a server of a cluster may be busy before the others take it for dead, in milliseconds.
const BUSY_MS_MAX: [&str; 2] = ["--cluster-node-timeout", "15000"];

/// Starts a server.
pub async fn start() -> Redis {
    Redis::start_with(&[&["--port", "0"], &IN_MEMORY[..]].concat()).await
}

/// Starts a server that also listens on a port.
pub async fn start_on(port: u16) -> Redis {
    let port = port.to_string();
    Redis::start_with(&[&["--port", &port, "--bind", "127.0.0.1"], &IN_MEMORY[..]].concat()).await
}

/// Starts a cluster.
pub async fn start_cluster() -> RedisServers {
    RedisServers::start_cluster_with(&[IN_MEMORY, BUSY_MS_MAX].concat()).await
}

impl Redis {
    /// Runs one command, which has to work.
    pub async fn call(&self, words: &[&str]) -> Result<Reply> {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        match self.run(&bytes).await {
            Reply::Error(error) => Err(format!("{}: {error}", words[0]).into()),
            reply => Ok(reply),
        }
    }

    /// The same for a command whose reply is a number.
    pub async fn number(&self, words: &[&str]) -> Result<u64> {
        match self.call(words).await? {
            Reply::Integer(number) => Ok(number.try_into()?),
            other => Err(format!("{}: no number: {other:?}", words[0]).into()),
        }
    }

    /// The keys that match a pattern.
    pub async fn keys(&self, pattern: &str) -> Result<HashSet<String>> {
        let mut found = HashSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let scan = ["SCAN", &cursor, "MATCH", pattern, "COUNT", SCAN_STEP];
            let reply = self.call(&scan).await?;
            let [next, keys] = reply.list() else {
                return Err("SCAN replies a cursor and keys".into());
            };
            cursor = next.text();
            found.extend(keys.list().iter().map(Reply::text));
            if cursor == "0" {
                return Ok(found);
            }
        }
    }
}
