//! `standings erasures`: keeps the erasures of members in a file, and carries them out again after an older backup was restored.
//!
//! It works on Redis itself (`engine.rs`).

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;

use super::args::RedisArgs;
use super::engine::{MakeEngine, with_redis};
use super::{Failure, print_error};
use crate::core::Engine;
use crate::domain::ids::BoardId;
use crate::moderation::erasures::file::ErasureFile;
use crate::moderation::erasures::work::{self, Applied};

/// The exit status if nothing is left to do.
const DONE: u8 = 0;
/// The exit status if something is left to do: see the notes. With `--dry-run` also if members are to be erased.
const LEFT: u8 = 1;
/// The exit status if the command could not be completed.
const FAILED: u8 = 2;

/// Keep the erasures of members in a file, and carry them out again after a restore.
///
/// A backup brings back the members that were erased after it was made. `standings erasures export > FILE` writes what Redis knows
/// of erasures: keyed hashes of the members' ids, the key, and when each was erased, but no ids. `standings erasures apply FILE`
/// erases these members again from the restored data. Members that the data already knows as erased stay as they are, even if they
/// have returned since. A second application changes nothing.
///
/// Apply the file before the service starts. It also works while services run; then a member that is erased again also loses
/// what it got since the restore.
///
/// The exit status is 0 if nothing is left to do; 1 if a note names something that is, such as a deleted board that is back, or with
/// `--dry-run` if members are to be erased; and 2 if the command could not be completed.
#[derive(clap::Args, Clone, Debug)]
pub struct ErasuresArgs {
    /// `export` or `apply`.
    pub action: ErasuresAction,
    /// The file to apply.
    #[arg(required_if_eq("action", "apply"))]
    pub file: Option<PathBuf>,
    /// Export only this board, without the erasures on all boards.
    #[arg(long, value_parser = BoardId::parse, conflicts_with = "file")]
    pub board: Option<BoardId>,
    /// Only count the members that would be erased.
    #[arg(long, requires = "file")]
    pub dry_run: bool,
    /// The Redis with the data.
    #[command(flatten)]
    pub redis: RedisArgs,
}

/// What to do with erasures.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ErasuresAction {
    /// Write them to standard output.
    Export,
    /// Carry out those of a file.
    Apply,
}

/// Runs the command, until `stop` ends at the latest.
pub async fn command(
    args: ErasuresArgs,
    make_engine: MakeEngine,
    stop: impl Future<Output = ()>,
) -> ExitCode {
    let done = match (args.action, &args.file) {
        (ErasuresAction::Apply, Some(file)) => apply(&args, file, make_engine, stop).await,
        _ => export(&args, make_engine, stop).await,
    };
    match done {
        Ok(status) => status.into(),
        Err(error) => {
            print_error(&error);
            FAILED.into()
        }
    }
}

async fn export(
    args: &ErasuresArgs,
    make_engine: MakeEngine,
    stop: impl Future<Output = ()>,
) -> Result<u8, Failure> {
    if let Some(file) = &args.file {
        return Err(format!(
            "`export` writes to standard output: `standings erasures export > {}`",
            file.display()
        )
        .into());
    }
    let export = async |engine: Arc<Engine>| Ok(work::export(&engine, args.board.as_ref()).await?);
    let file = with_redis(&args.redis, make_engine, stop, export).await?;
    file.write(BufWriter::new(io::stdout().lock()))
        .map_err(|error| format!("the file can't be written: {error}"))?;
    Ok(DONE)
}

async fn apply(
    args: &ErasuresArgs,
    path: &Path,
    make_engine: MakeEngine,
    stop: impl Future<Output = ()>,
) -> Result<u8, Failure> {
    let file = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let apply = async |engine: Arc<Engine>| Ok(work::apply(&engine, &file, args.dry_run).await?);
    let applied = with_redis(&args.redis, make_engine, stop, apply).await?;
    print(&applied, args.dry_run, io::stdout().lock())
        .map_err(|error| format!("the report can't be written: {error}"))?;
    let is_open = args.dry_run && applied.members() + applied.everywhere > 0;
    Ok(match &applied {
        applied if applied.has_failed() => FAILED,
        applied if is_open || !applied.is_complete() => LEFT,
        _ => DONE,
    })
}

fn read(path: &Path) -> Result<ErasureFile, Failure> {
    let file = File::open(path)?;
    ErasureFile::read(BufReader::new(file)).map_err(|error| error.to_string().into())
}

fn print(applied: &Applied, is_trial: bool, mut out: impl Write) -> io::Result<()> {
    let done = if is_trial {
        "to be erased"
    } else {
        "erased again"
    };
    for (board, count) in &applied.erased {
        writeln!(out, "board {board}: {count} members {done}")?;
    }
    if applied.everywhere > 0 {
        let count = applied.everywhere;
        writeln!(
            out,
            "profiles, audit log and standing orders: {count} members {done}"
        )?;
    }
    for remark in &applied.remarks {
        writeln!(out, "note: {remark}")?;
    }
    let (boards, members) = (applied.boards, applied.members());
    writeln!(out, "{boards} boards, {members} members {done}")
}
