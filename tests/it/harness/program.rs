//! The program itself, with the Redis server that it starts.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::PATIENT;
use super::client::Client;
use super::redis::eventually;
use crate::kit::process::came_true;

/// A running `standings serve`; it is killed with this value.
pub struct Program {
    child: Child,
    log: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
    client: Client,
}

/// The program with these arguments, without the settings of those who run the tests.
pub fn without_settings(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_standings"));
    command.args(args);
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("STANDINGS_") && name_text != "STANDINGS_REDIS_SERVER" {
            command.env_remove(&name);
        }
    }
    command
}

/// `standings serve`, without the settings of those who run the tests.
pub fn command(args: &[&str]) -> Command {
    let mut command = without_settings(&["serve"]);
    command.args(args);
    command.env("STANDINGS_TIMEOUT_FACTOR", PATIENT.to_string());
    as_child(&mut command);
    command
}

/// Reads nothing, is heard on standard error, and ends with the test.
fn as_child(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
}

fn with_server<'a>(data: &'a Path, server: &'a Path) -> [&'a str; 4] {
    let [data, server] = [data, server].map(|path| path.to_str().unwrap());
    ["--data-dir", data, "--redis-server", server]
}

impl Program {
    /// Serves with a private Redis server in this folder; returns when it is ready.
    pub async fn serve(data: &Path) -> Self {
        Self::start(&["--data-dir", data.to_str().unwrap()]).await
    }

    /// The same with this program as its Redis server.
    pub async fn serve_with(data: &Path, server: &Path) -> Self {
        Self::start(&with_server(data, server)).await
    }

    /// The same, but is killed after this time, ready or not.
    pub async fn serve_for(time: Duration, data: &Path, server: &Path) {
        let args = [&["--listen", "127.0.0.1:0"], &with_server(data, server)[..]].concat();
        let mut child = command(&args).stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(time).await;
        child.kill().await.unwrap();
    }

    /// Serves beside others with this Redis.
    pub async fn serve_on(redis_url: &str) -> Self {
        Self::start(&["--redis-url", redis_url]).await
    }

    /// The same where the certificates in this file are trusted, and no others.
    pub async fn serve_on_trusting(redis_url: &str, certificates: &Path) -> Self {
        let args = ["--listen", "127.0.0.1:0", "--redis-url", redis_url];
        Self::run_until_ready(command(&args).env("SSL_CERT_FILE", certificates)).await
    }

    /// Does the background work beside others with this Redis, and answers those who watch over it.
    pub async fn work_on(redis_url: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_standings"));
        command.args(["worker", "--worker-listen", "127.0.0.1:0", "--redis-url"]);
        Self::run_until_ready(command.arg(redis_url)).await
    }

    /// Has it stop where it is, or go on.
    pub async fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { "-STOP" } else { "-CONT" };
        let id = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args([signal, "--", &id]).status();
        assert!(sent.await.unwrap().success());
    }

    /// Serves as a process that can't have more file descriptors than this.
    pub async fn serve_with_descriptors(count: u32, data: &Path) -> Self {
        let limited = format!("ulimit -n {count} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_standings"), "serve"]);
        command
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data);
        Self::run_until_ready(&mut command).await
    }

    async fn start(args: &[&str]) -> Self {
        Self::run_until_ready(&mut command(&[&["--listen", "127.0.0.1:0"], args].concat())).await
    }

    /// Serves as this command does, whose address has the port 0 or none; returns when it is ready.
    pub async fn run_until_ready(command: &mut Command) -> Self {
        let mut child = as_child(command).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let copy = Arc::clone(&log);
        let reading = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                copy.lock().push_str(&(line + "\n"));
            }
        });
        let address = || {
            let log = log.lock();
            let (_, rest) = log.split_once("serving on ")?;
            Some(rest.split_once(';')?.0.to_owned())
        };
        came_true(async || address().is_some() || reading.is_finished()).await;
        let address = address().unwrap_or_else(|| panic!("it does not serve: {}", log.lock()));
        let client = Client::new(&address);
        eventually("the program is ready", async || {
            client.get("/readyz").await.status == 200
        })
        .await;
        Self {
            child,
            log,
            reading,
            client,
        }
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

    /// What it has said.
    pub fn log(&self) -> String {
        self.log.lock().clone()
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
        let output = command
            .args(args)
            .args(["--url", &self.client.base])
            .output()
            .await
            .unwrap();
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

    /// Waits until one that was killed is gone, and its data directory is free.
    pub async fn gone(&mut self) {
        self.child.wait().await.unwrap();
    }

    /// Kills it, and waits until it is gone; returns what it has said.
    pub async fn die(mut self) -> String {
        self.child.kill().await.unwrap();
        self.log()
    }

    /// Tells it to stop, and waits until it has; returns all that it has said.
    pub async fn stop(mut self) -> String {
        let status = stop(&mut self.child).await;
        self.reading.await.unwrap();
        let log = self.log.lock().clone();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

/// Tells a process to stop, and waits until it has.
pub async fn stop(child: &mut Child) -> ExitStatus {
    let pid = child.id().unwrap().to_string();
    let told = Command::new("kill").args(["-TERM", "--", &pid]).status();
    assert!(told.await.unwrap().success());
    child.wait().await.unwrap()
}
