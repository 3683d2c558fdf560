//! Keeps the results of final periods, and their digests.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::dispatch::Store;
use super::kinds::Kind;
use super::reply::Reply;
use super::{StoreError, Versioned, keys, script};
use crate::domain::board::Board;
use crate::domain::message::Message;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;

/// What stands before the key of a period under which it is noted how far its digest has come.
const MAKING: &str = "making:";

/// What is kept of a final period.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PeriodResult {
    /// When the period began.
    pub starts_at: Option<Timestamp>,
    /// When it ended.
    pub ends_at: Option<Timestamp>,
    /// When its result was recorded.
    pub final_at: Timestamp,
    /// How many members the standing has.
    pub total: u64,
    /// The first of them; `None` if there is none.
    pub winner: Option<Winner>,
    /// 1, and 1 more with each change of the result.
    pub revision: u64,
    /// How many rewards there are.
    pub rewards: u64,
    /// The revision of the definition by which the period was closed.
    pub definition: u64,
    /// The number of the last hide of each shard, by its tag, that the result takes into account.
    pub hides: BTreeMap<String, u64>,
}

/// A result, and how it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recorded {
    /// The result.
    pub result: PeriodResult,
    json: String,
}

/// Who has won a period.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Winner {
    /// Who; `None` once that member was erased.
    pub member: Option<String>,
    /// How much, scaled.
    #[serde(with = "scaled")]
    pub score: Score,
    /// When that score was reached; `None` on boards with `ties: member`.
    pub reached_at: Option<Timestamp>,
}

/// A score as the integer that is stored.
mod scaled {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::domain::score::Score;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(score: &Score, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(score.scaled())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Score, D::Error> {
        i64::deserialize(from).map(Score::from_stored)
    }
}

/// What the head of a shard says of hides and erasures.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Moderated {
    /// The number of the last hide.
    pub hides: u64,
    /// How many lines of final standings have lost their member.
    pub anonymised: u64,
}

/// The digest of a final period, or how far it has come.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Noted<T> {
    /// Of which revision of the result.
    pub revision: u64,
    /// How many lines of final standings of the board had lost their member by then.
    pub anonymised: u64,
    /// What it is.
    pub noted: T,
}

impl Recorded {
    /// How it is stored.
    pub(super) fn json(&self) -> &str {
        &self.json
    }

    fn read(json: String) -> Result<Self, StoreError> {
        let result = read("a result", &json)?;
        Ok(Self { result, json })
    }
}

impl Store {
    /// Records the result of a final period, with the messages that tell of it, or replaces the one that was `seen`. Returns
    /// the one that stands: another one, if what was seen is not what was stored. The caller calls [`Self::note_outbox`]
    /// next, if there are messages, also then.
    pub async fn record_result(
        &self,
        board: &Board,
        (window, key): (Window, &str),
        (seen, result): (Option<&Recorded>, &PeriodResult),
        messages: &[Message],
    ) -> Result<Versioned<Recorded>, StoreError> {
        let mut keys = keys_of(board, window, &[Kind::Results, Kind::FinalPeriods]);
        keys.push(keys::outbox(&board.id, board.generation));
        let seen = seen.map_or("", |seen| &seen.json);
        let result = written("a result", result)?;
        let mut args = vec![
            board.version().into(),
            key.into(),
            seen.into(),
            result.into(),
        ];
        let texts = messages.iter();
        let texts = texts.flat_map(|message| [message.id.as_str(), &message.body]);
        args.extend(texts.map(Into::into));
        let tag = board.id.as_str();
        let reply = self.write_at(tag, &script::RECORD_RESULT, keys, args);
        let Versioned::Current(mut reply) = Reply::answer(reply.await?)? else {
            return Ok(Versioned::Stale);
        };
        Recorded::read(reply.text()?).map(Versioned::Current)
    }

    /// The results of some periods of a window, in their order; `None` where there is none.
    pub async fn results(
        &self,
        board: &Board,
        window: Window,
        periods: &[String],
    ) -> Result<Vec<Option<Recorded>>, StoreError> {
        if periods.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = vec![keys::of_results(board, Kind::Results, window)];
        args.extend_from_slice(periods);
        let stored: Vec<Option<String>> = self.command("HMGET", args).await?;
        let stored = stored.into_iter();
        let results = stored.map(|stored| stored.map(Recorded::read).transpose());
        results.collect()
    }

