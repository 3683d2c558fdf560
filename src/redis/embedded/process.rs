//! One server process: its settings, its log, and how it is started and stopped.

use std::env;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::home::{Home, write_pid};
use super::{EmbeddedError, wire};

/// How long a server may be silent before it serves: from its start, or since its last output.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// How long a server may take to write and fsync its file before it is killed.
const SHUTDOWN_WAIT_MAX: Duration = Duration::from_secs(20);
/// The pause between two requests to shut down.
const SHUTDOWN_RETRY: Duration = Duration::from_millis(250);
/// The pause between two questions to a server that starts.
const START_POLL: Duration = Duration::from_millis(20);
/// The pause between two log lines about a file that is being loaded.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// The longest line that is logged as one, in bytes.
const LOG_LINE_BYTES_MAX: u64 = 4096;
/// How long the last log line of an ended server may take to arrive.
const LOG_WAIT_MAX: Duration = Duration::from_millis(500);

/// All settings but the paths. With arguments alone, a server reads no configuration file.
const SETTINGS: [(&str, &str); 15] = [
    ("--daemonize", "no"),
    ("--port", "0"),
    ("--unixsocketperm", "700"),
    ("--save", ""),
    ("--appendonly", "yes"),
    ("--appendfsync", "everysec"),
    ("--aof-load-truncated", "yes"),
    // Boards must never be evicted, no matter how much memory they take.
    ("--maxmemory", "0"),
    ("--maxmemory-policy", "noeviction"),
    ("--lazyfree-lazy-expire", "yes"),
    ("--lazyfree-lazy-server-del", "yes"),
    ("--lazyfree-lazy-user-del", "yes"),
    ("--lazyfree-lazy-user-flush", "yes"),
    ("--enable-debug-command", "no"),
    ("--enable-module-command", "no"),
];

/// Parts of lines that Redis 7.0 marks as warnings on every start and stop.
const NOT_WARNINGS: [&str; 7] = [
    "oO0OoO0OoO0Oo",
    "Redis version=",
    "Configuration loaded",
    "Server initialized",
    "User requested shutdown",
    "is now ready to exit",
    // docs/redis.md says what to do about it.
    "Memory overcommit must be enabled",
];

/// A server that is our child. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) pid: u32,
    child: Child,
    /// Ends with the process, and returns the last line of its log that is not empty.
    log: JoinHandle<String>,
}

impl Server {
    /// Starts a server, which inherits the lock of its home as its standard input.
    pub(super) fn spawn(program: &Path, home: &Home, lock: File) -> Result<Self, EmbeddedError> {
        let failed = |error| EmbeddedError::ProgramUnusable(program.into(), error);
        // The lock is held while either is open.
        let note = lock.try_clone().map_err(failed)?;
        let (output, stdout) = io::pipe().map_err(failed)?;
        let stderr = stdout.try_clone().map_err(failed)?;
        let output = pipe::Receiver::from_owned_fd(output.into()).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(SETTINGS.iter().flat_map(|(name, value)| [name, value]));
        command
            .arg("--dir")
            .arg(&home.dir)
            .arg("--unixsocket")
            .arg(&home.socket);
        command.stdin(lock).stdout(stdout).stderr(stderr);
        // Its own group: Ctrl-C must not reach it while the service still drains requests.
        command.process_group(0).kill_on_drop(true);
        set_environment(&mut command);
        let child = command.spawn().map_err(failed)?;
        // A child has an id until it was waited for.
        let pid = child.id().unwrap_or_default();
        // For the message if this server is left over.
        write_pid(&note, pid);
        Ok(Self {
            pid,
            child,
            log: tokio::spawn(relay(output)),
        })
    }

    /// Returns once the server serves; call it only once. Loading a large file has no time limit; silence has one.
    pub(super) async fn serves(&mut self, socket: &Path) -> Result<(), EmbeddedError> {
        let status = tokio::select! {
            biased;
            status = self.exited() => status,
            served = answers(socket) => return served,
        };
        let log = timeout(LOG_WAIT_MAX, &mut self.log)
            .await
            .ok()
            .and_then(Result::ok)
            .unwrap_or_default();
        Err(EmbeddedError::NotServing(format!(
            "{status}: {log} (if a file is damaged, restore a backup of the data directory)"
        )))
    }

