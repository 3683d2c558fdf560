//! Standings: pages, members, subsets, and many of them at once.

pub mod answers;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use self::answers::{MemberBody, PageBody, StatsBody, SubsetBody};
use super::App;
use super::auth::Caller;
use super::caching::{Caching, cacheable, render};
use super::extract::{Json, Path, Query, board_id, bounded, choice, member_id};
use super::freshness;
use super::memory::{SMALL_ENTRIES_MAX, Taken};
use super::problem::{INVALID_PARAMETER, Problem, ProblemBody};
use crate::domain::board::FieldError;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::series::Track;
use crate::engine::reader::{Rendered, Size};
use crate::service::member::{AROUND_MAX, MemberView};
use crate::service::page::{FoundPage, PAGE_MAX, PAGE_SIZE, PAGE_SIZE_MAX, PageView};
use crate::service::period::Choice;
use crate::service::standing::{FoundIn, StandingRequest, View};
use crate::service::stats::StatsView;
use crate::service::subset::{SUBSET_MAX, SubsetView};
use crate::store::{Dated, Freshness};

/// The most queries of one request.
const QUERIES_MAX: usize = 100;
/// The most entries that the queries of one request ask for, all together.
const QUERY_ENTRIES_MAX: usize = 10_000;

/// Which page, and of which period.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PageParams {
    /// The page, from 1.
    #[param(minimum = 1, maximum = 1_000_000_000_u64, default = 1)]
    page: Option<u64>,
    /// Entries per page.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    size: Option<u64>,
    /// A member whose own entry comes along as `me`.
    #[param(max_length = 128)]
    member: Option<String>,
    /// The period, by its key; `current` or `previous`.
    #[param(example = "current")]
    key: Option<String>,
    /// The period that holds this instant; not together with `key`.
    #[param(format = DateTime)]
    at: Option<String>,
    /// `real`: without weights and initial scores; needs the scope `configure`.
    #[param(inline)]
    track: Option<Track>,
}

/// Which member, and in which period.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct MemberParams {
    /// How many neighbours on each side come along.
    #[param(minimum = 0, maximum = 100, default = 0)]
    around: Option<u64>,
    /// The period, by its key; `current` or `previous`.
    #[param(example = "current")]
    key: Option<String>,
    /// The period that holds this instant; not together with `key`.
    #[param(format = DateTime)]
    at: Option<String>,
    /// `real`: without weights and initial scores; needs the scope `configure`.
    #[param(inline)]
    track: Option<Track>,
}

/// Which members, and in which period.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SubsetParams {
    /// 1 to 500 member ids, separated by commas. (A member whose id contains a comma can be read alone.)
    #[param(example = "999,alice")]
    ids: String,
    /// The period, by its key; `current` or `previous`.
    #[param(example = "current")]
    key: Option<String>,
    /// The period that holds this instant; not together with `key`.
    #[param(format = DateTime)]
    at: Option<String>,
    /// `real`: without weights and initial scores; needs the scope `configure`.
    #[param(inline)]
    track: Option<Track>,
}

/// Which period.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StatsParams {
    /// The period, by its key; `current` or `previous`.
    #[param(example = "current")]
    key: Option<String>,
    /// The period that holds this instant; not together with `key`.
    #[param(format = DateTime)]
    at: Option<String>,
    /// `real`: without weights and initial scores; needs the scope `configure`.
    #[param(inline)]
    track: Option<Track>,
}

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
        track: Option<Track>,
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
        track: Option<Track>,
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

/// How many entries a page has at the most.
fn entries_of_page(size: Option<u64>, member: Option<&String>) -> usize {
    let size = size.unwrap_or(PAGE_SIZE).min(PAGE_SIZE_MAX);
    usize::try_from(size).unwrap_or(usize::MAX) + usize::from(member.is_some())
}

/// How many entries are read with a member: its own, and one neighbour on each side at least.
fn entries_of_member(around: Option<u64>) -> usize {
    let around = around.unwrap_or(0).clamp(1, AROUND_MAX);
    1 + 2 * usize::try_from(around).unwrap_or(usize::MAX / 4)
}

impl QueryBody {
    /// How many entries are read for it at the most.
    fn entries(&self) -> usize {
        match self {
            Self::Page { size, member, .. } => entries_of_page(*size, member.as_ref()),
            Self::Member { around, .. } => entries_of_member(*around),
        }
    }
}

/// Which standing a request names.
fn standing_request(
    board: &str,
    window: String,
    (key, at, track): (Option<String>, Option<String>, Option<Track>),
    (caller, freshness): (&Caller, Freshness),
) -> Result<StandingRequest, Problem> {
    Ok(StandingRequest {
        board: board_id(board)?,
        window,
        choice: choice(key.as_deref(), at.as_deref())?,
        track: caller.track(track)?,
        freshness,
        size: Size::Small,
    })
}

