//! `standings import`: sends a file of events to a service. Each event counts exactly once.
//!
//! ```text
//! file ─ input.rs ─ csv.rs, ndjson.rs, redis_cli.rs ─ rows.rs ─ queue ──▶ sender.rs ── POST /v1/events ──▶ the service
//!        (a thread: decodes, parses, builds bodies)   (several in flight, each repeated until it is answered)
//!                                                             │
//!                                       record.rs ◀─ ledger.rs ◀┘ acknowledged, in the order of the file
//! ```
//!
//! `reading.rs` has the options that say how a file is read, `fields.rs` the fields of a row, `error.rs` the words in which
//! an import fails. A dry run (`dry_run.rs`) reads the file in the same way and sends nothing.
//!
//! - Every event has an id. A row without one gets an id that follows from the file's content and the row's number, so that
//!   the service recognises it in another request and in another run.
//! - If the response to a request is lost, the import sends the same request again. The service returns `duplicate` for
//!   events that it had taken.
//! - One record next to the file says what was sent, acknowledged and rejected (`record.rs`).
//! - A resumed import continues after the last acknowledged row. The service may have taken later rows as well. Sending
//!   those again is safe only while the board remembers their ids. After that the import refuses to resume, because rows
//!   could count twice.
//! - The record stays when the import has ended. Once the board has forgotten its ids, the import refuses to run again.
//! - The options that decide what is sent are part of the record: an import is resumed with the same ones.
//! - With profiles, the rows of a batch are sent to `POST /v1/profiles` as well. That can be repeated at any time, but in the
//!   order of the file, so that the last profile of a member stays.
//! - Rejected rows go to a file (`rejects.rs`). Each is in it once, even if the import is interrupted.
//! - The service gives rows without `at` their times as they come in. So requests with such rows are sent one after the
//!   other, in the order of the file, each after the response to the one before. A row that is sent again keeps its first
//!   time.
//! - The memory is bounded by the batches in flight and in the queue, and does not grow with the file.

mod body;
mod cost;
mod csv;
mod dry_run;
mod error;
mod fields;
mod input;
mod ledger;
mod memory;
mod ndjson;
mod progress;
mod reading;
mod record;
mod redis_cli;
mod rejects;
mod rows;
mod sender;
mod sketch;
pub mod sorted_set;
mod summary;
#[cfg(test)]
mod tests;

