//! Batches of reads of standings.

use std::sync::Arc;
use std::time::Instant;

use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Number;
use utoipa::{IntoParams, ToSchema};

use super::answers::{MemberBody, PageBody, StatsBody, SubsetBody};
use super::params::{
    Named, entries_of_member, entries_of_page, includes, member_view, named_members, page_view,
};
use crate::access::{Caller, HiddenChoice};
use crate::core::read::reader::ReadSize;
use crate::domain::ids::BoardId;
use crate::domain::include::{Include, Includes};
use crate::domain::profile::Profiles;
use crate::http::App;
use crate::http::extract::{Json, Query, Shared, State, require_count};
use crate::http::freshness::{self, NoCache};
use crate::http::memory::SMALL_ENTRIES_MAX;
use crate::http::problem::{Problem, ProblemBody};
use crate::profiles;
use crate::redis::{Dated, Freshness};
use crate::runtime::join::join_all;
use crate::standings::league_member;
use crate::standings::page::{Entries, PageView};
use crate::standings::standing::{self, FoundIn, StandingRequest, View, members};
use crate::standings::stats::StatsView;

/// The caller, the required freshness, and what entries have in addition to scores.
type How<'a> = (&'a Caller, Freshness, Includes);

/// The outcome of one read of a batch.
pub(crate) struct BatchRead<A> {
    /// The time that it is current as of.
    as_of: Option<Instant>,
    /// The members whose profiles the response shows.
    members: Option<Vec<Arc<str>>>,
    /// Makes the response.
    answer: Box<dyn FnOnce(Profiles) -> A + Send>,
}

/// How many queries one request may have.
const QUERIES_MAX: usize = 100;
/// How many entries all queries of one request may ask for.
const QUERY_ENTRIES_MAX: usize = 10_000;

/// Defines queries, each with the fields that name the standing.
macro_rules! queries {
    ($($(#[$doc:meta])* $name:ident { $($fields:tt)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The board.
            board: String,
            /// The window.
            window: String,
            /// The period, by its key; `current` or `previous`.
            #[serde(default)]
            key: Option<String>,
            /// The period that contains this time; not together with `key`.
            #[serde(default)]
            #[schema(format = DateTime)]
            at: Option<String>,
            /// The cohort, on a board with a league. Queries of a member use its own cohort by default; other queries need
            /// one.
            #[serde(default)]
            cohort: Option<String>,
            /// `true`: the true count, without weights and initial scores; needs the scope `configure`.
            #[serde(default)]
            raw: bool,
            /// `include`: hidden members are included; needs the scope `moderate`.
            #[serde(default)]
            #[schema(inline)]
            hidden: Option<HiddenChoice>,
            $($fields)*
        }

        impl $name {
            fn request(&self, (caller, freshness, includes): How<'_>, size: ReadSize) -> Result<StandingRequest, Problem> {
                caller.require_board(BoardId::parse(&self.board).ok().as_ref())?;
                let named = Named {
                    key: self.key.as_deref(),
                    at: self.at.as_deref(),
                    cohort: self.cohort.as_deref(),
                    is_raw: self.raw,
                    hidden: self.hidden,
                    ..Named::default()
                };
                let request = named.request(&self.board, self.window.clone(), (caller, freshness))?;
                Ok(StandingRequest { includes, size, ..request })
            }
        }
    )*};
}

queries! {
    /// A page of a standing.
    PageQuery {
        /// The page, from 1.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 1_000_000_000_u64, default = 1)]
        page: Option<u64>,
        /// The maximum number of entries on a page.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 1000, default = 50)]
        size: Option<u64>,
        /// A member whose own entry is returned as `me`.
        #[serde(default)]
        member: Option<String>,
        /// Only entries with at least this score. The pages then consist of these.
        #[serde(default)]
        #[schema(value_type = Option<f64>)]
        from_score: Option<Number>,
        /// Only entries with at most this score.
        #[serde(default)]
        #[schema(value_type = Option<f64>)]
        to_score: Option<Number>,
    }

    /// One member of a standing.
    MemberQuery {
        /// The member.
        member: String,
        /// How many neighbours to return on each side.
        #[serde(default)]
        #[schema(minimum = 0, maximum = 100)]
        around: Option<u64>,
    }

    /// Some members of a standing.
    SubsetQuery {
        /// 1 to 500 ids.
        #[schema(min_items = 1, max_items = 500)]
        ids: Vec<String>,
    }

    /// Statistics of a standing.
    StatsQuery {}
}

