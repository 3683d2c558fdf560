//! The outboxes of boards: messages that were written in the same step as what they tell of, and not handed on yet.
//!
//! A message and the note that its outbox has something lie in two slots. So whoever posts notes it *afterwards*, and before it
//! takes its own work for done. If it dies in between, its work is done again, and noted then, also if the message
//! was posted before. A note has a name of its own: whoever takes it away has read the outbox after the note was made.

use std::fmt;
use std::str::FromStr;

use super::dispatch::Store;
use super::reply::Reply;
use super::{StoreError, Versioned, keys, random, script};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::message::{Message, MessageId};

/// How many notes one call reads.
const CALL_NOTES_MAX: u32 = 1_000;
/// How many messages one call reads.
const CALL_MESSAGES_MAX: u32 = 50;

/// A note that the outbox of a board may have messages.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct OutboxNote {
    /// The board.
    pub board: BoardId,
    /// Its generation.
    pub generation: u64,
    /// What tells it from other notes.
    name: String,
}

impl fmt::Display for OutboxNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.generation, self.board)
    }
}

impl FromStr for OutboxNote {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(' ');
        let mut part = || parts.next().ok_or(());
        Ok(Self {
            name: part()?.to_owned(),
            generation: part()?.parse().map_err(drop)?,
            board: BoardId::parse(part()?).map_err(drop)?,
        })
    }
}

impl Store {
    /// Posts messages of a board, one at least. The caller calls [`Self::note_outbox`] next.
    pub async fn post(
        &self,
        board: &Board,
        messages: &[Message],
    ) -> Result<Versioned<()>, StoreError> {
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
        Ok(match Reply::answer(reply.await?)? {
            Versioned::Current(_) => Versioned::Current(()),
            Versioned::Stale => Versioned::Stale,
        })
    }

    /// Notes that the outbox of a board has messages. To be called after a script that has posted, or has found that it did so
    /// before, and before the work of that script is noted as done.
    pub async fn note_outbox(&self, board: &Board) -> Result<(), StoreError> {
        let note = OutboxNote {
            board: board.id.clone(),
            generation: board.generation,
            name: random::hexadecimal::<8>("")?,
        };
        let keys = vec![keys::OUTBOXES.to_owned()];
        let args = vec![note.to_string().into()];
        let noted = self.write_at(keys::OUTBOXES, &script::UNNEEDED, keys, args);
        noted.await.map(drop)
    }

    /// Some of the notes, or all if there are few.
    pub async fn outbox_notes(&self) -> Result<Vec<OutboxNote>, StoreError> {
        let args = vec![keys::OUTBOXES.to_owned(), CALL_NOTES_MAX.to_string()];
        let notes: Vec<String> = self.command("SRANDMEMBER", args).await?;
        Ok(notes.iter().filter_map(|note| note.parse().ok()).collect())
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

    /// Takes notes away, after the outbox was found empty.
    pub async fn forget_outbox_notes(&self, notes: &[OutboxNote]) -> Result<(), StoreError> {
        let names = notes.iter().map(ToString::to_string);
        let args = [keys::OUTBOXES.to_owned()].into_iter().chain(names);
        self.command("SREM", args.collect()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_from_its_text() {
        let note = OutboxNote {
            board: BoardId::parse("vote-eu").unwrap(),
            generation: 7,
            name: "5f00".to_owned(),
        };
        assert_eq!(note.to_string(), "5f00 7 vote-eu");
        assert_eq!("5f00 7 vote-eu".parse(), Ok(note));
        assert_eq!("5f00 vote-eu".parse::<OutboxNote>(), Err(()));
    }
}
