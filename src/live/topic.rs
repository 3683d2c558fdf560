//! A topic: a watched standing, and the last message about it.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use metrics::histogram;
use tokio::sync::watch::{self, Receiver};
use tokio::sync::{Mutex, MutexGuard};

use super::message::{WrittenPage, content_of_page};
use super::progress::{News, Ranks, ShownPage, TopicProgress};
use crate::core::read::look::{self, Look, Moment};
use crate::core::read::period::Choice;
use crate::core::read::reader::ReadSize;
use crate::core::read::store::standings::Visibility;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::include::Includes;
use crate::domain::series::Track;
use crate::http::App;
use crate::http::problem::{BOARD_NOT_FOUND, COHORT_NOT_FOUND, Problem};
use crate::http::supply::{Taken, Takers};
use crate::redis::Freshness;
use crate::standings::page::{Entries, PageView};
use crate::standings::routes::answers::{EntryBody, PageBody};
use crate::standings::standing::{self, StandingRequest};
use crate::standings::subset::SubsetView;

/// How often a page is read again whose content no revision covers: profiles, data, voters, and the cohorts of a league.
const UNTOLD_INTERVAL: Duration = Duration::from_secs(2);
/// How many entries of members one query reads.
const MEMBERS_PER_QUERY: usize = 100;

/// What is watched.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct TopicName {
    pub(super) board: BoardId,
    pub(super) window: String,
    pub(super) cohort: Option<String>,
    pub(super) track: Track,
    pub(super) includes: Includes,
    /// The maximum number of entries in a message.
    pub(super) size: u64,
}

/// A watched standing.
#[derive(Debug)]
pub(super) struct Topic {
    name: TopicName,
    pub(super) watchers: AtomicUsize,
    /// The news for watchers that name no member.
    news: watch::Sender<News>,
    progress: Mutex<TopicProgress>,
    /// The members named by new watchers.
    coming: parking_lot::Mutex<Vec<MemberId>>,
}

impl Topic {
    pub(super) fn new(name: TopicName) -> Self {
        Self {
            name,
            watchers: AtomicUsize::new(0),
            news: watch::Sender::default(),
            progress: Mutex::default(),
            coming: parking_lot::Mutex::default(),
        }
    }

