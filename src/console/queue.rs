//! The queues of all boards, and that of one: what waits, who applies it, and the dead letters, which can be replayed and
//! deleted.

use std::collections::BTreeMap;

use super::prelude::*;
use crate::domain::queued::AGE_MAX;
use crate::domain::time::Timestamp;
use crate::operations::upkeep::routes::{
    InstanceBody, InstanceList, LogBody, QueueBody, QueueList,
};
use crate::operations::warnings::UNAPPLIED;
use crate::queue::dead_letters::routes::{DeadLetterBody, DeadLetterList};
use crate::queue::dead_letters::store::DeadReason;

/// How many boards with waiting events, and how many dead letters, a part of a list has.
const QUEUES_MAX: &str = "100";
const LETTERS_MAX: &str = "25";

impl Visitor {
    /// The warning that no running instance applies queued events, if that is so and events wait.
    async fn unapplied(&self) -> Option<String> {
        let mut warnings = self.ready().await.ok()?.warnings.into_iter();
        warnings.find(|warning| warning.starts_with(UNAPPLIED))
    }
}

impl DeadLetterBody {
    /// What has to be typed before it is deleted: the id of its event, if it is readable.
    fn name(&self) -> &str {
        self.event.as_ref().map_or(&self.id, |event| &event.id)
    }

    /// Whether its event may be put back into the queue.
    fn is_replayable(&self, now: Timestamp) -> bool {
        let event = self.event.as_ref();
        event.is_none_or(|event| event.queued_at.saturating_add(AGE_MAX) > now)
    }

    /// Why its event was not applied, for people.
    fn says(&self) -> &str {
        match self.reason.as_str() {
            reason if reason == DeadReason::Unreadable.name() => {
                "The stored event can't be read: it is damaged, or a newer release wrote it."
            }
            reason if reason == DeadReason::TooOld.name() => {
                "It waited for more than 24 hours. If it should still count, send it again as a new event."
            }
            reason if reason == DeadReason::Failed.name() => {
                "Stored data of the board is damaged, or the service has a fault. Replay it once that is fixed."
            }
            _ => "A newer release could not apply it.",
        }
    }
}

/// A board with waiting events or dead letters.
#[derive(Default)]
struct BoardQueue {
    queue: Option<QueueBody>,
    letters: u64,
}

#[derive(Template)]
#[template(path = "console/queues.html")]
pub(super) struct QueuesPage {
    frame: Frame,
    boards: BTreeMap<String, BoardQueue>,
    /// The running instances that apply queued events.
    appliers: Vec<InstanceBody>,
    /// That there is none.
    warning: Option<String>,
    /// What waits in Kafka, or why that can't be read.
    log: Result<LogBody, Problem>,
    parts: Parts,
}

impl Page for QueuesPage {
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [after] = frame.params(["after"])?;
        let query = [("after", &*after), ("limit", QUEUES_MAX)];
        let QueueList { queues, next } = frame.read(&["queues"], &query).await?;
        let InstanceList { instances, .. } = frame.read(&["instances"], &[]).await?;
        let log = frame.read(&["log"], &[]).await;
        let mut boards = BTreeMap::<String, BoardQueue>::new();
        for queue in queues {
            let board = queue.board.clone();
            boards.entry(board).or_default().queue = Some(queue);
        }
        // The boards with most dead letters are listed first of all.
        let overview = frame.overview().filter(|_| after.is_empty());
        for letters in overview
            .into_iter()
            .flat_map(|overview| &overview.dead_letters.boards)
        {
            boards.entry(letters.board.clone()).or_default().letters = letters.count;
        }
        let now = frame.clock.now;
        let is_applying =
            |instance: &InstanceBody| instance.applies_queues && !instance.is_silent(now);
        Ok(Self {
            boards,
            appliers: instances.into_iter().filter(is_applying).collect(),
            warning: frame.visitor.unapplied().await,
            log,
            parts: Parts::new("queues", &frame, next),
            frame: frame.named("Queues"),
        })
    }
}

#[derive(Template)]
#[template(path = "console/queue.html")]
pub(super) struct QueuePage {
    frame: Frame,
    queue: QueueBody,
    warning: Option<String>,
    letters: Vec<DeadLetterBody>,
    parts: Parts,
}

impl Page for QueuePage {
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [board, after] = frame.params(["board", "after"])?;
        frame.path = address(&["console", "boards", &board, "queue"], &[]);
        let queue: QueueBody = frame.read(&["boards", &board, "queue"], &[]).await?;
        let letter = ["boards", &board, "dead-letters", "ID", "replay"];
        let query = [("after", &*after), ("limit", LETTERS_MAX)];
        let found: DeadLetterList = frame.read(&letter[..3], &query).await?;
        frame.read_board(&board, "Queue").await?;
        frame.example(&Method::POST, &letter, None);
        frame.example(&Method::DELETE, &letter[..4], None);
        let warning = match queue.events {
            0 => None,
            _ => frame.visitor.unapplied().await,
        };
        Ok(Self {
            queue,
            warning,
            letters: found.dead_letters,
            parts: Parts::new("dead letters", &frame, found.next),
            frame,
        })
    }
}

impl QueuePage {
    /// Whether there is a dead letter that can be replayed.
    fn has_replayable(&self) -> bool {
        let now = self.frame.clock.now;
        self.letters.iter().any(|letter| letter.is_replayable(now))
    }
}

/// Puts the events of dead letters back into the queue.
pub(super) async fn replay(viewer: Viewer, form: Form) -> Answer {
    let replayed = each_letter(&viewer, &form, (Method::POST, Some("replay"), "replayed"));
    carry_out::<QueuePage>(&viewer, &form, replayed).await
}

/// Deletes dead letters.
pub(super) async fn discard(viewer: Viewer, form: Form) -> Answer {
    let discarded = async {
        form.confirm(form.field("name"))?;
        each_letter(&viewer, &form, (Method::DELETE, None, "discarded")).await
    };
    carry_out::<QueuePage>(&viewer, &form, discarded).await
}

/// Sends an order for each dead letter of a form. One that is refused stays in the list, and doesn't stop the others.
async fn each_letter(
    viewer: &Viewer,
    form: &Form,
    (method, part, done): (Method, Option<&str>, &str),
) -> Answer {
    form.required("letter")?;
    let board = form.field("board");
    let mut count = 0;
    let mut refused = None;
    for letter in form.chosen("letter") {
        let mut path = vec!["boards", board, "dead-letters", letter];
        path.extend(part);
        match viewer.order(method.clone(), &path, None).await {
            Ok(()) => count += 1,
            Err(problem) => refused = refused.or(Some(problem.mendable()?)),
        }
    }
    if let Some(problem) = refused.filter(|_| count == 0) {
        return Err(problem);
    }
    let query = [("done", done), ("name", &count.to_string())];
    Ok(to(&["boards", board, "queue"], &query))
}