use std::fs;
use std::future::Future;
use std::io::{self, ErrorKind, Write};
use std::path::{self, Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::value_parser;
use futures::stream::{self, StreamExt};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::error::ImportError;
use self::fields::{FIELDS, MEMBER, SCORE};
pub use self::input::Format;
use self::input::{Input, STDIN_NAME};
use self::ledger::{Acknowledged, Ledger};
use self::memory::Memory;
use self::progress::ImportProgress;
pub use self::reading::ColumnName;
use self::reading::Reading;
use self::record::{Earlier, ImportJob, ImportRecord, RecordPlace};
use self::rejects::REJECTS;
use self::rows::Batch;
use self::sender::{BatchSender, BoardFacts};
use self::sorted_set::{SortedSetArgs, Task, Work};
use self::summary::Summary;
use super::client::{Client, Purpose, RetryLimits};
use super::{ServiceArgs, print_error};
use crate::domain::clock::Clock;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;

/// The maximum number of rows of a request, set by the service for events and for profiles.
const BATCH_ROWS_MAX: i64 = 1_000;
/// The maximum number of concurrent requests.
const CONCURRENCY_MAX: i64 = 64;
/// How many batches wait, ready to be sent.
const QUEUE_BATCHES: usize = 2;
/// How long requests in flight may take to end after the import is interrupted.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);
/// The exit status of an import that failed.
const STATUS_FAILED: u8 = 1;
/// The scopes that the command needs.
const SCOPES: &str = "`read` and `write`";

/// The text below the options in the help.
fn help() -> String {
    let optional = (0..FIELDS.len()).filter(|field| ![MEMBER, SCORE].contains(field));
    let optional: Vec<_> = optional.map(|field| FIELDS[field]).collect();
    let optional = optional.join(", ");
    format!(
        "\
The file is CSV with a header row, or NDJSON with one event object per line. Both may be compressed with gzip. \
The fields member and score are required. The fields {optional} are optional, the last three only with --profiles. The \
import ignores other fields.

Every event counts once, however often it is sent: a row without an id gets one that is derived from the content of the \
file. If an import is interrupted, run the same command again to resume it. A finished import is not repeated \
once the board has begun to forget its ids (idempotency).

Fix rejected rows in the file of --rejects, and import that file alone. If you change the whole file and import it \
again, all rows without an id get different ids and count again.

The exit status is 0 if the board accepted all rows, 2 if it rejected some, and 1 if the import failed."
    )
}

/// Send a file of events to a service.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = help())]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command"
)]
pub struct ImportArgs {
    /// The file, or - for the standard input. An import from the standard input can't be resumed.
    #[arg(required_unless_present = "from_redis", conflicts_with = "from_redis")]
    pub file: Option<PathBuf>,
    /// The board to import into.
    #[arg(long, value_parser = BoardId::parse)]
    pub board: BoardId,
    /// How the file is written. By default the extension of its name says whether it is CSV or NDJSON, or else its content.
    #[arg(long, value_enum, conflicts_with = "from_redis")]
    pub format: Option<Format>,
    /// Which names our fields have in the file, such as member=player,score=points. A name can't contain a comma.
    #[arg(long, value_name = "FIELD=NAME,…", value_delimiter = ',', value_parser = ColumnName::parse, conflicts_with = "from_redis")]
    pub columns: Vec<ColumnName>,
    /// The time of rows that have none, such as 2020-01-01T00:00:00Z: the first row gets this time, and each further row a
    /// microsecond more than the row before. With --from-redis the first time, in place of 2000-01-01T00:00:00Z or of the start of
    /// the period.
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    pub at: Option<Timestamp>,
    /// Also write the profiles of members, from the fields name, avatar_url and attributes. A row without a score then has only
    /// a profile, and a row without a name only an event. The API key must be for all boards.
    #[arg(long, conflicts_with = "from_redis")]
    pub profiles: bool,
    /// The file is the export of a standing: each entry counts for its `reached_at`, apostrophes that protect spreadsheets are
    /// removed, and lines of erased members are skipped.
    #[arg(long, conflicts_with_all = ["columns", "from_redis"])]
    pub from_export: bool,
    /// Read everything and say what would be sent, what the board would reject, and about how much memory it takes in Redis.
    /// Sends and writes nothing.
    #[arg(long, conflicts_with_all = ["rejects", "restart", "resume_anyway"])]
    pub dry_run: bool,
    /// The service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// How many rows one request has at most, 1 to 1000.
    #[arg(long, default_value = "1000", value_parser = value_parser!(u16).range(1..=BATCH_ROWS_MAX), conflicts_with = "from_redis")]
    pub batch: u16,
    /// How many requests are in flight at once, 1 to 64.
    #[arg(long, default_value = "4", value_parser = value_parser!(u16).range(1..=CONCURRENCY_MAX), conflicts_with = "from_redis")]
    pub concurrency: u16,
    /// Start again from the first row, even if an earlier import of the file was interrupted or has finished. Rows count again if
    /// the board accepted them and has forgotten their ids, or if they get other ids now; to prevent that, delete the board first.
    #[arg(long, conflicts_with_all = ["resume_anyway", "from_redis"])]
    pub restart: bool,
    /// Resume an interrupted import even if the board may have forgotten the ids of its last rows, or was redefined. The import
    /// sends those rows again, so first check whether the board accepted them.
    #[arg(long, conflicts_with = "from_redis")]
    pub resume_anyway: bool,
    /// Write the rejected rows to this new file, unchanged, with the reasons in a column that imports ignore. Fix the rows in that
    /// file and import it alone.
    #[arg(long, value_name = "FILE", conflicts_with = "from_redis")]
    pub rejects: Option<PathBuf>,
    /// Members of sorted sets, in place of a file.
    #[command(flatten)]
    pub sorted_sets: SortedSetArgs,
    /// Also send the difference for members that have another score here. Without it they are left alone.
    #[arg(long, requires = "from_redis")]
    pub sync: bool,
}