fn page_view(
    page: Option<u64>,
    size: Option<u64>,
    member: Option<&str>,
) -> Result<PageView, Problem> {
    Ok(PageView {
        page: bounded("page", page, 1, 1, PAGE_MAX)?,
        size: bounded("size", size, PAGE_SIZE, 1, PAGE_SIZE_MAX)?,
        member: member.map(member_id).transpose()?,
    })
}

fn member_view(member: &str, around: Option<u64>) -> Result<MemberView, Problem> {
    let around = around.map(|around| bounded("around", Some(around), 0, 0, AROUND_MAX));
    Ok(MemberView {
        member: member_id(member)?,
        around: around.transpose()?,
    })
}

/// What caches may do with a read. Its address may mean another period tomorrow, and a replica may lack the last of its
/// events.
fn caching<T>(app: &App, request: &StandingRequest, found: &FoundIn<T>) -> Caching {
    let names_period = matches!(request.choice, Choice::Key(_) | Choice::At(_));
    Caching::of(app, &found.live.board)
        .fixed_if(found.target.is_final && found.as_of.is_none() && names_period)
        .restricted_if(request.track == Track::Real)
}

/// Answers a read of so many entries at the most. `render` writes what was found out, into the memory that was taken.
async fn show<V: View>(
    app: &App,
    headers: &HeaderMap,
    request: &StandingRequest,
    (view, entries): (&V, usize),
    render: impl Fn(&FoundIn<V::Found>, Taken) -> Result<Rendered, Problem>,
) -> Result<Response, Problem> {
    let render = &render;
    let read = async |freshness| {
        let request = StandingRequest {
            freshness,
            ..request.clone()
        };
        let taken = app.memory.for_read(entries).await?;
        let found = app.service.read(&request, view).await?;
        let rendered = render(&found, taken)?;
        let caching = caching(app, &request, &found);
        let value = cacheable(headers, caching, rendered);
        let as_of = found.as_of;
        Ok(Dated { value, as_of })
    };
    freshness::answer(app, request.freshness, read).await
}

