//! The program itself, with the Redis server that it starts.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::client::Client;
use super::redis::eventually;

/// A running `standings serve`; it is killed with this value.
pub struct Program {
    child: Child,
    log: Arc<Mutex<String>>,
    client: Client,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_standings"));
    command.arg("serve").args(args);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

impl Program {
    /// Serves with a private Redis server in this folder; returns when it is ready.
    pub async fn serve(data: &Path) -> Self {
        Self::start(&["--data-dir", data.to_str().unwrap()]).await
    }

    /// Serves beside others with this Redis.
    pub async fn serve_on(redis_url: &str) -> Self {
        Self::start(&["--redis-url", redis_url]).await
    }

    async fn start(args: &[&str]) -> Self {
        let args = [&["--listen", "127.0.0.1:0"], args].concat();
        let mut child = command(&args).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let copy = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                copy.lock().push_str(&(line + "\n"));
            }
        });
        let address = || {
            let log = log.lock();
            let (_, rest) = log.split_once("serving on ")?;
            Some(rest.split_once(';')?.0.to_owned())
        };
        eventually("the program serves", async || address().is_some()).await;
        let client = Client::new(&address().unwrap());
        eventually("the program is ready", async || {
            client.get("/readyz").await.status == 200
        })
        .await;
        Self { child, log, client }
    }

    /// Serves with settings that can't work; returns what it says.
    pub async fn serve_and_fail(args: &[&str]) -> String {
        Self::fail(&mut command(args)).await
    }

    /// The same with another search path for programs.
    pub async fn fail_with_path(path: &Path, args: &[&str]) -> String {
        Self::fail(command(args).env("PATH", path).current_dir(path)).await
    }

    async fn fail(command: &mut Command) -> String {
        let output = command.spawn().unwrap().wait_with_output().await.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// Runs a command of the program that needs no service; returns its exit status and what it says on standard output.
    pub async fn run_alone(args: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_standings"));
        let output = command.args(args).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text)
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs another command of the program against it; returns what it says on standard output, or on standard error
    /// if it fails.
    pub async fn run(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_standings"));
        let output = command.args(args).args(["--url", &self.client.base]);
        let output = output.output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() {
            Ok(text(output.stdout))
        } else {
            Err(text(output.stderr))
        }
    }

    /// Kills it without a warning; its Redis server is left over.
    pub fn kill(&mut self) {
        self.child.start_kill().unwrap();
    }

    /// Tells it to stop, and waits until it has.
    pub async fn stop(mut self) {
        let pid = self.child.id().unwrap().to_string();
        let told = Command::new("kill")
            .args(["-TERM", "--", &pid])
            .status()
            .await
            .unwrap();
        assert!(told.success());
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{status}: {}", self.log.lock());
    }
}
