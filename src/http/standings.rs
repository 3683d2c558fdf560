//! Standings: pages, members, subsets, and many of them at once.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use xxhash_rust::xxh3::xxh3_128;

use super::App;
use super::extract::{Json, Path, Query, board_id, bounded, choice, member_id};
use super::problem::{INVALID_PARAMETER, Problem, ProblemBody};
use crate::domain::board::FieldError;
use crate::domain::ids::MemberId;
use crate::domain::score::{Decimals, ShownScore};
use crate::domain::time::Timestamp;
use crate::service::ask::Rendered;
use crate::service::member::{AROUND_MAX, FoundMember, MemberRequest};
use crate::service::page::{FoundPage, PAGE_MAX, PAGE_SIZE, PAGE_SIZE_MAX, PageRequest};
use crate::service::period::{Choice, Target};
use crate::service::subset::{SUBSET_MAX, SubsetRequest};
use crate::store::standings::Entry;

/// The most queries of one request.
const QUERIES_MAX: usize = 100;
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
}

/// Which members, and in which period.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SubsetParams {
    /// 1 to 500 member ids, separated by commas. (A member whose id contains a comma can be read alone.)
    #[param(example = "a,b,c")]
    ids: String,
    /// The period, by its key; `current` or `previous`.
    #[param(example = "current")]
    key: Option<String>,
    /// The period that holds this instant; not together with `key`.
    #[param(format = DateTime)]
    at: Option<String>,
}

/// One line of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Entry)]
pub struct EntryBody {
    /// From 1, as the board's `ranking` counts.
    #[schema(example = 1)]
    pub rank: u64,
    /// Who.
    #[schema(value_type = String, example = "999")]
    pub member: Arc<str>,
    /// How much.
    #[schema(value_type = f64, example = 30)]
    pub score: ShownScore,
    /// When that score was reached; not there on boards with `ties: member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-11-21T00:30:00.000Z")]
    pub reached_at: Option<Timestamp>,
}

/// Which standing an answer is about.
#[derive(Debug, Serialize, ToSchema)]
pub struct StandingBody {
    /// The board.
    #[schema(example = "run_hero")]
    pub board: String,
    /// The window.
    #[schema(example = "day")]
    pub window: String,
    /// The period, by its key; of a rolling window the newest one in it.
    #[schema(example = "2026-11-21")]
    pub key: String,
    /// Where the standing begins; null for `all`.
    #[schema(format = DateTime, example = "2026-11-20T16:00:00Z")]
    pub starts_at: Option<String>,
    /// Where it ends; null for `all`.
    #[schema(format = DateTime, example = "2026-11-21T16:00:00Z")]
    pub ends_at: Option<String>,
    /// How many members it has.
    #[schema(example = 1234)]
    pub total: u64,
}

/// A page of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Page)]
pub struct PageBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// The page, from 1.
    pub page: u64,
    /// Entries per page.
    pub size: u64,
    /// The entries, in order; none behind the last page.
    pub entries: Vec<EntryBody>,
    /// The entry of the member that was named; null if none was or it is not listed.
    pub me: Option<EntryBody>,
}

/// A neighbour, and how far away it is.
#[derive(Debug, Serialize, ToSchema)]
pub struct NeighbourBody {
    /// Its rank.
    pub rank: u64,
    /// Who.
    #[schema(value_type = String)]
    pub member: Arc<str>,
    /// Its score.
    #[schema(value_type = f64, example = 33)]
    pub score: ShownScore,
    /// The distance of the two scores; never negative.
    #[schema(value_type = f64, minimum = 0, example = 3)]
    pub gap: ShownScore,
}

/// Where a member stood the period before.
#[derive(Debug, Serialize, ToSchema)]
pub struct PreviousBody {
    /// The period, by its key.
    pub key: String,
    /// Its rank then.
    pub rank: u64,
    /// Its score then.
    #[schema(value_type = f64, example = 18)]
    pub score: ShownScore,
    /// How many ranks it has gained since; negative if it has lost.
    pub rank_change: i64,
    /// How much its score differs from then.
    #[schema(value_type = f64, example = 12)]
    pub score_change: ShownScore,
}

