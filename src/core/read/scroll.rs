//! Reads a whole standing in rank order, in parts, between which it may change; a final one only by a hide or an erasure.

use std::sync::Arc;

use futures::FutureExt;
use serde::{Deserialize, Serialize};

use super::merge::{Merged, Start};
use super::reader::{ReadSize, Reader};
use super::store::standings::{Entry, ShardLine, SortKey};
use crate::core::{Engine, Error};
use crate::domain::board::{Board, Ranking};
use crate::domain::ids::BoardId;
use crate::domain::series::Standing;
use crate::redis::Freshness;

/// A standing, and how far it was read.
#[derive(Clone, Debug)]
pub(crate) struct Scroll {
    board: BoardId,
    generation: u64,
    standing: Standing,
    /// How far it has come.
    pub(crate) place: ScrollPlace,
    /// Directly after the last entry that was read; `None`: none yet.
    mark: Option<SortKey>,
}

/// How far a standing was read: up to an entry, which it does not name.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ScrollPlace {
    /// How many entries were read.
    pub(crate) entries: u64,
    /// The rank of the last one.
    rank: u64,
    /// Its stored score.
    score: Option<i64>,
}

impl ScrollPlace {
    /// The rank of the next entry, which has this stored score.
    pub(crate) fn advance(&mut self, ranking: Ranking, score: i64) -> u64 {
        let is_tied = self.score == Some(score);
        self.entries += 1;
        self.rank = ranking.rank_after(self.rank, is_tied, self.entries);
        self.score = Some(score);
        self.rank
    }
}

impl Scroll {
    /// Reads a standing of a board from this place on.
    pub(crate) fn new(board: &Board, standing: Standing, place: ScrollPlace) -> Self {
        Self {
            board: board.id.clone(),
            generation: board.generation,
            standing,
            place,
            mark: None,
        }
    }

    /// The next `count` entries, or fewer at the end.
    pub(crate) async fn next(&mut self, engine: &Engine, count: u64) -> Result<Vec<Entry>, Error> {
        let (board, lines) = engine
            .with_board(&self.board, async |live| {
                if live.board.generation != self.generation {
                    return Err(Error::BoardNotFound(self.board.clone()));
                }
                let reader =
                    Reader::new(engine, &live, Freshness::Current).of_size(ReadSize::Large);
                let behind = Start::Behind(self.place.entries);
                let start = self.mark.as_ref().map_or(behind, Start::At);
                let list = Merged::new(&reader, self.standing);
                let lines = list.lines(start, count).boxed().await?;
                Ok((Arc::clone(&live.board), lines))
            })
            .await?;
        self.take(&board, &lines)
    }

    /// Makes entries of the next lines.
    fn take(&mut self, board: &Board, lines: &[ShardLine]) -> Result<Vec<Entry>, Error> {
        let ranking = board.ranking_of(&self.standing.period);
        let mut entries = Vec::with_capacity(lines.len());
        for line in lines {
            let rank = self.place.advance(ranking, line.mark.score);
            entries.push(line.entry(board, Some(rank))?);
        }
        if let Some(last) = lines.last() {
            self.mark = Some(last.mark.behind_it());
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_ranking_across_parts() {
        let ranks = |ranking| {
            let mut place = ScrollPlace::default();
            [5, 7, 7, 7, 9, 9, 10].map(|score| place.advance(ranking, score))
        };
        assert_eq!(ranks(Ranking::Ordinal), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(ranks(Ranking::Competition), [1, 2, 2, 2, 5, 5, 7]);
        assert_eq!(ranks(Ranking::Dense), [1, 2, 2, 2, 3, 3, 4]);
    }
}