    /// Up to `count` keys of periods with a result, the newest first, between two keys.
    pub async fn final_periods(
        &self,
        board: &Board,
        window: Window,
        (after, before): (Option<&str>, Option<&str>),
        count: usize,
    ) -> Result<Vec<String>, StoreError> {
        let list = keys::of_results(board, Kind::FinalPeriods, window);
        let from = before.map_or_else(|| "+".to_owned(), |before| format!("({before}"));
        let to = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        let count = count.to_string();
        let range = [&list, &from, &to, "BYLEX", "REV", "LIMIT", "0", &count];
        self.command("ZRANGE", range.map(str::to_owned).to_vec())
            .await
    }

    /// What the head of a shard says of hides and erasures.
    pub async fn moderated(&self, shard: &Shard) -> Result<Moderated, StoreError> {
        let head = keys::head(shard.tag());
        let fields = [head.as_str(), "hides", "anonymised"];
        let fields = fields.map(str::to_owned).to_vec();
        let [hides, anonymised]: [Option<u64>; 2] = self.command("HMGET", fields).await?;
        Ok(Moderated {
            hides: hides.unwrap_or(0),
            anonymised: anonymised.unwrap_or(0),
        })
    }

    /// The digest of a final period, and how far one has come that is being made.
    pub async fn digest<T: DeserializeOwned>(
        &self,
        board: &Board,
        (window, key): (Window, &str),
    ) -> Result<(Option<Noted<String>>, Option<Noted<T>>), StoreError> {
        let digests = keys::of_results(board, Kind::Digests, window);
        let fields = vec![digests, key.to_owned(), format!("{MAKING}{key}")];
        let [made, making]: [Option<String>; 2] = self.command("HMGET", fields).await?;
        let made = made.map(|made| read("a digest", &made)).transpose()?;
        // What was noted by another release is made anew.
        Ok((made, making.and_then(|making| read("", &making).ok())))
    }

    /// Notes the digest of a final period.
    pub async fn note_digest(
        &self,
        board: &Board,
        period: (Window, &str),
        digest: &Noted<String>,
    ) -> Result<Versioned<()>, StoreError> {
        let digest = written("a digest", digest)?;
        self.note(board, period, "1", digest).await
    }

    /// Notes how far the digest of a final period has come.
    pub async fn note_making<T: Serialize>(
        &self,
        board: &Board,
        period: (Window, &str),
        making: &Noted<T>,
    ) -> Result<Versioned<()>, StoreError> {
        let making = written("a digest", making)?;
        self.note(board, period, "0", making).await
    }

    async fn note(
        &self,
        board: &Board,
        (window, key): (Window, &str),
        is_made: &str,
        noted: String,
    ) -> Result<Versioned<()>, StoreError> {
        let keys = keys_of(board, window, &[Kind::Digests]);
        let args = vec![
            board.version().into(),
            key.into(),
            is_made.into(),
            noted.into(),
        ];
        let tag = board.id.as_str();
        let reply = self.write_at(tag, &script::NOTE_DIGEST, keys, args);
        Ok(match Reply::answer(reply.await?)? {
            Versioned::Current(_) => Versioned::Current(()),
            Versioned::Stale => Versioned::Stale,
        })
    }
}

/// The keys of a script that writes these kinds of a window: the board, the registry of results, and one for each kind.
fn keys_of(board: &Board, window: Window, kinds: &[Kind]) -> Vec<String> {
    let (id, generation) = (&board.id, board.generation);
    let first = [
        keys::head(id.as_str()),
        keys::results_registry(id, generation),
    ];
    let kinds = kinds.iter();
    let of_kinds = kinds.map(|kind| keys::of_results(board, *kind, window));
    first.into_iter().chain(of_kinds).collect()
}

fn written<T: Serialize>(what: &str, value: &T) -> Result<String, StoreError> {
    let json = serde_json::to_string(value);
    json.map_err(|error| StoreError::Unexpected(format!("{what}: {error}")))
}

fn read<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, StoreError> {
    let read = serde_json::from_str(json);
    read.map_err(|error| StoreError::Unexpected(format!("{what}: {error}")))
}
