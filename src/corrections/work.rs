//! Finds the event of a correction, and decides what changes.

use std::sync::Arc;

use super::carrying::{Carried, Change, Watched, carry_out_one, watched};
use super::store;
use crate::core::board::store::boards;
use crate::core::write::store::events::StoredRow;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::data::EntryData;
use crate::domain::event::Rejection;
use crate::domain::history::HistoryState;
use crate::domain::ids::{BoardId, EventId, MemberId};
use crate::domain::message::MessageKind;
use crate::domain::plan::StandingName;
use crate::domain::problems::Problem;
use crate::domain::score::Score;
use crate::domain::time::Timestamp;
use crate::history::work::KeptEvent;
use crate::queue::event_status::{self, EventStatus};
use crate::runtime::join::try_join_all;

/// What is done with an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Correction {
    /// It counts no more.
    Retract,
    /// It counts again.
    Restore,
    /// It counts for another score.
    Score {
        /// The score that it counts for now, a JSON number as text.
        from: String,
        /// The one that it counts for from then on, likewise.
        score: String,
        /// Its data from then on; `None`: it keeps its data.
        data: Option<EntryData>,
    },
}

/// An event that is corrected.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its id.
    pub id: EventId,
    /// Its member, if events of several have this id.
    pub member: Option<MemberId>,
}

/// A correction that was carried out, now or before.
#[derive(Clone, Debug)]
pub struct Corrected {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The event as it was; `None` if it was added.
    pub before: Option<KeptEvent>,
    /// The event as it is.
    pub after: KeptEvent,
    /// The standings that had expired, and stay as they were.
    pub expired: Vec<StandingName>,
}

impl Correction {
    /// The kind of its webhook message.
    fn kind(&self) -> MessageKind {
        match self {
            Self::Retract => MessageKind::EventRetracted,
            Self::Restore => MessageKind::EventRestored,
            Self::Score { .. } => MessageKind::EventCorrected,
        }
    }

    /// The row after the correction; `None` if it is so already.
    fn of(
        &self,
        board: &Board,
        row: &StoredRow,
        now: Timestamp,
    ) -> Result<Option<StoredRow>, Error> {
        let mut after = row.clone();
        match self {
            Self::Retract => after.is_retracted = true,
            Self::Restore => after.is_retracted = false,
            Self::Score { from, score, data } => {
                let read = |text: &String| {
                    let score = Score::parse(text, board.definition.decimals);
                    score.map_err(|error| Problem::score(text, &error))
                };
                let (from, score) = (read(from)?, read(score)?);
                if data.is_some() && !board.definition.entry_data {
                    return Err(Problem::no_entry_data(&board.id).into());
                }
                after.details.score = score;
                after.details.data = data.clone().or(after.details.data);
                if after != *row {
                    require_from(board, row, from)?;
                    require_bounds(board, &after, now)?;
                }
            }
        }
        Ok((after != *row).then_some(after))
    }
}

/// Refuses a correction of an event that counts for another score than the caller knows.
fn require_from(board: &Board, row: &StoredRow, from: Score) -> Result<(), Problem> {
    let own = row.details.score;
    if own == from {
        return Ok(());
    }
    let shown = |score: Score| score.shown(board.definition.decimals);
    Err(Problem::score_changed(&shown(own), &shown(from)))
}

/// Refuses a score that the board would not take with an event.
pub(super) fn require_bounds(board: &Board, row: &StoredRow, now: Timestamp) -> Result<(), Error> {
    let definition = &board.definition;
    let score = row.details.score;
    if !definition.takes_score(score) {
        return Err(Error::out_of_bounds(definition, score));
    }
    let tracks = board.tracks().iter();
    let weighed = tracks.map(|track| board.weighed(&row.details.member, score, *track));
    if weighed.into_iter().any(|score| score.is_none()) {
        let beyond = Rejection::OutOfRange(definition.windows[0]);
        return Err(Error::rejected(board, beyond, row.at, now));
    }
    Ok(())
}

/// Corrects an event that a board keeps. Repeating it changes nothing.
///
/// # Errors
///
/// [`Problem::history_off`], [`Problem::event_not_kept`], [`Problem::event_waiting`], [`Problem::event_of_several`],
/// [`Problem::score_changed`], [`Problem::correction_while_moving`], [`Problem::correction_beyond`], [`Problem::score`].
pub async fn correct(
    engine: &Engine,
    id: &BoardId,
    event: &Named,
    correction: &Correction,
) -> Result<Corrected, Error> {
    engine
        .with_board(id, async |live| {
            // No script notices that what refuses it is out of date.
            boards::require_current(&engine.store, &live.board).await?;
            let (shard, member, id) = find(engine, &live, event).await?;
            let event = Named {
                id,
                ..event.clone()
            };
            correct_in(engine, live, shard, (&event, &member), correction).await
        })
        .await
}

