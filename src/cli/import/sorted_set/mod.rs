//! `standings import --from-redis` and `standings compare`: bring the members of another program's sorted sets over to a
//! board, and tell how far the two agree.
//!
//! ```text
//! names.rs ─ which sorted sets, for which periods
//!    └▶ copy.rs ─ their members, checked; times.rs ─ the time of each event
//!          └▶ transfer.rs ─ for 500 members at a time: scores there, scores here; sending.rs ─ POST /v1/events
//!                └▶ report.rs ─ what was sent, and what differs
//! ```
//!
//! `target.rs` is the board, and knows what must be true of it. `args.rs` has the options.
//!
//! - **Names** come from a hash of the other Redis, for the members of each chunk, as profiles.
//! - **Nothing is sent before all of it was checked**: the board, the names of the sorted sets, and every score.
//! - **Each member is one event**, with an old time, so that running periods stay empty. The times keep the order of equal
//!   scores. Only what `--sync` sends to a board with `last` is as new as what it replaces.
//! - **Again is safe.** Only what is missing here is sent. A member without a score gets that of the sorted set, in an event
//!   whose id is made of the names of both: sent twice, it counts once. A member with another score is left alone, unless
//!   `--sync` asks for it. Then the difference must be the same a second later, so that events on their way to both are not
//!   taken for differences; and the id is made of the two scores, too.
//! - **A Redis that is away for a while**, or was replaced, is asked again.

mod args;
mod copy;
mod names;
mod report;
mod sending;
mod target;
mod times;
mod transfer;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub use self::args::{CompareArgs, SortedSetArgs};

pub(super) use self::args::{Task, Work};
use self::copy::{Checks, SetCopy};
use self::names::SortedSet;
use self::report::{Report, Totals};
use self::target::Target;
use self::times::Times;
use self::transfer::Transfer;
use super::sender::BatchSender;
use crate::cli::client::{Client, Purpose, RetryLimits};
use crate::cli::text::printable;
use crate::cli::{Failure, print_error};
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::redis::source::Source;

/// The exit status if everything agrees, or is sent.
const STATUS_DONE: u8 = 0;
/// The exit status of a failure.
const STATUS_FAILED: u8 = 1;
/// The exit status if something differs, or was left out.
const STATUS_DIFFERENT: u8 = 2;
/// How long the other Redis may be away, and the pause before it is asked again.
const OUTAGE_TIME_MAX: Duration = Duration::from_mins(2);
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
const PURPOSE: Purpose = Purpose {
    act: "bring members over",
    scopes: "`read`, `write`, `configure` and `moderate`",
};

/// Runs `standings compare`.
pub async fn compare(args: CompareArgs) -> ExitCode {
    command(args.work()).await
}

/// Carries out the work, and prints its report; a failure, on one line, goes to standard error.
pub(super) async fn command(work: Result<Work, String>) -> ExitCode {
    let done = match &work {
        Ok(work) => run(work).await,
        Err(fault) => Err(fault.clone().into()),
    };
    // If the output is closed, the exit status still reports the outcome.
    match done {
        Ok(totals) if totals.is_equal() => STATUS_DONE.into(),
        Ok(_) => STATUS_DIFFERENT.into(),
        Err(error) => {
            print_error(&error);
            STATUS_FAILED.into()
        }
    }
}

async fn run(work: &Work) -> Result<Totals<'_>, Failure> {
    let log = |text: &str| {
        let _ = writeln!(io::stderr(), "{}", printable(text));
    };
    let client = Client::new(
        &work.service,
        work.board.clone(),
        PURPOSE,
        RetryLimits::default(),
        log,
    )?;
    let sender = BatchSender::new(client);
    let target = Target::read(&sender).await?;
    let source = Source::connect(&work.address, work.source_password());
    let source = source.await.map_err(fault_there)?;
    let sets = names::find(&source, work, &target).await?;
    target.check(work, &sets)?;

    let checks = Checks::new(work, &target);
    let copies = check_all(&source, &sets, &checks, (work, &target)).await?;
    let mut totals = Totals::new(work);
    for (set, copied) in sets.iter().zip(copies) {
        let copy = if let Some(copy) = copied {
            copy
        } else {
            let copy = SetCopy::of(&source, set, &checks).await?;
            refuse(work, &copy.refusals(&set.key))?;
            copy
        };
        let times = times_in(work, &target, set, &copy)?;
        let transfer = Transfer {
            work,
            target: &target,
            source: &source,
            sender: &sender,
            checks: &checks,
            set,
            copy: &copy,
            times: &times,
        };
        let counts = transfer.run().await?;
        let report = Report {
            transfer: &transfer,
            counts: &counts,
        };
        let _ = writeln!(io::stdout(), "{report}");
        totals.add(&counts, &copy);
    }
    if sets.len() > 1 {
        let _ = writeln!(io::stdout(), "{totals}");
    }
    Ok(totals)
}

/// Reads from the other Redis, again while it is away.
async fn read_there<T>(read: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, Failure> {
    let mut since = None;
    loop {
        match read().await {
            Err(StoreError::Unavailable(_))
                if since.get_or_insert_with(Instant::now).elapsed() < OUTAGE_TIME_MAX =>
            {
                tokio::time::sleep(OUTAGE_PAUSE).await;
            }
            read => return read.map_err(fault_there),
        }
    }
}

/// A fault of the other Redis.
fn fault_there(error: StoreError) -> Failure {
    match error {
        StoreError::Url(fault) => format!("--from-redis can't be used: {fault}").into(),
        error => format!("--from-redis: {error}").into(),
    }
}

/// The times of members.
///
/// # Errors
/// If one would be in the next period.
fn times_in(
    work: &Work,
    target: &Target,
    set: &SortedSet,
    copy: &SetCopy,
) -> Result<Times, Failure> {
    let times = Times::new(work, target, set, copy.members.len());
    let is_beyond = |last: Timestamp| work.task != Task::Compare && !set.period.contains(last);
    match times.last().filter(|last| is_beyond(*last)) {
        None => Ok(times),
        Some(last) => Err(format!(
            "{}: the last event would be at {last}, after the period {}: name an earlier --at",
            printable(&set.key),
            target.key(&set.period)
        )
        .into()),
    }
}

/// Fails if some members can't come over, unless they are left out.
fn refuse(work: &Work, refusals: &str) -> Result<(), Failure> {
    if work.sets.skip || refusals.is_empty() {
        return Ok(());
    }
    let _ = write!(io::stdout(), "{refusals}");
    Err("some members can't come over; --skip leaves them out".into())
}

/// Copies all sorted sets, and fails if a member can't come over. Of several only one is in memory at a time, so they are
/// copied again later; a single one is kept.
async fn check_all(
    source: &Source,
    sets: &[SortedSet],
    checks: &Checks,
    (work, target): (&Work, &Target),
) -> Result<Vec<Option<SetCopy>>, Failure> {
    let mut copies = Vec::new();
    let mut refusals = String::new();
    for set in sets {
        let copy = SetCopy::of(source, set, checks).await?;
        refusals.push_str(&copy.refusals(&set.key));
        times_in(work, target, set, &copy)?;
        copies.push((sets.len() == 1).then_some(copy));
    }
    refuse(work, &refusals)?;
    Ok(copies)
}