/// A member of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Member)]
pub struct MemberBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// Its entry.
    #[serde(flatten)]
    pub entry: EntryBody,
    /// How many of the others are behind it, in percent with one decimal; 100 for a member alone.
    #[schema(minimum = 0, maximum = 100, example = 99.5)]
    pub percentile: f64,
    /// The next better; null for the first.
    pub ahead: Option<NeighbourBody>,
    /// The next worse; null for the last.
    pub behind: Option<NeighbourBody>,
    /// With `around`: up to so many before it, itself, and up to so many after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub around: Option<Vec<EntryBody>>,
    /// Where it stood the period before; null if it was not listed.
    pub previous: Option<PreviousBody>,
}

/// A line of a subset.
#[derive(Debug, Serialize, ToSchema)]
pub struct SubsetEntryBody {
    /// The place in the set, from 1.
    pub position: u64,
    /// The entry on the board.
    #[serde(flatten)]
    pub entry: EntryBody,
}

/// Some members of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Subset)]
pub struct SubsetBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// Those who are listed, in order.
    pub entries: Vec<SubsetEntryBody>,
    /// Those who are not.
    pub not_found: Vec<String>,
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
    /// The queries; each is answered by itself, and they are not one snapshot.
    #[schema(min_items = 1, max_items = 100, example = json!([
        {"type": "page", "board": "run_hero", "window": "day", "size": 3},
        {"type": "member", "board": "run_hero", "window": "week", "member": "999", "around": 2}]))]
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

impl EntryBody {
    fn new(entry: &Entry, decimals: Decimals) -> Self {
        Self {
            rank: entry.rank,
            member: Arc::clone(&entry.member),
            score: entry.score.shown(decimals),
            reached_at: entry.reached_at,
        }
    }
}

impl StandingBody {
    fn new(board: &str, target: &Target, total: u64) -> Self {
        Self {
            board: board.to_owned(),
            window: target.window.to_string(),
            key: target.key.clone(),
            starts_at: target.starts_at.map(Timestamp::to_rfc3339_seconds),
            ends_at: target.ends_at.map(Timestamp::to_rfc3339_seconds),
            total,
        }
    }
}

impl PageBody {
    fn new(request: &PageRequest, found: &FoundPage) -> Self {
        let board = &found.live.board;
        let page = &found.shared.page;
        let line = |entry: &Entry| EntryBody::new(entry, board.definition.decimals);
        Self {
            standing: StandingBody::new(board.id.as_str(), &found.target, page.total),
            page: request.page,
            size: request.size,
            entries: page.entries.iter().map(line).collect(),
            me: page.me.as_ref().map(line),
        }
    }
}

impl MemberBody {
    fn new(request: &MemberRequest, found: &FoundMember) -> Self {
        let board = &found.live.board;
        let decimals = board.definition.decimals;
        let around = &found.found;
        let own = &around.entries[around.index];
        let neighbour = |entry: &Entry| {
            let (greater, smaller) = (own.score.max(entry.score), own.score.min(entry.score));
            NeighbourBody {
                rank: entry.rank,
                member: Arc::clone(&entry.member),
                score: entry.score.shown(decimals),
                gap: ShownScore::difference(greater, smaller, decimals),
            }
        };
        let ahead = around
            .index
            .checked_sub(1)
            .and_then(|index| around.entries.get(index));
        let behind = around.entries.get(around.index + 1);
        let listed = request.around.map(|count| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let from = around.index.saturating_sub(count);
            let to = around
                .index
                .saturating_add(count)
                .saturating_add(1)
                .min(around.entries.len());
            around.entries[from..to]
                .iter()
                .map(|entry| EntryBody::new(entry, decimals))
                .collect()
        });
        let previous =
            found
                .previous
                .as_ref()
                .zip(around.previous)
                .map(|(target, (rank, score))| PreviousBody {
                    key: target.key.clone(),
                    rank,
                    score: score.shown(decimals),
                    rank_change: rank.cast_signed() - own.rank.cast_signed(),
                    score_change: ShownScore::difference(own.score, score, decimals),
                });
        Self {
            standing: StandingBody::new(board.id.as_str(), &found.target, around.total),
            entry: EntryBody::new(own, decimals),
            percentile: percentile(around.total, around.place),
            ahead: ahead.map(neighbour),
            behind: behind.map(neighbour),
            around: listed,
            previous,
        }
    }
}

