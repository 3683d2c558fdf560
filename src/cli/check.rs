//! `standings check`: looks for contradictions in the data in Redis, and repairs what follows from other data.
//!
//! It works on Redis itself (`engine.rs`), even while services use it.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use super::args::RedisArgs;
use super::engine::{MakeEngine, with_redis};
use super::{Failure, print_error};
use crate::check::{self, Repair, Report};
use crate::core::Engine;
use crate::domain::ids::BoardId;

/// The exit status if the data has no contradiction, or all were repaired.
const SOUND: u8 = 0;
/// The exit status if the data has a contradiction.
const UNSOUND: u8 = 1;
/// The exit status if the check could not be completed.
const UNKNOWN: u8 = 2;

/// Look for contradictions in the data in Redis, and repair them.
///
/// A repair never removes data that can be restored from other data. Where the correct value is unknown, it changes nothing
/// and reports both values. It asks before it removes anything; without a terminal it removes nothing, unless `--yes` is given.
///
/// The exit status is 0 if the data has no contradiction, or none is left after the repair; 1 if it has one; and 2 if the
/// check could not be completed.
#[derive(clap::Args, Clone, Debug)]
pub struct CheckArgs {
    /// The board to check; by default all.
    #[arg(value_parser = BoardId::parse)]
    pub board: Option<BoardId>,
    /// Repair what follows from other data. The rest is only reported.
    #[arg(long)]
    pub repair: bool,
    /// Remove without asking what a repair has to remove: entries that are listed twice, data that is built again when it is
    /// needed, and keys that are not needed.
    #[arg(long, requires = "repair")]
    pub yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The Redis to check.
    #[command(flatten)]
    pub redis: RedisArgs,
}

/// Runs the command, until `stop` ends at the latest.
pub async fn command(
    args: CheckArgs,
    make_engine: MakeEngine,
    stop: impl Future<Output = ()>,
) -> ExitCode {
    let checked = run(&args, make_engine, stop).await;
    let printed = checked.and_then(|report| {
        let printed = print(&report, args.json, io::stdout().lock());
        printed.map_err(|error| format!("the report can't be written: {error}"))?;
        Ok(report)
    });
    match printed {
        Ok(report) if report.is_sound() => SOUND.into(),
        Ok(_) => UNSOUND.into(),
        Err(error) => {
            print_error(&error);
            UNKNOWN.into()
        }
    }
}

async fn run(
    args: &CheckArgs,
    make_engine: MakeEngine,
    stop: impl Future<Output = ()>,
) -> Result<Report, Failure> {
    let check = async |engine: Arc<Engine>| check(&engine, args).await;
    with_redis(&args.redis, make_engine, stop, check).await
}

async fn check(engine: &Engine, args: &CheckArgs) -> Result<Report, Failure> {
    let repair = match (args.repair, args.yes) {
        (false, _) => Repair::None,
        (true, false) => Repair::Write,
        (true, true) => Repair::Remove,
    };
    let report = check::run(engine, args.board.as_ref(), repair).await?;
    let can_ask = !args.json && io::stdin().is_terminal() && io::stdout().is_terminal();
    if report.removals == 0 || !can_ask || !may_remove(&report).await? {
        return Ok(report);
    }
    Ok(check::run(engine, args.board.as_ref(), Repair::Remove).await?)
}

/// Shows what was found, and asks whether to remove what has to be removed.
async fn may_remove(report: &Report) -> Result<bool, Failure> {
    print(report, false, io::stdout().lock())?;
    write!(
        io::stdout(),
        "Remove what is marked \"to be removed\"? [y/N] "
    )?;
    io::stdout().flush()?;
    let read = || {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    };
    let answer = tokio::task::spawn_blocking(read).await??;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn print(report: &Report, is_json: bool, mut out: impl Write) -> io::Result<()> {
    if is_json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let found = match report.contradictions {
        0 => "no contradictions".to_owned(),
        count => format!("{count} contradictions, {} of them repaired", report.mended),
    };
    let found = match report.removals {
        0 => found,
        count => format!("{found}, {count} to be removed (--yes)"),
    };
    let (boards, standings) = (report.boards, report.standings);
    writeln!(out, "{boards} boards, {standings} standings: {found}")
}
