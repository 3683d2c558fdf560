//! The outboxes of boards: messages that were written in the same step as what they tell of, and not handed on yet.
//! Whoever posts notes that the board has messages (`board_notes.rs`), also if it finds that they were posted before.

use super::dispatch::Store;
use super::reply::Reply;
use super::{StoreError, keys, script};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::message::{Message, MessageId};

/// How many messages one call reads.
const CALL_MESSAGES_MAX: u32 = 50;

impl Store {
    /// Posts messages of a board, one at least. The caller notes it next ([`Self::note_board`]).
    pub async fn post(&self, board: &Board, messages: &[Message]) -> Result<(), StoreError> {
        let keys = vec![
            keys::head(board.id.as_str()),
            keys::results_registry(&board.id, board.generation),
            keys::outbox(&board.id, board.generation),
        ];
        let texts = messages.iter();
        let texts = texts.flat_map(|message| [message.id.as_str(), &message.body]);
        let mut args = vec![board.version().into()];
        args.extend(texts.map(Into::into));
        let reply = self.write_at(board.id.as_str(), &script::POST, keys, args);
        Reply::answer(reply.await?).map(drop)
    }

    /// Some of the messages in the outbox of a board, in no order; none once the board was deleted.
    pub async fn posted(&self, id: &BoardId, generation: u64) -> Result<Vec<Message>, StoreError> {
        let count = CALL_MESSAGES_MAX.to_string();
        let args = vec![keys::outbox(id, generation), count, "WITHVALUES".to_owned()];
        let flat: Vec<String> = self.command("HRANDFIELD", args).await?;
        let mut texts = flat.into_iter();
        let mut messages = Vec::new();
        while let (Some(id), Some(body)) = (texts.next(), texts.next()) {
            let id = MessageId::named(id);
            messages.push(Message { id, body });
        }
        Ok(messages)
    }

    /// Removes messages from the outbox of a board: they were handed on.
    pub async fn remove_posted(
        &self,
        id: &BoardId,
        generation: u64,
        messages: &[Message],
    ) -> Result<(), StoreError> {
        let ids = messages.iter().map(|message| message.id.to_string());
        let args = [keys::outbox(id, generation)].into_iter().chain(ids);
        self.command("HDEL", args.collect()).await
    }
}