/// One query.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schema(as = Query)]
pub enum QueryBody {
    /// A page.
    Page(PageQuery),
    /// One member.
    Member(MemberQuery),
    /// Some members.
    Subset(SubsetQuery),
    /// The statistics.
    Stats(StatsQuery),
}

/// What the answers have.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct QueryParams {
    /// Additional fields of entries, separated by commas: `profile` is the member's name, picture and attributes; `data` is
    /// the data of the event that gave the entry its `reached_at`.
    #[param(value_type = Option<Vec<Include>>, required = false, style = Form, explode = false, example = json!(["profile"]))]
    include: Option<String>,
}

/// Many queries.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Queries {
    /// The queries. Each has its own result, and they are not one snapshot. In total they may request 10,000 entries: a page
    /// counts as its `size`, plus one with `member`; a member as 1 + 2 · `around`, but at least 3; a subset as the number of
    /// its `ids`.
    #[schema(min_items = 1, max_items = 100)]
    pub queries: Vec<QueryBody>,
}

/// The result of one query, with the query's `type`; or `problem`.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum QueryResult {
    /// The result of a query of type `page`.
    Page(Box<PageBody>),
    /// The result of a query of type `member`.
    Member(Box<MemberBody>),
    /// The result of a query of type `subset`.
    Subset(SubsetBody),
    /// The result of a query of type `stats`.
    Stats(StatsBody),
    /// There is no result.
    Problem(NoAnswer),
}

/// Why a query has no answer.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct NoAnswer {
    /// Why there is no result for the query.
    pub problem: ProblemBody,
}

/// The results, in the order of the queries.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct QueryResults {
    /// A result for each query, in the order of the queries.
    pub results: Vec<QueryResult>,
}

impl QueryBody {
    /// How many entries it reads at most.
    fn entries(&self) -> usize {
        match self {
            Self::Page(query) => entries_of_page(query.size, query.member.as_deref()),
            Self::Member(query) => entries_of_member(query.around),
            Self::Subset(query) => query.ids.len(),
            Self::Stats(_) => 0,
        }
    }
}

/// Read many standings of any boards.
///
/// Pages, members, subsets and statistics, with at most 10,000 entries in total.
#[utoipa::path(
    post, path = "/v1/standings/query", operation_id = "query_standings",
    params(QueryParams, NoCache),
    request_body(content = Queries, example = json!({"queries": [
        {"type": "page", "board": "run_hero", "window": "day", "size": 3},
        {"type": "member", "board": "run_hero", "window": "week", "member": "999", "around": 2},
        {"type": "subset", "board": "run_hero", "window": "week", "ids": ["999", "alice"]},
        {"type": "stats", "board": "run_hero", "window": "all"}]})),
    responses(
        (status = 200, description = "The result of each query, in the order of the request", body = QueryResults, headers(("Max-Staleness-Ms" = u64, description = "From a replica: the maximum age of the oldest result in milliseconds"))),
    )
)]
pub async fn query(
    State(app): Shared,
    Query(params): Query<QueryParams>,
    caller: Caller,
    freshness: Freshness,
    Json(Queries { queries }, _): Json<Queries>,
) -> Result<Response, Problem> {
    let includes = includes(params.include.as_deref(), &caller)?;
    require_count("a request", "queries", queries.len(), QUERIES_MAX)?;
    let entries: usize = queries.iter().map(QueryBody::entries).sum();
    if entries > QUERY_ENTRIES_MAX {
        let detail = format!(
            "all queries together may ask for at most {QUERY_ENTRIES_MAX} entries, not {entries}"
        );
        return Err(Problem::invalid_field("/queries", detail));
    }
    let is_small = entries <= SMALL_ENTRIES_MAX;
    let size = if is_small {
        ReadSize::Small
    } else {
        ReadSize::Large
    };
    let (app, queries, caller, by) = (&*app, &queries, &caller, &caller.takers());
    let read = async |freshness| {
        let entries = entries + entries_of_cohorts(app, queries).await;
        let taken = app.memory.for_entries(by, entries, includes).await?;
        let how = (caller, freshness, includes);
        let found = queries.iter().map(|query| find(app, query, how, size));
        let (results, as_of) = answers(app, includes, found).await?;
        let refused = |problem: Problem| {
            let problem = problem.item();
            QueryResult::Problem(NoAnswer { problem })
        };
        let results = results.into_iter().map(|one| one.unwrap_or_else(refused));
        let results = results.collect();
        let value = taken.write(&QueryResults { results })?.into_response();
        Ok(Dated { value, as_of })
    };
    freshness::answer(app, freshness, read).await
}

