//! `standings export`: writes a whole standing to standard output.

use std::io::{self, Write};
use std::time::Duration;

use clap::ValueEnum;
use reqwest::{Method, Response};
use url::form_urlencoded;

use super::client::{Client, Purpose, RetryLimits};
use super::text::printable;
use super::{Failure, ServiceArgs};
use crate::domain::ids::BoardId;
use crate::domain::window::Window;

/// How long an export may take: as long as the service keeps it.
const EXPORT_TIME_MAX: Duration = Duration::from_mins(30);
/// What the command does, and the scopes that it needs.
const PURPOSE: Purpose = Purpose {
    act: "export standings",
    scopes: "`read`",
};

/// Write a whole standing to standard output, as of one instant.
///
/// `standings import --from-export` takes such a file. The exit status is 0 if the file is complete, and 1 otherwise.
#[derive(clap::Args, Clone, Debug)]
pub struct ExportArgs {
    /// The board.
    #[arg(long, value_parser = BoardId::parse)]
    pub board: BoardId,
    /// The window, such as `all` or `last-7-days`.
    #[arg(long)]
    pub window: Window,
    /// The period, such as 2026-11-23 for a week, or `current` or `previous`.
    #[arg(long, default_value = "current", value_name = "PERIOD")]
    pub period: String,
    /// The cohort of a league.
    #[arg(long)]
    pub cohort: Option<String>,
    /// How the file is written.
    #[arg(long, value_enum, default_value_t)]
    pub format: ExportFormat,
    /// Also write hidden members, and whether each member is hidden. Needs a key with the scope `moderate`, too.
    #[arg(long)]
    pub include_hidden: bool,
    /// Also write the members' profiles: their names, pictures and attributes.
    #[arg(long)]
    pub profiles: bool,
    /// Begin a CSV file with a byte order mark, so that Excel reads it as UTF-8.
    #[arg(long)]
    pub bom: bool,
    /// The service.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// How a standing is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum ExportFormat {
    /// A row for each entry, under a row of names.
    #[default]
    Csv,
    /// A JSON object a line for each entry.
    Ndjson,
}

/// Runs the command.
///
/// # Errors
/// Fails if the service can't be reached or refuses, and if the file is incomplete.
pub async fn command(args: ExportArgs) -> Result<(), Failure> {
    let log = |text: &str| {
        let _ = writeln!(io::stderr(), "{}", printable(text));
    };
    let limits = RetryLimits::default();
    let client = Client::new(&args.service, args.board.clone(), PURPOSE, limits, log)?;
    let mut response = begin(&client, &args).await?;
    let mut out = io::stdout().lock();
    while let Some(part) = response.chunk().await.map_err(|error| {
        format!("the export has broken off, and the file is incomplete: {error}")
    })? {
        out.write_all(&part)?;
    }
    Ok(out.flush()?)
}

/// The response, once the service has begun to send the standing.
async fn begin(client: &Client, args: &ExportArgs) -> Result<Response, Failure> {
    let format = match args.format {
        ExportFormat::Csv => "csv",
        ExportFormat::Ndjson => "ndjson",
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("format", format);
    if let Some(cohort) = &args.cohort {
        query.append_pair("cohort", cohort);
    }
    if args.include_hidden {
        query.append_pair("hidden", "include");
    }
    if args.profiles {
        query.append_pair("include", "profile");
    }
    if args.bom {
        query.append_pair("bom", "true");
    }
    let (window, period, query) = (args.window, &args.period, query.finish());
    let under = format!("/standings/{window}/periods/{period}/export?{query}");
    let mut retry = client.retry(client.limits.first_contact_max);
    loop {
        let request = client
            .board_request(Method::GET, &under)
            .timeout(EXPORT_TIME_MAX);
        match client.open(request, "the export").await {
            Ok(response) => return Ok(response),
            Err(fault) => retry.pause(fault).await?,
        };
    }
}
