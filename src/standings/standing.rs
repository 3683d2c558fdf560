//! Reads a standing: the steps that all kinds of reads share.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;

use super::playing::Playing;
use crate::core::read::past::Patience;
use crate::core::read::period::{Choice, CohortChoice, Target};
use crate::core::read::reader::{ReadSize, Reader};
use crate::core::read::store::standings::{Entry, Page, ShardQuery, Visibility};
use crate::core::read::voters::Voters;
use crate::core::write::store::seats;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::access::Taker;
use crate::domain::board::{Board, Uniques};
use crate::domain::data::EntryData;
use crate::domain::edition::Edition;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::include::{Include, Includes};
use crate::domain::problems::Problem;
use crate::domain::profile::{Profiles, ShownProfile};
use crate::domain::series::{Standing, Track};
use crate::domain::state::PeriodState;
use crate::domain::time::Timestamp;
use crate::profiles;
use crate::redis::{Freshness, random};
use crate::runtime::join::try_join_all;

/// A request to read a standing.
#[derive(Clone, Debug)]
pub struct StandingRequest {
    pub board: BoardId,
    pub window: String,
    pub choice: Choice,
    pub cohort: CohortChoice,
    pub track: Track,
    /// What entries should have in addition to scores.
    pub includes: Includes,
    pub freshness: Freshness,
    /// The size of the whole request, of which this may be one read.
    pub size: ReadSize,
    /// Whether hidden members are seen.
    pub visibility: Visibility,
    /// The caller whose load is limited; `None`: no limit.
    pub taker: Option<Taker>,
}

impl StandingRequest {
    /// Uses the cohort of this member, unless a cohort is named.
    #[must_use]
    pub fn of_member(mut self, member: &MemberId) -> Self {
        if self.cohort == CohortChoice::Unnamed {
            self.cohort = CohortChoice::Of(member.clone());
        }
        self
    }
}

/// A kind of read: a page, a member, …
pub trait View: Sync {
    /// What it returns.
    type Found: Send + Sync + 'static;

    /// Reads a standing once.
    fn read(
        &self,
        attempt: &Attempt<'_>,
    ) -> impl Future<Output = Result<Self::Found, Error>> + Send;

    /// The previous standing, if the result depends on it.
    fn before(&self, _: &Attempt<'_>) -> Option<Standing> {
        None
    }

    /// Whether the edition identifies everything found, on a board whose editions identify entries.
    fn follows_edition(&self, _: &Board) -> bool {
        true
    }

    /// The entries found.
    fn entries(_: &Self::Found) -> Vec<&Entry> {
        Vec::new()
    }

    /// The profiles of these members.
    fn profiles(
        found: &Self::Found,
        engine: &Engine,
    ) -> impl Future<Output = Result<Profiles, Error>> + Send {
        profiles::work::read(engine, members(Self::entries(found)))
    }
}

/// The members of these entries.
pub(crate) fn members(entries: Vec<&Entry>) -> Vec<Arc<str>> {
    let members = entries.into_iter().map(|entry| Arc::clone(&entry.member));
    members.collect()
}

/// Reads only the edition of what a view would find.
struct EditionView<'a, V>(&'a V);

impl<V: View> View for EditionView<'_, V> {
    type Found = ();

    async fn read(&self, attempt: &Attempt<'_>) -> Result<(), Error> {
        let (reader, standing) = (&attempt.reader, attempt.target.standing);
        if attempt.target.is_empty || !self.0.follows_edition(&attempt.live.board) {
            return Ok(());
        }
        let query = ShardQuery::changed([Some(standing), self.0.before(attempt)]);
        let asked = attempt
            .live
            .shards_of(standing.section())
            .iter()
            .map(|shard| reader.ask::<()>(shard, query.clone()));
        try_join_all(asked).await?;
        Ok(())
    }

    fn before(&self, attempt: &Attempt<'_>) -> Option<Standing> {
        self.0.before(attempt)
    }

    fn follows_edition(&self, board: &Board) -> bool {
        self.0.follows_edition(board)
    }
}

