//! The program: `standings serve`, `worker`, `import`, `reshard`, `check`, `openapi`, `healthcheck`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use standings::config::{Cli, Command, LogFormat, ServeArgs};
use standings::{check, http, import, reshard, server};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a health check waits for an answer.
const HEALTHCHECK_TIMEOUT: Duration = Duration::from_secs(3);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    dotenvy::dotenv().ok();
    let cli = Cli::parse();
    // Both HTTP and Redis clients take the process' provider.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        return fail("the TLS provider could not be set");
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no runtime: {error}")),
    };
    match runtime.block_on(run(cli)) {
        Ok(code) => code,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(message: &str) -> ExitCode {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "standings: {message}");
    ExitCode::FAILURE
}

async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    match cli
        .command
        .unwrap_or_else(|| Command::Serve(Box::new(cli.serve)))
    {
        Command::Serve(args) => {
            log(&args)?;
            server::serve(*args, stop_signal()?).await?;
        }
        Command::Worker(args) => {
            log(&args)?;
            server::work(*args, stop_signal()?).await?;
        }
        Command::Import(args) => return Ok(import::command(*args).await),
        Command::Reshard(args) => return Ok(reshard::command(*args).await),
        Command::Check(args) => return Ok(check::command(*args, stop_signal()?).await),
        Command::Openapi => {
            let document = http::document().to_pretty_json()?;
            writeln!(std::io::stdout(), "{document}")?;
        }
        Command::Healthcheck { url } => {
            healthcheck(url.trim_end_matches('/')).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn healthcheck(url: &str) -> Result<(), Failure> {
    let mut client = reqwest::Client::builder()
        .timeout(HEALTHCHECK_TIMEOUT)
        .no_proxy();
    if url.starts_with("http://") {
        // A slim container has no certificates, and needs none.
        client = client.tls_certs_only([]);
    }
    let ready = client.build()?.get(format!("{url}/readyz")).send().await?;
    ready.error_for_status()?;
    Ok(())
}

fn log(args: &ServeArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log)?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
    Ok(())
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
