//! `standings reshard`: has a service spread a board over another number of shards, and waits for it.
//!
//! The service does the work (`engine/moves.rs`). This command changes the definition, and then asks how far it has
//! come. So it can be interrupted, and given again, at any time.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use reqwest::header::{ETAG, IF_MATCH};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::config::Secret;
use crate::domain::ids::BoardId;
use crate::domain::shard::SHARDS_MAX;
use crate::import::{ServiceError, http_client, parse_url};

/// How often it asks.
const INTERVAL: Duration = Duration::from_millis(500);
/// For how long it goes on while the service does not answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Spread a board over another number of shards, while events and reads go on.
#[derive(clap::Args, Clone, Debug)]
pub struct ReshardArgs {
    /// Which board.
    #[arg(value_parser = BoardId::parse)]
    pub board: BoardId,
    /// Over how many shards, 1 to 64.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(SHARDS_MAX)))]
    pub shards: u16,
    /// The service's address.
    #[arg(long, env = "STANDINGS_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// An API key with the role admin.
    #[arg(long, env = "STANDINGS_API_KEY", hide_env_values = true)]
    pub key: Option<Secret>,
}

/// Why it failed. What the service has begun it goes on with.
#[derive(Debug, Error)]
pub enum ReshardError {
    /// The settings make no sense.
    #[error(transparent)]
    Setting(#[from] ServiceError),
    /// The service refused it.
    #[error("the service answered with {status}: {detail}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// What it said.
        detail: String,
    },
    /// It could not be reached.
    #[error("the service can't be reached: {0}")]
    Unreachable(#[from] reqwest::Error),
}

#[derive(Deserialize)]
struct Spread {
    shards: u16,
    moving_to: Option<u16>,
    copied: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    detail: String,
}

/// Runs the command.
pub async fn command(args: ReshardArgs) -> ExitCode {
    // Where nobody listens, the exit status still tells.
    match run(&args, io::stderr()).await {
        Ok(()) => {
            let _ = writeln!(io::stdout(), "{} has {} shards", args.board, args.shards);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "standings: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &ReshardArgs, mut log: impl Write) -> Result<(), ReshardError> {
    let url = args.url.trim_end_matches('/');
    let client = http_client(&parse_url(url)?, args.key.as_ref())?;
    let board = format!("{url}/v1/boards/{}", args.board);
    persist(async || ask_for(&client, &board, args.shards).await).await?;
    loop {
        let asked = async || -> Result<Spread, ReshardError> {
            let answer = accepted(client.get(format!("{board}/shards")).send().await?).await?;
            Ok(answer.json().await?)
        };
        let spread = persist(asked).await?;
        let Some(moving_to) = spread.moving_to else {
            return Ok(());
        };
        let _ = writeln!(
            log,
            "from {} to {moving_to} shards: {} entries copied",
            spread.shards, spread.copied
        );
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Changes the definition, whatever else of it others change meanwhile.
async fn ask_for(client: &Client, board: &str, shards: u16) -> Result<(), ReshardError> {
    loop {
        let answer = accepted(client.get(board).send().await?).await?;
        let version = answer.headers().get(ETAG).cloned();
        let mut definition: Map<String, Value> = answer.json().await?;
        definition.remove("board");
        definition.insert("shards".into(), shards.into());
        let mut request = client.put(board).json(&definition);
        if let Some(version) = version {
            request = request.header(IF_MATCH, version);
        }
        let answer = request.send().await?;
        if answer.status() != StatusCode::PRECONDITION_FAILED {
            return accepted(answer).await.map(drop);
        }
    }
}

/// An answer, if it is a good one.
async fn accepted(answer: Response) -> Result<Response, ReshardError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text = answer.text().await?;
    let problem: Problem = serde_json::from_str(&text).unwrap_or_default();
    let detail = if problem.detail.is_empty() {
        text.chars().take(200).collect()
    } else {
        problem.detail
    };
    Err(ReshardError::Refused { status, detail })
}

/// Does something again for a while where the service does not answer, or says that it can't just now.
async fn persist<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, ReshardError>,
) -> Result<T, ReshardError> {
    let begun = Instant::now();
    loop {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let may_pass = match &error {
            ReshardError::Refused { status, .. } => status.is_server_error(),
            ReshardError::Unreachable(error) => !error.is_builder() && !error.is_decode(),
            ReshardError::Setting(_) => false,
        };
        if !may_pass || begun.elapsed() > PATIENCE {
            return Err(error);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
