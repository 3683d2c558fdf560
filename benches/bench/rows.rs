//! What is measured: the rows of the table, in its order.

use crate::beside::Beside;
use crate::boards::{
    Board, FIVE_KEPT, FIVE_NOT_KEPT, HIDDEN_FEW, HIDDEN_MANY, HIDDEN_NONE, KEPT, LEAGUE, LIVE,
    NOT_KEPT, ONE, ROLLING_DATA, ROLLING_FIRST, ROLLING_MEMBER, SIX_FIRST, SIX_MEMBER, SMALL, VOTE,
    VOTE_FREE, WEEK,
};
use crate::load::Sample;
use crate::reference::Script;
use crate::workload::{Kind, Workload};

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// What `--only` calls it.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// What its figures count.
    pub unit: &'static str,
    /// How it is measured.
    pub measure: Measure,
    /// What it shall reach.
    pub goal: Option<Goal>,
}

/// How a row is measured.
#[derive(Debug)]
pub enum Measure {
    /// The service under load, beside a reference.
    Load(Workload, Beside),
    /// The memory of an entry of a board's standings.
    EntryMemory(&'static Board),
    /// The memory of a remembered id.
    IdMemory,
    /// The memory of a kept event.
    KeptMemory,
    /// Single events that are queued.
    QueueSingle,
    /// One of the figures that are measured together, by its name.
    Of(Group, &'static str),
    /// The service's memory before there was any load.
    IdleMemory,
    /// The most memory of the service.
    PeakMemory,
}

/// Figures that are measured together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group {
    /// Completing tomorrow's standing of a board.
    Rollover(&'static Board),
    /// A league, and turning its cohorts over.
    League,
    /// Events in queues.
    Queue,
    /// Events that come by Kafka.
    Kafka,
    /// Live boards.
    Streams,
}

/// The figures of a group by their names.
pub type Figures = Vec<(&'static str, Measured)>;

/// What a row shall reach.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// The figure over its reference, at least.
    RatioMin(f64),
    /// The figure over its reference, at most.
    RatioMax(f64),
    /// The figure, at least.
    Min(f64),
    /// The figure, at most.
    Max(f64),
}

/// What a row has measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// The figure; `None` where the system doesn't tell.
    pub figure: Option<f64>,
    /// That of the reference.
    pub reference: Option<f64>,
    /// The load.
    pub load: Option<Sample>,
    /// That of the reference.
    pub reference_load: Option<Sample>,
}

impl Measured {
    /// A figure and that of a reference.
    pub fn beside(figure: f64, reference: f64) -> Self {
        Self {
            reference: Some(reference),
            ..figure.into()
        }
    }

