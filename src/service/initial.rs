//! Initial scores: setting them, and reading them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::try_join_all;

use super::{Error, Service};
use crate::domain::board::{Board, FieldError};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::engine::reader::{ReadError, Reader, SharedPage};
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::initial::{CALL_MEMBERS_MAX, Initialized};
use crate::store::{Freshness, Versioned};

/// The most members of one request.
pub const INITIAL_MAX: usize = 10_000;

/// Some of a board's initial scores.
#[derive(Clone, Debug)]
pub struct FoundInitial {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The scores, best first.
    pub shared: Arc<SharedPage>,
}

impl Service {
    /// Sets initial scores (texts of JSON numbers), or takes them away (`None`); returns how many members have one
    /// then. If one is wrong, nothing is done. Each member's is set in one step, all together are not; to send them
    /// again is safe.
    pub async fn set_initial(
        &self,
        id: &BoardId,
        scores: &BTreeMap<MemberId, Option<String>>,
    ) -> Result<u64, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(id).await?;
            let scores = read_scores(&live.board, scores)?;
            if !self.engine.note_use(&live).await? {
                continue;
            }
            let mut of_shard = vec![Vec::new(); live.shards.len()];
            for score in scores {
                of_shard[live.board.shard_of(&score.0)].push(score);
            }
            let shards = live.shards.iter().zip(&of_shard);
            let set = shards.map(|(shard, scores)| self.set_all(&shard.shard, scores));
            match try_join_all(set).await?.into_iter().sum::<Option<u64>>() {
                Some(count) => return Ok(count),
                None => self.engine.reload(id).await?,
            }
        }
        Err(Error::busy())
    }

    /// Sets initial scores of a shard, none too; `None` if the definition has changed.
    async fn set_all(
        &self,
        shard: &Shard,
        scores: &[(MemberId, Option<Score>)],
    ) -> Result<Option<u64>, Error> {
        let mut count = 0;
        let calls = scores.len().div_ceil(CALL_MEMBERS_MAX).max(1);
        for some in (0..calls).map(|call| part(scores, call)) {
            match self.engine.store.set_initial(shard, some).await? {
                Versioned::Current(Initialized::Done(members)) => count = members,
                Versioned::Current(Initialized::OutOfRange(place)) => {
                    let beyond = some.get(place).map(|(member, _)| {
                        let decimals = shard.definition.decimals;
                        let max = decimals.score_max().shown(decimals);
                        let detail =
                            format!("with it the score in a standing would be beyond ±{max}");
                        FieldError::new(pointer(member), detail)
                    });
                    return Err(Error::Invalid(beyond.into_iter().collect()));
                }
                Versioned::Stale => return Ok(None),
            }
        }
        Ok(Some(count))
    }

    /// Reads initial scores: `size` of them, behind the first `offset`.
    pub async fn initial_scores(
        &self,
        id: &BoardId,
        offset: u64,
        size: u64,
    ) -> Result<FoundInitial, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(id).await?;
            let standing = live.board.initial_scores();
            let reader = Reader::new(&self.engine, &live, Freshness::Current);
            match reader.page(standing, offset, size, None).await {
                Ok(shared) => return Ok(FoundInitial { live, shared }),
                Err(ReadError::Retry) => {}
                Err(ReadError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::busy())
    }
}

/// What a call sets.
fn part(scores: &[(MemberId, Option<Score>)], call: usize) -> &[(MemberId, Option<Score>)] {
    let from = call * CALL_MEMBERS_MAX;
    &scores[from..scores.len().min(from + CALL_MEMBERS_MAX)]
}

fn read_scores(
    board: &Board,
    texts: &BTreeMap<MemberId, Option<String>>,
) -> Result<Vec<(MemberId, Option<Score>)>, Error> {
    if board.definition.initial.is_empty() {
        let detail = format!("board {} has no windows with initial scores", board.id);
        return Err(Error::Invalid(vec![FieldError::new("/scores", detail)]));
    }
    let mut scores = Vec::with_capacity(texts.len());
    let mut errors = Vec::new();
    for (member, text) in texts {
        let score = text
            .as_ref()
            .map(|text| Score::parse(text, board.definition.decimals));
        match score.transpose() {
            Ok(score) => scores.push((member.clone(), score)),
            Err(error) => {
                let detail = format!("this score {error}");
                errors.push(FieldError::new(pointer(member), detail));
            }
        }
    }
    if errors.is_empty() {
        Ok(scores)
    } else {
        Err(Error::Invalid(errors))
    }
}

fn pointer(member: &MemberId) -> String {
    FieldError::pointer(["scores", member.as_str()])
}