/// 100 · (total − place) / (total − 1), rounded to one decimal, half up; 100 for a member alone.
fn percentile(total: u64, place: u64) -> f64 {
    let others = total.saturating_sub(1);
    if others == 0 {
        return 100.0;
    }
    let behind = total.saturating_sub(place);
    let tenths = (behind * 2_000 + others) / (others * 2);
    f64::from(u32::try_from(tenths).unwrap_or(1_000)) / 10.0
}

/// Writes an answer out, and makes its entity tag.
fn render<T: Serialize>(body: &T) -> Result<Rendered, Problem> {
    let json = serde_json::to_vec(body)
        .map_err(|error| Problem::new(super::problem::INTERNAL, error.to_string()))?;
    Ok(Rendered {
        // Weak, since compression makes other bytes of the same content.
        tag: format!("W/\"{:032x}\"", xxh3_128(&json)),
        body: json.into(),
    })
}

/// An answer that caches can check. `choice` says whether the same address means the same period tomorrow.
fn cacheable(
    app: &App,
    headers: &HeaderMap,
    choice: &Choice,
    target: &Target,
    rendered: Rendered,
) -> Response {
    let Rendered { body, tag } = rendered;
    // Not for long, since a board can still be deleted.
    let is_fixed = target.is_final && matches!(choice, Choice::Key(_) | Choice::At(_));
    let cache_control = match (app.is_open, is_fixed) {
        (true, true) => "public, max-age=300",
        (true, false) => "public, no-cache",
        (false, true) => "private, max-age=300",
        (false, false) => "private, no-cache",
    };
    let opaque = |tag: &str| tag.trim_start_matches("W/").to_owned();
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|known| known.trim() == "*" || opaque(known.trim()) == opaque(&tag));
    let validators = [
        (
            header::ETAG,
            HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("W/\"\"")),
        ),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static(cache_control),
        ),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, validators).into_response();
    }
    let content_type = (
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    (validators, [content_type], body).into_response()
}

fn page_request(board: &str, window: String, params: PageParams) -> Result<PageRequest, Problem> {
    let PageParams {
        page,
        size,
        member,
        key,
        at,
    } = params;
    Ok(PageRequest {
        board: board_id(board)?,
        window,
        choice: choice(key.as_deref(), at.as_deref())?,
        page: bounded("page", page, 1, 1, PAGE_MAX)?,
        size: bounded("size", size, PAGE_SIZE, 1, PAGE_SIZE_MAX)?,
        member: member.as_deref().map(member_id).transpose()?,
    })
}

