//! The data directory: its two locks, which server wrote it, and the place of the socket.

use std::env;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::ErrorKind::{AlreadyExists, ConnectionRefused, NotADirectory, NotFound};
use std::io::{self, Write};
use std::mem;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::time::sleep;
use tracing::warn;

use super::locate::Release;
use super::{EmbeddedError, process_name, wire};

const SERVICE_LOCK: &str = "lock";
/// Locked by the server, through its standard input.
const SERVER_LOCK: &str = "server.lock";
/// Which server has written the data, such as `Valkey 9.1.2`.
const RELEASE_NOTE: &str = "server.version";
const SOCKET_NAME: &str = "redis.sock";
/// The longest path of a unix socket, in bytes, without the final NUL. Redis silently truncates longer ones.
const SOCKET_PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// The pause between two checks of a left-over that is shutting down.
const CLAIM_POLL: Duration = Duration::from_millis(50);

/// A data directory that only this service uses until the value is dropped.
#[derive(Debug)]
pub(super) struct Home {
    /// The canonical path, as the server itself reports it.
    pub(super) dir: PathBuf,
    /// Short enough for a unix socket.
    pub(super) socket: PathBuf,
    lock: File,
}

impl Home {
    /// Creates the directory if necessary, and locks it.
    pub(super) fn open(data_dir: &Path) -> Result<Self, EmbeddedError> {
        let failed = |error| EmbeddedError::DataDir(data_dir.into(), error);
        create_dir(data_dir).map_err(failed)?;
        let dir = data_dir.canonicalize().map_err(failed)?;
        let lock_path = dir.join(SERVICE_LOCK);
        let Some(lock) = lock_file(&lock_path).map_err(failed)? else {
            return Err(EmbeddedError::DataDirInUse(dir, read_pid(&lock_path)));
        };
        write_pid(&lock, std::process::id());
        let socket = socket_path(&dir, &env::temp_dir()).map_err(failed)?;
        Ok(Self { dir, socket, lock })
    }

    /// Waits until no other server is left, and returns the lock that a new server has to hold while it lives.
    ///
    /// A server that answers on our socket is shut down; one that only holds the lock (it is
    /// ending, or its socket was deleted) is waited for, for `wait_max` in all.
    pub(super) async fn claim(&self, wait_max: Duration) -> Result<File, EmbeddedError> {
        let begun = Instant::now();
        let mut told = false;
        let failed = |error| EmbeddedError::DataDir(self.dir.clone(), error);
        let lock_path = self.dir.join(SERVER_LOCK);
        loop {
            let reason = match self.dismiss().await {
                Err(reason) => reason,
                Ok(()) => match lock_file(&lock_path).map_err(failed)? {
                    Some(lock) => return Ok(lock),
                    None => format!("{} has not ended", process_name(read_pid(&lock_path))),
                },
            };
            if !mem::replace(&mut told, true) {
                warn!(reason, "waiting for another Redis server to end");
            }
            if begun.elapsed() >= wait_max {
                return Err(EmbeddedError::LeftOver(self.dir.clone(), reason));
            }
            sleep(CLAIM_POLL).await;
        }
    }

