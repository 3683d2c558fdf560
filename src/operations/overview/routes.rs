//! The route of the last sample.

use super::work::{self, Overview};
use crate::http::extract::{JsonResponse, JsonResult, Shared, State};

/// Read what waits or fails.
///
/// One instance with background work takes a sample every 10 seconds, and this returns the last one.
#[utoipa::path(
    get, path = "/v1/overview", operation_id = "get_overview",
    responses((status = 200, description = "The last sample", body = Overview, example = json!({
        "sampled_at": "2026-11-22T12:00:07.250Z",
        "pending_names": 2,
        "webhooks": {"failing": ["site"], "disabled": [], "failed_deliveries": 3},
        "dead_letters": {"total": 4, "boards": [{"board": "run_hero", "count": 4}]},
        "queues": {"events": 12, "waiting_since": "2026-11-22T12:00:01.500Z", "boards": [
            {"board": "run_hero", "events": 12, "bytes": 1640, "waiting_since": "2026-11-22T12:00:01.500Z"},
        ]},
        "faults": [],
        "fault_count": 0,
        "warnings": [],
        "closing": [{
            "board": "run_hero", "title": "Run Hero", "window": "day", "key": "2026-11-22",
            "ends_at": "2026-11-23T00:00:00.000Z", "closes_at": "2026-11-23T00:10:00.000Z",
        }],
        "events": [{
            "board": "run_hero", "title": "Run Hero", "total": 57,
            "minutes": [
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 9, 15, 26, 2,
            ],
        }],
    })))
)]
pub async fn get(State(app): Shared) -> JsonResult<Overview> {
    Ok(JsonResponse(work::current(&app.engine).await?))
}
