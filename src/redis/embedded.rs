//! The embedded server: a private `redis-server` (or `valkey-server`) for a service that was given
//! no `STANDINGS_REDIS_URL`.
//!
//! [`EmbeddedServer::start`] locks the data directory, finds a server program, starts it on a unix
//! socket with the append-only file on, and returns once it serves. A task then watches the server
//! and restarts it if it dies, until [`EmbeddedServer::stop`]. Unix only.
//!
//! What holds at all times:
//!
//! - **One service per data directory.** `<data_dir>/lock` is locked from before the first start
//!   until the server is gone.
//! - **One server per append-only file.** The server inherits, as its standard input, the lock on
//!   `<data_dir>/server.lock`, and none is started without that lock in hand. The kernel drops it
//!   when the last process that holds it is gone, so a server that outlived a killed service, or
//!   one that is still dying, keeps the next one out. (A server that somebody starts by hand on
//!   the same files, with neither this lock nor this socket, can't be seen.)
//! - **No server continues from half a write.** Before each start the end of the append-only file is checked, and an
//!   incomplete block of a script's writes is cut off (`journal.rs` says why).
//! - **No server misreads what another one wrote.** `<data_dir>/server.version` says which server wrote the data. One of
//!   another kind, or an older one, is not started on it.
//! - **The watched server is our own child.** One that an earlier run left behind is shut down
//!   over its socket and replaced, never adopted.
//! - **Signals are only sent to our own child.** A left-over is merely asked to shut down, and only after it has confirmed
//!   that its data directory is ours.
//!
//! The server appends a write to its file before it acknowledges it, so a killed server loses nothing that reached the
//! file; it fsyncs once a second, so a machine that loses power loses the last second or two. One gap remains: during a
//! slow fsync the server holds new writes back in memory for up to 2 s, and a SIGKILL at that moment loses them.

mod home;
mod journal;
mod locate;
mod process;
mod wire;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{error, info};

use self::home::Home;
pub use self::locate::is_in_clone;
use self::process::Server;

/// The wait before the first restart; it doubles with each further one.
const RESTART_DELAY_MIN: Duration = Duration::from_millis(50);
/// The longest wait between two restarts.
const RESTART_DELAY_MAX: Duration = Duration::from_secs(2);
/// A server that has served this long counts as stable: its next restart begins with the shortest delay.
const STEADY_AFTER: Duration = Duration::from_secs(10);
/// How long a server that an earlier run left behind may take to shut down.
const LEFT_OVER_WAIT_MAX: Duration = Duration::from_secs(30);

/// The settings of the embedded server.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// Holds the append-only file, the locks and, if its path is short enough, the socket.
    /// Created, for this user alone, if it is missing.
    pub data_dir: PathBuf,
    /// The server program (`STANDINGS_REDIS_SERVER`); without it one is searched for next to our own
    /// program, then on the PATH and, in a clone, in `.tools/`.
    pub server: Option<PathBuf>,
}