/// Read a page of a standing.
///
/// The whole page is one snapshot. A period without events is an empty page with `total` 0.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}", tag = "standings", operation_id = "get_page",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero"),
        ("window" = String, Path, description = "One of the board's windows", example = "day"),
        PageParams,
        ("If-None-Match" = Option<String>, Header, description = "An `ETag`: 304 if nothing has changed"),
        ("Cache-Control" = Option<String>, Header, description = "`no-cache`: not from a replica"),
    ),
    responses(
        (status = 200, description = "The page", body = PageBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "`no-cache` while the standing can change"), ("Max-Staleness-Ms" = u64, description = "From a replica: how many milliseconds old it is at the most"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`unknown-window`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn page(
    State(app): State<Arc<App>>,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<PageParams>,
    caller: Caller,
    freshness: Freshness,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let PageParams {
        page,
        size,
        member,
        key,
        at,
        track,
    } = params;
    let request = standing_request(&board, window, (key, at, track), (&caller, freshness))?;
    let entries = entries_of_page(size, member.as_ref());
    let view = page_view(page, size, member.as_deref())?;
    // A page that many ask for is written once.
    let render = |found: &FoundIn<FoundPage>, taken| {
        let shared = &found.found.shared;
        if let Some(rendered) = shared.rendered.get() {
            return Ok(rendered.clone());
        }
        let rendered = render(&PageBody::new(&view, found), taken)?;
        Ok(shared.rendered.get_or_init(|| rendered).clone())
    };
    show(&app, &headers, &request, (&view, entries), render).await
}

/// Read one member of a standing.
///
/// Its rank, its neighbours, and where it stood the period before, as one snapshot.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/members/{member}", tag = "standings", operation_id = "get_member",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero"),
        ("window" = String, Path, description = "One of the board's windows", example = "day"),
        ("member" = String, Path, description = "The member's id", example = "999"),
        MemberParams,
        ("If-None-Match" = Option<String>, Header, description = "An `ETag`: 304 if nothing has changed"),
        ("Cache-Control" = Option<String>, Header, description = "`no-cache`: not from a replica"),
    ),
    responses(
        (status = 200, description = "The member", body = MemberBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "`no-cache` while the standing can change"), ("Max-Staleness-Ms" = u64, description = "From a replica: how many milliseconds old it is at the most"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`, `member-not-found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`unknown-window`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn member(
    State(app): State<Arc<App>>,
    Path((board, window, member)): Path<(String, String, String)>,
    Query(params): Query<MemberParams>,
    caller: Caller,
    freshness: Freshness,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let MemberParams {
        around,
        key,
        at,
        track,
    } = params;
    let request = standing_request(&board, window, (key, at, track), (&caller, freshness))?;
    let entries = entries_of_member(around);
    let view = member_view(&member, around)?;
    let render = |found: &_, taken| render(&MemberBody::new(&view, found), taken);
    show(&app, &headers, &request, (&view, entries), render).await
}

/// Read some members of a standing.
///
/// A circle of friends: each with its rank on the board and its position in the set.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/members", tag = "standings", operation_id = "get_subset",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero"),
        ("window" = String, Path, description = "One of the board's windows", example = "day"),
        SubsetParams,
        ("If-None-Match" = Option<String>, Header, description = "An `ETag`: 304 if nothing has changed"),
        ("Cache-Control" = Option<String>, Header, description = "`no-cache`: not from a replica"),
    ),
    responses(
        (status = 200, description = "The members", body = SubsetBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "`no-cache` while the standing can change"), ("Max-Staleness-Ms" = u64, description = "From a replica: how many milliseconds old it is at the most"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`unknown-window`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn subset(
    State(app): State<Arc<App>>,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<SubsetParams>,
    caller: Caller,
    freshness: Freshness,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut members: Vec<MemberId> = Vec::new();
    for id in params.ids.split(',') {
        let member = member_id(id)?;
        if !members.contains(&member) {
            members.push(member);
        }
    }
    if members.len() > SUBSET_MAX {
        return Err(Problem::new(
            INVALID_PARAMETER,
            format!("ids: must be at most {SUBSET_MAX} members"),
        ));
    }
    let SubsetParams { key, at, track, .. } = params;
    let request = standing_request(&board, window, (key, at, track), (&caller, freshness))?;
    let view = SubsetView { members };
    let render = |found: &_, taken| render(&SubsetBody::new(found), taken);
    let entries = view.members.len();
    show(&app, &headers, &request, (&view, entries), render).await
}

/// Read what a standing amounts to.
///
/// How many members it has, and on boards with `uniques` how many voters, events and points. The voters are an
/// estimate, which is read right after the rest.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/stats", tag = "standings", operation_id = "get_stats",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero"),
        ("window" = String, Path, description = "One of the board's windows", example = "day"),
        StatsParams,
        ("If-None-Match" = Option<String>, Header, description = "An `ETag`: 304 if nothing has changed"),
        ("Cache-Control" = Option<String>, Header, description = "`no-cache`: not from a replica"),
    ),
    responses(
        (status = 200, description = "What it amounts to", body = StatsBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "`no-cache` while the standing can change"), ("Max-Staleness-Ms" = u64, description = "From a replica: how many milliseconds old it is at the most"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`unknown-window`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn stats(
    State(app): State<Arc<App>>,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<StatsParams>,
    caller: Caller,
    freshness: Freshness,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let StatsParams { key, at, track } = params;
    let request = standing_request(&board, window, (key, at, track), (&caller, freshness))?;
    let render = |found: &_, taken| render(&StatsBody::new(found), taken);
    show(&app, &headers, &request, (&StatsView, 0), render).await
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
    caller: Caller,
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
    let read = async |freshness| answers(app, queries, entries, (&caller, freshness)).await;
    freshness::answer(app, freshness, read).await
}

/// The answers to queries, side by side; so many entries are read for them at the most.
async fn answers(
    app: &App,
    queries: &[QueryBody],
    entries: usize,
    how: (&Caller, Freshness),
) -> Result<Dated<Response>, Problem> {
    let size = if entries <= SMALL_ENTRIES_MAX {
        Size::Small
    } else {
        Size::Large
    };
    let taken = app.memory.for_read(entries).await?;
    let answers = queries
        .iter()
        .map(|query| answer(app, query.clone(), how, size));
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
    query: QueryBody,
    how: (&Caller, Freshness),
    size_in_all: Size,
) -> Result<(QueryResult, Option<Instant>), Problem> {
    let of_size = |request| StandingRequest {
        size: size_in_all,
        ..request
    };
    match query {
        QueryBody::Page {
            board,
            window,
            key,
            at,
            track,
            page,
            size,
            member,
        } => {
            how.0.require_board(BoardId::parse(&board).ok().as_ref())?;
            let request = standing_request(&board, window, (key, at, track), how)?;
            let view = page_view(page, size, member.as_deref())?;
            let found = app.service.read(&of_size(request), &view).await?;
            let body = Box::new(PageBody::new(&view, &found));
            Ok((QueryResult::Page(body), found.as_of))
        }
        QueryBody::Member {
            board,
            window,
            key,
            at,
            track,
            member,
            around,
        } => {
            how.0.require_board(BoardId::parse(&board).ok().as_ref())?;
            let request = standing_request(&board, window, (key, at, track), how)?;
            let view = member_view(&member, around)?;
            let found = app.service.read(&of_size(request), &view).await?;
            let body = Box::new(MemberBody::new(&view, &found));
            Ok((QueryResult::Member(body), found.as_of))
        }
    }
}
