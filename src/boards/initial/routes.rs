//! Initial scores.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::work::{self, INITIAL_MAX};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::score::{Score, ShownScore};
use crate::http::audited::Audit;
use crate::http::extract::{
    Json, JsonResponse, JsonResult, PartParams, Query, Shared, State, require_count,
};

/// Initial scores.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = InitialScores)]
pub struct InitialBody {
    /// 1 to 10,000 scores by member id; null removes one. Members that are not named keep theirs.
    #[schema(value_type = BTreeMap<MemberId, Option<f64>>, example = json!({"alice": 120, "bob": null}))]
    scores: BTreeMap<MemberId, Option<Box<RawValue>>>,
}

/// How many members have an initial score.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InitialScoreCount)]
pub struct InitialCount {
    /// How many members have an initial score.
    pub members: u64,
}

/// A member's initial score.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = InitialScore)]
pub struct InitialEntry {
    /// The member.
    pub member: Arc<str>,
    /// The member's initial score.
    pub score: ShownScore,
}

/// A part of a board's initial scores.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = InitialScoreList)]
pub struct InitialList {
    /// The board.
    pub board: String,
    /// How many members have an initial score.
    pub total: u64,
    /// The scores, best first.
    pub entries: Vec<InitialEntry>,
    /// The `after` of the next part; null in the last part.
    pub next: Option<String>,
}

/// Set initial scores.
///
/// Members that the request does not name keep theirs. With an initial score a member is listed in every period of the
/// board's `initial` windows, past, running or future, from its beginning; events add to this score. If one of the scores is
/// invalid, nothing is changed. Otherwise they are set one after the other, each in all standings at once; a request that
/// failed halfway can be sent again.
#[utoipa::path(
    patch, path = "/v1/boards/{board}/initial-scores", operation_id = "set_initial_scores",
    request_body(content = InitialBody, example = json!({"scores": {"999": 20, "alice": 30}})),
    responses(
        (status = 200, description = "The initial scores were set", body = InitialCount),
        (status = 422, description = "`validation-failed`: also if the board has no `initial` windows"),
    )
)]
pub async fn patch(
    State(app): Shared,
    board: BoardId,
    audit: Audit,
    Json(InitialBody { scores }, _): Json<InitialBody>,
) -> JsonResult<InitialCount> {
    require_count("a request", "scores", scores.len(), INITIAL_MAX)?;
    let text = |score: Box<RawValue>| score.get().to_owned();
    let scores = scores
        .into_iter()
        .map(|(member, score)| (member, score.map(text)));
    let set = work::set(&app.engine, &board, &scores.collect()).await?;
    let decimals = set.live.board.definition.decimals;
    let show = |score: &Option<Score>| score.map(|score| score.shown(decimals));
    let shown = |scores: &BTreeMap<MemberId, Option<Score>>| {
        let shown = scores.iter().map(|(member, score)| (member, show(score)));
        json!({"scores": shown.collect::<BTreeMap<_, _>>()})
    };
    audit.before(&shown(&set.before));
    audit.after(&shown(&set.after));
    let members = set.members;
    Ok(JsonResponse(InitialCount { members }))
}

/// List initial scores.
///
/// On boards with `keep_top`, only the best are listed.
#[utoipa::path(
    get, path = "/v1/boards/{board}/initial-scores", operation_id = "list_initial_scores",
    params(PartParams),
    responses((status = 200, description = "The initial scores", body = InitialList))
)]
pub async fn get(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<PartParams>,
) -> JsonResult<InitialList> {
    let (after, limit) = params.part(str::parse::<String>)?;
    let found = work::scores(&app.engine, &board, after.as_deref(), limit).await?;
    let decimals = found.live.board.definition.decimals;
    let (entries, next) = found.entries.shown(|entry| InitialEntry {
        member: entry.member,
        score: entry.score.shown(decimals),
    });
    Ok(JsonResponse(InitialList {
        board: board.to_string(),
        total: found.total,
        entries,
        next,
    }))
}
