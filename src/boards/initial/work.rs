//! Sets and reads initial scores.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::core::read::merge::{Merged, Start};
use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{Entry, SortKey, Visibility};
use crate::core::write::store::initial::{self, CALL_MEMBERS_MAX, Initialized};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::board::{Board, FieldError};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::Freshness;
use crate::runtime::join::join_all;

/// How many members one request may have.
pub const INITIAL_MAX: usize = 10_000;

#[derive(Debug)]
pub struct SetInitial {
    pub live: Arc<LiveBoard>,
    /// How many members have one now.
    pub members: u64,
    /// The former initial scores of the request's members.
    pub before: BTreeMap<MemberId, Option<Score>>,
    /// Their new initial scores.
    pub after: BTreeMap<MemberId, Option<Score>>,
}

/// Some of a board's initial scores.
#[derive(Clone, Debug)]
pub struct FoundInitial {
    pub live: Arc<LiveBoard>,
    /// How many members have one.
    pub total: u64,
    /// Some of them, best first.
    pub entries: Part<Entry>,
}

/// Sets initial scores (JSON numbers as text), or removes them (`None`). If one is invalid, nothing is done. Each member's
/// is set in one step, but not all together; repeating the call is safe.
pub async fn set(
    engine: &Engine,
    id: &BoardId,
    scores: &BTreeMap<MemberId, Option<String>>,
) -> Result<SetInitial, Error> {
    let before = Mutex::default();
    engine
        .with_board(id, async |live| {
            let scores = read_scores(&live.board, scores)?;
            engine.note_use(&live).await?;
            let mut of_shard = vec![Vec::new(); live.shards.len()];
            for score in &scores {
                of_shard[live.board.shard_of(&score.0)].push(score.clone());
            }
            let set = live
                .shards
                .iter()
                .zip(&of_shard)
                .map(|(shard, scores)| set_all(engine, &shard.shard, scores, &before));
            // All shards finish before the next attempt begins: otherwise it might take a score set by this one for a
            // former score.
            let set = join_all(set).await.into_iter();
            Ok(SetInitial {
                members: set.sum::<Result<u64, Error>>()?,
                before: mem::take(&mut *before.lock()),
                after: scores.into_iter().collect(),
                live,
            })
        })
        .await
}

/// Sets or removes initial scores of a shard, and collects the former ones.
async fn set_all(
    engine: &Engine,
    shard: &Shard,
    scores: &[(MemberId, Option<Score>)],
    noted: &Mutex<BTreeMap<MemberId, Option<Score>>>,
) -> Result<u64, Error> {
    let mut rest = scores;
    loop {
        let (some, behind) = rest.split_at(rest.len().min(CALL_MEMBERS_MAX));
        let now = engine.clock.now();
        match initial::set(&engine.store, shard, some, now).await? {
            // The call is repeated once the erased data is removed.
            Initialized::Erasing => {
                engine.forget_all(&shard.id).await?;
            }
            Initialized::Done { members, before } => {
                let mut noted = noted.lock();
                for ((member, _), before) in some.iter().zip(before) {
                    // A repeated call finds what it has set itself.
                    noted.entry(member.clone()).or_insert(before);
                }
                if behind.is_empty() {
                    return Ok(members);
                }
                rest = behind;
            }
            Initialized::OutOfRange(index) => {
                let decimals = shard.definition.decimals;
                let max = decimals.score_max().shown(decimals);
                let detail = format!("with this score a standing would go beyond ±{max}");
                let beyond = some
                    .get(index)
                    .map(|(member, _)| pointer(member))
                    .map(|pointer| FieldError::new(pointer, detail));
                return Err(Problem::invalid(beyond.into_iter().collect()).into());
            }
        }
    }
}

/// Reads up to `count` initial scores, after the part before (`next`).
pub async fn scores(
    engine: &Engine,
    id: &BoardId,
    after: Option<&str>,
    count: usize,
) -> Result<FoundInitial, Error> {
    engine
        .with_board(id, async |live| {
            let begin = match after {
                Some(cursor) => behind(&live.board, cursor)?,
                None => SortKey::FIRST,
            };
            // Callers that may set initial scores also see those of hidden members.
            let reader =
                Reader::new(engine, &live, Freshness::Current).with_visibility(Visibility::All);
            let list = Merged::new(&reader, live.board.initial_scores());
            let (total, entries) = Box::pin(list.list(Start::At(&begin), count as u64 + 1)).await?;
            Ok(FoundInitial {
                total,
                entries: Part::split(entries, count, |last| cursor(&live.board, last)),
                live: Arc::clone(&live),
            })
        })
        .await
}

/// The cursor after an entry, as clients send it back.
fn cursor(board: &Board, entry: &Entry) -> String {
    let score = entry.score.shown(board.definition.decimals);
    format!("{score}:{}", entry.member)
}

/// The place that a [`cursor`] names; the entry need not exist any more.
fn behind(board: &Board, cursor: &str) -> Result<SortKey, Error> {
    let parsed = cursor.split_once(':').and_then(|(score, member)| {
        let score = Score::parse(score, board.definition.decimals).ok()?;
        let member = MemberId::parse(member).ok()?;
        Some(SortKey::behind(board, score, Timestamp::MIN, &member))
    });
    let detail = "is not a `next` of this list";
    parsed.ok_or_else(|| Problem::invalid_parameter("after", detail).into())
}

fn read_scores(
    board: &Board,
    texts: &BTreeMap<MemberId, Option<String>>,
) -> Result<Vec<(MemberId, Option<Score>)>, Error> {
    if board.definition.initial.is_empty() {
        let detail = format!("board {} has no windows with initial scores", board.id);
        return Err(Problem::invalid_field("/scores", detail).into());
    }
    let mut scores = Vec::with_capacity(texts.len());
    let mut errors = Vec::new();
    for (member, text) in texts {
        let decimals = board.definition.decimals;
        let score = text.as_ref().map(|text| Score::parse(text, decimals));
        match score.transpose() {
            Ok(score) => scores.push((member.clone(), score)),
            Err(error) => errors.push(FieldError::new(pointer(member), error)),
        }
    }
    Problem::require_none(errors)?;
    Ok(scores)
}

fn pointer(member: &MemberId) -> String {
    FieldError::pointer(["scores", member.as_str()])
}
