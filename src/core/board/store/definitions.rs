//! How a board is stored, and what can be read of one that a newer release wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::Error;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::domain::board::{Board, Definition};
use crate::domain::closing::Closings;
use crate::domain::history::HistoryState;
use crate::domain::ids::BoardId;
use crate::domain::league::FormerLeague;
use crate::domain::placement::Placement;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::redis::StoreError;
use crate::redis::format::{FIRST_FORMAT, other_format};
use crate::redis::protocol::formats::{DATA_FORMAT, HISTORY_FORMAT};

/// The content of the field `definition` of a board's key.
#[derive(Deserialize, Serialize)]
pub(crate) struct StoredDefinition {
    #[serde(default = "first_format")]
    pub(crate) data_format: u64,
    generation: u64,
    #[serde(rename = "revision")]
    amendment: u64,
    #[serde(default)]
    epochs: BTreeMap<Window, u64>,
    placement: Placement,
    #[serde(serialize_with = "without_null_history")]
    definition: Definition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finalize_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    league_before: Vec<FormerLeague>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history: Option<HistoryState>,
}

fn first_format() -> u64 {
    FIRST_FORMAT
}

/// Writes a definition without `history` if it is null: releases that read [`DATA_FORMAT`] alone don't know the field.
fn without_null_history<S: Serializer>(
    definition: &Definition,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut written = serde_json::to_value(definition).map_err(S::Error::custom)?;
    if let (None, Some(fields)) = (definition.history, written.as_object_mut()) {
        fields.remove("history");
    }
    written.serialize(serializer)
}

/// The format of a board's data: of those with a history a later one, which earlier releases leave alone.
fn format_of(board: &Board) -> u64 {
    match board.history {
        Some(_) => HISTORY_FORMAT,
        None => DATA_FORMAT,
    }
}

/// Whether this release can work with a board whose data has this format.
pub(crate) fn is_readable(data_format: u64) -> bool {
    [DATA_FORMAT, HISTORY_FORMAT].contains(&data_format)
}

impl From<&Board> for StoredDefinition {
    fn from(board: &Board) -> Self {
        Self {
            data_format: format_of(board),
            generation: board.generation,
            amendment: board.amendment,
            epochs: board.epochs.clone(),
            placement: board.placement.clone(),
            definition: board.definition.clone(),
            finalize_since: board.finalize_since,
            league_before: board.league_before.clone(),
            history: board.history.clone(),
        }
    }
}

/// A board whose stored definition can't be read, perhaps because a newer release wrote it, or whose data has another format.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    /// What could be read of it.
    pub board: Arc<Board>,
    /// Whether only fields that this release does not know are missing.
    pub is_known: bool,
    /// Whether its data has another format.
    pub is_of_other_format: bool,
    /// What is wrong with it.
    pub detail: String,
}

pub type StoredBoard = Result<Arc<Board>, Box<Unreadable>>;

impl Unreadable {
    pub(crate) fn of_format(board: Arc<Board>, data_format: u64) -> Self {
        let detail = other_format(&format!("board {}", board.id), data_format);
        Self {
            board,
            is_known: false,
            is_of_other_format: true,
            detail,
        }
    }
}

/// The board stored like this under that name, without its closings.
pub(crate) fn board_of(id: &BoardId, stored: StoredDefinition) -> Board {
    let StoredDefinition {
        data_format: _,
        generation,
        amendment,
        epochs,
        placement,
        definition,
        finalize_since,
        league_before,
        history,
    } = stored;
    Board {
        placement,
        finalize_since,
        league_before,
        history,
        ..Board::new(id.clone(), definition, generation, amendment, epochs)
    }
}

/// Reads a board from the field `definition` of its key.
pub(crate) fn read_definition(id: &BoardId, json: &str) -> Result<Board, StoreError> {
    let stored: StoredDefinition = serde_json::from_str(json).map_err(|error| {
        StoreError::Unexpected(format!("the definition of {id} can't be read: {error}"))
    })?;
    if !is_readable(stored.data_format) {
        let detail = other_format(&format!("board {id}"), stored.data_format);
        return Err(StoreError::Unexpected(detail));
    }
    Ok(board_of(id, stored))
}