    /// Waits for the process to end, and returns its exit status in words. May be dropped and called again.
    pub(super) async fn exited(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Shuts the server down after it has written and fsynced its file; kills it if that takes too long.
    pub(super) async fn stop(&mut self, socket: &Path) {
        let ended = async {
            loop {
                // Asked repeatedly, since it may not listen yet. NOSAVE concerns snapshots, not the append-only file;
                // without it, a server busy with a script refuses.
                let answer = wire::ask(socket, "SHUTDOWN NOSAVE").await;
                debug!(?answer, "asked the embedded Redis server to shut down");
                if timeout(SHUTDOWN_RETRY, self.exited()).await.is_ok() {
                    return;
                }
            }
        };
        if timeout(SHUTDOWN_WAIT_MAX, ended).await.is_err() {
            warn!(
                pid = self.pid,
                "the embedded Redis server does not shut down; killing it"
            );
            self.kill().await;
        }
    }

    /// Kills the process if it still runs, and waits for its end.
    pub(super) async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }
}

/// The service's environment, without variables that don't concern the server.
fn set_environment(command: &mut Command) {
    // Our settings hold API keys.
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"STANDINGS_") {
            command.env_remove(name);
        }
    }
    // Strings compare by bytes in every locale. (The setting `locale-collate` came with 7.2.)
    command.env("LC_ALL", "C");
}

/// Returns once PING gets PONG, or the error of a server that serves but can't write to its disk.
async fn answers(socket: &Path) -> Result<(), EmbeddedError> {
    let mut heard_at = Instant::now();
    let mut told_at = heard_at;
    loop {
        match wire::ask(socket, "PING").await {
            Ok(reply) if reply == "+PONG" || reply.starts_with("-MISCONF") => return Ok(()),
            // Clients may find a restarted server before we do, and keep it busy.
            Ok(reply) if reply.starts_with("-LOADING") || reply.starts_with("-BUSY") => {
                heard_at = Instant::now();
            }
            _ if heard_at.elapsed() >= SILENCE_MAX => {
                let silence = format!("no answer for {} s", SILENCE_MAX.as_secs());
                return Err(EmbeddedError::NotServing(silence));
            }
            _ => {}
        }
        if told_at.elapsed() >= PROGRESS_EVERY {
            told_at = Instant::now();
            tell_progress(socket).await;
        }
        sleep(START_POLL).await;
    }
}

async fn tell_progress(socket: &Path) {
    let info = wire::ask(socket, "INFO persistence")
        .await
        .unwrap_or_default();
    let percent = info
        .lines()
        .find_map(|line| line.strip_prefix("loading_loaded_perc:"));
    info!(
        percent,
        "waiting for the embedded Redis server to load its data"
    );
}

/// Copies a server's output to our log, and returns its last line.
///
/// It continues until every process with the other end of the pipe has ended: a full pipe would block the server.
async fn relay(output: pipe::Receiver) -> String {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    let mut last = String::new();
    while let Ok(1..) = (&mut output)
        .take(LOG_LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .await
    {
        let text = String::from_utf8_lossy(&line);
        let (is_warning, message) = read_log_line(text.trim_end());
        if is_warning {
            warn!(target: "redis", "{message}");
        } else {
            debug!(target: "redis", "{message}");
        }
        if !message.is_empty() {
            message.clone_into(&mut last);
        }
        line.clear();
    }
    last
}

/// Whether a line is a warning, and its message: `7286:M 21 Nov 2026 06:16:39.369 # Message`.
/// A line in any other form is part of a crash report or a complaint about a setting.
pub(super) fn read_log_line(line: &str) -> (bool, &str) {
    let mut words = line.splitn(7, ' ').skip(5);
    match (words.next(), words.next()) {
        (Some("." | "-" | "*"), Some(message)) => (false, message),
        (Some("#"), Some(message)) => (
            !NOT_WARNINGS
                .iter()
                .any(|harmless| message.contains(harmless)),
            message,
        ),
        _ => (!line.is_empty(), line),
    }
}