/// Runs the command: the summary goes to standard output, and an error, on one line, to standard error.
pub async fn command(args: ImportArgs) -> ExitCode {
    if args.sorted_sets.from_redis.is_some() {
        return sorted_set::command(args.sorted_set_work()).await;
    }
    let surroundings = Surroundings {
        limits: RetryLimits::default(),
        drain_time_max: DRAIN_TIME_MAX,
        fallback: PathBuf::from("."),
        progress: ImportProgress::on_stderr,
    };
    let ended = if args.dry_run {
        let found = dry_run::run(&args, surroundings).await;
        found.map(|found| (found.to_string(), found.tally.exit_status()))
    } else {
        let sent = run_in(args, surroundings, interrupt()).await;
        sent.map(|summary| (summary.to_string(), summary.tally.exit_status()))
    };
    // If the output is closed, the exit status still reports the outcome.
    match ended {
        Ok((summary, status)) => {
            let _ = writeln!(io::stdout(), "{summary}");
            status.into()
        }
        Err(error) => {
            print_error(&error);
            STATUS_FAILED.into()
        }
    }
}

impl ImportArgs {
    /// The file that is imported.
    fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(STDIN_NAME))
    }

    /// What is to be done with sorted sets.
    fn sorted_set_work(self) -> Result<Work, String> {
        let task = if self.sync { Task::Sync } else { Task::Import };
        let mut work = Work::new(task, self.service, self.board, self.sorted_sets)?;
        (work.at, work.is_dry) = (self.at, self.dry_run);
        Ok(work)
    }
}

/// Ends when the user presses Ctrl-C.
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal ends the process; the record on disk is enough.
        std::future::pending::<()>().await;
    }
}

/// What differs in tests.
struct Surroundings<P> {
    limits: RetryLimits,
    drain_time_max: Duration,
    /// Where the record is stored if it can't be next to the file.
    fallback: PathBuf,
    /// How progress is shown, given the file's size in bytes.
    progress: P,
}

/// Sends a file to a service.
///
/// # Errors
/// Fails if the file can't be read, or if the service can't be reached or refuses a whole request; the message says whether
/// and how the import can be resumed. Rejected rows are not an error.
async fn run_in<P: FnOnce(Option<u64>) -> ImportProgress>(
    args: ImportArgs,
    surroundings: Surroundings<P>,
    interrupt: impl Future<Output = ()>,
) -> Result<Summary, ImportError> {
    let begun = Instant::now();
    let reading = Reading::new(&args)?;
    let file = args.file();
    let place = RecordPlace::new(file, &args.board, &surroundings.fallback);
    let has_name = file != Path::new(STDIN_NAME);
    let _lock = has_name.then(|| place.lock()).transpose()?;
    let found = if args.restart { None } else { place.find()? };
    let imported = found.as_ref().and_then(|found| found.job.file.as_ref());
    let input = Input::open(file, imported.map(|file| file.bytes))?;
    let progress = Arc::new((surroundings.progress)(
        input.identity.as_ref().map(|identity| identity.bytes),
    ));
    let client = client(&args, surroundings.limits, &progress)?;
    // The next run may start in another directory.
    let absolute = |path| path::absolute(path).map_err(ImportError::write(REJECTS, path));
    let job = ImportJob {
        file: input.identity.clone(),
        board: args.board.to_string(),
        url: client.url().to_owned(),
        rejects: args.rejects.as_deref().map(absolute).transpose()?,
        reading,
    };
    let sender = BatchSender::new(client);
    let board = sender.board().await?;
    let known = (&place, found);
    let mut ledger = Ledger::begin(known, (job, input.beginning.as_ref()), &args, &board, now())?;
    announce(&ledger, &input, &progress);

    let rows_before = ledger.record.rows;
    let mut import = Import {
        args: &args,
        sender: &sender,
        board: &board,
        ledger: &mut ledger,
        progress,
    };
    let sent = import
        .send(input, interrupt, surroundings.drain_time_max)
        .await;
    import.progress.finish();
    match sent {
        Ok(()) => ledger.finish()?,
        Err(cause) => return Err(suspend(&mut ledger, &sender, &board, cause)),
    }
    Ok(summary(&ledger, args, &board, rows_before, begun.elapsed()))
}