/// Why the embedded server can't be started. Each message stands on its own. It is one line, except for
/// [`ProgramMissing`](Self::ProgramMissing).
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// No server program was found.
    #[error(
        "no redis-server or valkey-server was found next to this program or on the PATH. Install one, \
         or set STANDINGS_REDIS_URL:\n\
         \x20 Debian, Ubuntu  apt-get install redis-server\n\
         \x20 Fedora          dnf install valkey\n\
         \x20 Alpine          apk add valkey\n\
         \x20 macOS           brew install valkey\n\
         \x20 Windows         run standings in WSL2 or in Docker Desktop"
    )]
    ProgramMissing,
    /// The program can't be run, or doesn't say which server it is.
    #[error("{} can't be run as the Redis server: {}", .0.display(), .1)]
    ProgramUnusable(PathBuf, io::Error),
    /// The program is a server of too old a version, the one given.
    #[error("{} is version {}; Redis 7.0 or any Valkey is needed", .0.display(), .1)]
    ProgramTooOld(PathBuf, String),
    /// The data was written by a server of another kind, or by a newer one.
    #[error(
        "the data in {} was written by {wrote}, and {} is {found}: set STANDINGS_REDIS_SERVER to the program of \
         {wrote} or of a newer version (docs/redis.md says how to change the kind of server)", .dir.display(), .program.display()
    )]
    OtherServer {
        /// The data directory.
        dir: PathBuf,
        /// Which server wrote the data.
        wrote: String,
        /// The program that was to go on with it.
        program: PathBuf,
        /// Which server that is.
        found: String,
    },
    /// The data directory can't be created or used.
    #[error("the data directory {} can't be used: {}", .0.display(), .1)]
    DataDir(PathBuf, io::Error),
    /// Another running service, of the given process id if it could be read, uses the directory.
    #[error("the data directory {} is in use by {}", .0.display(), process_name(*.1))]
    DataDirInUse(PathBuf, Option<u32>),
    /// Another server has the files or the socket of the directory, and doesn't go away: which process it is, and its
    /// reply.
    #[error("another Redis server runs in {}: {}", .0.display(), .1)]
    LeftOver(PathBuf, String),
    /// The server ended or fell silent before it served: its exit status and last log line.
    #[error("the Redis server did not start: {0}")]
    NotServing(String),
}

/// The socket of the private server of an existing data directory, whether the server runs or not.
///
/// # Errors
///
/// [`EmbeddedError::DataDir`]
pub fn socket_in(data_dir: &Path) -> Result<PathBuf, EmbeddedError> {
    let failed = |error| EmbeddedError::DataDir(data_dir.into(), error);
    let dir = data_dir.canonicalize().map_err(failed)?;
    home::socket_path(&dir, &std::env::temp_dir()).map_err(failed)
}

fn process_name(pid: Option<u32>) -> String {
    pid.map_or("another process".into(), |pid| format!("process {pid}"))
}

/// The state of the embedded server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// It serves.
    Running {
        /// Its process id.
        pid: u32,
    },
    /// It ended unexpectedly, and is being restarted or is loading its data.
    Restarting {
        /// Counts from 1; reset once a server has served for a while.
        attempt: u32,
    },
    /// It was shut down, or the runtime that watched it has ended.
    Stopped,
}

/// A running private server.
///
/// Await [`stop`](Self::stop) before the process ends. A value that is merely dropped
/// shuts the server down in the background; where the runtime ends first, the server is killed.
#[derive(Debug)]
pub struct EmbeddedServer {
    socket: PathBuf,
    state: watch::Receiver<ServerState>,
    stop: watch::Sender<bool>,
}

impl EmbeddedServer {
    /// Starts a server on `config.data_dir` and returns once it serves.
    ///
    /// This takes as long as the server needs to load its append-only file, which for a large one
    /// is minutes; the progress is logged. Dropping the future kills the half-started server. So
    /// have the signal handlers in place before: a signal that ends the process instead leaves
    /// the server running, until the next start replaces it.
    ///
    /// # Errors
    ///
    /// See [`EmbeddedError`]; nothing is left running then.
    pub async fn start(config: EmbeddedConfig) -> Result<Self, EmbeddedError> {
        let program = locate::find_program(config.server.as_deref()).await?;
        let home = Home::open(&config.data_dir)?;
        let mut slot = None;
        let pid = launch(&program, &home, &mut slot).await?;
        let socket = home.socket.clone();
        info!(
            pid,
            program = %program.display(),
            socket = %socket.display(),
            "the embedded Redis server is ready"
        );
        let (tell_state, state) = watch::channel(ServerState::Running { pid });
        let (stop, told_to_stop) = watch::channel(false);
        let watcher = Watcher {
            slot,
            program,
            home,
            state: tell_state,
        };
        tokio::spawn(watcher.run(told_to_stop));
        Ok(Self {
            socket,
            state,
            stop,
        })
    }