/// The index of the shard that keeps an event, the event's member, and the id under which it is kept.
async fn find(
    engine: &Engine,
    live: &LiveBoard,
    event: &Named,
) -> Result<(usize, MemberId, EventId), Error> {
    let board = &live.board;
    if !board.keeps_events() {
        return Err(Problem::history_off(&board.id).into());
    }
    // An event of a record without an id has the place of the record.
    for id in [event.id.clone(), EventId::of_place(&event.id)] {
        let found = look(engine, live, (&id, event.member.as_ref())).await?;
        match found.as_slice() {
            [] => {}
            [(shard, member)] => return Ok((*shard, member.clone(), id)),
            found => {
                let members: Vec<_> = found.iter().map(|(_, member)| member.as_str()).collect();
                let members = members.join(", ");
                return Err(Problem::event_of_several(id.as_sent(), &members).into());
            }
        }
    }
    Err(not_kept(engine, live, event).await?)
}

/// The shards that keep an event under an id, of this member if one is given, and the events' members.
async fn look(
    engine: &Engine,
    live: &LiveBoard,
    (id, member): (&EventId, Option<&MemberId>),
) -> Result<Vec<(usize, MemberId)>, Error> {
    let board = &live.board;
    let own = member.map(|member| board.shard_of(member));
    let asked = (0..live.shards.len()).filter(|shard| own.is_none_or(|own| own == *shard));
    let looks = asked.map(async |shard| {
        let row = store::row(&engine.store, &live.shards[shard].shard, id).await?;
        Ok::<_, Error>((shard, row))
    });
    let mut found = Vec::new();
    for (shard, row) in try_join_all(looks).await? {
        let row = row.map(|row| StoredRow::read(board, &row)).transpose()?;
        let own = row.flatten().map(|row| row.details.member);
        let is_wanted = |own: &MemberId| member.is_none_or(|wanted| wanted == own);
        found.extend(own.filter(is_wanted).map(|own| (shard, own)));
    }
    Ok(found)
}

/// Why a board keeps no event with an id.
async fn not_kept(engine: &Engine, live: &LiveBoard, event: &Named) -> Result<Error, Error> {
    let board = &live.board;
    let (id, member) = (&event.id, event.member.as_ref());
    let (_, known) = event_status::find(engine, &board.id, id, member).await?;
    if known.iter().any(EventStatus::waits) {
        return Ok(Problem::event_waiting(id.as_sent()).into());
    }
    let shards = live.shards.iter();
    let from = shards.map(|live| store::events_from(&engine.store, &live.shard));
    let gone = try_join_all(from).await?.into_iter().flatten().max();
    let begun = board.history.as_ref().and_then(HistoryState::since);
    let reach = match gone.max(begun) {
        Some(reach) if reach > Timestamp::MIN => format!("since {reach}"),
        _ => "since it was created".to_owned(),
    };
    Ok(Problem::event_not_kept(&board.id, id.as_sent(), &reach).into())
}

async fn correct_in(
    engine: &Engine,
    live: Arc<LiveBoard>,
    shard: usize,
    (event, member): (&Named, &MemberId),
    correction: &Correction,
) -> Result<Corrected, Error> {
    let own = &live.shards[shard].shard;
    let rows = watched(engine, own, member, async |watch| {
        let again = || Error::Again(Outdated::Read);
        let stored = store::row(&engine.store, own, &event.id).await?;
        let stored = stored.ok_or_else(again)?;
        let row = StoredRow::read(own, &stored)?.ok_or_else(again)?;
        let Some(after) = correction.of(own, &row, engine.clock.now())? else {
            return Ok(Watched::Unchanged((row.clone(), row, Vec::new())));
        };
        let change = Change {
            id: event.id.clone(),
            before: Some((stored, row.clone())),
            after: after.clone(),
            added: None,
        };
        let change = (correction.kind(), change);
        let expired = match carry_out_one(engine, &live, own, watch, change).await? {
            Carried::Out(expired) => expired,
            Carried::Gone => return Err(not_kept(engine, &live, event).await?),
        };
        Ok(Watched::Ended((row, after, expired)))
    });
    let (before, after, expired) = rows.await?;
    let kept = |row| KeptEvent {
        id: event.id.clone(),
        row,
    };
    Ok(Corrected {
        before: Some(kept(before)),
        after: kept(after),
        expired,
        live,
    })
}
