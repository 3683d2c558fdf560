//! The program: `standings serve`, `worker`, `import`, `compare`, `export`, `reshard`, `check`, `erasures`, `token`, `openapi`,
//! `healthcheck`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use standings::cli::Failure;
use standings::commands;
use standings::config::{self, Cli, CliError, Command, env_file};
use standings::log::Log;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let log = match Log::to(std::io::stderr()) {
        Ok(log) => log,
        Err(error) => {
            // If standard error is closed, the message is lost.
            let _ = writeln!(
                std::io::stderr(),
                "standings: can't start a thread: {error}"
            );
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
    // Both HTTP and Redis clients use the process-wide provider.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        return Err("TLS can't be set up".into());
    }
    commands::run(command)
}
