//! Seats members of leagues.
//!
//! A seat exists once it is written in the member's home shard; the first seat of a period that is written there stays. The
//! steps before only find a cohort with room, and those after follow from what is written. So any caller may repeat a step,
//! and the next one completes what was left half-way:
//!
//! ```text
//!             read the player at home ◀──────────────────────────────┐
//!                       │                                            │
//!    ┌──────────────────┼──────────────────────┐                     │
//!    │ a seat in this   │ no seat              │ a seat in an        │
//!    │ period           ▼                      │ earlier period      │
//!    │      tier of the period (pure)          └──▶ turn it ─────────┤
//!    │                  │                                            │
//!    │                  ▼  take_seat.lua, shard of the tier          │
//!    │      [suggested]: a number, remembered for the member         │
//!    │                  │                                            │
//!    │                  ▼  write_players.lua, home    changed        │
//!    │      the seat is written, the first one wins ─────────────────┤ another seat: give_back.lua
//!    │                  │                                            │
//!    ▼                  ▼                                            │
//! [taken]: the seat exists ◀── a crash here: the next try, or event  │
//!                       │                                            │
//!                       ▼  seat.lua, shard of the cohort   closed    │
//!         the member has its seat there ─────────────────────────────┘
//!                       │
//!       joined: at once ▼ an event: once it is accepted
//! [listed]: the seat counts
//! ```
//!
//! - A member's *home* is its shard, as on any board. A cohort is in one shard, chosen by a hash, with the entries of all
//!   of its members; so is the list of a tier's seats. The member as a *player* is stored at home, as JSON
//!   (`domain/league/player.rs`), and is written only if nothing has changed it meanwhile. In which closed periods a member
//!   could have been seated is known from the list of final periods and the indexes of periods (`seated.lua`).
//! - `take_seat.lua` counts the seats of a tier, cohort after cohort: none gets more than its size. The same member gets
//!   the same number again, also after a crash, so no seat is lost.
//! - A seat that is not listed does not count: it is not shown, and has no consequences. `apply.lua` refuses events of
//!   members without a seat in the cohort (`UNSEATED`), and the service seats them. `seat.lua` refuses once the barrier has
//!   reached the end of the period; the next attempt is then for the next period. Seats in memory may be wrong after an
//!   erasure: then, too, `apply.lua` returns `UNSEATED`.
//! - A seat says when it was taken. Home and cohort refuse one that was taken before the last erasure of its member, since
//!   the erasure reaches one shard after the other.
//! - Ids are remembered in the shard of the cohort. So an event is looked up in its member's last cohort first, while ids
//!   of that period are remembered. If the member has a later seat, the old cohort is decided, and an id unknown there
//!   stays unknown. If not, the event waits for its seat and is looked up again.
//! - Refused events take no seat: before a member is seated for an event, the quotas judge the event, and what that
//!   reserves is given back (`reservations::judge`). A seat whose event was lost in a crash stays empty.
//! - An erased member is seated again, perhaps in another cohort. Before that, ids are looked up in all shards, so a retry
//!   takes no seat: `apply.lua` demands it for an unknown id (`ELSEWHERE`), while earlier ids are remembered.
//! - A member's first event is added to its opening score, which the cohort has.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::missed::KnownPeriods;
use super::seat_calls::{SeatCalls, submit};
use super::store::seats::{
    self, KnownMember, PlayerChange, Seated, Sitter, Stepped, StoredPlayer, Wish,
};
use crate::core::hide::store::{erasures, hidden};
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::event::Rejection;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::player::{Place, Player, Seat, TierOrder, start_of};
use crate::domain::league::{Cohort, League};
use crate::domain::period::Period;
use crate::domain::problems::Problem;
use crate::domain::time::Timestamp;
use crate::redis::{Store, StoreError};

/// How long a request waits before it tries again when its member is being erased.
const ERASED_PAUSE: Duration = Duration::from_millis(20);

