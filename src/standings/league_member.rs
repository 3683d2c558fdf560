//! Reads a league member: its entry in its cohort, its zone, and the outcome of its last seat.

use std::sync::Arc;

use super::member::MemberView;
use super::playing::Playing;
use super::standing::Attempt;
use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{Entry, Neighbourhood, Page, Selection, Visibility};
use crate::core::{Engine, Error};
use crate::domain::ids::BoardId;
use crate::domain::league::player::{Place, Played};
use crate::domain::league::zone::Edges;
use crate::domain::score::Score;
use crate::redis::Freshness;

/// A league member's data beyond its entry.
#[derive(Clone, Debug)]
pub struct InLeague {
    /// The tier in which it plays, or would play, as an index into the settings of the period. `None` while its last seat
    /// is being turned.
    pub tier: Option<u8>,
    /// Whether it is listed in a cohort.
    pub is_seated: bool,
    /// Its position relative to the zones; `None` for a member that is not counted.
    pub edges: Option<Edges>,
    /// The outcome of its last seat before the period.
    pub last: Option<Played>,
}

impl MemberView {
    /// The member in its cohort; without a seat in a period that is not over, where it would be seated.
    pub(crate) async fn read_in_league(
        &self,
        attempt: &Attempt<'_>,
    ) -> Result<(Neighbourhood, InLeague), Error> {
        let (engine, live, standing) =
            (attempt.reader.engine, attempt.live, attempt.target.standing);
        let playing = match &attempt.playing {
            Some(playing) => playing.clone(),
            None => {
                Playing::read(engine, live, &standing.period, &self.member, attempt.now).await?
            }
        };
        let Some(cohort) = standing.cohort else {
            return self.without_seat(attempt, playing).await;
        };
        let Some((page, index)) = self.find_in_cohort(attempt).await? else {
            if attempt.playing.is_none() {
                attempt.require_cohort().await?;
            }
            return self.without_seat(attempt, playing).await;
        };
        let moved = playing.seat.and_then(|seat| seat.moved);
        let edges = match moved {
            Some(moved) => Some(Edges::decided(moved)),
            None => self.edges(attempt, &page).await?,
        };
        let around = self.around.unwrap_or(0).max(1);
        let league = InLeague {
            tier: Some(cohort.tier),
            is_seated: true,
            edges,
            last: playing.last,
        };
        Ok((neighbourhood(&page, index, around), league))
    }

    /// The whole cohort, and the member's index in it; `None` if it is not listed there.
    async fn find_in_cohort(
        &self,
        attempt: &Attempt<'_>,
    ) -> Result<Option<(Arc<Page>, usize)>, Error> {
        let reader = &attempt.reader;
        let mut page = attempt.cohort(reader).await?;
        let mut index = self.index_in(&page);
        if index.is_none() && reader.as_of().is_some() {
            // The member may just have been seated.
            reader.insist();
            page = attempt.cohort(reader).await?;
            index = self.index_in(&page);
        }
        Ok(index.map(|index| (page, index)))
    }

    fn index_in(&self, page: &Page) -> Option<usize> {
        page.entries
            .iter()
            .position(|entry| &*entry.member == self.member.as_str())
    }

    /// The member's position among counted members; `None` if it is not one.
    async fn edges(&self, attempt: &Attempt<'_>, page: &Arc<Page>) -> Result<Option<Edges>, Error> {
        let mut counted = Arc::clone(page);
        if attempt.reader.visibility() != Visibility::Visible {
            let engine = attempt.reader.engine;
            let reader = Reader::new(engine, attempt.live, Freshness::Current);
            counted = attempt.cohort(&reader).await?;
        }
        let (board, standing) = (&attempt.live.board, &attempt.target.standing);
        let Some(((league, cohort), index)) = board
            .league_of(&standing.period)
            .zip(standing.cohort)
            .zip(self.index_in(&counted))
        else {
            return Ok(None);
        };
        let scores: Vec<Score> = counted.entries.iter().map(|entry| entry.score).collect();
        let decimals = board.definition.decimals;
        Ok(Some(league.edges(cohort.tier, &scores, index, decimals)))
    }

    /// The result for a member that is not listed in a cohort.
    async fn without_seat(
        &self,
        attempt: &Attempt<'_>,
        Playing { seat, place, last }: Playing,
    ) -> Result<(Neighbourhood, InLeague), Error> {
        let (reader, id) = (&attempt.reader, &attempt.live.board.id);
        let is_over = attempt.target.standing.period.end_ms <= attempt.now.ms();
        let asked = std::slice::from_ref(&self.member);
        if is_over
            || attempt.playing.is_none()
            || (reader.visibility() != Visibility::All
                && !reader.engine.hidden_among(id, asked).await?.is_empty())
        {
            return Err(self.not_found(attempt));
        }
        // A seat without a listed member is kept for the member.
        let kept = seat.map(|seat| Place {
            tier: seat.cohort.tier,
            opening: seat.opening,
        });
        let place = kept.or(place);
        let entry = Entry {
            rank: None,
            member: self.member.as_str().into(),
            score: place.map_or(Score::default(), |place| place.opening),
            reached_at: None,
            data: None,
        };
        let neighbourhood = Neighbourhood {
            entries: vec![entry],
            ..Neighbourhood::default()
        };
        let league = InLeague {
            tier: place.map(|place| place.tier),
            is_seated: false,
            edges: None,
            last,
        };
        Ok((neighbourhood, league))
    }
}

/// How many entries are read in order to show this many with a member: on a league its whole cohort.
///
/// # Errors
///
/// [`Error::BoardNotFound`]
pub async fn entries_with_member(
    engine: &Engine,
    id: &BoardId,
    entries: usize,
) -> Result<usize, Error> {
    let live = engine.live_board(id).await?;
    let league = live.board.definition.league.as_ref();
    let size = league.map_or(0, |league| league.cohort_size);
    Ok(entries.max(usize::try_from(size).unwrap_or(usize::MAX)))
}

impl Attempt<'_> {
    /// The whole cohort. Concurrent reads of its members share the call.
    async fn cohort(&self, reader: &Reader<'_>) -> Result<Arc<Page>, Error> {
        let standing = self.target.standing;
        let league = self.live.board.league_of(&standing.period);
        let size = league.map_or(0, |league| league.cohort_size);
        reader
            .page(standing, Selection::Behind(0), size.into(), None)
            .await
    }
}

/// An entry of a cohort, with up to `around` entries on each side.
fn neighbourhood(page: &Page, index: usize, around: u64) -> Neighbourhood {
    let count = page.entries.len();
    let around = usize::try_from(around).map_or(count, |around| around.min(count));
    let from = index.saturating_sub(around);
    let to = count.min(index + around + 1);
    Neighbourhood {
        total: page.total,
        outranked_by: page.entries[index].rank.map(|rank| rank - 1),
        entries: page.entries[from..to].to_vec(),
        index: index - from,
        previous: None,
    }
}
