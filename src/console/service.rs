//! The service: its version, whether it is ready, and what needs attention; its instances, and the memory by board.

use std::cmp::Reverse;

use futures::stream::{self, StreamExt};
use tokio::join;

use super::boards::{Defined, List};
use super::prelude::*;
use crate::domain::instance::SILENT_AFTER;
use crate::domain::time::Timestamp;
use crate::operations::health::Ready;
use crate::operations::upkeep::routes::{InstanceBody, InstanceList, MemoryBody};

/// How many boards a part of the list of memory has, and how many of them are measured at a time.
const BOARDS_MAX: &str = "25";
const BOARDS_AT_ONCE: usize = 4;
/// After how many seconds an instance counts as silent.
const SILENT_AFTER_S: u64 = SILENT_AFTER.ms() / 1_000;

/// The version of the program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Visitor {
    /// The service's own report, or why it is not ready.
    pub(super) async fn ready(&self) -> Result<Ready, Problem> {
        self.read("/readyz").await
    }
}

impl InstanceBody {
    /// Whether it has not reported for so long that it may have died.
    pub(super) fn is_silent(&self, now: Timestamp) -> bool {
        now.seconds_after(self.seen_at) > SILENT_AFTER_S
    }

    /// What it does, for people.
    fn does(&self) -> &'static str {
        match (self.serves, self.works, self.applies_queues) {
            (true, false, _) => "answers requests",
            (true, true, true) => "answers requests, does background work",
            (true, true, false) => {
                "answers requests, does background work, leaves queued events to others"
            }
            (false, _, true) => "does background work",
            (false, _, false) => "does background work, leaves queued events to others",
        }
    }
}

#[derive(Template)]
#[template(path = "console/service.html")]
struct ServicePage {
    frame: Frame,
    version: &'static str,
    ready: Result<Ready, Problem>,
    /// The instances, for viewers that may configure all boards; or why they can't be read.
    instances: Option<Result<InstanceList, Problem>>,
}

/// The page.
pub(super) async fn show(mut frame: Frame) -> Answer {
    frame.curl.push(frame.visitor.curl("/readyz"));
    let (ready, _) = join!(frame.visitor.ready(), frame.look_around());
    let mut instances = None;
    if frame.may(Scope::Configure) {
        instances = Some(frame.read(&["instances"], &[]).await);
    }
    html(&ServicePage {
        frame: frame.named("Service"),
        version: VERSION,
        ready,
        instances,
    })
}

/// Whether the instances run more than one version.
fn has_versions(instances: &[InstanceBody]) -> bool {
    let mut pairs = instances.windows(2);
    pairs.any(|pair| pair[0].version != pair[1].version)
}

#[derive(Template)]
#[template(path = "console/memory.html")]
struct MemoryPage {
    frame: Frame,
    /// The boards, each with its memory, if it can be read; the largest first.
    boards: Vec<(String, Option<MemoryBody>)>,
    parts: Parts,
}

/// The memory by board.
pub(super) async fn memory(mut frame: Frame) -> Answer {
    let [after] = frame.params(["after"])?;
    frame.visitor.require(Scope::Configure)?;
    let query = [("after", &*after), ("limit", BOARDS_MAX)];
    let found: List = frame.read(&["boards"], &query).await?;
    frame.reading(&["boards", "BOARD", "memory"], &[]);
    let visitor = &frame.visitor;
    let measured = stream::iter(found.boards).map(async |Defined { board, .. }| {
        let memory: Result<MemoryBody, _> = visitor.read(&v1(&["boards", &board, "memory"])).await;
        (board, memory.ok())
    });
    let mut boards: Vec<_> = measured.buffered(BOARDS_AT_ONCE).collect().await;
    boards.sort_by_key(|(_, memory)| Reverse(memory.as_ref().map(|memory| memory.bytes)));
    html(&MemoryPage {
        boards,
        parts: Parts::new("boards", &frame, found.next),
        frame: frame
            .under("Service", "/console/service")
            .named("Memory by board"),
    })
}
