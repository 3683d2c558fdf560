//! The service: its version, whether it is ready, and what somebody should see to; its instances, what waits in queues, and the
//! memory by board.

use askama::Template;
use futures::stream::{self, StreamExt};
use serde::Deserialize;

use super::boards::{Defined, List};
use super::{Answer, Frame, Parts, Query, Viewer, address, html, v1};
use crate::domain::access::Scope;
use crate::domain::time::Timestamp;
use crate::http::health::Ready;
use crate::http::problem::Problem;
use crate::http::upkeep::{InstanceBody, InstanceList, LogBody, MemoryBody, QueueList};

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

#[derive(Template)]
#[template(path = "console/service.html")]
struct ServicePage {
    frame: Frame,
    now: Timestamp,
    version: &'static str,
    ready: Result<Ready, Problem>,
    may_moderate: bool,
    /// What the viewer may know beside that; or why it can't be told.
    overview: Option<Result<Overview, Problem>>,
}

impl ServicePage {
    /// How many seconds have passed since an instant.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    fn seconds_since(&self, at: &Timestamp) -> u64 {
        self.now.seconds_after(*at)
    }

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
pub(super) async fn show(viewer: Viewer) -> Answer {
    let queues_at = address(&["v1", "queues"], &[("limit", QUEUES_MAX)]);
    let mut curl = vec![viewer.curl("/readyz")];
    let overview = if viewer.may(Scope::Configure) {
        curl.extend(["/v1/instances", &queues_at, LOG_AT].map(|at| viewer.curl(at)));
        Some(overview(&viewer, &queues_at).await)
    } else {
        None
    };
    html(&ServicePage {
        frame: Frame::new(&viewer, "Service").curl(curl),
        now: viewer.visitor.console.app.service.engine.clock.now(),
        version: VERSION,
        ready: viewer.ready().await,
        may_moderate: viewer.may(Scope::Moderate),
        overview,
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

#[derive(Template)]
#[template(path = "console/memory.html")]
struct MemoryPage {
    frame: Frame,
    /// The boards, each with the memory that it takes, if that can be told.
    boards: Vec<(String, Option<MemoryBody>)>,
    parts: Parts,
}

/// The memory by board.
pub(super) async fn memory(viewer: Viewer, Query(Params { after }): Query<Params>) -> Answer {
    let query = [("after", after.as_str()), ("limit", BOARDS_MAX)];
    let found: List = viewer.read(&address(&["v1", "boards"], &query)).await?;
    let measured = stream::iter(found.boards).map(async |Defined { board, .. }| {
        let memory = viewer.read(&v1(&["boards", &board, "memory"])).await;
        (board, memory.ok())
    });
    let memory_at = v1(&["boards", "BOARD", "memory"]);
    html(&MemoryPage {
        frame: Frame::new(&viewer, "Memory by board").curl([viewer.curl(&memory_at)]),
        boards: measured.buffered(BOARDS_AT_ONCE).collect().await,
        parts: Parts::new("boards", "/console/service/memory", &after, found.next),
    })
}