/// The responses of concurrent reads, with the profiles for all of them; and the oldest time that they are current as of.
pub(crate) async fn answers<'a, A>(
    app: &App,
    includes: Includes,
    reads: impl Iterator<Item: Future<Output = Result<BatchRead<A>, Problem>> + Send + 'a>,
) -> Result<(Vec<Result<A, Problem>>, Option<Instant>), Problem> {
    let found = join_all(reads).await;
    let oldest = found.iter().flatten().filter_map(|found| found.as_of).min();
    let mut profiles = Profiles::default();
    if includes.has(Include::Profile) {
        let members = found.iter().flatten().flat_map(|found| &found.members);
        let members: Vec<_> = members.flatten().cloned().collect();
        profiles = profiles::work::read(&app.engine, members).await?;
    }
    let answer = |found: BatchRead<A>| (found.answer)(profiles.clone());
    let answers = found.into_iter().map(|found| found.map(answer));
    Ok((answers.collect(), oldest))
}

/// How many entries are read beyond those requested: a read of a league's member reads its whole cohort.
async fn entries_of_cohorts(app: &App, queries: &[QueryBody]) -> usize {
    let mut entries = 0;
    for query in queries {
        if let QueryBody::Member(query) = query
            && let Ok(board) = BoardId::parse(&query.board)
        {
            // The query's own response reports a board that can't be read.
            let more = league_member::entries_with_member(&app.engine, &board, 0).await;
            entries += more.unwrap_or_default();
        }
    }
    entries
}

/// Executes one query.
async fn find(
    app: &App,
    query: &QueryBody,
    how: How<'_>,
    size: ReadSize,
) -> Result<BatchRead<QueryResult>, Problem> {
    match query {
        QueryBody::Page(query) => {
            let between = [&query.from_score, &query.to_score];
            let between = between.map(|score| score.as_ref().map(Number::to_string));
            let view = PageView {
                entries: Entries::between(between),
                ..page_view(query.page, query.size, query.member.as_deref())?
            };
            read(app, &query.request(how, size)?, view, |view, found| {
                QueryResult::Page(Box::new(PageBody::new(view, found)))
            })
            .await
        }
        QueryBody::Member(query) => {
            let view = member_view(&query.member, query.around)?;
            let request = query.request(how, size)?.of_member(&view.member);
            read(app, &request, view, |view, found| {
                QueryResult::Member(Box::new(MemberBody::new(view, found)))
            })
            .await
        }
        QueryBody::Subset(query) => {
            let view = named_members(query.ids.iter().map(String::as_str))?;
            read(app, &query.request(how, size)?, view, |_, found| {
                QueryResult::Subset(SubsetBody::new(found))
            })
            .await
        }
        QueryBody::Stats(query) => {
            read(app, &query.request(how, size)?, StatsView, |_, found| {
                QueryResult::Stats(StatsBody::new(found))
            })
            .await
        }
    }
}

/// Executes one read of a batch. `body` makes its response.
pub(crate) async fn read<V: View + Send + 'static, A: 'static>(
    app: &App,
    request: &StandingRequest,
    view: V,
    body: fn(&V, &FoundIn<V::Found>) -> A,
) -> Result<BatchRead<A>, Problem> {
    let found = standing::read(&app.engine, request, &view)
        .await
        .map_err(|error| Problem::from(error).beyond_path())?;
    let has_profiles = request.includes.has(Include::Profile);
    Ok(BatchRead {
        as_of: found.as_of,
        members: has_profiles.then(|| members(V::entries(&found.found))),
        answer: Box::new(move |profiles| body(&view, &FoundIn { profiles, ..found })),
    })
}