    /// Refuses a server that may misread the data: one of another kind than the server that wrote it, or an older one.
    pub(super) fn admit(&self, program: &Path, release: &Release) -> Result<(), EmbeddedError> {
        match self.written_by() {
            Some(wrote) if !release.succeeds(&wrote) => Err(EmbeddedError::OtherServer {
                dir: self.dir.clone(),
                wrote: wrote.to_string(),
                program: program.into(),
                found: release.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Notes which server writes the data from now on. Best effort: the server serves, even if the disk is full.
    pub(super) fn note_server(&self, release: &Release) {
        if self.written_by().as_ref() == Some(release) {
            return;
        }
        let new = self.dir.join(format!("{RELEASE_NOTE}.new"));
        let noted = fs::write(&new, format!("{release}\n"))
            .and_then(|()| fs::rename(&new, self.dir.join(RELEASE_NOTE)));
        if let Err(error) = noted {
            warn!(%error, "{RELEASE_NOTE} in the data directory can't be written");
        }
    }

    /// `None` before the first start, and in a directory from before this was recorded.
    fn written_by(&self) -> Option<Release> {
        Release::from_note(&fs::read_to_string(self.dir.join(RELEASE_NOTE)).ok()?)
    }

    /// Asks the server on our socket, if there is one, to shut down. `Ok`: nothing listens there any more; `Err`: which
    /// process does.
    ///
    /// A server closes its socket only after it has written and fsynced its file, so a refused connection proves that it
    /// won't write again, even if it didn't inherit our lock.
    async fn dismiss(&self) -> Result<(), String> {
        let peer = match UnixStream::connect(&self.socket).await {
            Ok(stream) => stream.peer_cred().ok().and_then(|peer| peer.pid()),
            // Nothing listens.
            Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", self.socket.display())),
        };
        let who = process_name(peer.and_then(|pid| pid.try_into().ok()));
        let dir = wire::ask(&self.socket, "CONFIG GET dir")
            .await
            .map_err(|error| format!("{who} does not answer: {error}"))?;
        if !dir.ends_with(&format!("\r\n{}", self.dir.display())) {
            return Err(format!(
                "{who} uses its socket, but for the directory {dir:?}"
            ));
        }
        // NOSAVE concerns snapshots, not the append-only file. Success has no reply.
        match wire::ask(&self.socket, "SHUTDOWN NOSAVE").await {
            Ok(refusal) if !refusal.is_empty() => Err(format!("{who} did not stop: {refusal}")),
            _ => Err(format!("{who} was asked to shut down")),
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(socket_dir) = self.socket.parent().filter(|parent| *parent != self.dir) {
            // Fails if the directory isn't empty, for example after a kill; the next start uses it again then.
            let _ = fs::remove_dir(socket_dir);
        }
        // Closing would be enough, unless another thread has just forked, with a copy of the descriptor.
        let _ = self.lock.unlock();
    }
}

/// Creates a directory and its parents, accessible to this user alone; an existing one stays unchanged.
fn create_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(dir) {
        // "File exists" would puzzle a user who gave the path of a file.
        Err(error) if error.kind() == AlreadyExists => Err(NotADirectory.into()),
        created => created,
    }
}

/// Opens and locks a file; `None` if it is locked already.
fn lock_file(path: &Path) -> io::Result<Option<File>> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Best effort: the number is only used in messages.
pub(super) fn write_pid(mut file: &File, pid: u32) {
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{pid}"));
}

fn read_pid(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// In the data directory, or in a private directory below `temp_dir` if that path is too long.
pub(super) fn socket_path(dir: &Path, temp_dir: &Path) -> io::Result<PathBuf> {
    let socket = dir.join(SOCKET_NAME);
    if fits_a_socket(&socket) {
        return Ok(socket);
    }
    let socket = private_dir(dir, temp_dir)?.join(SOCKET_NAME);
    if fits_a_socket(&socket) {
        return Ok(socket);
    }
    Err(io::Error::other(
        "its path and TMPDIR are both too long for a socket",
    ))
}

fn fits_a_socket(path: &Path) -> bool {
    path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX
}

/// A directory below `temp_dir` that nobody else can enter. It is named after the inode of the data
/// directory, so that the next run looks for a left-over server in the same place.
fn private_dir(dir: &Path, temp_dir: &Path) -> io::Result<PathBuf> {
    let meta = dir.metadata()?;
    let name = format!("standings-{:x}-{:x}", meta.dev(), meta.ino());
    let private = path::absolute(temp_dir)?.join(name);
    match DirBuilder::new().mode(0o700).create(&private) {
        Err(error) if error.kind() == AlreadyExists => {}
        created => return created.map(|()| private),
    }
    // Anyone may create names in a temporary directory, so an existing one is checked (without following links) before it
    // is trusted. Our user id is that of a socket's peer, if we are it.
    let found = private.symlink_metadata()?;
    let our_uid = UnixStream::pair()?.0.peer_cred()?.uid();
    if found.is_dir() && found.uid() == our_uid && found.mode() & 0o777 == 0o700 {
        return Ok(private);
    }
    Err(io::Error::other(format!(
        "{} exists, but others can write to it",
        private.display()
    )))
}
