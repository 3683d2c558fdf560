//! Finds a server program that is new enough.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{self, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fmt, io};

use tokio::process::Command;
use tokio::time::timeout;

use super::EmbeddedError;

/// The names of server programs, the preferred one first.
const PROGRAM_NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// Where `make setup` puts a program, in a clone.
const TOOLS_DIR: &str = ".tools";
/// The oldest usable major version: Redis 7.0. Valkey began with 7.2.
const VERSION_MAJOR_MIN: u32 = 7;
/// How long a program may take to print its version.
const VERSION_WAIT_MAX: Duration = Duration::from_secs(10);

/// The program to run: only `explicit` if given; otherwise the first usable one next to our own program, then on the PATH,
/// then in the tools directory of a clone. If none is usable, the error is that of the first.
pub(super) async fn find_program(explicit: Option<&Path>) -> Result<PathBuf, EmbeddedError> {
    let candidates = match explicit {
        Some(program) => vec![program.to_path_buf()],
        None => candidates(
            own_program().as_deref(),
            &env::var_os("PATH").unwrap_or_default(),
            is_in_clone().then_some(Path::new(TOOLS_DIR)),
        ),
    };
    first_usable(candidates).await
}

fn own_program() -> Option<PathBuf> {
    program_of(env::current_exe(), env::args_os().next())
}

/// Our own program: as the system reports it or, where `/proc` is missing (in a bare chroot), as it was called by its path.
pub(super) fn program_of(
    running: io::Result<PathBuf>,
    called: Option<OsString>,
) -> Option<PathBuf> {
    let is_path = |called: &PathBuf| called.components().nth(1).is_some();
    let called = || called.map(PathBuf::from).filter(is_path);
    running.ok().or_else(called)?.canonicalize().ok()
}

/// Whether our own program was built in the working directory, which is a clone then, and is trusted as the
/// program is. An installed program may be started in a directory where others put files.
pub fn is_in_clone() -> bool {
    let built = env::current_dir().and_then(|dir| dir.join("target").canonicalize());
    matches!((own_program(), built), (Some(program), Ok(built)) if program.starts_with(&built))
}

pub(super) async fn first_usable(candidates: Vec<PathBuf>) -> Result<PathBuf, EmbeddedError> {
    let mut first_error = None;
    for program in candidates {
        let absolute = match path::absolute(&program) {
            Ok(absolute) => release_of(&absolute).await.map(|_| absolute),
            Err(error) => Err(EmbeddedError::ProgramUnusable(program, error)),
        };
        match absolute {
            Ok(program) => return Ok(program),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or(EmbeddedError::ProgramMissing))
}

/// Every executable file with a server's name, in the order in which to try them.
pub(super) fn candidates(own: Option<&Path>, path: &OsStr, tools: Option<&Path>) -> Vec<PathBuf> {
    let named = |dir: &Path| PROGRAM_NAMES.map(|name| dir.join(name));
    let beside = own.into_iter().flat_map(|own| {
        let dir = own.parent().unwrap_or(own);
        named(dir)
            .into_iter()
            .filter(|file| is_as_trusted(file, own))
    });
    // An empty entry would be the working directory, where others may put files; so would an empty PATH.
    let dirs = || env::split_paths(path).filter(|dir| !dir.as_os_str().is_empty());
    let on_path = PROGRAM_NAMES
        .iter()
        .flat_map(|name| dirs().map(move |dir| dir.join(name)));
    let in_tools = tools.into_iter().flat_map(named);
    beside
        .chain(on_path)
        .chain(in_tools)
        .filter(|file| is_executable(file))
        .collect()
}

/// Whether a file next to our own program belongs to the same user, or to root: in a directory such as `/tmp`
/// anyone may put one there.
fn is_as_trusted(file: &Path, own: &Path) -> bool {
    let owner = |path: &Path| path.metadata().map(|meta| meta.uid());
    matches!((owner(file), owner(own)), (Ok(file), Ok(own)) if file == own || file == 0)
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Which server a program is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Release {
    /// `Redis` or `Valkey`.
    kind: String,
    version: String,
}

impl Release {
    /// Parses `Redis server v=7.0.15 sha=…`.
    pub(super) fn from_program(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let kind = words.next()?;
        let version = words.find_map(|word| word.strip_prefix("v="))?;
        Self::new(kind, version)
    }

    /// Parses what [`Display`](fmt::Display) writes.
    pub(super) fn from_note(text: &str) -> Option<Self> {
        let (kind, version) = text.trim().split_once(' ')?;
        Self::new(kind, version)
    }

    fn new(kind: &str, version: &str) -> Option<Self> {
        let release = Self {
            kind: kind.to_owned(),
            version: version.to_owned(),
        };
        (!release.numbers().is_empty()).then_some(release)
    }

    /// The parts of the version, without a suffix such as `-rc1`.
    fn numbers(&self) -> Vec<u32> {
        self.version
            .split(|c: char| !c.is_ascii_digit())
            .map_while(|part| part.parse().ok())
            .take(3)
            .collect()
    }

    /// Whether this server can go on with what another one has written. A newer one reads the files of an older one
    /// of its kind. The other way round, or from Redis to Valkey, that depends on the versions.
    pub(super) fn succeeds(&self, wrote: &Self) -> bool {
        self.kind == wrote.kind && self.numbers() >= wrote.numbers()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.version)
    }
}

/// Which server the program is, if its version is supported.
///
/// Links are not resolved: Debian's `redis-server` is a link to `redis-check-rdb`, which goes by the name that it was
/// called with.
pub(super) async fn release_of(program: &Path) -> Result<Release, EmbeddedError> {
    let unusable = |error| EmbeddedError::ProgramUnusable(program.into(), error);
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(VERSION_WAIT_MAX, command.output())
        .await
        .map_err(|late| unusable(late.into()))?
        .map_err(unusable)?;
    let release = Release::from_program(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| unusable(io::Error::other("`--version` prints no version")))?;
    if release.numbers() >= vec![VERSION_MAJOR_MIN] {
        Ok(release)
    } else {
        Err(EmbeddedError::ProgramTooOld(
            program.into(),
            release.version,
        ))
    }
}
