//! Exports the events that a board keeps as a stream, one part in memory at a time.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;
use futures::stream::try_unfold;

use super::{KeptEventBody, KeptParams};
use crate::access::Caller;
use crate::core::Error;
use crate::domain::ids::BoardId;
use crate::domain::include::Includes;
use crate::history::work::{self, ListPlace, WantedEvents};
use crate::http::App;
use crate::http::extract::{Query, Shared, State};
use crate::http::problem::Problem;
use crate::http::supply::Taken;

/// How many events a part of an export has.
const PART_EVENTS: usize = 500;
/// How many parts an export may hold in memory: one being written, one being read.
const PARTS_HELD: usize = 2;

/// An export being sent.
struct Outgoing {
    app: Arc<App>,
    board: BoardId,
    wanted: WantedEvents,
    after: Option<ListPlace>,
    /// Memory permit, released when the stream ends or is dropped.
    _taken: Taken,
}

/// Export kept events.
///
/// The events that a board with a `history` keeps, in the order of the list, each as a JSON object in a line. Events that are
/// accepted during the export may be missing.
#[utoipa::path(
    get, path = "/v1/boards/{board}/events/export", operation_id = "export_events",
    params(KeptParams),
    responses(
        (status = 200, description = "The events", content((String = "application/x-ndjson", example = json!("{\"id\":\"run-88231\",\"member\":\"999\",\"score\":10,\"at\":\"2026-11-21T12:00:00.000Z\",\"accepted_at\":\"2026-11-21T12:00:00.000Z\",\"outcome\":\"applied\",\"voter\":null,\"channel\":null,\"device\":null,\"key\":null,\"data\":null}\n")))),
    )
)]
pub async fn export(
    State(app): Shared,
    board: BoardId,
    Query(params): Query<KeptParams>,
    caller: Caller,
) -> Result<Response, Problem> {
    let wanted = params.wanted(&caller)?;
    let held = PARTS_HELD * PART_EVENTS;
    let taken = app
        .memory
        .for_entries(&caller.takers(), held, Includes::all())
        .await?;
    // So that a board that does not exist is a problem, not a broken stream.
    app.engine.live_board(&board).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{board}-events.ndjson\""),
        ),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    let body = Body::from_stream(parts(Outgoing {
        app,
        board,
        wanted,
        after: None,
        _taken: taken,
    }));
    Ok((headers, body).into_response())
}

/// The parts of the body. An error ends the connection, so that a client can't mistake a part for the whole.
fn parts(outgoing: Outgoing) -> impl Stream<Item = Result<Bytes, Error>> {
    try_unfold(Some(Box::new(outgoing)), async |outgoing| {
        let Some(mut outgoing) = outgoing else {
            return Ok(None);
        };
        let engine = &outgoing.app.engine;
        let Outgoing {
            board,
            wanted,
            after,
            ..
        } = &*outgoing;
        let (live, part) = work::list(engine, board, wanted, after.as_ref(), PART_EVENTS).await?;
        let mut lines = Vec::new();
        for event in part.items {
            let event = KeptEventBody::new(&live.board, event);
            serde_json::to_writer(&mut lines, &event)
                .expect("invariant: an export is written to memory");
            lines.push(b'\n');
        }
        outgoing.after = part.next;
        let rest = outgoing.after.is_some().then_some(outgoing);
        Ok(Some((Bytes::from(lines), rest)))
    })
}