fn summary(
    ledger: &Ledger,
    args: ImportArgs,
    board: &BoardFacts,
    rows_before: u64,
    elapsed: Duration,
) -> Summary {
    let ImportRecord { rows, tally, .. } = &ledger.record;
    let remembered_until = Memory::end(board.idempotency, ledger.record.begun());
    Summary {
        rows: *rows,
        tally: tally.clone(),
        rows_before,
        elapsed,
        is_stream: !ledger.is_resumable(),
        remembered_until: (remembered_until > now()).then_some(remembered_until),
        rejects: args.rejects,
    }
}

fn client(
    args: &ImportArgs,
    limits: RetryLimits,
    progress: &Arc<ImportProgress>,
) -> Result<Client, ImportError> {
    let notices = Arc::clone(progress);
    let notice = move |text: &str| notices.notice(text);
    let act = if args.profiles {
        "send events and profiles"
    } else {
        "send events"
    };
    let purpose = Purpose {
        act,
        scopes: SCOPES,
    };
    Ok(Client::new(
        &args.service,
        args.board.clone(),
        purpose,
        limits,
        notice,
    )?)
}

/// Removes a file, if it is there; blocks.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn now() -> Timestamp {
    Timestamp::from_us_clamped(Clock::local_us())
}

fn announce(ledger: &Ledger, input: &Input, progress: &ImportProgress) {
    if let Some(Earlier { record, .. }) = &ledger.earlier {
        progress.notice(&format!(
            "{} rows were already imported, at {}: rows that were accepted then are reported as duplicate",
            record.rows,
            record.begun()
        ));
    }
    let rows = ledger.record.rows;
    if ledger.resumed().is_some() {
        let first = rows + 1;
        progress.notice(&format!("resuming an interrupted import at row {first}"));
    }
    if !ledger.is_resumable() {
        let name = input.name();
        progress.notice(&format!(
            "{name} can be read only once: if this import is interrupted, it can't be resumed, and another run counts rows without an id again"
        ));
    }
    progress.begin_at(rows);
}

/// Leaves the right record behind, and says how to resume.
fn suspend(
    ledger: &mut Ledger,
    sender: &BatchSender,
    board: &BoardFacts,
    cause: ImportError,
) -> ImportError {
    if !sender.has_perhaps_sent() {
        return ledger.undo().err().unwrap_or(cause);
    }
    if let Err(error) = ledger.suspend(cause.is_settled()) {
        return error;
    }
    let advice = match ledger.resumable_until(board.idempotency) {
        _ if !ledger.is_resumable() => "A stream can't be resumed".to_owned(),
        None => "The same command resumes from there".to_owned(),
        Some(until) if until <= now() => "The same command says how to continue".to_owned(),
        Some(until) => format!("The same command resumes from there, until {until}"),
    };
    ImportError::Stopped {
        cause: Box::new(cause),
        rows: ledger.record.rows,
        advice,
    }
}

struct Import<'a> {
    args: &'a ImportArgs,
    sender: &'a BatchSender,
    board: &'a BoardFacts,
    ledger: &'a mut Ledger,
    progress: Arc<ImportProgress>,
}