    /// The unix socket to connect to; it stays the same across restarts.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The state as a channel, for those who wait for it to change. A closed channel means
    /// [`ServerState::Stopped`].
    pub fn watch_state(&self) -> watch::Receiver<ServerState> {
        self.state.clone()
    }

    /// Shuts the server down and returns once it is gone and the data directory is free.
    ///
    /// The server writes and fsyncs its file first; one that hasn't ended after 20 s is killed.
    /// It may be called at any time, during a restart too, more than once and from many tasks.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let mut state = self.state.clone();
        // An error means that the watcher, and so its server, has ended.
        let _ = state.wait_for(|state| *state == ServerState::Stopped).await;
    }
}

/// Owns the child and everything that it needs, in one task.
///
/// When the runtime ends, the fields drop in this order: first the server, which kills it, then its home, which unlocks it.
struct Watcher {
    /// Empty between the end of one server and the spawn of the next.
    slot: Option<Server>,
    program: PathBuf,
    home: Home,
    state: watch::Sender<ServerState>,
}

impl Watcher {
    /// Watches until it has to stop, or its handle is dropped.
    async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.keep_alive() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        if let Some(server) = &mut self.slot {
            server.stop(&self.home.socket).await;
        }
        // The locks are released first: a caller that sees `Stopped` may start another server here.
        drop((self.slot, self.home));
        info!("the embedded Redis server has stopped");
        self.state.send_replace(ServerState::Stopped);
    }

    /// Never returns. It can be dropped at any await: a server that was spawned is in the slot.
    async fn keep_alive(&mut self) {
        let mut attempt = 0;
        loop {
            let serving_since = Instant::now();
            if let Some(server) = &mut self.slot {
                let status = server.exited().await;
                error!(
                    status,
                    "the embedded Redis server ended unexpectedly; restarting it"
                );
            }
            self.slot = None;
            if serving_since.elapsed() >= STEADY_AFTER {
                attempt = 0;
            }
            attempt = self.restart(attempt).await;
        }
    }

    /// Tries until a server serves again, and returns the number of the attempt that did it.
    ///
    /// No failure is final here. The server has served these files before, so what stops it now
    /// (a full disk, too little memory, an upgrade of its program) can pass.
    async fn restart(&mut self, mut attempt: u32) -> u32 {
        loop {
            attempt = attempt.saturating_add(1);
            self.state.send_replace(ServerState::Restarting { attempt });
            sleep(restart_delay(attempt)).await;
            match launch(&self.program, &self.home, &mut self.slot).await {
                Ok(pid) => {
                    info!(pid, attempt, "the embedded Redis server runs again");
                    self.state.send_replace(ServerState::Running { pid });
                    return attempt;
                }
                Err(error) => error!(%error, attempt, "the embedded Redis server did not restart"),
            }
        }
    }
}

/// Starts a server in the empty `slot`, waits until it serves, and returns its process id.
///
/// The child is in the slot as soon as it is spawned, so a caller that drops this future still holds it. After an error it
/// has ended.
async fn launch(
    program: &Path,
    home: &Home,
    slot: &mut Option<Server>,
) -> Result<u32, EmbeddedError> {
    // At each start, since an upgrade may have replaced the program.
    let release = locate::release_of(program).await?;
    home.admit(program, &release)?;
    let lock = home.claim(LEFT_OVER_WAIT_MAX).await?;
    let mended = journal::mend(&home.dir).await;
    mended.map_err(|error| EmbeddedError::DataDir(home.dir.clone(), error))?;
    let server = slot.insert(Server::spawn(program, home, lock)?);
    let outcome = server.serves(&home.socket).await.map(|()| server.pid);
    if outcome.is_err() {
        server.kill().await;
        *slot = None;
    } else {
        // Not before: a server that can't read the data has written nothing.
        home.note_server(&release);
    }
    outcome
}

/// The wait before a restart; attempts count from 1.
fn restart_delay(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(u32::BITS - 1);
    RESTART_DELAY_MIN
        .saturating_mul(1 << doublings)
        .min(RESTART_DELAY_MAX)
}
