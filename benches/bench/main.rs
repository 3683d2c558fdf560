//! The benchmark: starts a Redis server, the service and their references, loads them in turn, and prints
//! one table. `BENCHMARKS.md` says what is measured and how to read it.

#![expect(unreachable_pub, reason = "nothing is outside of a benchmark's binary")]

mod bare;
mod beside;
mod boards;
#[cfg(feature = "kafka")]
#[path = "../../tests/kit/broker.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod broker;
mod compare;
mod growth;
mod http;
mod kafka;
#[path = "../../tests/kit/mod.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod kit;
mod league;
mod load;
mod machine;
mod memory;
mod picture;
mod process;
mod publish;
mod queue;
mod redis;
mod reference;
mod requests;
mod rollover;
mod rows;
mod run;
mod service;
mod session;
mod shards;
mod streams;
mod table;
mod workload;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Why the benchmark could not be run.
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Failure>;

/// How fast the service is beside what Redis and an HTTP server without any work could do at most.
#[derive(Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
    /// What `cargo bench` adds.
    #[arg(long = "bench", hide = true)]
    _bench: bool,
}

#[derive(Subcommand)]
enum Command {
    /// The reference H, which the benchmark starts by itself.
    #[command(hide = true)]
    Bare(bare::BareArgs),
}

/// What is measured.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
struct Options {
    /// Only these rows, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// List the names of the rows.
    #[arg(long)]
    list: bool,
    /// Measure boards of 1, 4 and 16 shards on 1 and 3 servers, and print a table of that alone.
    #[arg(long, conflicts_with_all = ["only", "publish"])]
    shards: bool,
    /// Measure the service beside this program of Podium, and print a table of that alone.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["only", "members", "shards"])]
    compare: Option<PathBuf>,
    /// One short round on smaller boards: to try things out.
    #[arg(long)]
    quick: bool,
    /// How many members the big boards have, 1,000,000 unless it is --quick.
    #[arg(long, value_name = "N")]
    members: Option<usize>,
    /// Write the results into BENCHMARKS.md and docs/benchmarks.svg; of a whole run only. With --compare: into BENCHMARKS.md and README.md.
    #[arg(long, conflicts_with_all = ["only", "quick", "members", "service"])]
    publish: bool,
    /// Another build of the service to measure.
    #[arg(long, value_name = "PATH", default_value = env!("CARGO_BIN_EXE_standings"))]
    service: PathBuf,
}

impl Options {
    /// What part is measured of what is measured otherwise.
    fn part(&self) -> usize {
        if self.quick { 10 } else { 1 }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Bare(args)) => bare::run(&args),
        None => measure(&cli.options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells on standard error what is going on: the table alone goes to standard output.
fn say(message: &str) {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "bench: {message}");
}

/// Measures on one thread, so that the generator takes no more than it needs. Being told to stop ends what
/// was started, too.
fn measure(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            result = run(options) => result,
            _ = terminate.recv() => Err("stopped".into()),
            _ = interrupt.recv() => Err("stopped".into()),
        }
    })
}

async fn run(options: &Options) -> Result<()> {
    match &options.compare {
        Some(podium) => compare::run(podium, options).await,
        None if options.shards => shards::run(options).await,
        None => run::run(options).await,
    }
}
