//! Stores revocations.

use bytes::Bytes;

use super::revocation::{Cover, Named, Revocation};
use crate::domain::board::Board;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};

/// Follow the name of a revocation in the names of the fields with the hashes of its events, and with what it names.
const OF_EVENTS: &str = ":events";
const OF_NAMED: &str = ":named";

/// What is written of a board's revocations.
#[derive(Debug, Default)]
pub(super) struct Written<'a> {
    pub(super) revocation: Option<&'a Revocation>,
    /// The hashes of the events that it names.
    pub(super) hashes: Option<Vec<u8>>,
    /// What one of them names.
    pub(super) named: Option<(&'a str, &'a Named)>,
    /// The fields that are removed.
    pub(super) removed: Vec<String>,
}

/// The fields of a revocation: itself, the hashes of its events, and what it names.
pub(super) fn fields_of(token: &str) -> [String; 3] {
    ["", OF_EVENTS, OF_NAMED].map(|of| format!("{token}{of}"))
}

/// All revocations of a board, the last first.
pub(super) async fn all(store: &Store, board: &Board) -> Result<Vec<Revocation>, StoreError> {
    let key = keys::of_board(board, Kind::Revocations);
    let fields: Vec<String> = store.command("HKEYS", [&key]).await?;
    let tokens: Vec<String> = fields
        .into_iter()
        .filter(|field| !field.contains(':'))
        .collect();
    if tokens.is_empty() {
        return Ok(Vec::new());
    }
    let found: Vec<Option<String>> = store
        .command("HMGET", std::iter::once(key).chain(tokens))
        .await?;
    let read = |found: &String| read_json("a revocation", found);
    let mut all: Vec<Revocation> = found.iter().flatten().map(read).collect::<Result<_, _>>()?;
    all.sort_by_key(|one| std::cmp::Reverse(one.number));
    Ok(all)
}

/// What these revocations cover, in their order.
pub(super) async fn covers(
    store: &Store,
    board: &Board,
    revocations: &[&Revocation],
) -> Result<Vec<Cover>, StoreError> {
    if revocations.is_empty() {
        return Ok(Vec::new());
    }
    let key = keys::of_board(board, Kind::Revocations);
    let fields = revocations
        .iter()
        .map(|one| format!("{}{OF_EVENTS}", one.token));
    let asked: Vec<String> = std::iter::once(key).chain(fields).collect();
    let hashes: Vec<Option<Bytes>> = store.command("HMGET", asked).await?;
    let covers = revocations.iter().zip(hashes);
    Ok(covers
        .map(|(one, hashes)| Cover::new(one, &hashes.unwrap_or_default()))
        .collect())
}

/// What the revocations in force of a board cover. `None` if rows may say something else, since one is being carried out, or
/// some events could not be changed.
pub(crate) async fn in_force(
    store: &Store,
    board: &Board,
) -> Result<Option<Vec<Cover>>, StoreError> {
    let all = all(store, board).await?;
    let is_running = board
        .history
        .as_ref()
        .is_some_and(|history| history.revoking.is_some());
    if is_running || !all.iter().all(Revocation::is_whole) {
        return Ok(None);
    }
    let in_force: Vec<&Revocation> = all.iter().filter(|one| one.is_in_force()).collect();
    covers(store, board, &in_force).await.map(Some)
}

/// What a revocation names; nothing if that is not known any more.
pub(super) async fn named(store: &Store, board: &Board, token: &str) -> Result<Named, StoreError> {
    let field = format!("{token}{OF_NAMED}");
    let key = keys::of_board(board, Kind::Revocations);
    let found: Option<String> = store.command("HGET", [key, field]).await?;
    let read = found.map(|found| read_json("what a revocation names", &found));
    Ok(read.transpose()?.unwrap_or_default())
}

/// Writes and removes revocations. Stale if the board's definition is another one.
pub(super) async fn write(
    store: &Store,
    board: &Board,
    written: Written<'_>,
) -> Result<(), StoreError> {
    let mut call = store
        .call_board(&script::NOTE_REVOCATION, board)
        .key(keys::of_board(board, Kind::Revocations))
        .field("version", board.version())
        .field("removed", written.removed);
    if let Some(revocation) = written.revocation {
        let token = &revocation.token;
        call = call.arg(token).json(revocation);
        if let Some(hashes) = written.hashes {
            call = call.arg(format!("{token}{OF_EVENTS}")).arg(hashes);
        }
    }
    if let Some((token, named)) = written.named {
        call = call.arg(format!("{token}{OF_NAMED}")).json(named);
    }
    call.write::<Done>().await.map(drop)
}
