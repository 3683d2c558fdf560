//! The Redis server of the benchmark: on a socket in a folder of its own, without persistence.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::Result;
use crate::process::Process;

/// At how many keys one step of a scan looks.
const SCAN_STEP: &str = "100000";

/// The server; it ends with this value.
pub struct Redis {
    process: Process,
    directory: TempDir,
}

impl Redis {
    /// Starts a server and waits for it.
    pub async fn start() -> Result<Self> {
        Self::start_with(&["--port", "0"]).await
    }

    /// The same with these arguments.
    pub async fn start_with(arguments: &[&str]) -> Result<Self> {
        let directory = TempDir::new()?;
        let program =
            std::env::var_os("STANDINGS_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let process = Process::start(
            Command::new(program)
                .args(arguments)
                .args(["--unixsocket", "redis.sock", "--save", ""])
                .args(["--appendonly", "no", "--daemonize", "no", "--dir"])
                .arg(directory.path())
                .current_dir(directory.path()),
        )?;
        let mut redis = Self { process, directory };
        let socket = redis.socket();
        redis
            .process
            .wait_until(async || {
                cli(&socket, &["PING"])
                    .await
                    .is_ok_and(|pong| pong == "PONG")
            })
            .await?;
        Ok(redis)
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Its process' number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Runs one command, and returns the reply as `redis-cli` shows it.
    pub async fn command(&self, words: &[&str]) -> Result<String> {
        cli(&self.socket(), words).await
    }

    /// The same for a command whose reply is a number.
    pub async fn number(&self, words: &[&str]) -> Result<f64> {
        Ok(self.command(words).await?.parse()?)
    }

    /// The keys that match a pattern.
    pub async fn keys(&self, pattern: &str) -> Result<HashSet<String>> {
        let mut found = HashSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let scan = ["SCAN", &cursor, "MATCH", pattern, "COUNT", SCAN_STEP];
            let reply = self.command(&scan).await?;
            let mut lines = reply.lines().map(ToOwned::to_owned);
            cursor = lines.next().ok_or("SCAN has no reply")?;
            // An empty list is an empty line.
            found.extend(lines.filter(|key| !key.is_empty()));
            if cursor == "0" {
                return Ok(found);
            }
        }
    }
}

async fn cli(socket: &std::path::Path, words: &[&str]) -> Result<String> {
    let output = tokio::process::Command::new("redis-cli")
        .arg("-e")
        .arg("-s")
        .arg(socket)
        .args(words)
        .output()
        .await
        .map_err(|error| format!("redis-cli can't be started: {error}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("redis-cli failed: {error}").into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
