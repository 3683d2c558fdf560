//! The outboxes of boards: messages written in the same step as the change that they report, and not handed on yet. Code
//! that posts notes that the board has messages (`board_notes.rs`), even if they were posted before.

use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::message::{Message, MessageId};
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, script};

/// How many messages one call reads.
const CALL_MESSAGES_MAX: u32 = 50;

/// Posts at least one message of a board. The caller notes the board next
/// ([`crate::core::board::store::board_notes::note`]).
pub async fn post(store: &Store, board: &Board, messages: &[Message]) -> Result<(), StoreError> {
    let texts = messages
        .iter()
        .flat_map(|message| [message.id.as_str(), &message.body]);
    let posted = store
        .call_board(&script::POST, board)
        .key(keys::outbox(&board.id, board.generation))
        .arg(board.version())
        .args(texts);
    posted.write::<Done>().await.map(drop)
}

/// Some messages in the outbox of a board, unordered; none once the board is deleted.
pub async fn posted(
    store: &Store,
    id: &BoardId,
    generation: u64,
) -> Result<Vec<Message>, StoreError> {
    let (outbox, count) = (keys::outbox(id, generation), CALL_MESSAGES_MAX.to_string());
    let args = [&outbox, &count, "WITHVALUES"];
    let found: Vec<(String, String)> = store.command("HRANDFIELD", args).await?;
    Ok(found
        .into_iter()
        .map(|(id, body)| Message {
            id: MessageId::named(id),
            body,
        })
        .collect())
}

/// Removes messages that were handed on from the outbox of a board.
pub async fn remove(
    store: &Store,
    id: &BoardId,
    generation: u64,
    messages: &[Message],
) -> Result<(), StoreError> {
    let ids = messages.iter().map(|message| message.id.to_string());
    let args = [keys::outbox(id, generation)].into_iter().chain(ids);
    store.command("HDEL", args).await
}
