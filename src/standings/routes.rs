//! Standings: pages, members, subsets, and batches of reads.

pub mod across;
pub mod answers;
pub mod in_league;
pub mod links;
pub mod params;
pub mod queries;
pub mod summary;

use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use serde::Deserialize;
use utoipa::ToSchema;

use self::answers::{MemberBody, PageBody, PercentileBody, StatsBody, SubsetBody};
use self::links::links;
use self::params::{
    EntryParams, MemberParams, PageParams, PercentilePath, PeriodParams, Read, ReadParams,
    StandingPath, SubsetParams, entries_of_member, entries_of_page, member_view, named_members,
    percentile_view, subset_view,
};
use super::league_member;
use super::page::FoundPage;
use super::standing::{self, FoundIn, StandingRequest, View};
use super::stats::StatsView;
use crate::access::Caller;
use crate::core::read::look;
use crate::core::read::period::{Choice, CohortChoice, Target};
use crate::core::read::store::standings::Visibility;
use crate::domain::edition::Edition;
use crate::domain::ids::MemberId;
use crate::domain::series::Track;
use crate::http::App;
use crate::http::caching::{Caching, IfNoneMatch};
use crate::http::extract::{Json, MemberPath, Path, Query, Shared, State};
use crate::http::freshness::{self, NoCache};
use crate::http::problem::Problem;
use crate::http::rendered::{self, Rendered};
use crate::http::supply::Taken;
use crate::redis::{Dated, Freshness};

/// How caches may treat a read. Its address may mean another period tomorrow, and a replica may lack the last events.
fn caching<T>(app: &App, request: &StandingRequest, found: &FoundIn<T>) -> Caching {
    let names_period = matches!(request.choice, Choice::Key(_) | Choice::At(_));
    // Profiles may change at any time.
    let is_fixed = found.is_fixed() && request.includes.is_empty();
    // Later decisions change where a league member plays.
    let is_player = found.live.board.is_league() && matches!(request.cohort, CohortChoice::Of(_));
    let is_fixed = is_fixed && !is_player;
    Caching::of(app, &found.live.board, request.includes)
        .fixed_if(is_fixed && found.as_of.is_none() && names_period)
        .restricted_if(request.track == Track::Raw || request.visibility == Visibility::All)
}

/// Responds to a read of at most this many entries. `render` serializes the result into the memory reserved for it.
pub(crate) async fn show<V: View, P>(
    app: &App,
    read: &Read<P>,
    (view, entries): (&V, usize),
    render: impl Fn(&FoundIn<V::Found>, Taken) -> Result<Rendered, Problem>,
) -> Result<Response, Problem> {
    let (render, headers) = (&render, &read.headers);
    let edition_of = |target: &Target, edition: &Edition| {
        rendered::edition_hash(&read.uri, &target.key, edition)
    };
    let answer = async |request: StandingRequest| {
        if rendered::names_editions(headers)
            && let Some(found) = standing::read_edition(&app.engine, &request, view).await?
        {
            let edition = edition_of(&found.target, &found.edition);
            let caching = caching(app, &request, &found);
            if let Some(value) = rendered::unchanged(headers, edition, caching) {
                let as_of = found.as_of;
                return Ok(Dated { value, as_of });
            }
        }
        let taken = app
            .memory
            .for_entries(&read.by, entries, request.includes)
            .await?;
        let found = standing::read_with_profiles(&app.engine, &request, view).await?;
        let mut rendered = render(&found, taken)?;
        if found.follows_edition {
            rendered.edition = Some(edition_of(&found.target, &found.edition));
        }
        Ok(Dated {
            value: rendered.answer(headers, caching(app, &request, &found)),
            as_of: found.as_of,
        })
    };
    answer_with(app, &read.request, read.min_revision.as_ref(), answer).await
}

/// Waits until the board has the revision that a request names, then responds, so that the response includes it.
async fn answer_with<F>(
    app: &App,
    request: &StandingRequest,
    min_revision: Option<&Edition>,
    answer: impl Fn(StandingRequest) -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<Dated<Response>, Problem>>,
{
    let mut freshness = request.freshness;
    if let Some(edition) = min_revision {
        let reached = look::await_edition(&app.engine, &request.board, edition);
        reached.boxed().await?;
        freshness = Freshness::Current;
    }
    let answer = |freshness| {
        answer(StandingRequest {
            freshness,
            ..request.clone()
        })
    };
    freshness::answer(app, freshness, answer).await
}

/// Read a page of a standing.
///
/// A page is one snapshot. A period without events has an empty page with `total` 0.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}", operation_id = "get_page",
    params(StandingPath, PageParams, IfNoneMatch, NoCache),
    responses((status = 200, description = "The page", body = PageBody, headers(("Link" = String, description = "The previous and next pages, if any: `rel=\"prev\"`, `rel=\"next\"`"))))
)]
pub async fn page(State(app): Shared, read: Read<PageParams>) -> Result<Response, Problem> {
    let PageParams { size, member, .. } = &read.params;
    let entries = entries_of_page(*size, member.as_deref());
    let view = read.params.view()?;
    let render = |found: &FoundIn<FoundPage>, taken| {
        let page = &found.found.page;
        let page_of = (&**page, (found.includes, found.state));
        let mut rendered = Rendered::of_page(page_of, || PageBody::new(&view, found), taken)?;
        let links = |number| links(&read.uri, number, view.size, page.listed);
        rendered.links = view.number().and_then(links);
        Ok(rendered)
    };
    show(&app, &read, (&view, entries), render).await
}