/// Why a member is seated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// It joins, and so is listed at once.
    Join,
    /// It has events, which list it. If all of them have an `at`, the latest `at`.
    Event(Option<Timestamp>),
}

/// A seat that a member has.
#[derive(Clone, Debug)]
pub struct TakenSeat {
    pub live: Arc<LiveBoard>,
    pub period: Period,
    pub seat: Seat,
    /// When the member joined.
    pub joined_at: Timestamp,
    /// Whether this call listed the member.
    pub is_new: bool,
}

/// What seating needs of a board in memory.
#[derive(Debug)]
pub(crate) struct Seating {
    /// The calls of each shard; none on boards that are not leagues.
    calls: Vec<SeatCalls>,
    pub(super) known: Mutex<Option<KnownPeriods>>,
}

impl Seating {
    pub(crate) fn of(board: &Arc<Board>, store: &Arc<Store>) -> Self {
        let shards = board.is_league().then(|| board.shards());
        Self {
            calls: shards
                .iter()
                .flatten()
                .map(|shard| SeatCalls::new(shard, store))
                .collect(),
            known: Mutex::default(),
        }
    }
}

/// Why a step was not done.
pub(crate) enum SeatObstacle {
    /// What is stored of the member has changed.
    Changed,
    /// The period is closed: the next one begins at this instant.
    Closed(Timestamp),
    /// An erased member still has the seat, because it is not removed yet.
    Full,
    /// The member was erased at this instant, which is not before the step.
    Erased(Timestamp),
    /// Some data of the erased member may be left.
    Erasing,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for SeatObstacle {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn done<T>(stepped: Stepped<T>) -> Result<T, SeatObstacle> {
    Err(match stepped {
        Stepped::Done(done) => return Ok(done),
        Stepped::Changed => SeatObstacle::Changed,
        Stepped::Full => SeatObstacle::Full,
        Stepped::Closed(until) => SeatObstacle::Closed(until),
        Stepped::Erased(at) => SeatObstacle::Erased(at),
        Stepped::Erasing => SeatObstacle::Erasing,
    })
}

impl LiveBoard {
    /// The player of a member of a league; `None` if it is unknown.
    pub(crate) async fn player(
        &self,
        member: &MemberId,
    ) -> Result<Option<StoredPlayer>, StoreError> {
        Ok(self.known_member(member).await?.stored)
    }

    /// What is known about a member of a league.
    pub(crate) async fn known_member(&self, member: &MemberId) -> Result<KnownMember, StoreError> {
        submit(&self.home_of(member).read, member.clone()).await?
    }

    /// The seating calls of the home shard of a member.
    fn home_of(&self, member: &MemberId) -> &SeatCalls {
        &self.seating.calls[self.board.shard_of(member)]
    }
}

impl Engine {
    /// Seats a member in the running period of a league, unless it has a seat there.
    ///
    /// # Errors
    ///
    /// [`Error::LeagueTurning`] while its last period is turned over; [`Rejection::NotSeated`] for events after it left.
    pub async fn seat(
        &self,
        id: &BoardId,
        member: &MemberId,
        reason: Reason,
    ) -> Result<TakenSeat, Error> {
        self.at_seat(id, member, async |attempt| attempt.seat(reason).await)
            .await
    }

    /// Removes a member from a league: from the next period on, its events take no seat.
    pub async fn leave_league(
        &self,
        id: &BoardId,
        member: &MemberId,
    ) -> Result<FoundPlayer, Error> {
        self.at_seat(id, member, async |attempt| attempt.leave().await)
            .await
    }

    /// Orders the tier in which a member plays from the next period on. Returns what was known about it before and what is known
    /// now.
    pub async fn order_tier(
        &self,
        id: &BoardId,
        member: &MemberId,
        tier: &str,
    ) -> Result<[FoundPlayer; 2], Error> {
        self.at_seat(id, member, async |attempt| attempt.order(tier).await)
            .await
    }

    /// What is known about a member as of the running period.
    pub async fn player(&self, id: &BoardId, member: &MemberId) -> Result<FoundPlayer, Error> {
        self.at_seat(id, member, async |attempt| attempt.look_up().await)
            .await
    }

    /// Makes attempts at something about a member's seat, in the period that runs then, until there is no obstacle.
    async fn at_seat<'a, T, F>(
        &'a self,
        id: &'a BoardId,
        member: &'a MemberId,
        act: impl Fn(SeatAttempt<'a>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, SeatObstacle>>,
    {
        let (mut not_before, mut has_helped) = (Timestamp::MIN, false);
        for _ in 0..ATTEMPTS_MAX {
            let live = self.live_board(id).await?;
            let now = self.clock.arrival_from(not_before);
            let attempt = SeatAttempt {
                engine: self,
                period: running_period(&live.board, now)?,
                live,
                member,
                now,
            };
            match act(attempt).await {
                Ok(done) => return Ok(done),
                Err(SeatObstacle::Changed) => {}
                Err(SeatObstacle::Closed(until)) => not_before = until,
                Err(SeatObstacle::Full) => tokio::time::sleep(ERASED_PAUSE).await,
                Err(SeatObstacle::Erased(at)) => {
                    not_before = Timestamp::from_us_clamped(at.us().saturating_add(1));
                    tokio::time::sleep(ERASED_PAUSE).await;
                }
                Err(SeatObstacle::Erasing) => self.forget(id, member).await?,
                Err(SeatObstacle::Failed(Error::Again(_))) => self.reload(id).await?,
                Err(SeatObstacle::Failed(Error::LeagueTurning(_))) if !has_helped => {
                    // Perhaps the last period can't be closed because results of the one before are missing.
                    has_helped = true;
                    (self.hooks.help_closing)(self, id).await?;
                }
                Err(SeatObstacle::Failed(error)) => return Err(error),
            }
        }
        Err(Error::try_again(Problem::board_changes(id)))
    }
}

/// What is known about a member of a league.
#[derive(Clone, Debug)]
pub struct FoundPlayer {
    pub live: Arc<LiveBoard>,
    pub period: Period,
    pub player: Player,
    /// Where it plays; `None` while its last period is turned over, or if the member has just left.
    pub place: Option<Place>,
}

/// The period of a league that runs now.
fn running_period(board: &Board, now: Timestamp) -> Result<Period, Error> {
    let unit = board
        .league_unit()
        .ok_or_else(|| Problem::no_league(&board.id))?;
    let definition = &board.definition;
    let is_open = definition.opens_at.is_none_or(|opens| opens <= now)
        && definition.closes_at.is_none_or(|closes| now < closes);
    if is_open {
        Ok(board.calendar.containing(unit, now))
    } else {
        Err(Error::rejected(board, Rejection::BoardClosed, now, now))
    }
}

fn unknown_tier(league: &League) -> Error {
    let names: Vec<&str> = league.tiers.iter().map(|tier| tier.name.as_str()).collect();
    let detail = format!(
        "is not a tier of the next period; its tiers are {}",
        names.join(", ")
    );
    Problem::invalid_field("/tier", detail).into()
}

/// One attempt at the seat of a member.
struct SeatAttempt<'a> {
    engine: &'a Engine,
    live: Arc<LiveBoard>,
    member: &'a MemberId,
    period: Period,
    now: Timestamp,
}

impl SeatAttempt<'_> {
    async fn seat(&self, reason: Reason) -> Result<TakenSeat, SeatObstacle> {
        self.engine.note_use(&self.live).await?;
        let known = self.live.known_member(self.member).await?;
        let player = self.turned(&known).await?;
        if let Some(seat) = player.seat_in(&self.period).cloned() {
            if reason == Reason::Join && player.left_from.is_some() {
                self.write(known, player.joined()).await?;
            }
            return self.sit_down(seat, reason).await;
        }
        if let Reason::Event(at) = reason {
            if player.has_left(&self.period) {
                return Err(self.rejected(Rejection::NotSeated).into());
            }
            self.require_behind_erasure(&known, at).await?;
        }
        let player = self.advanced(player).await?;
        let tier = player.tier;
        let number = self.suggestion(tier).await?;
        let seat = Seat {
            start: start_of(&self.period),
            cohort: Cohort { tier, number },
            opening: player.bonus,
            joined_at: self.now,
        };
        let mut new = player.seated(seat.clone());
        if reason == Reason::Join {
            new = new.joined();
        }
        let written = self.write(known, new).await;
        if let Err(SeatObstacle::Changed) = written {
            self.give_back(seat.cohort).await?;
        }
        written?;
        self.sit_down(seat, reason).await
    }

    async fn leave(&self) -> Result<FoundPlayer, SeatObstacle> {
        self.engine.note_use(&self.live).await?;
        let known = self.live.known_member(self.member).await?;
        let before = self.stored(&known);
        let player = before.clone().left(&self.next());
        if player != before {
            self.write(known, player.clone()).await?;
        }
        Ok(self.found(player, None))
    }

    async fn order(&self, tier: &str) -> Result<[FoundPlayer; 2], SeatObstacle> {
        self.engine.note_use(&self.live).await?;
        // Only the stored definition may refuse a tier.
        let known = self.live.known_member(self.member).await?;
        let next = self.next();
        let league = self
            .live
            .board
            .league_of(&next)
            .expect("invariant: a running period is one of a league");
        let index = league
            .tier_named(tier)
            .ok_or_else(|| unknown_tier(league))?;
        let before = self.turned(&known).await?;
        let order = TierOrder {
            from: start_of(&next),
            tier: league.tier(index).name.clone(),
            index,
        };
        let after = self.advanced(before.clone()).await?.ordered(order);
        self.write(known, after.clone()).await?;
        let place = Some(Place {
            tier: after.tier,
            opening: after.bonus,
        });
        Ok([before, after].map(|player| self.found(player, place)))
    }

    fn found(&self, player: Player, place: Option<Place>) -> FoundPlayer {
        FoundPlayer {
            live: Arc::clone(&self.live),
            period: self.period,
            player,
            place,
        }
    }

    fn stored(&self, known: &KnownMember) -> Player {
        known
            .stored
            .as_ref()
            .map_or_else(|| Player::new(&self.period), |stored| stored.player.clone())
    }

    async fn look_up(&self) -> Result<FoundPlayer, SeatObstacle> {
        let known = self.live.known_member(self.member).await?;
        let place = match self.place(&known).await {
            Err(SeatObstacle::Failed(Error::LeagueTurning(_))) => None,
            place => Some(place?),
        };
        Ok(self.found(self.stored(&known), place))
    }

    /// Where to seat the member.
    async fn place(&self, known: &KnownMember) -> Result<Place, SeatObstacle> {
        let (live, player) = (&self.live, self.turned(known).await?);
        let missed = self.engine.missed_periods(live, &player, &self.period);
        Ok(player.place_in(&live.board, &self.period, &missed.await?))
    }

    fn next(&self) -> Period {
        let next = self.live.board.calendar.next(&self.period);
        next.unwrap_or(self.period)
    }

    fn rejected(&self, rejection: Rejection) -> Error {
        Error::rejected(&self.live.board, rejection, self.now, self.now)
    }

    /// Makes sure that some event of the member happened after its erasure: all earlier ones are refused, and take no seat.
    async fn require_behind_erasure(
        &self,
        known: &KnownMember,
        at: Option<Timestamp>,
    ) -> Result<(), SeatObstacle> {
        let Some(at) = at.filter(|_| known.was_erased) else {
            return Ok(());
        };
        let home = &self.live.shard_of(self.member).shard;
        let last = erasures::last(&self.engine.store, home, self.member).await?;
        match last.filter(|erasure| at <= erasure.at) {
            Some(erasure) => Err(self.rejected(Rejection::Erased(erasure.at)).into()),
            None => Ok(()),
        }
    }

    async fn write(&self, known: KnownMember, new: Player) -> Result<(), SeatObstacle> {
        if known.was_erased {
            self.return_hide().await?;
        }
        let change = PlayerChange {
            member: self.member.clone(),
            seen: known.stored,
            new,
            played: None,
        };
        let calls = self.live.home_of(self.member);
        done(submit(&calls.write, change).await?)
    }

    /// Gives the member the hide back that is stored with its erasure: first in the shard whose journal says who is hidden,
    /// and last at its home, so that the next request looks again if this breaks off. (Its cohort does this by itself.)
    async fn return_hide(&self) -> Result<(), SeatObstacle> {
        let home = &self.live.shard_of(self.member).shard;
        for shard in [self.live.reference(), home] {
            let returned = hidden::return_hide(&self.engine.store, shard, self.member, self.now);
            if !returned.await? {
                return Err(SeatObstacle::Erasing);
            }
        }
        Ok(())
    }

    /// The player, with its seats in earlier periods turned.
    async fn turned(&self, known: &KnownMember) -> Result<Player, SeatObstacle> {
        let player = self.stored(known);
        if player.is_to_be_turned(&self.period) {
            let board = &self.live.board.id;
            (self.engine.hooks.turn_seat)(self.engine, board, self.member).await?;
            return Err(SeatObstacle::Changed);
        }
        Ok(player)
    }

    /// The player as of this period.
    async fn advanced(&self, player: Player) -> Result<Player, SeatObstacle> {
        let (engine, live, period) = (self.engine, &self.live, &self.period);
        let missed = engine.missed_periods(live, &player, period).await?;
        Ok(player.advanced_to(&live.board, period, &missed))
    }

    fn wish(&self, tier: u8) -> Wish {
        Wish {
            period: self.period,
            tier,
            member: self.member.clone(),
            at: self.now,
        }
    }

    /// The number of a cohort of a tier with room.
    async fn suggestion(&self, tier: u8) -> Result<u32, SeatObstacle> {
        let calls = &self.live.seating.calls[self.live.board.shard_of_tier(&self.period, tier)];
        done(submit(&calls.suggest, self.wish(tier)).await?)
    }

    /// Gives a suggested seat back if another request has seated the member in another cohort meanwhile.
    async fn give_back(&self, Cohort { tier, number }: Cohort) -> Result<(), SeatObstacle> {
        let player = self.stored(&self.live.known_member(self.member).await?);
        let seat = player.seat_in(&self.period);
        if seat.is_some_and(|seat| seat.cohort != Cohort { tier, number }) {
            let shard = self.live.board.shard_of_tier(&self.period, tier);
            let (store, shard) = (&self.engine.store, &self.live.shards[shard].shard);
            seats::give_back(store, shard, &self.wish(tier), number).await?;
        }
        Ok(())
    }

    /// Seats the member in its cohort, as written at its home.
    async fn sit_down(&self, seat: Seat, reason: Reason) -> Result<TakenSeat, SeatObstacle> {
        let board = &self.live.board;
        let calls = &self.live.seating.calls[board.shard_of_cohort(&self.period, seat.cohort)];
        let sitter = Sitter {
            member: self.member.clone(),
            period: self.period,
            seat: seat.clone(),
            at: self.now,
            joins: reason == Reason::Join,
        };
        let Seated {
            joined_at,
            is_listed_now,
        } = done(submit(&calls.sit_down, sitter).await?)?;
        Ok(TakenSeat {
            live: Arc::clone(&self.live),
            period: self.period,
            seat,
            joined_at,
            is_new: is_listed_now,
        })
    }
}
