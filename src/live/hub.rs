//! The hub: the topics on this instance, and the tasks that update them.
//!
//! Each watched board has a task, which ends with the board's last watcher. Each tick it looks at the board with one call
//! per shard, and updates each topic from what the look shows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use metrics::gauge;
use parking_lot::Mutex;
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};

use super::progress::News;
use super::topic::{Topic, TopicName};
use crate::core::read::look;
use crate::domain::ids::{BoardId, MemberId};
use crate::http::App;
use crate::http::problem::Problem;
use crate::runtime::join::join_all;
use crate::runtime::supervise::restarted;

/// The interval between looks at a board.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// How many entries of single members one tick reads for a board, over all of its topics. Others wait for their turns.
const MEMBERS_PER_TICK: usize = 1_000;

/// The topics of each watched board.
#[derive(Debug, Default)]
pub(super) struct Hub {
    boards: Mutex<HashMap<BoardId, Topics>>,
}

type Topics = HashMap<TopicName, Arc<Topic>>;

/// A watcher's hold on a topic, which lives as long as there is one.
#[derive(Debug)]
pub(super) struct Watching(Arc<Topic>);

impl Watching {
    fn new(topic: &Arc<Topic>) -> Self {
        topic.watchers.fetch_add(1, Ordering::AcqRel);
        gauge!("standings_stream_watchers").increment(1);
        Self(Arc::clone(topic))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::AcqRel);
        gauge!("standings_stream_watchers").decrement(1);
    }
}

impl Hub {
    /// Begins to watch a topic, with or without a member's entry.
    pub(super) async fn join(
        self: &Arc<Self>,
        app: &Arc<App>,
        name: &TopicName,
        member: Option<&MemberId>,
    ) -> Result<(Watching, Receiver<News>), Problem> {
        loop {
            let watching = self.sit_down(app, name.clone());
            match watching.0.watch(app, member).await {
                // It was about something that no longer exists: begin another topic.
                Err(_) if watching.0.is_over() => {}
                watched => return Ok((watching, watched?)),
            }
        }
    }

    /// Adds a watcher to a topic, creating the topic if needed.
    fn sit_down(self: &Arc<Self>, app: &Arc<App>, name: TopicName) -> Watching {
        let mut boards = self.boards.lock();
        if !boards.contains_key(&name.board) {
            self.follow(app, name.board.clone());
        }
        let topics = boards.entry(name.board.clone()).or_default();
        let topic = match topics.get(&name) {
            Some(topic) if !topic.is_over() => Arc::clone(topic),
            _ => {
                let topic = Arc::new(Topic::new(name.clone()));
                if topics.insert(name, Arc::clone(&topic)).is_none() {
                    gauge!("standings_stream_topics").increment(1);
                }
                topic
            }
        };
        Watching::new(&topic)
    }

    /// Starts the task of a board.
    fn follow(self: &Arc<Self>, app: &Arc<App>, board: BoardId) {
        let (hub, app) = (Arc::clone(self), Arc::clone(app));
        tokio::spawn(restarted("streams", move || {
            follow_on(Arc::clone(&hub), Arc::clone(&app), board.clone())
        }));
    }

    /// The watched topics of a board; `None` if there are none, and the board's task must end.
    fn topics(&self, board: &BoardId) -> Option<Vec<Arc<Topic>>> {
        let mut boards = self.boards.lock();
        let topics = boards.get_mut(board)?;
        let before = topics.len();
        topics.retain(|_, topic| topic.is_watched() && !topic.is_over());
        let gone = u32::try_from(before - topics.len()).unwrap_or(u32::MAX);
        gauge!("standings_stream_topics").decrement(gone);
        if topics.is_empty() {
            boards.remove(board);
            return None;
        }
        Some(topics.values().cloned().collect())
    }
}

/// Updates the topics of a board while they are watched.
async fn follow_on(hub: Arc<Hub>, app: Arc<App>, board: BoardId) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The topic that the next tick serves first.
    let mut first = 0;
    loop {
        ticks.tick().await;
        let Some(topics) = hub.topics(&board) else {
            return;
        };
        match look::at(&app.engine, &board).await {
            Ok(look) => {
                join_all(topics.iter().map(|topic| topic.follow(&app, &look))).await;
            }
            Err(error) => {
                let problem = Problem::from(error);
                // Redis may be back in a moment; a deleted board won't be.
                if problem.kind.status.is_client_error() {
                    join_all(topics.iter().map(|topic| topic.end(&problem))).await;
                }
                continue;
            }
        }
        let mut left = MEMBERS_PER_TICK;
        first = (first + 1) % topics.len();
        let (behind, ahead) = topics.split_at(first);
        for topic in ahead.iter().chain(behind) {
            left -= topic.take_turns(&app, left).await;
        }
    }
}