/// Reads what it can of a board that can't be read whole.
pub(crate) fn salvage(
    id: &BoardId,
    version: &str,
    json: &str,
    error: &serde_json::Error,
    closings: Closings,
) -> Result<Unreadable, StoreError> {
    let numbers = version
        .split_once('-')
        .and_then(|(generation, amendment)| generation.parse().ok().zip(amendment.parse().ok()));
    let (generation, amendment) = numbers.ok_or_else(|| {
        StoreError::Unexpected(format!("the version of {id} can't be read: {version:?}"))
    })?;
    let stored: Value = serde_json::from_str(json).unwrap_or_default();
    let epochs = Option::<BTreeMap<Window, u64>>::deserialize(&stored["epochs"]);
    let placement = Placement::deserialize(&stored["placement"]).ok();
    let league_before = Option::<Vec<FormerLeague>>::deserialize(&stored["league_before"]);
    let (definition, is_known) = salvage_definition(&stored["definition"])?;
    let detail = error.to_string();
    // The rest of the message is a long list.
    let detail = detail.split(", expected").next().unwrap_or(&detail);
    let is_known = is_known && epochs.is_ok() && placement.is_some() && league_before.is_ok();
    let epochs = epochs.ok().flatten().unwrap_or_default();
    let mut board = Board::new(id.clone(), definition, generation, amendment, epochs);
    board.league_before = league_before.ok().flatten().unwrap_or_default();
    board.history = Option::<HistoryState>::deserialize(&stored["history"]).unwrap_or_default();
    board.finalize_since = Timestamp::deserialize(&stored["finalize_since"]).ok();
    board.closings = closings;
    board.placement = placement.unwrap_or(board.placement);
    let data_format = stored["data_format"].as_u64().unwrap_or(FIRST_FORMAT);
    if stored.is_object() && !is_readable(data_format) {
        return Ok(Unreadable::of_format(board.into(), data_format));
    }
    Ok(Unreadable {
        board: board.into(),
        is_known,
        is_of_other_format: false,
        detail: detail.to_owned(),
    })
}

/// The fields of a stored definition that can be read, and whether all others are unknown to this release.
fn salvage_definition(stored: &Value) -> Result<(Definition, bool), StoreError> {
    let fault = |error: serde_json::Error| StoreError::Unexpected(error.to_string());
    let smallest = json!({"windows": ["all"]});
    let mut definition: Definition = serde_json::from_value(smallest).map_err(fault)?;
    let mut known = serde_json::to_value(&definition).map_err(fault)?;
    let mut is_known = stored.is_object();
    for (field, value) in stored.as_object().into_iter().flatten() {
        if known.get(field).is_none() {
            continue;
        }
        let before = std::mem::replace(&mut known[field], value.clone());
        if let Ok(with_it) = Definition::deserialize(&known) {
            definition = with_it;
        } else {
            (known[field], is_known) = (before, false);
        }
    }
    Ok((definition, is_known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn salvaged(json: &str) -> Unreadable {
        let id = BoardId::parse("b").unwrap();
        let error = serde_json::from_str::<StoredDefinition>(json)
            .err()
            .unwrap();
        salvage(&id, "7-9", json, &error, Closings::default()).unwrap()
    }

    #[test]
    fn a_board_without_a_history_is_stored_as_releases_without_histories_know_it() {
        for (definition, is_there) in [
            (r#"{"windows": ["all"]}"#, false),
            (r#"{"windows": ["all"], "history": "90d"}"#, true),
        ] {
            let board = Board::defined(definition).with_history("key".to_owned(), Timestamp::MIN);
            let stored = serde_json::to_string(&StoredDefinition::from(&board)).unwrap();
            assert_eq!(stored.contains("history"), is_there, "{stored}");
            assert_eq!(read_definition(&board.id, &stored).unwrap(), board);
        }
    }

    #[test]
    fn readable_parts_of_a_damaged_definition_are_read() {
        let newer = salvaged(
            r#"{"data_format": 2, "generation": 7, "revision": 9, "epochs": {"week": 3}, "news": 1,
                "placement": {"current": {"shards": 2, "epoch": 1}, "next": null, "former": [], "news": 1},
                "definition": {"news": {"a": 1}, "windows": ["day", "week"], "decimals": 2, "shards": 2}}"#,
        );
        assert!(newer.is_known);
        assert_eq!(newer.detail, "unknown field `news`");
        assert_eq!(newer.board.version(), "7-9");
        assert_eq!(newer.board.definition.windows.len(), 2);
        assert_eq!(newer.board.definition.decimals.digits(), 2);
        assert_eq!(newer.board.epochs.len(), 1);
        assert_eq!(newer.board.placement.current.to_string(), "2.1");
        let other = salvaged(
            r#"{"data_format": 2, "definition": {"windows": ["era"], "decimals": 2, "shards": 3}}"#,
        );
        assert!(!other.is_known);
        assert_eq!(other.board.definition.decimals.digits(), 2);
        assert_eq!(other.board.placement.current.shards, 3);
        let broken = salvaged("{");
        assert!(!broken.is_known && !broken.is_of_other_format);
        assert_eq!(broken.board.version(), "7-9");
        for other in [r#"{"data_format": 4, "news": 1}"#, r#"{"news": 1}"#] {
            let other = salvaged(other);
            assert!(other.is_of_other_format && !other.is_known, "{other:?}");
        }
    }
}