    /// A figure that not every system tells.
    pub fn told(figure: Option<f64>) -> Self {
        Self {
            figure,
            ..Self::default()
        }
    }
}

impl From<f64> for Measured {
    fn from(figure: f64) -> Self {
        Self {
            figure: Some(figure),
            ..Self::default()
        }
    }
}

const ROLLING: Beside = Beside::script(Script::Rolling);
/// Five periods and one rolling standing beside the three writes of the script.
const SIX_WRITES: Beside = Beside::Script {
    script: Script::Rolling,
    ours: 6,
    theirs: 3,
};

/// A vote that takes everything, and counts no voters.
const WITHOUT_QUOTAS: Beside = Beside::Board(&VOTE_FREE);
/// The same board on which nobody was ever hidden.
const WITHOUT_HIDDEN: Beside = Beside::Board(&HIDDEN_NONE);

/// All rows. Each is two lines, so that they can be read as a table.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("batch-member", "batches of 1,000, one rolling window, `ties: member`", "events/s")
        .load((&ROLLING_MEMBER, Kind::BATCH), ROLLING).goal(Goal::RatioMin(1.0)),
    row("batch-first", "the same with `ties: first`", "events/s")
        .load((&ROLLING_FIRST, Kind::BATCH), ROLLING).goal(Goal::RatioMin(0.6)),
    row("batch-six-member", "batches, five periods and one rolling window, `ties: member`", "writes/s")
        .load((&SIX_MEMBER, Kind::BATCH), SIX_WRITES).goal(Goal::RatioMin(1.5)),
    row("batch-six-first", "the same with `ties: first`", "writes/s")
        .load((&SIX_FIRST, Kind::BATCH), SIX_WRITES),
    row("batch-status", "batches, one rolling window, `ties: member`, `standings=false`", "events/s")
        .load((&ROLLING_MEMBER, Kind::BATCH_STATUS), ROLLING),
    row("batch-one", "batches, one window, `ties: first`, over the idempotent add", "events/s")
        .load((&ONE, Kind::BATCH), Beside::script(Script::Add)),
    row("single", "single events, one window", "requests/s")
        .load((&ONE, Kind::Single), Beside::Bare).goal(Goal::RatioMin(0.4)),
    row("single-six", "single events, five periods and one rolling window, `ties: first`", "requests/s")
        .load((&SIX_FIRST, Kind::Single), Beside::Bare).goal(Goal::RatioMin(0.15)),
    row("page", "a page of 50 of a live board", "requests/s")
        .load((&LIVE, Kind::Page), Beside::BareWithWriter).goal(Goal::RatioMin(0.5)),
    row("page-unchanged", "the same page, unchanged (`If-None-Match`)", "requests/s")
        .load((&LIVE, Kind::PageUnchanged), Beside::Bare).goal(Goal::RatioMin(0.8)),
    row("member", "a member with its neighbours", "requests/s")
        .load((&LIVE, Kind::Member), Beside::Bare).goal(Goal::RatioMin(0.5)),
    row("size-batch", "batches, a thousand members over a big board", "events/s")
        .load((&SMALL, Kind::BATCH), Beside::Board(&LIVE)).goal(Goal::RatioMax(2.0)),
    row("size-single", "single events, the same", "requests/s")
        .load((&SMALL, Kind::Single), Beside::Board(&LIVE)).goal(Goal::RatioMax(2.0)),
    row("size-page", "a page, the same", "requests/s")
        .load((&SMALL, Kind::Page), Beside::Board(&LIVE)).goal(Goal::RatioMax(2.0)),
    row("vote-batch", "batches of votes, four quotas and `uniques: member`, over the same without", "events/s")
        .load((&VOTE, Kind::BATCH), WITHOUT_QUOTAS),
    row("vote-single", "single votes, the same", "requests/s")
        .load((&VOTE, Kind::Single), WITHOUT_QUOTAS),
    row("kept-batch", "batches of votes, one window, events are kept, over the same without", "events/s")
        .load((&KEPT, Kind::BATCH), Beside::Board(&NOT_KEPT)).goal(Goal::RatioMin(0.6)),
    row("kept-batch-five", "the same with five windows", "events/s")
        .load((&FIVE_KEPT, Kind::BATCH), Beside::Board(&FIVE_NOT_KEPT)).goal(Goal::RatioMin(0.8)),
    row("hidden-page-100", "a page, 100 members hidden, over nobody", "requests/s")
        .load((&HIDDEN_FEW, Kind::Page), WITHOUT_HIDDEN),
    row("hidden-page-10000", "the same, 10,000 hidden", "requests/s")
        .load((&HIDDEN_MANY, Kind::Page), WITHOUT_HIDDEN),
    row("hidden-batch-100", "batches, 100 members hidden, over nobody", "events/s")
        .load((&HIDDEN_FEW, Kind::BATCH), WITHOUT_HIDDEN),
    row("hidden-batch-10000", "the same, 10,000 hidden", "events/s")
        .load((&HIDDEN_MANY, Kind::BATCH), WITHOUT_HIDDEN),
    row("memory-member", "memory of an entry, `ties: member`", "B")
        .by(Measure::EntryMemory(&ROLLING_MEMBER)).goal(Goal::Max(110.0)),
    row("memory-first", "memory of an entry, `ties: first`", "B")
        .by(Measure::EntryMemory(&ROLLING_FIRST)).goal(Goal::Max(220.0)),
    row("memory-data", "the same with data of 50 bytes", "B")
        .by(Measure::EntryMemory(&ROLLING_DATA)),
    row("memory-id", "memory of a remembered event id with six outcomes", "B")
        .by(Measure::IdMemory).goal(Goal::Max(220.0)),
    row("memory-kept", "memory of a kept event with id and voter, one window", "B")
        .by(Measure::KeptMemory).goal(Goal::Max(250.0)),
    row("rollover-wait", "completing tomorrow's rolling standing: the longest wait of another client", "ms")
        .by(Measure::Of(Group::Rollover(&ROLLING_FIRST), "wait")).goal(Goal::Max(10.0)),
    row("rollover-speed", "the same: speed", "members/s")
        .by(Measure::Of(Group::Rollover(&ROLLING_FIRST), "speed")).goal(Goal::Min(200_000.0)),
    row("rollover-member-wait", "the same with `ties: member`: the longest wait", "ms")
        .by(Measure::Of(Group::Rollover(&ROLLING_MEMBER), "wait")),
    row("rollover-member-speed", "the same: speed", "members/s")
        .by(Measure::Of(Group::Rollover(&ROLLING_MEMBER), "speed")),
    row("league-batch", "batches on a league, over a board of 16 shards with one list", "events/s")
        .load((&LEAGUE, Kind::BATCH), Beside::Board(&WEEK)),
    row("league-joins", "20,000 members join a league, each with a request", "joins/s")
        .by(Measure::Of(Group::League, "joins")),
    row("league-speed", "turning over a league of a million in cohorts of 100: speed", "members/s")
        .by(Measure::Of(Group::League, "speed")),
    row("league-wait", "the same: the longest wait of another client", "ms")
        .by(Measure::Of(Group::League, "wait")).goal(Goal::Max(10.0)),
    row("queue-single", "single events that are queued, over a server that does one `XADD`", "requests/s")
        .by(Measure::QueueSingle).goal(Goal::RatioMin(0.8)),
    row("queue-batch", "batches that are queued", "events/s")
        .by(Measure::Of(Group::Queue, "batch")),
    row("queue-memory", "memory of an event that waits", "B")
        .by(Measure::Of(Group::Queue, "memory")),
    row("queue-speed", "applying votes that wait (six windows, four quotas, `uniques: member`), over the same without queue", "events/s")
        .by(Measure::Of(Group::Queue, "speed")),
    row("queue-lag", "such a vote, at half of that speed: from its answer until it is shown, 99 of 100", "ms")
        .by(Measure::Of(Group::Queue, "lag")).goal(Goal::Max(1_000.0)),
    row("queue-peak", "a peak of ten times that speed for 20 s, with 512 MiB for the queue: taken", "events/s")
        .by(Measure::Of(Group::Queue, "peak")).goal(Goal::RatioMin(9.9)),
    row("queue-recovery", "the same: from its end until all of it is applied", "s")
        .by(Measure::Of(Group::Queue, "recovery")),
    row("kafka-speed", "taking such votes out of a topic, and applying them, over the same without queue", "events/s")
        .by(Measure::Of(Group::Kafka, "speed")),
    row("kafka-lag", "such a vote, at half of that speed: from its answer until it is shown, 99 of 100", "ms")
        .by(Measure::Of(Group::Kafka, "lag")).goal(Goal::Max(1_000.0)),
    row("stream-memory", "the service's memory for one who watches, and waits", "kB")
        .by(Measure::Of(Group::Streams, "memory")).goal(Goal::Max(10.0)),
    row("stream-delay", "a change that 1,000 watch, 20 in a second: from its sending to a screen, 99 of 100", "ms")
        .by(Measure::Of(Group::Streams, "delay")).goal(Goal::Max(500.0)),
    row("stream-cpu", "the same: what the service takes of a core", "%")
        .by(Measure::Of(Group::Streams, "cpu")),
    row("service-idle", "the service's own memory, idle", "MB")
        .by(Measure::IdleMemory).goal(Goal::Max(40.0)),
    row("service-peak", "the service's own memory, the most under full load", "MB")
        .by(Measure::PeakMemory).goal(Goal::Max(200.0)),
];

const fn row(name: &'static str, title: &'static str, unit: &'static str) -> Row {
    Row {
        name,
        title,
        unit,
        measure: Measure::IdleMemory,
        goal: None,
    }
}

impl Row {
    const fn load(self, (board, kind): (&'static Board, Kind), beside: Beside) -> Self {
        self.by(Measure::Load(Workload { board, kind }, beside))
    }

    const fn by(self, measure: Measure) -> Self {
        Self { measure, ..self }
    }

    const fn goal(self, goal: Goal) -> Self {
        Self {
            goal: Some(goal),
            ..self
        }
    }
}