/// One attempt to read a standing.
pub struct Attempt<'a> {
    pub(crate) live: &'a LiveBoard,
    pub(crate) target: &'a Target,
    pub(crate) now: Timestamp,
    /// The league data of the member by which the request finds its cohort, if any.
    pub(crate) playing: Option<Playing>,
    pub(crate) reader: Reader<'a>,
}

impl Attempt<'_> {
    /// Checks that a cohort without members exists.
    pub(crate) async fn require_cohort(&self) -> Result<(), Error> {
        let (board, standing) = (&self.live.board, &self.target.standing);
        let (Some(own), Some(name)) = (standing.cohort, &self.target.cohort) else {
            return Ok(());
        };
        let (store, tiers) = (&self.reader.engine.store, [own.tier]);
        let seats = seats::tier_seats(store, board, &standing.period, &tiers).await?;
        let opened = seats.first().map_or(0, |seats| seats.taken);
        let league = board.league_of(&standing.period);
        let size = league.map_or(1, |league| league.cohort_size);
        if u64::from(own.number) <= opened.div_ceil(size.into()) {
            return Ok(());
        }
        Err(self.target.cohort_not_found(board, name))
    }

    /// The voters of entries of the standing, if the board counts them.
    pub(crate) async fn voters(
        &self,
        entries: impl Iterator<Item = &Entry> + Send,
    ) -> Result<Voters, Error> {
        if self.live.board.definition.uniques != Some(Uniques::Member) {
            return Ok(Voters::default());
        }
        let periods = self.target.periods(&self.live.board);
        let engine = self.reader.engine;
        engine.voters(self.live, &periods, entries).boxed().await
    }

    /// The voters of a page's entries and of its `me`, estimated once for all requests that share it.
    pub(crate) async fn voters_of_page(&self, page: &Page) -> Result<Voters, Error> {
        if self.live.board.definition.uniques != Some(Uniques::Member) {
            return Ok(Voters::default());
        }
        let entries = page.entries.iter().chain(&page.me);
        let voters = || Box::pin(self.voters(entries));
        page.voters.get_or_try_init(voters).await.cloned()
    }
}

/// The result of a read, with its standing.
#[derive(Clone, Debug)]
pub struct FoundIn<T> {
    pub live: Arc<LiveBoard>,
    pub target: Target,
    /// Its state; `None` if a replica answered that can't know it.
    pub state: Option<PeriodState>,
    pub found: T,
    /// What its entries have in addition to scores.
    pub includes: Includes,
    /// The profiles of the members of its entries, once read.
    pub profiles: Profiles,
    /// Its hidden members, if the request sees them.
    pub hidden: HashSet<Arc<str>>,
    /// The result includes everything acknowledged by then; `None`: everything before the request.
    pub as_of: Option<Instant>,
    pub edition: Edition,
    /// Whether the edition identifies everything found: while it stays, nothing found can change.
    pub follows_edition: bool,
}

impl<T> FoundIn<T> {
    /// A member's profile as the board shows it, if profiles were requested.
    pub fn profile(&self, member: &str) -> Option<Option<ShownProfile>> {
        let names = self.live.board.definition.names;
        let shown = || ShownProfile::of(self.profiles.of(member)?, names);
        self.includes.has(Include::Profile).then(shown)
    }

    /// An entry's data, if data was requested.
    pub fn data(&self, entry: &Entry) -> Option<Option<EntryData>> {
        let data = || entry.data.clone();
        self.includes.has(Include::Data).then(data)
    }

    /// Whether no event can change the standing any more.
    pub fn is_fixed(&self) -> bool {
        match self.live.board.definition.finalize {
            Some(_) => self.state == Some(PeriodState::Final),
            None => self.target.is_late,
        }
    }
}

/// Reads a standing, and the profiles of its entries if requested.
pub async fn read_with_profiles<V: View>(
    engine: &Engine,
    request: &StandingRequest,
    view: &V,
) -> Result<FoundIn<V::Found>, Error> {
    let found = read(engine, request, view).await?;
    if !request.includes.has(Include::Profile) {
        return Ok(found);
    }
    let profiles = V::profiles(&found.found, engine).boxed().await?;
    Ok(FoundIn { profiles, ..found })
}