    /// Waits until no other task reads the standing.
    ///
    /// # Errors
    ///
    /// The topic has ended; its last news must stay.
    async fn lock(&self) -> Result<MutexGuard<'_, TopicProgress>, Problem> {
        let progress = self.progress.lock().await;
        if self.is_over() {
            return Err(Problem::new(BOARD_NOT_FOUND, "the stream has ended"));
        }
        Ok(progress)
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Acquire) > 0
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(*self.news.borrow(), News::End(_))
    }

    /// Begins to watch, with or without a member's entry. The current message then includes everything acknowledged before
    /// the call.
    pub(super) async fn watch(
        &self,
        app: &App,
        member: Option<&MemberId>,
    ) -> Result<Receiver<News>, Problem> {
        let begun = Instant::now();
        if let Some(member) = member {
            self.coming.lock().push(member.clone());
        }
        let mut progress = self.lock().await?;
        let shown = progress.shown.as_ref();
        if shown.is_none_or(|shown| shown.as_of < begun) {
            let look = look::at(&app.engine, &self.name.board).await?;
            self.catch_up_or_end(app, &look, &mut progress, true)
                .await?;
        }
        let Some(member) = member else {
            return Ok(self.news.subscribe());
        };
        let news = progress.subscribe(member);
        // One query for all that have come meanwhile.
        let mut members = mem::take(&mut *self.coming.lock());
        members.push(member.clone());
        members.retain(|member| progress.is_behind(member));
        members.sort_unstable();
        members.dedup();
        if !members.is_empty() {
            for member in &members {
                progress.members.entry(member.clone()).or_default();
            }
            self.read_members(app, &mut progress, &members).await?;
        }
        Ok(news)
    }

    /// Updates the topic after a look.
    pub(super) async fn follow(&self, app: &App, look: &Look) {
        let Ok(mut progress) = self.lock().await else {
            return;
        };
        // The first watcher gets a problem as its response.
        if progress.shown.is_none() {
            return;
        }
        progress.forget_those_who_left();
        // A failed read is repeated later.
        let _ = self.catch_up_or_end(app, look, &mut progress, false).await;
    }

    /// Catches up, or ends if its standing no longer exists.
    async fn catch_up_or_end(
        &self,
        app: &App,
        look: &Look,
        progress: &mut TopicProgress,
        is_asked: bool,
    ) -> Result<(), Problem> {
        let caught_up = self.catch_up(app, look, progress, is_asked).boxed().await;
        if let Err(problem) = &caught_up
            && problem.kind.status.is_client_error()
            && progress.shown.is_some()
        {
            self.end_all(progress, problem);
        }
        caught_up
    }

    /// Tells all watchers that it has ended.
    pub(super) async fn end(&self, problem: &Problem) {
        self.end_all(&*self.progress.lock().await, problem);
    }

    fn end_all(&self, progress: &TopicProgress, problem: &Problem) {
        let problem = Arc::new(problem.clone());
        let members = progress.members.values().map(|member| &member.news);
        for news in [&self.news].into_iter().chain(members) {
            news.send_replace(News::End(Arc::clone(&problem)));
        }
    }

    /// Reads the page, unless a look shows that it is unchanged, and announces it if its content differs. `is_asked`: there
    /// is a new watcher, for which the page must be current.
    async fn catch_up(
        &self,
        app: &App,
        look: &Look,
        progress: &mut TopicProgress,
        is_asked: bool,
    ) -> Result<(), Problem> {
        let now = app.engine.clock.now();
        let moment = look.of_running(&self.name.window, self.name.track, now)?;
        let as_of_before = progress.shown.as_ref().map(|shown| shown.as_of);
        if let Some(shown) = &mut progress.shown
            && shown.moment == moment
        {
            if shown.is_told {
                shown.as_of = shown.as_of.max(look.begun);
                return Ok(());
            }
            if !is_asked && shown.read_at.elapsed() < UNTOLD_INTERVAL {
                return Ok(());
            }
        }
        let before = progress.shown.as_ref();
        let shown = self.read(app, (look, moment), before).await?;
        let is_news = before.is_none_or(|before| before.content != shown.content);
        let message = Arc::new(shown.written.without_member());
        self.news.send_if_modified(|news| {
            *news = News::Message(message);
            is_news
        });
        if let (true, Some(as_of)) = (is_news, as_of_before) {
            histogram!("standings_stream_lag_seconds").record(as_of.elapsed().as_secs_f64());
        }
        progress.shown = Some(shown);
        progress.forget_those_who_left();
        let TopicProgress { members, turns, .. } = progress;
        for (id, member) in members {
            if !member.waits {
                member.waits = true;
                turns.push_back(id.clone());
            }
        }
        Ok(())
    }

    /// Reads the page that follows `before`.
    async fn read(
        &self,
        app: &App,
        (look, moment): (&Look, Moment),
        before: Option<&ShownPage>,
    ) -> Result<ShownPage, Problem> {
        let view = PageView::of_first(Entries::All, self.name.size);
        let entries = usize::try_from(self.name.size).unwrap_or(usize::MAX);
        let read_at = Instant::now();
        // Held while the page is read and serialized; what is kept of it is small.
        let _taken = self.memory(app, entries).await?;
        let request = self.request(Choice::Current);
        let found = standing::read_with_profiles(&app.engine, &request, &view).await?;
        let board = &found.live.board;
        if before.is_some_and(|before| before.generation != board.generation) {
            return Err(of_another_board(&board.id));
        }
        let key = found.target.key.clone();
        if let (Some(cohort), Some(before)) = (&self.name.cohort, before)
            && before.key != key
        {
            // In the next period a cohort of this name has other members.
            let detail = format!("{} has ended, and with it the cohort {cohort}", before.key);
            return Err(Problem::new(COHORT_NOT_FOUND, detail));
        }
        let mut page = PageBody::new(&view, &found);
        let content = content_of_page(&page)?;
        let ranks = match before {
            Some(before) if before.key != key => Ranks::new(),
            // The content is the same, so the previous message stays the previous one.
            Some(before) if before.content == content => before.before.clone(),
            Some(before) => before.ranks(),
            None => Ranks::new(),
        };
        for entry in &mut page.entries {
            let rank = entry.member.as_ref().and_then(|member| ranks.get(member));
            entry.previous_rank = Some(rank.copied().flatten());
        }
        let mut id = format!("{key}/{}", found.edition);
        if !found.follows_edition {
            id = format!("{id}/{content:x}");
        }
        Ok(ShownPage {
            moment,
            as_of: look.begun,
            read_at,
            generation: board.generation,
            written: WrittenPage::new(&page, id, board)?,
            is_told: found.follows_edition,
            edition: found.edition,
            key,
            content,
            entries: page.entries,
            before: ranks,
        })
    }

    /// Waits for the memory of this many entries, which are read for all watchers.
    async fn memory(&self, app: &App, entries: usize) -> Result<Taken, Problem> {
        let (nobody, includes) = (Takers::default(), self.name.includes);
        app.memory.for_entries(&nobody, entries, includes).await
    }

    /// How the standing is read.
    fn request(&self, choice: Choice) -> StandingRequest {
        StandingRequest {
            board: self.name.board.clone(),
            window: self.name.window.clone(),
            choice,
            cohort: self.name.cohort.clone().into(),
            track: self.name.track,
            includes: self.name.includes,
            freshness: Freshness::Current,
            size: ReadSize::Small,
            visibility: Visibility::Visible,
            taker: None,
        }
    }

    /// Reads the entries of the next members, at most `max`; returns how many it read.
    pub(super) async fn take_turns(&self, app: &App, max: usize) -> usize {
        let Ok(mut progress) = self.lock().await else {
            return 0;
        };
        let count = progress.turns.len().min(max);
        let members: Vec<MemberId> = progress.turns.drain(..count).collect();
        let read = self.read_members(app, &mut progress, &members).await;
        if read.is_err() {
            // They keep their places: Redis may be back in a moment.
            for member in members.into_iter().rev() {
                progress.turns.push_front(member);
            }
        }
        count
    }

    /// Reads the entries of members, and sends each to its watchers together with the page.
    async fn read_members(
        &self,
        app: &App,
        progress: &mut TopicProgress,
        ids: &[MemberId],
    ) -> Result<(), Problem> {
        let TopicProgress { shown, members, .. } = progress;
        let Some(shown) = shown else {
            return Ok(());
        };
        let is_in_page = |id: &MemberId| shown.entry(id.as_str()).is_some();
        let (in_page, others): (Vec<&MemberId>, Vec<&MemberId>) =
            ids.iter().partition(|id| is_in_page(id));
        for id in in_page {
            if let Some(member) = members.get_mut(id) {
                member.tell(shown, shown.entry(id.as_str()).cloned(), None)?;
            }
        }
        for others in others.chunks(MEMBERS_PER_QUERY) {
            let view = SubsetView {
                members: others.iter().map(|id| (*id).clone()).collect(),
            };
            let _taken = self.memory(app, others.len()).await?;
            let request = self.request(Choice::Key(shown.key.clone()));
            let found = standing::read_with_profiles(&app.engine, &request, &view).await?;
            if found.live.board.generation != shown.generation {
                return Err(of_another_board(&self.name.board));
            }
            let subset = &found.found;
            let names = subset.entries.iter().map(|entry| &*entry.member);
            let entries = EntryBody::all(&found, subset.entries.iter(), &subset.voters);
            let mut entries: HashMap<&str, EntryBody> = names.zip(entries).collect();
            let edition = (found.edition != shown.edition).then_some(&found.edition);
            for id in others {
                if let Some(member) = members.get_mut(*id) {
                    member.tell(shown, entries.remove(id.as_str()), edition)?;
                }
            }
        }
        Ok(())
    }
}

fn of_another_board(id: &BoardId) -> Problem {
    let detail = format!("board {id} was deleted and created again");
    Problem::new(BOARD_NOT_FOUND, detail)
}