fn member_request(
    board: &str,
    window: String,
    member: &str,
    params: MemberParams,
) -> Result<MemberRequest, Problem> {
    let MemberParams { around, key, at } = params;
    let around = around
        .map(|around| bounded("around", Some(around), 0, 0, AROUND_MAX))
        .transpose()?;
    Ok(MemberRequest {
        board: board_id(board)?,
        window,
        choice: choice(key.as_deref(), at.as_deref())?,
        member: member_id(member)?,
        around,
    })
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
    ),
    responses(
        (status = 200, description = "The page", body = PageBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "`no-cache` while the standing can change"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`unknown-window`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn page(
    State(app): State<Arc<App>>,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<PageParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let request = page_request(&board, window, params)?;
    let found = app.service.page(&request).await?;
    let shared = &found.shared.rendered;
    let rendered = if let Some(rendered) = shared.get() {
        rendered.clone()
    } else {
        let rendered = render(&PageBody::new(&request, &found))?;
        shared.get_or_init(|| rendered).clone()
    };
    Ok(cacheable(
        &app,
        &headers,
        &request.choice,
        &found.target,
        rendered,
    ))
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
    ),
    responses(
        (status = 200, description = "The member", body = MemberBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "`no-cache` while the standing can change"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`, `member-not-found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`unknown-window`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn member(
    State(app): State<Arc<App>>,
    Path((board, window, member)): Path<(String, String, String)>,
    Query(params): Query<MemberParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let request = member_request(&board, window, &member, params)?;
    let found = app.service.member(&request).await?;
    let rendered = render(&MemberBody::new(&request, &found))?;
    Ok(cacheable(
        &app,
        &headers,
        &request.choice,
        &found.target,
        rendered,
    ))
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
    ),
    responses(
        (status = 200, description = "The members", body = SubsetBody, headers(("ETag" = String, description = "Of this content"), ("Cache-Control" = String, description = "`no-cache` while the standing can change"))),
        (status = 304, description = "Nothing has changed"),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`unknown-window`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn subset(
    State(app): State<Arc<App>>,
    Path((board, window)): Path<(String, String)>,
    Query(params): Query<SubsetParams>,
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
    let request = SubsetRequest {
        board: board_id(&board)?,
        window,
        choice: choice(params.key.as_deref(), params.at.as_deref())?,
        members,
    };
    let found = app.service.subset(&request).await?;
    let board = &found.live.board;
    let decimals = board.definition.decimals;
    let body = SubsetBody {
        standing: StandingBody::new(board.id.as_str(), &found.target, found.total),
        entries: (1..)
            .zip(&found.entries)
            .map(|(position, entry)| SubsetEntryBody {
                position,
                entry: EntryBody::new(entry, decimals),
            })
            .collect(),
        not_found: found.not_found.iter().map(ToString::to_string).collect(),
    };
    Ok(cacheable(
        &app,
        &headers,
        &request.choice,
        &found.target,
        render(&body)?,
    ))
}

/// Read many pages and members of any boards.
#[utoipa::path(
    post, path = "/v1/standings/query", tag = "standings", operation_id = "query_standings",
    request_body = Queries,
    responses(
        (status = 200, description = "An answer to each, in their order", body = QueryResults),
        (status = 413, description = "`payload-too-large`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported-media-type`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`validation-failed`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn query(
    State(app): State<Arc<App>>,
    Json(Queries { queries }): Json<Queries>,
) -> Result<JsonResponse<QueryResults>, Problem> {
    if queries.is_empty() || queries.len() > QUERIES_MAX {
        let detail = format!(
            "a request has 1 to {QUERIES_MAX} queries, not {}",
            queries.len()
        );
        return Err(Problem::invalid(vec![FieldError::new("/queries", detail)]));
    }
    let answers = join_all(queries.into_iter().map(|query| answer(&app, query))).await;
    let results = answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(|problem| QueryResult::Problem(problem.body(None))))
        .collect();
    Ok(JsonResponse(QueryResults { results }))
}

async fn answer(app: &App, query: QueryBody) -> Result<QueryResult, Problem> {
    match query {
        QueryBody::Page {
            board,
            window,
            key,
            at,
            page,
            size,
            member,
        } => {
            let request = page_request(
                &board,
                window,
                PageParams {
                    page,
                    size,
                    member,
                    key,
                    at,
                },
            )?;
            let found = app.service.page(&request).await?;
            Ok(QueryResult::Page(Box::new(PageBody::new(&request, &found))))
        }
        QueryBody::Member {
            board,
            window,
            key,
            at,
            member,
            around,
        } => {
            let request =
                member_request(&board, window, &member, MemberParams { around, key, at })?;
            let found = app.service.member(&request).await?;
            Ok(QueryResult::Member(Box::new(MemberBody::new(
                &request, &found,
            ))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_have_one_decimal() {
        let exactly = |total, place, expected: f64| {
            assert!(
                (percentile(total, place) - expected).abs() < f64::EPSILON,
                "{total} {place}"
            );
        };
        exactly(1, 1, 100.0);
        exactly(2, 1, 100.0);
        exactly(2, 2, 0.0);
        exactly(3, 2, 50.0);
        exactly(1234, 7, 99.5);
        exactly(7, 2, 83.3);
    }
}
