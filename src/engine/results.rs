//! The results of final periods: what the last reads of a standing say, kept for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::try_join_all;
use serde_json::json;

use super::merge::Merged;
use super::reader::{ReadError, Reader};
use super::rewards::{HandedOut, Handing};
use super::{ATTEMPTS_MAX, Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, MemberId, shown_member};
use crate::domain::message::{Message, MessageKind};
use crate::domain::period::Period;
use crate::domain::series::{Standing, Track};
use crate::domain::state::PeriodState;
use crate::domain::window::Window;
use crate::store::results::{Moderated, PeriodResult, Recorded, Winner};
use crate::store::standings::{Page, Selection};
use crate::store::{Freshness, Versioned};

/// How many results are looked at in one call.
const RESULTS_AT_ONCE: usize = 100;

/// The standing of a period that has results.
pub(crate) fn standing_of(board: &Board, period: &Period) -> Standing {
    let window = Window::Period(period.unit);
    Standing {
        series: board.series(window, Track::Shown),
        period: *period,
    }
}

impl Engine {
    /// Records the result of a final period of a unit that is among the board's windows, unless there is one. Its message
    /// is in the outbox then, and noted.
    ///
    /// # Errors
    ///
    /// `Error::busy` if a shard has not the barrier yet, or if members are hidden all the time.
    pub async fn record_result(&self, live: &Arc<LiveBoard>, period: &Period) -> Result<(), Error> {
        let (id, mut live) = (live.board.id.clone(), Arc::clone(live));
        let window = Window::Period(period.unit);
        for _ in 0..ATTEMPTS_MAX {
            let key = live.board.calendar.key(period);
            let keys = [key.clone()];
            let known = self.store.results(&live.board, window, &keys).await?;
            if known.into_iter().flatten().next().is_some() {
                // Whoever has recorded it may have come no further.
                return Ok(self.store.note_outbox(&live.board).await?);
            }
            let mut handing = self.handing(&live, period).await?;
            let recorded = self.record_first(&live, period, &mut handing).await;
            handing.give_back().await?;
            if recorded? {
                return Ok(self.store.note_outbox(&live.board).await?);
            }
            live = self.live_board(&id).await?;
        }
        Err(Error::busy())
    }

