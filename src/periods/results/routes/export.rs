//! Exports a whole standing as a stream.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;
use futures::stream::try_unfold;
use http_body::Frame;
use http_body_util::StreamBody;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::PeriodPath;
use crate::access::{Caller, HiddenChoice};
use crate::core::read::store::standings::{Entry, Visibility};
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::export::{ExportLine, write_header};
use crate::domain::include::{Include, Includes};
use crate::domain::profile::ShownProfile;
use crate::http::App;
use crate::http::extract::{Query, Shared, State, invalid};
use crate::http::problem::Problem;
use crate::http::supply::Taken;
use crate::periods::results::export::{self, Export, PART_ENTRIES};
use crate::periods::results::periods::PeriodName;
use crate::periods::results::running::{self, RunningExport};
use crate::periods::results::work;
use crate::profiles;
use crate::standings::routes::params::includes;

/// The revision of the result at the start of the export.
const REVISION: HeaderName = HeaderName::from_static("standings-revision");
/// The trailer that says whether the standing may have changed during the export.
const CHANGED: HeaderName = HeaderName::from_static("standings-changed");
/// The instant of an export that is not final.
const AS_OF: HeaderName = HeaderName::from_static("standings-as-of");
/// How many parts an export may hold in memory: one being written, one being read.
const PARTS_HELD: usize = 2;

/// In which form.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// A line of comma-separated values for each entry, after one with the names of the columns.
    Csv,
    /// A JSON object for each entry, each in a line.
    Ndjson,
}

impl ExportFormat {
    /// Its content type and file extension.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Csv => ("text/csv; charset=utf-8", "csv"),
            Self::Ndjson => ("application/x-ndjson", "ndjson"),
        }
    }
}

/// How a standing is exported.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExportParams {
    /// The form.
    #[param(inline, example = "ndjson")]
    format: ExportFormat,
    /// Additional fields of entries: `profile`.
    #[param(value_type = Option<Vec<Include>>, required = false, style = Form, explode = false, example = json!(["profile"]))]
    include: Option<String>,
    /// In a league, the cohort.
    cohort: Option<String>,
    /// `true`: a CSV begins with a byte order mark, without which Excel misreads characters beyond ASCII.
    #[serde(default)]
    #[param(default = false)]
    bom: bool,
    /// `include`: hidden members are included, `hidden` says of each member whether it is hidden, and ranks count all. The file
    /// then shows the standing as it is now, even if it is final. Needs the scope `moderate`.
    #[param(inline)]
    hidden: Option<HiddenChoice>,
}

/// What is exported.
enum Exported {
    /// A final period.
    Final(Box<Export>),
    /// A snapshot of a standing that is not final, or with hidden members.
    Running(Box<RunningExport>),
}

/// An export being sent.
struct Outgoing {
    app: Arc<App>,
    exported: Exported,
    format: ExportFormat,
    includes: Includes,
    visibility: Visibility,
    /// Whether a CSV begins with a byte order mark.
    has_bom: bool,
    /// Whether its first part, and its last one, was written.
    is_begun: bool,
    is_written: bool,
    /// Memory permit, released when the stream ends or is dropped.
    _taken: Taken,
}

/// Export a standing.
///
/// The whole standing in rank order: of a final period, or as it is now. Unless it is final, the file shows one instant in
/// each shard of the board, whatever changes meanwhile. CSV cells that a spreadsheet would interpret as formulas begin with an
/// apostrophe.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/periods/{key}/export", operation_id = "export_period",
    params(PeriodPath, ExportParams),
    responses(
        (status = 200, description = "The entries. If the period is final, the trailer `Standings-Changed` says whether the standing may have changed during the export", content((String = "text/csv", example = json!("rank,member,score,reached_at\n1,999,30,2026-11-21T00:30:00.000Z\n")), (String = "application/x-ndjson", example = json!("{\"rank\":1,\"member\":\"999\",\"score\":30,\"reached_at\":\"2026-11-21T00:30:00.000Z\"}\n"))), headers(("Standings-Revision" = u64, description = "The revision of the result, if the export is that of a final period"), ("Standings-As-Of" = String, description = "The instant that the file shows, otherwise: it has all that was acknowledged before"), ("Trailer" = String, description = "`Standings-Changed`, if the period is final"))),
        (status = 400, description = "`cohort-required`: a league is exported cohort by cohort; `invalid-parameter`"),
        (status = 404, description = "`board-not-found`, `unknown-window`, `period-not-found`, `no-league`, `cohort-not-found`"),
        (status = 409, description = "`export-too-large`; `period-not-final`: the board has `keep_top`"),
        (status = 410, description = "`period-expired`"),
    )
)]
pub async fn get(
    State(app): Shared,
    at: PeriodName,
    Query(params): Query<ExportParams>,
    caller: Caller,
) -> Result<Response, Problem> {
    let includes = includes(params.include.as_deref(), &caller)?;
    if params.bom && params.format != ExportFormat::Csv {
        return Err(invalid("bom", "needs `format=csv`"));
    }
    let taken = app
        .memory
        .for_entries(&caller.takers(), PARTS_HELD * PART_ENTRIES, includes)
        .await?;
    let visibility = caller.visibility(params.hidden)?;
    let exported = Exported::begin(&app.engine, &at, params.cohort.as_deref(), visibility).await?;
    let mut headers = exported.state_headers();
    let (content_type, ending) = params.format.names();
    let name = format!("{}.{ending}", exported.name(&at, params.cohort.as_deref()));
    let attachment = format!("attachment; filename=\"{name}\"");
    headers.extend([
        (header::CONTENT_TYPE, content_type.to_owned()),
        (header::CONTENT_DISPOSITION, attachment),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ]);
    let body = StreamBody::new(frames(Outgoing {
        app,
        exported,
        format: params.format,
        includes,
        visibility,
        has_bom: params.bom,
        is_begun: false,
        is_written: false,
        _taken: taken,
    }));
    let headers = AppendHeaders(headers);
    Ok((headers, Body::new(body)).into_response())
}

