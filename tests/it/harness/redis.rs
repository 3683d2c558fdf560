//! A Redis server for one test: a child of the test, on a socket in a folder of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The longest wait for something that has to happen.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The pause between two looks whether it has happened.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until a condition holds, and fails the test if it never does.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < WAIT_MAX, "it never came true that {what}");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The server; it ends with this value.
pub struct RedisServer {
    directory: TempDir,
    child: Child,
}

impl RedisServer {
    pub async fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let child = spawn(directory.path());
        let server = Self { directory, child };
        server.wait_until_ready().await;
        server
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("redis.sock")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    async fn wait_until_ready(&self) {
        eventually("redis answers", async || {
            self.try_command("PING")
                .await
                .is_some_and(|pong| pong == "+PONG\r\n")
        })
        .await;
    }

    /// Kills the server without a warning; what it had acknowledged is in its append-only file.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again.
    pub async fn restart(&mut self) {
        self.child = spawn(self.directory.path());
        self.wait_until_ready().await;
    }

    /// Sends one command and returns the raw reply, up to 64 KiB.
    pub async fn command(&self, command: &str) -> String {
        self.try_command(command).await.unwrap()
    }

    async fn try_command(&self, command: &str) -> Option<String> {
        let mut stream = UnixStream::connect(self.socket()).await.ok()?;
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .await
            .ok()?;
        let mut reply = vec![0; 65_536];
        let length = stream.read(&mut reply).await.ok()?;
        reply.truncate(length);
        Some(String::from_utf8_lossy(&reply).into_owned())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have been killed by the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(directory: &Path) -> Child {
    let program =
        std::env::var_os("STANDINGS_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    Command::new(program)
        .args([
            "--port",
            "0",
            "--unixsocket",
            "redis.sock",
            "--save",
            "",
            "--appendonly",
            "yes",
        ])
        .args(["--appendfsync", "no", "--daemonize", "no", "--dir"])
        .arg(directory)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server can be started; `make test` installs it")
}