/// Read the entry at a percentile of a standing.
///
/// The last entry with at least this percentile: for 90 the last of the best tenth, for 100 the last with the first rank,
/// for 0 the last of all.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/at-percentile/{percentile}", operation_id = "get_entry_at_percentile",
    params(StandingPath, PercentilePath, EntryParams, IfNoneMatch, NoCache),
    responses((status = 200, description = "The entry", body = PercentileBody))
)]
pub async fn at_percentile(
    State(app): Shared,
    Path(PercentilePath { percentile }): Path<PercentilePath>,
    read: Read<EntryParams>,
) -> Result<Response, Problem> {
    let (view, shown) = percentile_view(&percentile)?;
    let render = |found: &_, taken| Rendered::new(&PercentileBody::new(shown, found), taken);
    show(&app, &read, (&view, 1), render).await
}

/// Read one member of a standing.
///
/// Its rank, its neighbours, and its place in the previous period, as one snapshot. In a league it is looked up in its own
/// cohort, unless `cohort` names one.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/members/{member}", operation_id = "get_member",
    params(StandingPath, MemberPath, MemberParams, IfNoneMatch, NoCache),
    responses(
        (status = 200, description = "The member", body = MemberBody),
        (status = 404, description = "`board-not-found`, `unknown-window`, `no-league`, `cohort-not-found`, `member-not-found`"),
    )
)]
pub async fn member(
    State(app): Shared,
    Path(path): Path<MemberPath>,
    mut read: Read<MemberParams>,
) -> Result<Response, Problem> {
    let view = member_view(&path.member, read.params.around)?;
    read.request = read.request.of_member(&view.member);
    let (engine, board) = (&app.engine, &read.request.board);
    let entries = entries_of_member(read.params.around);
    let entries = league_member::entries_with_member(engine, board, entries).await?;
    let render = |found: &_, taken| Rendered::new(&MemberBody::new(&view, found), taken);
    show(&app, &read, (&view, entries), render).await
}

/// Reads the member whose id is `query`.
pub async fn member_named_query(
    app: Shared,
    read: Read<MemberParams>,
) -> Result<Response, Problem> {
    let member = "query".to_owned();
    self::member(app, Path(MemberPath { member }), read).await
}

/// Read some members of a standing.
///
/// For example a circle of friends: each member with its rank on the board and its position in the set.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/members", operation_id = "get_subset",
    params(StandingPath, SubsetParams, IfNoneMatch, NoCache),
    responses((status = 200, description = "The members", body = SubsetBody))
)]
pub async fn subset(State(app): Shared, read: Read<SubsetParams>) -> Result<Response, Problem> {
    let view = named_members(read.params.ids.split(','))?;
    let render = |found: &_, taken| Rendered::new(&SubsetBody::new(found), taken);
    let entries = view.members.len();
    show(&app, &read, (&view, entries), render).await
}

/// The members of a subset.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SubsetIds)]
pub struct SubsetIdsBody {
    /// 1 to 500 ids.
    #[schema(min_items = 1, max_items = 500, example = json!(["999", "alice"]))]
    ids: Vec<MemberId>,
}

/// Read some members of a standing, named in the body.
///
/// Like `?ids=`, for long lists and for ids that contain commas.
#[utoipa::path(
    post, path = "/v1/boards/{board}/standings/{window}/members/query", operation_id = "query_subset",
    params(StandingPath, EntryParams, NoCache),
    request_body(content = SubsetIdsBody, example = json!({"ids": ["999", "alice"]})),
    responses((status = 200, description = "The members", body = SubsetBody))
)]
pub async fn query_subset(
    State(app): Shared,
    Path(StandingPath { board, window }): Path<StandingPath>,
    Query(params): Query<EntryParams>,
    caller: Caller,
    freshness: Freshness,
    Json(SubsetIdsBody { ids }, _): Json<SubsetIdsBody>,
) -> Result<Response, Problem> {
    let wrong = |detail| Problem::invalid_field("/ids", detail);
    let view = &subset_view(&ids).map_err(wrong)?;
    let (app, named, by) = (&*app, params.named(), &caller.takers());
    let request = named.request(&board, window, (&caller, freshness))?;
    let min_revision = named.min_revision()?;
    let answer = async |request: StandingRequest| {
        let (members, includes) = (view.members.len(), request.includes);
        let taken = app.memory.for_entries(by, members, includes).await?;
        let found = standing::read_with_profiles(&app.engine, &request, view).await?;
        Ok(Dated {
            value: taken.write(&SubsetBody::new(&found))?.into_response(),
            as_of: found.as_of,
        })
    };
    answer_with(app, &request, min_revision.as_ref(), answer).await
}

/// Read statistics of a standing.
///
/// The number of members, and on boards with `uniques` also of voters and events, and the sum of scores. The number of
/// voters is an estimate, and is read just after the rest.
#[utoipa::path(
    get, path = "/v1/boards/{board}/standings/{window}/stats", operation_id = "get_stats",
    params(StandingPath, PeriodParams, IfNoneMatch, NoCache),
    responses((status = 200, description = "The statistics", body = StatsBody))
)]
pub async fn stats(State(app): Shared, read: Read<PeriodParams>) -> Result<Response, Problem> {
    let render = |found: &_, taken| Rendered::new(&StatsBody::new(found), taken);
    show(&app, &read, (&StatsView, 0), render).await
}
