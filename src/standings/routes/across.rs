//! One member in standings of many boards.

use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answers::{EntryBody, StandingBody};
use super::params::{AcrossParams, ReadParams, includes};
use super::queries::{BatchRead, answers, read};
use crate::access::Caller;
use crate::core::read::period::CohortChoice;
use crate::domain::ids::{BoardId, MemberId};
use crate::http::App;
use crate::http::extract::{MemberPath, Query, Shared, State};
use crate::http::freshness::{self, NoCache};
use crate::http::problem::{Problem, ProblemBody};
use crate::redis::{Dated, Freshness};
use crate::standings::standing::{FoundIn, StandingRequest};
use crate::standings::subset::{FoundSubset, SubsetView};

/// How many boards one request may name.
const BOARDS_MAX: usize = 100;

/// A member's places on many boards.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct MemberStandings {
    /// The member.
    pub member: String,
    /// A result for each board, in the order of the request. They are not one snapshot.
    pub standings: Vec<BoardStanding>,
}

/// A member's place on a board, or why there is none.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum BoardStanding {
    /// The member's entry.
    Entry(BoardEntry),
    /// There is no result.
    Problem(BoardProblem),
}

/// A member's entry on a board.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct BoardEntry {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, including those that `keep_top` does not list.
    pub total: u64,
    /// The entry; null if the member is not in the standing.
    pub entry: Option<EntryBody>,
}

/// Why a board has no answer.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct BoardProblem {
    /// The board.
    pub board: String,
    /// Why there is no result for the board.
    pub problem: ProblemBody,
}

impl BoardEntry {
    fn new(found: &FoundIn<FoundSubset>) -> Self {
        let subset = &found.found;
        Self {
            standing: StandingBody::found(found),
            total: subset.total,
            entry: EntryBody::all(found, subset.entries.iter(), &subset.voters).pop(),
        }
    }
}

/// Read where a member stands on many boards.
///
/// Up to 100 boards, in the same window. They are not one snapshot. In a league, the member's cohort is read.
#[utoipa::path(
    get, path = "/v1/members/{member}/standings", operation_id = "get_member_standings",
    params(MemberPath, AcrossParams, NoCache),
    responses(
        (status = 200, description = "A result for each board, in the order of the request", body = MemberStandings, headers(("Max-Staleness-Ms" = u64, description = "From a replica: the maximum age of the oldest result in milliseconds"))),
    )
)]
pub async fn standings_of(
    State(app): Shared,
    member: MemberId,
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
    let (member, by) = (&member, &caller.takers());
    let includes = includes(params.named().include, caller)?;
    let read = async |freshness| {
        let taken = app.memory.for_entries(by, boards.len(), includes).await?;
        let found = boards
            .iter()
            .map(|board| find(app, board, member, params, (caller, freshness)));
        let (entries, as_of) = answers(app, includes, found).await?;
        let standings = entries
            .into_iter()
            .zip(boards)
            .map(|(entry, board)| match entry {
                Ok(entry) => BoardStanding::Entry(entry),
                Err(problem) => BoardStanding::Problem(BoardProblem {
                    board: (*board).to_owned(),
                    problem: problem.item(),
                }),
            });
        let body = MemberStandings {
            member: member.to_string(),
            standings: standings.collect(),
        };
        let value = taken.write(&body)?.into_response();
        Ok(Dated { value, as_of })
    };
    freshness::answer(app, freshness, read).await
}

/// Finds the member on one board.
async fn find(
    app: &App,
    board: &str,
    member: &MemberId,
    params: &AcrossParams,
    (caller, freshness): (&Caller, Freshness),
) -> Result<BatchRead<BoardEntry>, Problem> {
    caller.require_board(BoardId::parse(board).ok().as_ref())?;
    let (named, window) = (params.named(), params.window.clone());
    let request = StandingRequest {
        cohort: CohortChoice::Of(member.clone()),
        ..named.request(board, window, (caller, freshness))?
    };
    let view = SubsetView {
        members: vec![member.clone()],
    };
    read(app, &request, view, |_, found| BoardEntry::new(found)).await
}