impl Exported {
    /// Begins the export of a standing.
    async fn begin(
        engine: &Engine,
        at: &PeriodName,
        cohort: Option<&str>,
        visibility: Visibility,
    ) -> Result<Self, Problem> {
        let live = engine.live_board(&at.board).await?;
        if visibility == Visibility::All && live.board.definition.keep_top.is_some() {
            return Err(invalid("hidden", "the board has `keep_top`"));
        }
        if !running::is_rolling(&live, at)? {
            let found = work::period_to_export(engine, at, cohort).await?;
            // A period that ended before `finalize` was set is final without a result.
            if found.period.result.is_some() {
                let export = export::begin(engine, found).await?;
                if visibility == Visibility::Visible {
                    return Ok(Self::Final(Box::new(export)));
                }
            }
        }
        let export = running::begin(engine, at, cohort, visibility).await?;
        Ok(Self::Running(Box::new(export)))
    }

    fn board(&self) -> &Arc<Board> {
        match self {
            Self::Final(export) => &export.found.live.board,
            Self::Running(export) => &export.board,
        }
    }

    /// Its name as a file, without the extension.
    fn name(&self, at: &PeriodName, cohort: Option<&str>) -> String {
        let (key, as_of) = match self {
            Self::Final(export) => (&export.found.period.target.key, None),
            Self::Running(export) => (&export.target.key, Some(export.as_of)),
        };
        let cohort = cohort.map_or(String::new(), |cohort| format!("-{cohort}"));
        let as_of = as_of.map_or(String::new(), |as_of| format!("-{as_of}"));
        let PeriodName { board, window, .. } = at;
        // Keys of hours and instants have colons, which are not allowed in file names everywhere.
        format!("{board}-{window}-{key}{cohort}{as_of}").replace(':', "")
    }

    /// The headers that say which state it shows.
    fn state_headers(&self) -> Vec<(HeaderName, String)> {
        match self {
            Self::Final(export) => vec![
                (header::TRAILER, CHANGED.to_string()),
                (REVISION, export.result.revision.to_string()),
            ],
            Self::Running(export) => vec![(AS_OF, export.as_of.to_string())],
        }
    }

    /// The next entries; fewer than [`PART_ENTRIES`] at the end. Each with whether its member is hidden.
    async fn next_entries(&mut self, engine: &Engine) -> Result<Vec<(Entry, bool)>, Error> {
        match self {
            Self::Final(export) => {
                let entries = export::next_entries(engine, export).await?;
                Ok(entries.into_iter().map(|entry| (entry, false)).collect())
            }
            Self::Running(export) => running::next_entries(export, PART_ENTRIES),
        }
    }
}

/// The frames of the body. An error ends the connection, so that a client can't mistake a part for the whole.
fn frames(outgoing: Outgoing) -> impl Stream<Item = Result<Frame<Bytes>, Error>> {
    try_unfold(Some(Box::new(outgoing)), async |outgoing| {
        let Some(mut outgoing) = outgoing else {
            return Ok(None);
        };
        if !outgoing.is_written {
            let part = outgoing.part().await?;
            return Ok(Some((Frame::data(part), Some(outgoing))));
        }
        let Exported::Final(export) = &outgoing.exported else {
            return Ok(None);
        };
        let has_changed = export::has_changed(&outgoing.app.engine, export).await?;
        let changed = HeaderValue::from_static(if has_changed { "true" } else { "false" });
        let trailer = HeaderMap::from_iter([(CHANGED, changed)]);
        Ok(Some((Frame::trailers(trailer), None)))
    })
}

/// Excel recognises UTF-8 by it.
const BOM: &str = "\u{feff}";
/// Why writing can't fail.
const IN_MEMORY: &str = "invariant: an export is written to memory";

impl Outgoing {
    async fn part(&mut self) -> Result<Bytes, Error> {
        let engine = &self.app.engine;
        let entries = self.exported.next_entries(engine).await?;
        let has_profiles = self.includes.has(Include::Profile);
        let profiles = if has_profiles {
            let members = entries.iter().map(|(entry, _)| Arc::clone(&entry.member));
            Some(profiles::work::read(engine, members).await?)
        } else {
            None
        };
        let has_hidden = self.visibility == Visibility::All;
        let board = self.exported.board();
        let names = board.definition.names;
        let lines = entries.iter().map(|(entry, is_hidden)| ExportLine {
            hidden: has_hidden.then_some(*is_hidden),
            profile: profiles
                .as_ref()
                .map(|profiles| ShownProfile::of(profiles.of(&entry.member)?, names)),
            ..entry.export_line(board)
        });
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        self.is_written = entries.len() < PART_ENTRIES;
        Ok(match self.format {
            ExportFormat::Csv => {
                let bom = if is_first && self.has_bom { BOM } else { "" };
                let mut csv = csv::Writer::from_writer(bom.as_bytes().to_vec());
                if is_first {
                    write_header(&mut csv, (has_hidden, has_profiles)).expect(IN_MEMORY);
                }
                for line in lines {
                    line.write_csv(&mut csv).expect(IN_MEMORY);
                }
                csv.into_inner().expect(IN_MEMORY).into()
            }
            ExportFormat::Ndjson => {
                let mut json = Vec::new();
                for line in lines {
                    line.write_json(&mut json).expect(IN_MEMORY);
                }
                json.into()
            }
        })
    }
}
