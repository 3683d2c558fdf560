//! `standings reshard`: spreads a board over another number of shards.
//!
//! The service does the work (`moves/job.rs`). This command requests it, and then polls the progress until it is done. So
//! the command can be interrupted and repeated at any time.

use std::io::{self, Write};
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::client::{Client, Purpose, RetryLimits};
use super::text::printable;
use super::{Failure, ServiceArgs};
use crate::domain::ids::BoardId;
use crate::domain::shard::SHARDS_MAX;
use crate::moves::work::BoardShards;

/// The pause between two polls.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long the command goes on while the service does not respond.
const OUTAGE_MAX: Duration = Duration::from_mins(1);
/// What the command does, and the scopes that it needs.
const PURPOSE: Purpose = Purpose {
    act: "change boards",
    scopes: "`configure`",
};

/// Spread a board over another number of shards while events and reads go on.
#[derive(clap::Args, Clone, Debug)]
pub struct ReshardArgs {
    /// The board.
    #[arg(value_parser = BoardId::parse)]
    pub board: BoardId,
    /// The new number of shards, 1 to 64.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(SHARDS_MAX)))]
    pub shards: u16,
    /// The service.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Runs the command. The service continues what it has begun, even if the command fails.
pub async fn command(args: ReshardArgs) -> Result<(), Failure> {
    let log = |text: &str| {
        let _ = writeln!(io::stderr(), "{}", printable(text));
    };
    let limits = RetryLimits {
        pause_max: INTERVAL,
        ..RetryLimits::default()
    };
    let client = Client::new(&args.service, args.board.clone(), PURPOSE, limits, log)?;
    let body = json!({ "count": args.shards });
    let begin = || client.board_request(Method::PUT, "/shards").json(&body);
    let mut spread: BoardShards = client.ask(begin, "starting the move", OUTAGE_MAX).await?;
    let request = || client.board_request(Method::GET, "/shards");
    while let Some(moving_to) = spread.moving_to {
        let BoardShards { shards, copied, .. } = spread;
        log(&format!(
            "from {shards} to {moving_to} shards: {copied} entries copied"
        ));
        tokio::time::sleep(INTERVAL).await;
        spread = client
            .ask(request, "reading the shards", OUTAGE_MAX)
            .await?;
    }
    // If the output is closed, the exit status still reports it.
    let _ = writeln!(io::stdout(), "{} has {} shards", args.board, args.shards);
    Ok(())
}
