//! Initial scores.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::{Json, Path, Query, board_id, bounded};
use super::problem::{Problem, ProblemBody};
use crate::domain::board::FieldError;
use crate::domain::ids::MemberId;
use crate::domain::score::ShownScore;
use crate::service::initial::INITIAL_MAX;
use crate::service::page::{PAGE_MAX, PAGE_SIZE, PAGE_SIZE_MAX};

/// Initial scores as they are sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialBody {
    scores: BTreeMap<MemberId, Option<Box<RawValue>>>,
}

/// Initial scores.
#[derive(ToSchema)]
#[schema(as = Initial)]
#[expect(dead_code, reason = "describes `InitialBody` to the OpenAPI document")]
pub struct InitialSchema {
    /// 1 to 10,000 scores by the ids of their members; null takes one away. Who is not named keeps its own.
    #[schema(example = json!({"alice": 120, "bob": null}))]
    scores: BTreeMap<String, Option<f64>>,
}

/// How many members have an initial score.
#[derive(Debug, Serialize, ToSchema)]
pub struct InitialCount {
    /// How many.
    #[schema(example = 2)]
    pub members: u64,
}

/// A member's initial score.
#[derive(Debug, Serialize, ToSchema)]
pub struct InitialEntry {
    /// Who.
    #[schema(value_type = String, example = "alice")]
    pub member: Arc<str>,
    /// How much.
    #[schema(value_type = f64, example = 120)]
    pub score: ShownScore,
}

/// A page of a board's initial scores.
#[derive(Debug, Serialize, ToSchema)]
pub struct InitialPage {
    /// The board.
    #[schema(example = "run_hero")]
    pub board: String,
    /// How many members have one.
    #[schema(example = 2)]
    pub total: u64,
    /// The page, from 1.
    pub page: u64,
    /// Entries per page.
    pub size: u64,
    /// The entries, best first.
    pub entries: Vec<InitialEntry>,
}

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct InitialParams {
    /// The page, from 1.
    #[param(minimum = 1, maximum = 1_000_000_000_u64, default = 1)]
    page: Option<u64>,
    /// Entries per page.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    size: Option<u64>,
}

/// Set initial scores.
///
/// With them members stand in every period of the board's `initial` windows, past, running and to come, from its
/// beginning; what they get there is added. If one of the scores is wrong, nothing is done. All others are set one after
/// the other, each at once in all standings; a request that failed half-way can be sent again.
#[utoipa::path(
    put, path = "/v1/boards/{board}/initial", tag = "define", operation_id = "put_initial",
    params(("board" = String, Path, description = "The board's id", example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")),
    request_body(content = InitialSchema, example = json!({"scores": {"999": 20, "alice": 30}})),
    responses(
        (status = 200, description = "Done", body = InitialCount),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "`payload-too-large`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported-media-type`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "`validation-failed`: also where the board has no `initial` windows", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn put(
    State(app): State<Arc<App>>,
    Path(board): Path<String>,
    Json(InitialBody { scores }, _): Json<InitialBody>,
) -> Result<JsonResponse<InitialCount>, Problem> {
    let board = board_id(&board)?;
    if scores.is_empty() || scores.len() > INITIAL_MAX {
        let detail = format!(
            "a request has 1 to {INITIAL_MAX} scores, not {}",
            scores.len()
        );
        return Err(Problem::invalid(vec![FieldError::new("/scores", detail)]));
    }
    let text = |score: Box<RawValue>| score.get().to_owned();
    let scores = scores.into_iter();
    let scores = scores.map(|(member, score)| (member, score.map(text)));
    let members = app.service.set_initial(&board, &scores.collect()).await?;
    Ok(JsonResponse(InitialCount { members }))
}

/// Read initial scores.
#[utoipa::path(
    get, path = "/v1/boards/{board}/initial", tag = "define", operation_id = "get_initial",
    params(
        ("board" = String, Path, description = "The board's id", example = "run_hero", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        InitialParams,
    ),
    responses(
        (status = 200, description = "The initial scores", body = InitialPage),
        (status = 404, description = "`board-not-found`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn get(
    State(app): State<Arc<App>>,
    Path(board): Path<String>,
    Query(params): Query<InitialParams>,
) -> Result<JsonResponse<InitialPage>, Problem> {
    let page = bounded("page", params.page, 1, 1, PAGE_MAX)?;
    let size = bounded("size", params.size, PAGE_SIZE, 1, PAGE_SIZE_MAX)?;
    let id = board_id(&board)?;
    let found = app
        .service
        .initial_scores(&id, (page - 1) * size, size)
        .await?;
    let decimals = found.live.board.definition.decimals;
    let entries = found.page.entries.iter();
    let entries = entries.map(|entry| InitialEntry {
        member: Arc::clone(&entry.member),
        score: entry.score.shown(decimals),
    });
    Ok(JsonResponse(InitialPage {
        board,
        total: found.page.total,
        page,
        size,
        entries: entries.collect(),
    }))
}