/// Reads a standing, without profiles.
pub async fn read<V: View>(
    engine: &Engine,
    request: &StandingRequest,
    view: &V,
) -> Result<FoundIn<V::Found>, Error> {
    let patience = Patience::of(request.taker.clone());
    // Boxed, because results and their futures pass through several other futures.
    let read = |live| read_once(engine, live, request, &patience, view).boxed();
    let found = engine.with_board(&request.board, read).await?;
    Ok(*found)
}

/// The current edition of what a view would find, without reading that. `None` where an edition doesn't identify it.
pub async fn read_edition<V: View>(
    engine: &Engine,
    request: &StandingRequest,
    view: &V,
) -> Result<Option<FoundIn<()>>, Error> {
    let found = read(engine, request, &EditionView(view)).await?;
    Ok(Some(found).filter(|found| found.follows_edition))
}

async fn read_once<V: View>(
    engine: &Engine,
    live: Arc<LiveBoard>,
    request: &StandingRequest,
    patience: &Patience,
    view: &V,
) -> Result<Box<FoundIn<V::Found>>, Error> {
    let now = engine.clock.now();
    let target = Target::find(&live, &request.window, request.track, &request.choice, now)?;
    let (target, playing) = choose_cohort(engine, &live, target, &request.cohort, now).await?;
    let attempt = Attempt {
        live: &live,
        target: &target,
        now,
        playing,
        reader: Reader::new(engine, &live, request.freshness)
            .of_size(request.size)
            .with_data(request.includes.has(Include::Data))
            .with_visibility(request.visibility)
            .with_patience(patience),
    };
    let found = view.read(&attempt).await?;
    let (as_of, seen) = (attempt.reader.as_of(), attempt.reader.seen());
    let state = live.board.state_of(&target.standing.period, seen, now);
    let standings = [Some(target.standing), view.before(&attempt)];
    let (shards, is_torn) = attempt.reader.shards_seen(standings);
    let nonce = is_torn.then(random::number).transpose()?;
    let edition = Edition::new(&live.board, shards, state, nonce);
    // Editions don't cover data stored elsewhere or decided later.
    let follows_edition = request.includes.is_empty()
        && request.visibility != Visibility::All
        && live.board.definition.uniques != Some(Uniques::Member)
        && !live.board.is_league()
        && view.follows_edition(&live.board);
    let mut hidden = HashSet::new();
    if request.visibility == Visibility::All {
        let entries = V::entries(&found);
        hidden = hidden_of(engine, &request.board, &entries).boxed().await?;
    }
    Ok(Box::new(FoundIn {
        live,
        target,
        state,
        found,
        includes: request.includes,
        profiles: Profiles::default(),
        hidden,
        as_of,
        edition,
        follows_edition,
    }))
}

/// The cohort that a request to a league names, and the league data of the member that it names.
async fn choose_cohort(
    engine: &Engine,
    live: &LiveBoard,
    target: Target,
    choice: &CohortChoice,
    now: Timestamp,
) -> Result<(Target, Option<Playing>), Error> {
    let board = &live.board;
    match choice {
        CohortChoice::Of(member) if board.is_league() => {
            let period = target.standing.period;
            let found = Playing::read(engine, live, &period, member, now);
            let playing = found.boxed().await?;
            let target = match &playing.seat {
                Some(seat) => target.of_cohort(board, seat.cohort),
                None => Target {
                    is_empty: true,
                    ..target
                },
            };
            Ok((target, Some(playing)))
        }
        CohortChoice::All if board.is_league() => Ok((target, None)),
        CohortChoice::All => Err(Problem::no_league(&board.id).into()),
        CohortChoice::Named(name) => Ok((target.in_cohort(board, Some(name))?, None)),
        CohortChoice::Unnamed | CohortChoice::Of(_) => Ok((target.in_cohort(board, None)?, None)),
    }
}

/// The hidden members among those of some entries of a board.
async fn hidden_of(
    engine: &Engine,
    board: &BoardId,
    entries: &[&Entry],
) -> Result<HashSet<Arc<str>>, Error> {
    let ids: Vec<MemberId> = entries
        .iter()
        .flat_map(|entry| MemberId::parse(&entry.member))
        .collect();
    let hidden = engine.hidden_among(board, &ids).await?.into_iter();
    Ok(hidden.map(|(member, _)| member.as_str().into()).collect())
}
