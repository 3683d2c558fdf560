//! Adds events to those that a board has accepted.

use std::sync::Arc;

use super::carrying::{Carried, Change, Watched, carry_out_one, watched};
use super::store::{self, AddedArgs};
use super::work::{Corrected, require_bounds};
use crate::core::board::store::boards;
use crate::core::write::events::IncomingEvent;
use crate::core::write::store::events::{self, StoredRow};
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::event::{Event, FUTURE_MS_MAX, Rejection, Status};
use crate::domain::history::RowDetails;
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::message::MessageKind;
use crate::domain::problems::Problem;
use crate::history::work::KeptEvent;
use crate::queue::event_status::{self, EventStatus};

/// Adds an event to those that a board has accepted, whatever its times and quotas say. If it was accepted before, nothing
/// changes.
///
/// # Errors
///
/// [`Problem::history_off`], [`Problem::event_waiting`], [`Problem::correction_while_moving`],
/// [`Problem::correction_beyond`]; [`Rejection::IdReused`] and others of an event.
pub async fn amend(
    engine: &Engine,
    id: &BoardId,
    incoming: &IncomingEvent,
) -> Result<Corrected, Error> {
    let event_id = match &incoming.id {
        Some(id) => id.clone(),
        None => incoming.new_id()?,
    };
    engine
        .with_board(id, async |live| {
            let board = &live.board;
            boards::require_current(&engine.store, board).await?;
            if !board.keeps_events() {
                return Err(Problem::history_off(&board.id).into());
            }
            let event = Event {
                id: Some(event_id.clone()),
                ..incoming.event(board)?
            };
            if incoming.id.is_some() {
                require_not_waiting(engine, board, &event_id, &event.member).await?;
            }
            engine.note_use(&live).await?;
            amend_on(engine, live, &event_id, &event).await
        })
        .await
}

async fn amend_on(
    engine: &Engine,
    live: Arc<LiveBoard>,
    id: &EventId,
    event: &Event,
) -> Result<Corrected, Error> {
    let (store, now) = (&engine.store, engine.clock.now());
    let own = &live.shard_of(&event.member).shard;
    let at = event.at.unwrap_or(now);
    let rejected = |rejection| Error::rejected(own, rejection, at, now);
    if at.ms() > now.ms().saturating_add(FUTURE_MS_MAX) {
        return Err(rejected(Rejection::InFuture));
    }
    let row = StoredRow {
        is_retracted: false,
        is_revoked: false,
        accepted_at: now,
        revocation: own.last_revocation(),
        at,
        erasure: 0,
        status: Status::Applied,
        details: RowDetails::new(own, event),
    };
    require_bounds(own, &row, now)?;
    let change = Change {
        id: id.clone(),
        before: None,
        after: row,
        added: Some(AddedArgs::new(own, event, at)),
    };
    let read = async || {
        let stored = store::row(store, own, id).await?;
        let row = stored
            .map(|stored| StoredRow::read(own, &stored))
            .transpose()?;
        Ok::<_, Error>(row.flatten())
    };
    let expired = watched(engine, own, &event.member, async |watch| {
        let mut known = events::remembered(store, own, id).await?;
        if known.is_none() {
            known = engine.known_before(&live, id, &event.member).await?;
        }
        if let Some(known) = known {
            if known.fingerprint != event.fingerprint() {
                return Err(rejected(Rejection::IdReused));
            }
            return Ok(Watched::Unchanged(None));
        }
        let change = (MessageKind::EventAmended, change);
        match carry_out_one(engine, &live, own, watch, change).await? {
            Carried::Out(expired) => Ok(Watched::Ended(Some(expired))),
            Carried::Gone => {
                engine.forget_all(&own.id).await?;
                Err(Error::Again(Outdated::Read))
            }
        }
    });
    let expired = expired.await?;
    // One that was accepted before, and whose row has run out, can't be shown.
    let row = read().await?.ok_or_else(|| rejected(Rejection::IdReused))?;
    let kept = KeptEvent {
        id: id.clone(),
        row,
    };
    Ok(Corrected {
        before: expired.is_none().then(|| kept.clone()),
        after: kept,
        expired: expired.unwrap_or_default(),
        live,
    })
}

/// Refuses to correct or to add an event that waits in the queue.
async fn require_not_waiting(
    engine: &Engine,
    board: &Board,
    id: &EventId,
    member: &MemberId,
) -> Result<(), Error> {
    let (_, known) = event_status::find(engine, &board.id, id, Some(member)).await?;
    if known.iter().any(EventStatus::waits) {
        return Err(Problem::event_waiting(id.as_sent()).into());
    }
    Ok(())
}
