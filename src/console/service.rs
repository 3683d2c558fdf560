//! The service: its version, whether it is ready, and what needs attention; its instances, what waits in queues, and the
//! memory by board.

use askama::Template;
use futures::stream::{self, StreamExt};

use super::boards::{Defined, List};
use super::{Answer, Frame, PartParams, Parts, Query, Viewer, Visitor, html, v1, v1_with};
use crate::domain::access::Scope;
use crate::domain::instance::SILENT_AFTER;
use crate::domain::time::Timestamp;
use crate::http::problem::Problem;
use crate::operations::health::Ready;
use crate::operations::upkeep::routes::{
    InstanceBody, InstanceList, LogBody, MemoryBody, QueueList,
};

/// How many boards with waiting events are shown.
const QUEUES_MAX: &str = "100";
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

/// The instances, and what waits: for viewers that may configure all boards.
struct Overview {
    instances: Vec<InstanceBody>,
    queues: QueueList,
    /// What waits in Kafka, or why that can't be read.
    log: Result<LogBody, Problem>,
}

impl Overview {
    /// Whether the instances run more than one version.
    fn has_versions(&self) -> bool {
        let mut pairs = self.instances.windows(2);
        pairs.any(|pair| pair[0].version != pair[1].version)
    }
}

#[derive(Template)]
#[template(path = "console/service.html")]
struct ServicePage {
    frame: Frame,
    now: Timestamp,
    version: &'static str,
    ready: Result<Ready, Problem>,
    /// What the viewer may know in addition; or why it can't be read.
    overview: Option<Result<Overview, Problem>>,
}

/// The page.
pub(super) async fn show(viewer: Viewer) -> Answer {
    let mut frame = Frame::new(&viewer, "Service");
    frame.curl.push(viewer.curl("/readyz"));
    let overview = if viewer.may(Scope::Configure) {
        Some(overview(&mut frame).await)
    } else {
        None
    };
    html(&ServicePage {
        frame,
        now: viewer.console.app.engine.clock.now(),
        version: VERSION,
        ready: viewer.ready().await,
        overview,
    })
}

async fn overview(frame: &mut Frame) -> Result<Overview, Problem> {
    let instances = frame.reading(&["instances"], &[]);
    let queues = frame.reading(&["queues"], &[("limit", QUEUES_MAX)]);
    let log = frame.reading(&["log"], &[]);
    let InstanceList { instances, .. } = frame.visitor.read(&instances).await?;
    Ok(Overview {
        instances,
        queues: frame.visitor.read(&queues).await?,
        log: frame.visitor.read(&log).await,
    })
}

#[derive(Template)]
#[template(path = "console/memory.html")]
struct MemoryPage {
    frame: Frame,
    /// The boards, each with its memory, if it can be read.
    boards: Vec<(String, Option<MemoryBody>)>,
    parts: Parts,
}

/// The memory by board.
pub(super) async fn memory(viewer: Viewer, Query(params): Query<PartParams>) -> Answer {
    let query = params.of_at_most(BOARDS_MAX);
    let found: List = viewer.read(&v1_with(&["boards"], &query)).await?;
    let measured = stream::iter(found.boards).map(async |Defined { board, .. }| {
        let memory = viewer.read(&v1(&["boards", &board, "memory"])).await;
        (board, memory.ok())
    });
    let mut frame = Frame::new(&viewer, "Memory by board").under("Service", "/console/service");
    frame.reading(&["boards", "BOARD", "memory"], &[]);
    let own = "/console/service/memory";
    html(&MemoryPage {
        frame,
        boards: measured.buffered(BOARDS_AT_ONCE).collect().await,
        parts: Parts::new("boards", own, &params.after, found.next),
    })
}
