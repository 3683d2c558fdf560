//! The program: `standings serve`, `worker`, `import`, `reshard`, `check`, `openapi`, `healthcheck`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use standings::cli::{Failure, check, healthcheck, import, reshard};
use standings::config::{self, Cli, CliError, Command};
use standings::log::Log;
use standings::{env_file, http, server};
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let log = match Log::to(std::io::stderr()) {
        Ok(log) => log,
        Err(error) => {
            // Where standard error is closed there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "standings: no thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    start(&log).unwrap_or_else(|error| {
        log.line(&format!("standings: {error}"));
        ExitCode::FAILURE
    })
}

fn start(log: &Log) -> Result<ExitCode, Failure> {
    let file = env_file::read(Path::new("."))?;
    let cli = match Cli::read(std::env::args_os(), &file) {
        Ok(cli) => cli,
        Err(CliError::Usage(error)) => error.exit(),
        Err(error) => return Err(error.into()),
    };
    let command = cli
        .command
        .unwrap_or_else(|| Command::Serve(Box::new(cli.serve)));
    let warnings = config::warnings(&file);
    if let Command::Serve(args) | Command::Worker(args) = &command {
        let filter = |error| format!("STANDINGS_LOG is {:?}: {error}", args.log);
        log.record(&args.log, args.log_format).map_err(filter)?;
        for warning in warnings.into_iter().chain(args.kafka.warnings()) {
            tracing::warn!("{warning}");
        }
    } else {
        for warning in warnings {
            log.line(&format!("standings: {warning}"));
        }
    }
    // Both HTTP and Redis clients take the process' provider.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        return Err("the TLS provider could not be set".into());
    }
    tokio::runtime::Runtime::new()?.block_on(run(command))
}

async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(args) => server::serve(*args, stop_signal()?).await?,
        Command::Worker(args) => server::work(*args, stop_signal()?).await?,
        Command::Import(args) => return Ok(import::command(*args).await),
        Command::Reshard(args) => reshard::command(*args).await?,
        Command::Check(args) => return Ok(check::command(*args, stop_signal()?).await),
        Command::Openapi => {
            let document = http::document().to_pretty_json()?;
            writeln!(std::io::stdout(), "{document}")?;
        }
        Command::Healthcheck { url } => healthcheck::command(&url).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends when the process is told to stop.
fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