impl Import<'_> {
    /// Sends the rest of the file.
    async fn send(
        &mut self,
        input: Input,
        interrupt: impl Future<Output = ()>,
        drain_time_max: Duration,
    ) -> Result<(), ImportError> {
        let name = input.name();
        let stopping = CancellationToken::new();
        // The first request goes alone: if it is refused, nothing has been sent.
        let gate = Semaphore::new(1);
        // Batches whose order matters go one after the other.
        let turn = Semaphore::new(1);
        let mut closed_permits = usize::from(self.args.concurrency) - 1;
        let (sender, memory) = (self.sender, self.ledger.memory(self.board.idempotency));
        let ImportRecord { job, rows, .. } = &self.ledger.record;
        let mut batches = read(input, (self.args, &job.reading), *rows, &self.progress)?;
        let mut acknowledged = pin!(
            stream::poll_fn(move |context| batches.poll_recv(context))
                .take_until(stopping.cancelled())
                .map(|batch| acknowledge(sender, batch, memory, [&turn, &gate]))
                .buffered(usize::from(self.args.concurrency))
        );
        let mut interrupt = pin!(interrupt);
        let mut drained = pin!(async {
            stopping.cancelled().await;
            tokio::time::sleep(drain_time_max).await;
        });
        let mut ticks = self.progress.ticks();
        let (mut bytes_read, mut is_complete) = (0, false);
        loop {
            let next = tokio::select! {
                biased;
                () = &mut interrupt, if !stopping.is_cancelled() => {
                    self.progress.notice("stopping when the requests in flight have ended");
                    stopping.cancel();
                    continue;
                }
                () = &mut drained => return Err(ImportError::Unanswered),
                _ = ticks.tick() => {
                    self.progress.show(self.ledger.record.rows, bytes_read);
                    continue;
                }
                next = acknowledged.next() => next,
            };
            let Some(acknowledged) = next.transpose()? else {
                break;
            };
            self.ledger.acknowledge(&acknowledged)?;
            let batch = acknowledged.batch;
            (bytes_read, is_complete) = (batch.bytes_read, batch.is_last);
            if self.sender.has_perhaps_sent() {
                gate.add_permits(std::mem::take(&mut closed_permits));
            }
        }
        if is_complete {
            Ok(())
        } else if stopping.is_cancelled() {
            Err(ImportError::Interrupted)
        } else {
            Err(ImportError::Lost(name))
        }
    }
}

/// Begins to read the file after this many acknowledged rows.
fn read(
    input: Input,
    (args, reading): (&ImportArgs, &Reading),
    skip: u64,
    progress: &Arc<ImportProgress>,
) -> Result<mpsc::Receiver<Result<Batch, ImportError>>, ImportError> {
    let (batches, receiver) = mpsc::channel(QUEUE_BATCHES);
    let path = input.name();
    let (args, reading, progress) = (args.clone(), reading.clone(), Arc::clone(progress));
    // Not a task of the runtime, which would wait at its end for a silent stream.
    thread::Builder::new()
        .name("import-reader".to_owned())
        .spawn(move || rows::read(input, (&args, &reading), skip, &batches, &progress))
        .map_err(|cause| ImportError::Read { path, cause })?;
    Ok(receiver)
}

/// Sends a batch until all of it has results.
async fn acknowledge(
    sender: &BatchSender,
    batch: Result<Batch, ImportError>,
    memory: Memory,
    [turn, gate]: [&Semaphore; 2],
) -> Result<Acknowledged, ImportError> {
    let mut batch = batch?;
    // A semaphore admits them in the order in which they arrive here, which is that of the file. It only fails when closed,
    // and these never are.
    let _turn = if batch.is_ordered {
        turn.acquire().await.ok()
    } else {
        None
    };
    let sent = now();
    let _permit = gate.acquire().await;
    let (tally, mut rejections) = sender.send(&batch, memory).await?;
    rejections.append(&mut batch.unreadable);
    rejections.sort_by_key(|rejection| rejection.source.place);
    Ok(Acknowledged {
        batch,
        tally,
        rejections,
        sent,
    })
}
