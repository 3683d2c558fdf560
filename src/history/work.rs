//! Lists the events that boards keep.

use std::sync::Arc;

use bytes::Bytes;

use super::store::{self, CALL_ROWS_MAX, PlacedRow, RowRange};
use crate::core::write::store::events::StoredRow;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::{BoardId, EventId, Label, MemberId};
use crate::domain::part::Part;
use crate::domain::secret::{from_hexadecimal, hexadecimal};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;
use crate::runtime::join::try_join_all;

/// Which kept events are wanted: those that match all that is given.
#[derive(Clone, Debug, Default)]
pub struct WantedEvents {
    /// Of this member.
    pub member: Option<MemberId>,
    /// Of this voter.
    pub voter: Option<Label>,
    /// From this device.
    pub device: Option<Label>,
    /// Through this channel.
    pub channel: Option<Label>,
    /// Sent with this API key.
    pub key: Option<Label>,
    /// That count for this instant or a later one.
    pub since: Option<Timestamp>,
    /// That count for an earlier instant.
    pub until: Option<Timestamp>,
}

/// An event that is kept.
#[derive(Clone, Debug)]
pub struct KeptEvent {
    /// Its id.
    pub id: EventId,
    /// What is kept of it.
    pub row: StoredRow,
}

/// Where a part of the list ends: a text of the index in which the events are listed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListPlace(Vec<u8>);

impl ListPlace {
    /// Parses the `after` of a list.
    ///
    /// # Errors
    ///
    /// It is not one.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        from_hexadecimal(text)
            .map(Self)
            .ok_or("must be the `next` of an earlier answer")
    }
}

impl std::fmt::Display for ListPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

impl WantedEvents {
    fn has(&self, row: &StoredRow) -> bool {
        let details = &row.details;
        let origin = &details.origin;
        let is = |wanted: &Option<Label>, own: &Option<Label>| wanted.is_none() || wanted == own;
        self.member
            .as_ref()
            .is_none_or(|member| *member == details.member)
            && is(&self.voter, &origin.voter)
            && is(&self.device, &origin.device)
            && is(&self.channel, &origin.channel)
            && is(&self.key, &origin.key)
            && self.since.is_none_or(|since| since <= row.at)
            && self.until.is_none_or(|until| row.at < until)
    }

    fn range(&self) -> RowRange {
        match &self.member {
            Some(member) => RowRange::Member(member.clone(), [self.since, self.until]),
            None => RowRange::Taken,
        }
    }
}

/// A part of the list of kept events, with the board: of a member, the last `at` first; otherwise what was accepted last
/// first. It may have fewer events than `limit`, even none, though more follow, and more if several were accepted at once.
pub async fn list(
    engine: &Engine,
    board: &BoardId,
    wanted: &WantedEvents,
    after: Option<&ListPlace>,
    limit: usize,
) -> Result<(Arc<LiveBoard>, Part<KeptEvent, ListPlace>), Error> {
    engine
        .with_board(board, async |live| {
            let part = read_part(engine, &live, wanted, after, limit).await?;
            Ok((live, part))
        })
        .await
}

async fn read_part(
    engine: &Engine,
    live: &LiveBoard,
    wanted: &WantedEvents,
    after: Option<&ListPlace>,
    limit: usize,
) -> Result<Part<KeptEvent, ListPlace>, Error> {
    if live.board.history.is_none() {
        return Ok(Part::last(Vec::new()));
    }
    let range = wanted.range();
    let shards: Vec<&Shard> = match &wanted.member {
        Some(member) => vec![&live.shard_of(member).shard],
        None => live.shards.iter().map(|live| &live.shard).collect(),
    };
    let before = after.map(|place| place.0.as_slice());
    let reads = shards
        .iter()
        .map(|shard| store::rows_before(&engine.store, shard, &range, before, CALL_ROWS_MAX));
    let of_shards = try_join_all(reads).await?;
    // What comes before it may follow in another part of a shard.
    let horizon = of_shards
        .iter()
        .filter(|rows| rows.len() == CALL_ROWS_MAX)
        .filter_map(|rows| rows.last())
        .map(|placed| placed.text.clone())
        .max();
    let mut rows: Vec<PlacedRow> = of_shards
        .into_iter()
        .flatten()
        .filter(|placed| {
            horizon
                .as_ref()
                .is_none_or(|horizon| placed.text >= *horizon)
        })
        .collect();
    rows.sort_by(|one, other| other.text.cmp(&one.text));
    let (mut events, mut last) = (Vec::new(), None::<Bytes>);
    for placed in rows {
        // Shards may have the same text.
        if events.len() >= limit
            && let Some(last) = last.as_ref().filter(|last| **last != placed.text)
        {
            let next = Some(ListPlace(last.to_vec()));
            return Ok(Part {
                items: events,
                next,
            });
        }
        let event = kept(live, &range, &placed)?;
        events.extend(event.filter(|event| wanted.has(&event.row)));
        last = Some(placed.text);
    }
    let next = horizon.map(|horizon| ListPlace(horizon.to_vec()));
    Ok(Part {
        items: events,
        next,
    })
}

/// The event of a row; `None` if it is no longer shown.
fn kept(
    live: &LiveBoard,
    range: &RowRange,
    placed: &PlacedRow,
) -> Result<Option<KeptEvent>, StoreError> {
    if placed.row.is_empty() {
        return Ok(None);
    }
    let damaged = || StoreError::Unexpected("a kept event has no valid id".into());
    let Some(row) = StoredRow::read(&live.board, &placed.row)? else {
        return Ok(None);
    };
    let id = range.event_id(&placed.text).ok_or_else(damaged)?;
    Ok(Some(KeptEvent { id, row }))
}
