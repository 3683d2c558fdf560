//! `standings reshard`: has a service spread a board over another number of shards, and waits for it.
//!
//! The service does the work (`engine/moves.rs`). This command changes the definition, and then asks how far it has
//! come. So it can be interrupted, and given again, at any time.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use reqwest::header::IF_MATCH;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::client::{Client, ClientError, Patience, Purpose};
use super::text::printable;
use super::{ServiceArgs, tell};
use crate::domain::ids::BoardId;
use crate::domain::shard::SHARDS_MAX;

/// How often it asks.
const INTERVAL: Duration = Duration::from_millis(500);
/// For how long it goes on while the service does not answer.
const OUTAGE_MAX: Duration = Duration::from_mins(1);
/// What it does, and what that needs.
const PURPOSE: Purpose = Purpose {
    act: "change boards",
    scopes: "`configure`",
};

/// Spread a board over another number of shards, while events and reads go on.
#[derive(clap::Args, Clone, Debug)]
pub struct ReshardArgs {
    /// Which board.
    #[arg(value_parser = BoardId::parse)]
    pub board: BoardId,
    /// Over how many shards, 1 to 64.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(SHARDS_MAX)))]
    pub shards: u16,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceArgs,
}

#[derive(Deserialize)]
struct Spread {
    shards: u16,
    moving_to: Option<u16>,
    copied: u64,
}

/// Runs the command. What the service has begun it goes on with, also where the command fails.
pub async fn command(args: ReshardArgs) -> ExitCode {
    match run(&args).await {
        Ok(()) => {
            // Where nobody listens, the exit status still tells.
            let _ = writeln!(io::stdout(), "{} has {} shards", args.board, args.shards);
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &ReshardArgs) -> Result<(), ClientError> {
    let log = |text: &str| {
        let _ = writeln!(io::stderr(), "{}", printable(text));
    };
    let patience = Patience {
        pause_max: INTERVAL,
        ..Patience::default()
    };
    let client = Client::new(&args.service, args.board.clone(), PURPOSE, patience, log)?;
    define(&client, args.shards).await?;
    let request = || client.board_request(Method::GET, "/shards");
    loop {
        let (spread, _) = client
            .ask::<Spread>(request, "the question for the shards", OUTAGE_MAX)
            .await?;
        let Some(moving_to) = spread.moving_to else {
            return Ok(());
        };
        let Spread { shards, copied, .. } = spread;
        log(&format!(
            "from {shards} to {moving_to} shards: {copied} entries copied"
        ));
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Changes the definition, whatever else of it others change meanwhile.
async fn define(client: &Client, shards: u16) -> Result<(), ClientError> {
    let what = "the change of the board";
    loop {
        let read = || client.board_request(Method::GET, "");
        let (mut definition, version) = client
            .ask::<Map<String, Value>>(read, "the question for the board", OUTAGE_MAX)
            .await?;
        definition.remove("board");
        definition.insert("shards".into(), shards.into());
        let change = || {
            let request = client.board_request(Method::PUT, "").json(&definition);
            match &version {
                Some(version) => request.header(IF_MATCH, format!("\"{version}\"")),
                None => request,
            }
        };
        match client.ask::<Value>(change, what, OUTAGE_MAX).await {
            Err(ClientError::Refused { status, .. })
                if status == StatusCode::PRECONDITION_FAILED => {}
            changed => return changed.map(drop),
        }
    }
}
