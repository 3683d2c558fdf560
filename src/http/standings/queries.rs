//! Many pages and members in one request.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answers::{MemberBody, PageBody};
use super::params::{entries_of_member, entries_of_page, member_view, page_view, standing_request};
use crate::domain::board::FieldError;
use crate::engine::reader::Size;
use crate::http::App;
use crate::http::auth::Granted;
use crate::http::extract::Json;
use crate::http::freshness;
use crate::http::memory::SMALL_ENTRIES_MAX;
use crate::http::problem::{Problem, ProblemBody};
use crate::service::standing::StandingRequest;
use crate::store::{Dated, Freshness};

/// The most queries of one request.
const QUERIES_MAX: usize = 100;
/// The most entries that the queries of one request ask for, all together.
const QUERY_ENTRIES_MAX: usize = 10_000;

/// One query: a page, or with `type: member` one member.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
#[schema(as = Query)]
pub enum QueryBody {
    /// A page of a standing.
    Page {
        /// The board.
        #[schema(example = "run_hero")]
        board: String,
        /// The window.
        #[schema(example = "day")]
        window: String,
        /// As in the route of a page.
        #[serde(default)]
        key: Option<String>,
        /// As in the route of a page.
        #[serde(default)]
        at: Option<String>,
        /// As in the route of a page.
        #[serde(default)]
        raw: bool,
        /// As in the route of a page.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 1_000_000_000_u64)]
        page: Option<u64>,
        /// As in the route of a page.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 1000)]
        size: Option<u64>,
        /// As in the route of a page.
        #[serde(default)]
        member: Option<String>,
    },
    /// One member of a standing.
    Member {
        /// The board.
        #[schema(example = "run_hero")]
        board: String,
        /// The window.
        #[schema(example = "day")]
        window: String,
        /// As in the route of a member.
        #[serde(default)]
        key: Option<String>,
        /// As in the route of a member.
        #[serde(default)]
        at: Option<String>,
        /// As in the route of a member.
        #[serde(default)]
        raw: bool,
        /// Who.
        member: String,
        /// As in the route of a member.
        #[serde(default)]
        #[schema(minimum = 0, maximum = 100)]
        around: Option<u64>,
    },
}

/// Many queries.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Queries {
    /// The queries; each is answered by itself, and they are not one snapshot. Together they ask for 10,000 entries at the
    /// most: a page for its `size`, and one more with `member`; a member for one and twice its `around`, which counts as 1
    /// at least.
    #[schema(min_items = 1, max_items = 100)]
    pub queries: Vec<QueryBody>,
}

/// The answer to one query.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryResult {
    /// To a query of type `page`.
    Page(Box<PageBody>),
    /// To a query of type `member`.
    Member(Box<MemberBody>),
    /// Why there is no answer.
    Problem(ProblemBody),
}

/// The answers, in the order of the queries.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryResults {
    /// One for each query.
    pub results: Vec<QueryResult>,
}

impl QueryBody {
    /// How many entries are read for it at the most.
    fn entries(&self) -> usize {
        match self {
            Self::Page { size, member, .. } => entries_of_page(*size, member.as_deref()),
            Self::Member { around, .. } => entries_of_member(*around),
        }
    }
}

/// Read many pages and members of any boards.
///
/// Their entries are 10,000 at the most, all together.
#[utoipa::path(
    post, path = "/v1/standings/query", tag = "standings", operation_id = "query_standings",
    params(("Cache-Control" = Option<String>, Header, description = "`no-cache`: not from a replica")),
    request_body(content = Queries, example = json!({"queries": [
        {"type": "page", "board": "run_hero", "window": "day", "size": 3},
        {"type": "member", "board": "run_hero", "window": "week", "member": "999", "around": 2}]})),
    responses(
        (status = 200, description = "An answer to each, in their order", body = QueryResults, headers(("Max-Staleness-Ms" = u64, description = "From a replica: how many milliseconds old the oldest answer is at the most"))),
        (status = 413, description = "`payload-too-large`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported-media-type`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`validation-failed`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn query(
    State(app): State<Arc<App>>,
    granted: Granted,
    freshness: Freshness,
    Json(Queries { queries }, _): Json<Queries>,
) -> Result<Response, Problem> {
    if queries.is_empty() || queries.len() > QUERIES_MAX {
        let detail = format!(
            "a request has 1 to {QUERIES_MAX} queries, not {}",
            queries.len()
        );
        return Err(Problem::invalid(vec![FieldError::new("/queries", detail)]));
    }
    let entries = queries.iter().map(QueryBody::entries).sum();
    if entries > QUERY_ENTRIES_MAX {
        let detail = format!(
            "the queries of a request ask for {QUERY_ENTRIES_MAX} entries at the most, all together, not {entries}"
        );
        return Err(Problem::invalid(vec![FieldError::new("/queries", detail)]));
    }
    let (app, queries) = (&*app, &queries);
    let read = async |freshness| answers(app, queries, entries, (granted, freshness)).await;
    freshness::answer(app, freshness, read).await
}

/// The answers to queries, side by side; so many entries are read for them at the most.
async fn answers(
    app: &App,
    queries: &[QueryBody],
    entries: usize,
    how: (Granted, Freshness),
) -> Result<Dated<Response>, Problem> {
    let size = if entries <= SMALL_ENTRIES_MAX {
        Size::Small
    } else {
        Size::Large
    };
    let taken = app.memory.for_read(entries).await?;
    let answers = queries.iter().map(|query| answer(app, query, how, size));
    let answers = join_all(answers).await;
    let mut oldest: Option<Instant> = None;
    let mut results = Vec::with_capacity(answers.len());
    for answer in answers {
        results.push(match answer {
            Ok((result, as_of)) => {
                oldest = oldest.into_iter().chain(as_of).min();
                result
            }
            Err(problem) => QueryResult::Problem(problem.item()),
        });
    }
    Ok(Dated {
        value: taken.write(&QueryResults { results })?.into_response(),
        as_of: oldest,
    })
}

/// The answer to one query, and as of when it is.
async fn answer(
    app: &App,
    query: &QueryBody,
    how: (Granted, Freshness),
    size_in_all: Size,
) -> Result<(QueryResult, Option<Instant>), Problem> {
    let (QueryBody::Page {
        board,
        window,
        key,
        at,
        raw,
        ..
    }
    | QueryBody::Member {
        board,
        window,
        key,
        at,
        raw,
        ..
    }) = query;
    let which = (key.as_deref(), at.as_deref(), *raw);
    let request = StandingRequest {
        size: size_in_all,
        ..standing_request(board, window.clone(), which, how)?
    };
    match query {
        QueryBody::Page {
            page, size, member, ..
        } => {
            let view = page_view(*page, *size, member.as_deref())?;
            let found = app.service.read(&request, &view).await?;
            let body = Box::new(PageBody::new(&view, &found));
            Ok((QueryResult::Page(body), found.as_of))
        }
        QueryBody::Member { member, around, .. } => {
            let view = member_view(member, *around)?;
            let found = app.service.read(&request, &view).await?;
            let body = Box::new(MemberBody::new(&view, &found));
            Ok((QueryResult::Member(body), found.as_of))
        }
    }
}
