//! Hands out rewards: decides who wins in a final period, and notes it with the members.
//!
//! Who wins follows from the order of the standing (`domain/reward.rs`). So a *walk* goes along the standing from its first entry
//! until nobody can win any more, and notes what members win in their shards (`scripts/lib/rewards.lua`). Then it goes along
//! all that was won before, and takes back what it has not met. A walk that is repeated changes nothing.
//!
//! - One instance at a time walks on a board: it holds a lease, and shards refuse what was sent under an earlier one. The
//!   position of the lease says how far the walk has come, so that any instance goes on there.
//! - A walk counts only if nobody was hidden, brought back or erased meanwhile. Otherwise another one begins.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::jobs::lease::Lease;
use super::merge::Merged;
use super::reader::{ReadError, Reader, Size};
use super::results::standing_of;
use super::{Engine, Error, LiveBoard};
use crate::domain::ids::MemberId;
use crate::domain::period::{Period, Unit};
use crate::domain::reward::{Basis, Course};
use crate::store::leases::Leased;
use crate::store::results::Moderated;
use crate::store::rewards::{HANDED_OUT_MAX, RewardWalk, Walked, Winner};
use crate::store::standings::{Mark, Selection};
use crate::store::{Freshness, StoreError, Versioned};

/// For how long one call walks, or waits for another instance that does. How far the walk has come stays.
const WALK_TIME_MAX: Duration = Duration::from_secs(8);
/// How long a call waits before it looks again whether another instance still walks.
const HELD_PAUSE: Duration = Duration::from_millis(20);

/// What was handed out in a final period.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HandedOut {
    /// What the heads of the shards said of hides and erasures all the time, by their tags.
    pub(crate) meanwhile: BTreeMap<String, Moderated>,
    /// How many rewards are won.
    pub(crate) rewards: u64,
}

/// How far a walk has come, as its lease says it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Position {
    unit: Unit,
    key: String,
    revision: u64,
    /// The number of the walk: that of the lease under which it was begun.
    walk: u64,
    /// What the heads of the shards said when it began.
    before: BTreeMap<String, Moderated>,
    /// How many members the standing shows.
    total: u64,
    course: Course,
    taken_back: TakenBack,
}

/// How far a walk has come that takes back what is not won any more.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct TakenBack {
    /// The shard that it has come to.
    shard: usize,
    /// Where in this shard.
    after: Option<String>,
    /// How many rewards are won among those that it has met.
    won: u64,
}

/// A walk under way.
struct Walk<'a> {
    engine: &'a Engine,
    live: &'a LiveBoard,
    period: &'a Period,
    lease: &'a Lease,
    basis: Basis,
    at: Position,
    /// Right behind the last entry that it has met; `None`: it has met none since it was taken up.
    mark: Option<Mark>,
}

/// The right to hand out the rewards of a board once, until the result that comes of it is recorded.
pub(crate) struct Handing {
    /// `None`: nobody can win anything.
    lease: Option<Lease>,
    /// How far the walk has come.
    position: String,
    until: Instant,
}

