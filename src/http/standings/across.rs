//! One member in standings of many boards.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answers::{EntryBody, StandingBody};
use super::params::{AcrossParams, MemberPath, ReadParams, includes, standing_request};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::include::{Include, Includes};
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::extract::{Path, Query, member_id};
use crate::http::freshness::{self, NoCache};
use crate::http::problem::{Problem, ProblemBody};
use crate::join::join_all;
use crate::service::period::CohortChoice;
use crate::service::standing::{FoundIn, StandingRequest, View};
use crate::service::subset::{FoundSubset, SubsetView};
use crate::store::{Dated, Freshness};

/// The most boards of one request.
const BOARDS_MAX: usize = 100;

/// Where a member stands on many boards.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct MemberStandings {
    /// The member.
    pub member: String,
    /// An answer for each board, in the order of the request. They are not one snapshot.
    pub standings: Vec<BoardStanding>,
}

/// Where a member stands on a board, or why that is not known.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum BoardStanding {
    /// The member's entry.
    Entry(BoardEntry),
    /// There is no answer.
    Problem(BoardProblem),
}

/// A member's entry on a board.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct BoardEntry {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, also those that `keep_top` does not list.
    pub total: u64,
    /// The entry; null if the member is not in the standing.
    pub entry: Option<EntryBody>,
}

/// Why a board has no answer.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct BoardProblem {
    /// The board.
    pub board: String,
    /// Why the board has no answer.
    pub problem: ProblemBody,
}

impl BoardEntry {
    fn new(found: &FoundIn<FoundSubset>) -> Self {
        let FoundSubset {
            total,
            entries,
            voters,
            ..
        } = &found.found;
        let entry = entries.first();
        Self {
            standing: StandingBody::found(found),
            total: *total,
            entry: entry.map(|entry| EntryBody::new(found, entry, voters.of(0))),
        }
    }
}

/// Read where a member stands on many boards.
///
/// Up to 100 boards, each in the same window. They are not one snapshot. On a league it is the member's cohort.
#[utoipa::path(
    get, path = "/v1/members/{member}/standings", tag = "standings", operation_id = "get_member_standings",
    params(MemberPath, AcrossParams, NoCache),
    responses(
        (status = 200, description = "An answer for each board, in their order", body = MemberStandings, headers(("Max-Staleness-Ms" = u64, description = "From a replica: how many milliseconds old the oldest answer is at the most"))),
    )
)]
pub async fn standings_of(
    State(app): State<Arc<App>>,
    Path(MemberPath { member }): Path<MemberPath>,
    Query(params): Query<AcrossParams>,
    caller: Caller,
    freshness: Freshness,
) -> Result<Response, Problem> {
    let boards: Vec<&str> = params.boards.split(',').collect();
    if boards.len() > BOARDS_MAX {
        let detail = format!("must be at most {BOARDS_MAX}");
        return Err(Problem::invalid_parameter("boards", detail));
    }
    let (app, params, caller, boards) = (&*app, &params, &caller, &boards);
    let member = &member_id(&member)?;
    let includes = includes(params.include(), caller)?;
    let by = &caller.takers();
    let read = async |freshness| {
        let taken = app.memory.for_entries(by, boards.len(), includes).await?;
        let found = boards
            .iter()
            .map(|board| find(app, board, member, params, (caller, freshness, includes)));
        let mut found = join_all(found).await;
        add_profiles(app, &mut found, includes).await?;
        let ages = found.iter().flatten().map(|found| found.as_of);
        let oldest = ages.flatten().min();
        let standings = found.iter().zip(boards);
        let body = MemberStandings {
            member: member.to_string(),
            standings: standings.map(BoardStanding::new).collect(),
        };
        Ok(Dated {
            value: taken.write(&body)?.into_response(),
            as_of: oldest,
        })
    };
    freshness::answer(app, freshness, read).await
}

/// What was found on a board.
type Found = Result<FoundIn<FoundSubset>, Problem>;

impl BoardStanding {
    fn new((found, board): (&Found, &&str)) -> Self {
        match found {
            Ok(found) => Self::Entry(BoardEntry::new(found)),
            Err(problem) => Self::Problem(BoardProblem {
                board: (*board).to_owned(),
                problem: problem.item(),
            }),
        }
    }
}

/// Reads the profile of the member, once for all boards, if it is asked for.
async fn add_profiles(app: &App, found: &mut [Found], includes: Includes) -> Result<(), Problem> {
    if !includes.has(Include::Profile) {
        return Ok(());
    }
    let members = found.iter().flatten();
    let members = members.flat_map(|found| SubsetView::members(&found.found));
    let members: Vec<_> = members.collect();
    let profiles = app.service.profiles(members).await?;
    for found in found.iter_mut().flatten() {
        found.profiles = profiles.clone();
    }
    Ok(())
}

/// Finds the member on one board.
async fn find(
    app: &App,
    board: &str,
    member: &MemberId,
    params: &AcrossParams,
    (caller, freshness, includes): (&Caller, Freshness, Includes),
) -> Found {
    caller.require_board(BoardId::parse(board).ok().as_ref())?;
    let (window, how) = (params.window.clone(), (caller, freshness));
    let request = StandingRequest {
        includes,
        sight: caller.sight(params.hidden())?,
        cohort: CohortChoice::Of(member.clone()),
        ..standing_request(board, window, params.which(), how)?
    };
    let view = SubsetView {
        members: vec![member.clone()],
    };
    let found = app.service.read(&request, &view).await;
    found.map_err(|error| Problem::from(error).beyond_path())
}
