//! The service: its version, whether it is ready, and what somebody should see to; its instances, what waits in queues, and the
//! memory by board.

use askama::Template;
use axum::response::Response;
use chrono_tz::Tz;
use futures::stream::{self, StreamExt};
use serde::Deserialize;

use super::address::address;
use super::boards::{Defined, List};
use super::page::{Frame, html};
use super::parts::Parts;
use super::session::Viewer;
use super::shown::{Clock, bytes};
use crate::domain::access::Scope;
use crate::domain::time::Timestamp;
use crate::http::extract::Query;
use crate::http::footprints::MemoryBody;
use crate::http::health::Ready;
use crate::http::instances::{InstanceBody, InstanceList};
use crate::http::problem::Problem;
use crate::http::queues::{LogBody, QueueBody, QueueList};

/// How many boards with events that wait are shown.
const QUEUES_MAX: &str = "100";
/// Where it is told what waits in Kafka.
const LOG_AT: &str = "/v1/log";
/// How many boards a part of the list of memory has, and how many of them are looked at at one time.
const BOARDS_MAX: &str = "25";
const BOARDS_AT_ONCE: usize = 4;
/// After how many seconds an instance is silent that tells of itself every ten.
const SILENT_AFTER_S: u64 = 60;

/// The version of the program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Viewer {
    /// What the service says of itself, or why it is not ready.
    pub(super) async fn ready(&self) -> Result<Ready, Problem> {
        self.read("/readyz").await
    }
}

/// Which instances there are, and what is behind: for those who configure all boards.
struct Overview {
    instances: Vec<InstanceBody>,
    queues: QueueList,
    /// What waits in Kafka, or why that can't be told.
    log: Result<LogBody, Problem>,
}

impl InstanceBody {
    /// What it does, in words.
    fn part(&self) -> &'static str {
        match (self.serves, self.works) {
            (true, true) => "answers requests, does background work",
            (true, false) => "answers requests",
            _ => "does background work",
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    fn is_silent(&self, now: &Timestamp) -> bool {
        now.seconds_after(self.seen_at) > SILENT_AFTER_S
    }
}

impl QueueBody {
    /// How long its first event has waited, in words.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    fn lag(&self, now: &Timestamp) -> String {
        let lag = self.waiting_since.map(|since| now.seconds_after(since));
        lag.map_or_else(String::new, |lag_s| format!("{lag_s} s"))
    }
}

#[derive(Template)]
#[template(path = "console/service.html")]
struct ServicePage {
    frame: Frame,
    clock: Clock,
    now: Timestamp,
    version: &'static str,
    ready: Result<Ready, Problem>,
    may_moderate: bool,
    /// What the viewer may know beside that; or why it can't be told.
    overview: Option<Result<Overview, Problem>>,
    curl: String,
}

impl ServicePage {
    /// Whether the instances run in more than one version.
    fn has_versions(&self) -> bool {
        let Some(Ok(overview)) = &self.overview else {
            return false;
        };
        let mut versions = overview.instances.iter().map(|instance| &instance.version);
        let first = versions.next();
        versions.any(|version| Some(version) != first)
    }
}

/// The page.
pub(super) async fn show(viewer: Viewer) -> Result<Response, Problem> {
    let queues_at = address(&["v1", "queues"], &[("limit", QUEUES_MAX)]);
    let mut curl = vec![viewer.curl("/readyz")];
    let overview = if viewer.may(Scope::Configure) {
        curl.extend(["/v1/instances", &queues_at, LOG_AT].map(|at| viewer.curl(at)));
        Some(overview(&viewer, &queues_at).await)
    } else {
        None
    };
    html(&ServicePage {
        frame: Frame::new(&viewer, "Service"),
        clock: Clock(Tz::UTC),
        now: viewer.visitor.console.app.service.engine.clock.now(),
        version: VERSION,
        ready: viewer.ready().await,
        may_moderate: viewer.may(Scope::Moderate),
        overview,
        curl: curl.join("\n"),
    })
}

async fn overview(viewer: &Viewer, queues_at: &str) -> Result<Overview, Problem> {
    let InstanceList { instances } = viewer.read("/v1/instances").await?;
    Ok(Overview {
        instances,
        queues: viewer.read(queues_at).await?,
        log: viewer.read(LOG_AT).await,
    })
}

/// Which boards.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    after: String,
}

/// A board with the memory that it takes, if that can be told.
struct Measured {
    board: String,
    memory: Option<MemoryBody>,
}

impl MemoryBody {
    fn is_whole(&self) -> bool {
        self.sampled == self.keys
    }

    fn shown(&self) -> String {
        bytes(self.bytes)
    }
}

#[derive(Template)]
#[template(path = "console/memory.html")]
struct MemoryPage {
    frame: Frame,
    boards: Vec<Measured>,
    parts: Parts,
    curl: String,
}

/// The memory by board.
pub(super) async fn memory(
    viewer: Viewer,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    let query = [("after", params.after.as_str()), ("limit", BOARDS_MAX)];
    let listed_at = address(&["v1", "boards"], &query);
    let found: List = viewer.read(&listed_at).await?;
    let measured = stream::iter(found.boards).map(async |Defined { board, .. }| {
        let memory_at = address(&["v1", "boards", &board, "memory"], &[]);
        let memory = viewer.read(&memory_at).await.ok();
        Measured { board, memory }
    });
    let memory_at = address(&["v1", "boards", "BOARD", "memory"], &[]);
    html(&MemoryPage {
        frame: Frame::new(&viewer, "Memory by board"),
        boards: measured.buffered(BOARDS_AT_ONCE).collect().await,
        parts: Parts::new(
            "boards",
            &["console", "service", "memory"],
            &[],
            &params.after,
            found.next.as_deref(),
        ),
        curl: viewer.curl(&memory_at),
    })
}