impl Handing {
    /// Lets others hand out rewards.
    pub(crate) async fn give_back(self) -> Result<(), StoreError> {
        match self.lease {
            Some(lease) => lease.give_back(&self.position).await,
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Waits for the right to hand out the rewards of a final period.
    pub(crate) async fn handing(
        &self,
        live: &LiveBoard,
        period: &Period,
    ) -> Result<Handing, Error> {
        let until = Instant::now() + self.store.timeouts.times(WALK_TIME_MAX);
        let handing = |lease: Option<Lease>| Handing {
            position: lease.iter().map(|lease| lease.position.as_str()).collect(),
            lease,
            until,
        };
        if live.board.rules_of(period).next().is_none() {
            return Ok(handing(None));
        }
        while Instant::now() < until {
            let leased = Leased::of_board(&live.board, "rewards");
            if let Some(lease) = Lease::take(&self.store, leased).await? {
                return Ok(handing(Some(lease)));
            }
            tokio::time::sleep(HELD_PAUSE).await;
        }
        Err(unfinished(live))
    }

    /// Hands out what members win in a final period, under a revision of its result. `None` if something has changed
    /// meanwhile: then it is to be done anew.
    pub(crate) async fn hand_out(
        &self,
        live: &LiveBoard,
        period: &Period,
        revision: u64,
        handing: &mut Handing,
    ) -> Result<Option<HandedOut>, Error> {
        let Some(lease) = &handing.lease else {
            let meanwhile = self.moderated(live).await?;
            return Ok(Some(HandedOut {
                meanwhile,
                rewards: 0,
            }));
        };
        let walked = match Walk::take_up(self, live, (period, revision), lease).await {
            Ok(mut walk) => {
                let walked = walk.finish(handing.until).await;
                handing.position = walk.position();
                walked
            }
            Err(error) => Err(error),
        };
        match walked {
            Ok(handed_out) => {
                handing.position.clear();
                Ok(handed_out)
            }
            Err(ReadError::Retry) => {
                self.reload(&live.board.id).await?;
                Ok(None)
            }
            Err(ReadError::Failed(error)) => Err(error),
        }
    }
}
impl<'a> Walk<'a> {
    /// Goes on with the last walk, if it was the same and nobody was hidden or brought back since; otherwise begins one.
    async fn take_up(
        engine: &'a Engine,
        live: &'a LiveBoard,
        (period, revision): (&'a Period, u64),
        lease: &'a Lease,
    ) -> Result<Self, ReadError> {
        let (board, key) = (&live.board, live.board.calendar.key(period));
        let last: Option<Position> = serde_json::from_str(&lease.position).ok();
        let mut walk = Self {
            engine,
            live,
            period,
            lease,
            basis: Basis {
                ranking: board.ranking_of(period),
                order: board.definition.order,
                decimals: board.definition.decimals,
                total: 0,
            },
            at: Position {
                unit: period.unit,
                key,
                revision,
                walk: lease.number,
                before: BTreeMap::new(),
                total: 0,
                course: Course::default(),
                taken_back: TakenBack::default(),
            },
            mark: None,
        };
        // From now on the shards refuse what an earlier holder of the lease has under way.
        let nobody = vec![Vec::new(); live.shards.len()];
        walk.note(nobody, true).await?;
        walk.at.before = engine.moderated(live).await?;
        match last.filter(|last| walk.goes_on_from(last)) {
            Some(last) => walk.at = last,
            None => walk.at.total = walk.total().await?,
        }
        walk.basis.total = walk.at.total;
        Ok(walk)
    }

    fn goes_on_from(&self, last: &Position) -> bool {
        let name = |at: &Position| (at.unit, at.key.clone(), at.revision);
        name(last) == name(&self.at) && last.before == self.at.before
    }

    /// How many members the standing shows.
    async fn total(&self) -> Result<u64, ReadError> {
        let reader = Reader::new(self.engine, self.live, Freshness::Current);
        let list = Merged::new(&reader, standing_of(&self.live.board, self.period));
        let page = Box::pin(list.page(Selection::Behind(0), 1, None)).await?;
        Ok(page.total)
    }

    /// Walks to the end. `None` if somebody was hidden or brought back meanwhile.
    async fn finish(&mut self, until: Instant) -> Result<Option<HandedOut>, ReadError> {
        while self.goes_on() {
            self.hand_on().await?;
            self.stay(until).await?;
        }
        while self.at.taken_back.shard < self.live.shards.len() {
            self.take_back().await?;
            self.stay(until).await?;
        }
        if self.engine.moderated(self.live).await? != self.at.before {
            return Ok(None);
        }
        Ok(Some(HandedOut {
            meanwhile: self.at.before.clone(),
            rewards: self.at.taken_back.won,
        }))
    }

    fn goes_on(&self) -> bool {
        let rules = self.live.board.rules_of(self.period);
        self.at.course.goes_on(rules, &self.basis)
    }

    /// Hands out what the next entries win.
    async fn hand_on(&mut self) -> Result<(), ReadError> {
        let board = &self.live.board;
        let reader = Reader::new(self.engine, self.live, Freshness::Current).of_size(Size::Large);
        let list = Merged::new(&reader, standing_of(board, self.period));
        let count = HANDED_OUT_MAX as u64;
        let lines = match &self.mark {
            Some(mark) => Box::pin(list.lines_from(mark, count)).await?,
            None => Box::pin(list.lines(self.at.course.entries(), count)).await?,
        };
        let Some(final_line) = lines.last() else {
            // There were more when the walk began.
            return Err(ReadError::Retry);
        };
        let mut course = self.at.course;
        let mut of_shards = vec![Vec::new(); self.live.shards.len()];
        for line in &lines {
            let entry = line.entry(board, None)?;
            let won = course.next(entry.score, board.rules_of(self.period), &self.basis);
            if !won.rules.is_empty() {
                of_shards[shard_of(self.live, &entry.member)?].push(Winner {
                    member: entry.member.to_string(),
                    rank: won.rank,
                    score: entry.score,
                    rules: won.rules,
                });
            }
        }
        self.note(of_shards, false).await?;
        self.at.course = course;
        self.mark = Some(final_line.mark.behind_it());
        Ok(())
    }

    /// Notes what members of each shard win; `all`: also in shards of which nobody does.
    async fn note(&self, of_shards: Vec<Vec<Winner>>, all: bool) -> Result<(), ReadError> {
        let of_shards = self.live.shards.iter().zip(of_shards);
        let of_shards = of_shards.filter(|(_, winners)| all || !winners.is_empty());
        let noted = of_shards.map(async |(shard, winners)| {
            let store = &self.engine.store;
            let noted = store.hand_out(&shard.shard, self.period, self.number(), &winners);
            taken(noted.await?)
        });
        try_join_all(noted).await.map(drop)
    }

    /// Takes back what some members do not win any more.
    async fn take_back(&mut self) -> Result<(), ReadError> {
        let TakenBack { shard, after, won } = &self.at.taken_back;
        let (store, own) = (&self.engine.store, &self.live.shards[*shard].shard);
        let met = store.take_back(own, self.period, self.number(), after.as_deref());
        let (more, last) = taken(met.await?)?;
        self.at.taken_back = TakenBack {
            shard: if last.is_some() { *shard } else { shard + 1 },
            won: won + more,
            after: last,
        };
        Ok(())
    }

    fn number(&self) -> RewardWalk {
        RewardWalk {
            lease: self.lease.number,
            revision: self.at.revision,
            number: self.at.walk,
        }
    }

    /// Keeps the lease, as long as there is time.
    async fn stay(&self, until: Instant) -> Result<(), ReadError> {
        if Instant::now() >= until {
            return Err(unfinished(self.live).into());
        }
        if self.lease.renew(&self.position()).await? {
            return Ok(());
        }
        Err(ReadError::Retry)
    }

    /// How far it has come, for whoever goes on.
    fn position(&self) -> String {
        serde_json::to_string(&self.at).unwrap_or_default()
    }
}

/// The index of the shard where the rewards of a member lie.
fn shard_of(live: &LiveBoard, member: &str) -> Result<usize, StoreError> {
    let member = MemberId::stored(member)
        .map_err(|error| StoreError::Unexpected(format!("a member that wins: {error}")))?;
    Ok(live.board.shard_of(&member))
}

fn taken<T>(walked: Versioned<Walked<T>>) -> Result<T, ReadError> {
    match walked {
        Versioned::Current(Walked::On(met)) => Ok(met),
        Versioned::Current(Walked::Superseded) | Versioned::Stale => Err(ReadError::Retry),
    }
}

fn unfinished(live: &LiveBoard) -> Error {
    let message = format!(
        "the rewards of board {} are still being handed out",
        live.board.id
    );
    StoreError::Unavailable(message).into()
}
