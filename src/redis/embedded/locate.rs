//! Finds a server program that is new enough.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::EmbeddedError;

/// The names of server programs, the preferred one first.
const PROGRAM_NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// A directory for programs without an installer, below the current directory.
const TOOLS_DIR: &str = ".tools";
/// The oldest usable major version: Redis 7.0. Valkey began with 7.2.
const VERSION_MAJOR_MIN: u32 = 7;
/// How long a program may take to print its version.
const VERSION_WAIT_MAX: Duration = Duration::from_secs(10);

/// The program to run: only `explicit` if given; otherwise the first usable one on the PATH, then in the tools directory.
/// If none is usable, the error is that of the first.
pub(super) async fn find_program(explicit: Option<&Path>) -> Result<PathBuf, EmbeddedError> {
    let candidates = match explicit {
        Some(program) => vec![program.to_path_buf()],
        None => candidates(
            &env::var_os("PATH").unwrap_or_default(),
            Path::new(TOOLS_DIR),
        ),
    };
    first_usable(candidates).await
}

pub(super) async fn first_usable(candidates: Vec<PathBuf>) -> Result<PathBuf, EmbeddedError> {
    let mut first_error = None;
    for program in candidates {
        match check(&program).await {
            Ok(program) => return Ok(program),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or(EmbeddedError::ProgramMissing))
}

/// Every executable file with a server's name, in the order in which to try them.
pub(super) fn candidates(path: &OsStr, tools: &Path) -> Vec<PathBuf> {
    let on_path = PROGRAM_NAMES
        .iter()
        .flat_map(|name| env::split_paths(path).map(move |dir| dir.join(name)));
    let in_tools = PROGRAM_NAMES.iter().map(|name| tools.join(name));
    on_path
        .chain(in_tools)
        .filter(|file| is_executable(file))
        .collect()
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The program's absolute path, if its version is usable.
///
/// Links are not resolved: Debian's `redis-server` is a link to `redis-check-rdb`, which goes by the name that it was
/// called with.
async fn check(program: &Path) -> Result<PathBuf, EmbeddedError> {
    let unusable = |error| EmbeddedError::ProgramUnusable(program.into(), error);
    let absolute = std::path::absolute(program).map_err(unusable)?;
    let mut command = Command::new(&absolute);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(VERSION_WAIT_MAX, command.output()).await;
    let output = output
        .map_err(|late| unusable(late.into()))?
        .map_err(unusable)?;
    let text = String::from_utf8_lossy(&output.stdout);
    match version(&text) {
        Some((major, _)) if major >= VERSION_MAJOR_MIN => Ok(absolute),
        Some((_, found)) => Err(EmbeddedError::ProgramTooOld(absolute, found.to_owned())),
        None => Err(unusable(io::Error::other("`--version` tells no version"))),
    }
}

/// The major version and the full one, from `Redis server v=7.0.15 sha=…`.
pub(super) fn version(text: &str) -> Option<(u32, &str)> {
    let version = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="))?;
    let major = version.split('.').next()?.parse().ok()?;
    Some((major, version))
}