    /// Records the first result of a final period, unless there is one. Returns whether there is one then.
    async fn record_first(
        &self,
        live: &LiveBoard,
        period: &Period,
        handing: &mut Handing,
    ) -> Result<bool, Error> {
        let (board, window) = (&live.board, Window::Period(period.unit));
        let key = board.calendar.key(period);
        // Whoever has handed out before may have recorded it.
        let known = self
            .store
            .results(board, window, std::slice::from_ref(&key))
            .await?;
        if known.into_iter().flatten().next().is_some() {
            return Ok(true);
        }
        let Some(result) = self.make_result(live, period, 1, handing).await? else {
            return Ok(false);
        };
        let messages = [message_of(board, (window, &key), &result)];
        let recorded = self
            .store
            .record_result(board, (window, &key), (None, &result), &messages);
        if let Versioned::Stale = recorded.await? {
            self.reload(&board.id).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// The result of a final period, whose rewards are handed out then; `None` if something has changed meanwhile.
    pub(super) async fn make_result(
        &self,
        live: &LiveBoard,
        period: &Period,
        revision: u64,
        handing: &mut Handing,
    ) -> Result<Option<PeriodResult>, Error> {
        let board = &live.board;
        let before = self.moderated(live).await?;
        // A member that is being erased is not shown for a moment, and its line comes back. An erasure that begins later
        // changes what the heads say.
        self.forget_all(&board.id).await?;
        let reader = Reader::new(self, live, Freshness::Current);
        let first = Selection::Behind(0);
        let list = Merged::new(&reader, standing_of(board, period));
        let page = match Box::pin(list.page(first, 1, None)).await {
            Ok(page) => page,
            Err(ReadError::Retry) => return Ok(None),
            Err(ReadError::Failed(error)) => return Err(error),
        };
        let now = self.clock.now();
        if board.state_of(period, reader.seen(), now) != Some(PeriodState::Final) {
            return Err(Error::busy());
        }
        let handed_out = self.hand_out(live, period, revision, handing).await?;
        let Some(HandedOut { rewards, .. }) = handed_out.filter(|of| of.meanwhile == before) else {
            return Ok(None);
        };
        let pinned = board.pinned(period);
        let hides = before.into_iter();
        Ok(Some(PeriodResult {
            starts_at: period.start(),
            ends_at: board.end_of(period),
            final_at: now,
            total: page.total,
            winner: winner_of(&page),
            revision,
            rewards,
            definition: pinned.map_or(board.revision, |pinned| pinned.revision),
            hides: hides.map(|(tag, of)| (tag, of.hides)).collect(),
        }))
    }

    /// Takes the id of an erased member from the results that it has won.
    pub(crate) async fn forget_in_results(
        &self,
        id: &BoardId,
        member: &MemberId,
    ) -> Result<(), Error> {
        let live = self.live_board(id).await?;
        let board = &live.board;
        // A copy in memory knows whether anything was ever final, but for what has come since it was read.
        if board.closings.until.is_none() && board.definition.finalize.is_none() {
            return Ok(());
        }
        for window in &board.definition.windows {
            let mut before = None;
            loop {
                let between = (None, before.as_deref());
                let keys = self
                    .store
                    .final_periods(board, *window, between, RESULTS_AT_ONCE);
                let keys = keys.await?;
                let recorded = self.store.results(board, *window, &keys).await?;
                for (key, recorded) in keys.iter().zip(&recorded) {
                    self.forget_winner(board, (*window, key), recorded.as_ref(), member)
                        .await?;
                }
                before = keys.into_iter().nth(RESULTS_AT_ONCE - 1);
                if before.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn forget_winner(
        &self,
        board: &Board,
        named: (Window, &str),
        recorded: Option<&Recorded>,
        member: &MemberId,
    ) -> Result<(), Error> {
        let Some(recorded) = recorded else {
            return Ok(());
        };
        let mut result = recorded.result.clone();
        let winner = result.winner.iter_mut();
        let mut own = winner.filter(|winner| winner.member.as_deref() == Some(member.as_str()));
        let Some(winner) = own.next() else {
            return Ok(());
        };
        winner.member = None;
        let stands = self
            .store
            .record_result(board, named, (Some(recorded), &result), &[]);
        match stands.await? {
            Versioned::Current(stands) if stands.result == result => Ok(()),
            Versioned::Current(_) | Versioned::Stale => {
                self.reload(&board.id).await?;
                Err(Error::busy())
            }
        }
    }

    /// What the heads of a board's shards say of hides and erasures, by their tags.
    pub(crate) async fn moderated(
        &self,
        live: &LiveBoard,
    ) -> Result<BTreeMap<String, Moderated>, Error> {
        let of_shards = live.shards.iter().map(async |shard| {
            let moderated = self.store.moderated(&shard.shard).await?;
            Ok::<_, Error>((shard.shard.tag().to_owned(), moderated))
        });
        Ok(try_join_all(of_shards).await?.into_iter().collect())
    }
}

/// The first of a list.
pub(crate) fn winner_of(page: &Page) -> Option<Winner> {
    let first = page.entries.first()?;
    Some(Winner {
        member: shown_member(&*first.member).map(ToOwned::to_owned),
        score: first.score,
        reached_at: first.reached_at,
    })
}

/// What webhooks are told of a period that is final.
fn message_of(board: &Board, (window, key): (Window, &str), result: &PeriodResult) -> Message {
    let occasion = format!("{window}:{key}:{}", result.revision);
    let data = json!({
        "window": window.to_string(),
        "key": key,
        "revision": result.revision,
        "starts_at": result.starts_at,
        "ends_at": result.ends_at,
        "total": result.total,
    });
    Message::new(
        MessageKind::PeriodFinal,
        board,
        &occasion,
        result.final_at,
        &data,
    )
}
