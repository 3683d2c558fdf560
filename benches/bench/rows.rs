//! What is measured: the rows of the table, in its order.

use crate::beside::Beside;
use crate::boards::{
    Board, HIDDEN_FEW, HIDDEN_MANY, HIDDEN_NONE, LEAGUE, LIVE, ONE, ROLLING_DATA, ROLLING_FIRST,
    ROLLING_MEMBER, SIX_FIRST, SIX_MEMBER, SMALL, VOTE, VOTE_FREE, WEEK,
};
use crate::kafka;
use crate::load::Sample;
use crate::queue::Figure;
use crate::reference::Script;
use crate::streams;
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
    /// Completing tomorrow's standing of a board: how fast.
    RolloverSpeed(&'static Board),
    /// The longest wait of another client meanwhile.
    RolloverWait(&'static Board),
    /// Members that join a league.
    LeagueJoins,
    /// Turning the cohorts of a league over: how fast.
    LeagueSpeed,
    /// The longest wait of another client meanwhile.
    LeagueWait,
    /// Single events that are queued.
    QueueSingle,
    /// Events in queues.
    Queue(Figure),
    /// Events that come by Kafka.
    Kafka(kafka::Figure),
    /// Live boards.
    Stream(streams::Figure),
    /// The service's memory before there was any load.
    IdleMemory,
    /// The most memory of the service.
    PeakMemory,
}

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

/// All rows.
pub const ROWS: &[Row] = &[
    load(
        "batch-member",
        "batches of 1,000, one rolling window, `ties: member`",
        "events/s",
        (&ROLLING_MEMBER, Kind::BATCH),
        ROLLING,
        Some(1.0),
    ),
    load(
        "batch-first",
        "the same with `ties: first`",
        "events/s",
        (&ROLLING_FIRST, Kind::BATCH),
        ROLLING,
        Some(0.6),
    ),
    load(
        "batch-six-member",
        "batches, five periods and one rolling window, `ties: member`",
        "writes/s",
        (&SIX_MEMBER, Kind::BATCH),
        SIX_WRITES,
        Some(1.5),
    ),
    load(
        "batch-six-first",
        "the same with `ties: first`",
        "writes/s",
        (&SIX_FIRST, Kind::BATCH),
        SIX_WRITES,
        None,
    ),
    load(
        "batch-status",
        "batches, one rolling window, `ties: member`, `standings=false`",
        "events/s",
        (&ROLLING_MEMBER, Kind::BATCH_STATUS),
        ROLLING,
        None,
    ),
    load(
        "batch-one",
        "batches, one window, `ties: first`, over the idempotent add",
        "events/s",
        (&ONE, Kind::BATCH),
        Beside::script(Script::Add),
        None,
    ),
    load(
        "single",
        "single events, one window",
        "requests/s",
        (&ONE, Kind::Single),
        Beside::Bare,
        Some(0.4),
    ),
    load(
        "single-six",
        "single events, five periods and one rolling window, `ties: first`",
        "requests/s",
        (&SIX_FIRST, Kind::Single),
        Beside::Bare,
        Some(0.15),
    ),
    load(
        "page",
        "a page of 50 of a live board",
        "requests/s",
        (&LIVE, Kind::Page),
        Beside::BareWithWriter,
        Some(0.5),
    ),
    load(
        "page-unchanged",
        "the same page, unchanged (`If-None-Match`)",
        "requests/s",
        (&LIVE, Kind::PageUnchanged),
        Beside::Bare,
        Some(0.8),
    ),
    load(
        "member",
        "a member with its neighbours",
        "requests/s",
        (&LIVE, Kind::Member),
        Beside::Bare,
        Some(0.5),
    ),
    size(
        "size-batch",
        "batches, a thousand members over a big board",
        "events/s",
        Kind::BATCH,
    ),
    size(
        "size-single",
        "single events, the same",
        "requests/s",
        Kind::Single,
    ),
    size("size-page", "a page, the same", "requests/s", Kind::Page),
    load(
        "vote-batch",
        "batches of votes, four quotas and `uniques: member`, over the same without",
        "events/s",
        (&VOTE, Kind::BATCH),
        WITHOUT_QUOTAS,
        None,
    ),
    load(
        "vote-single",
        "single votes, the same",
        "requests/s",
        (&VOTE, Kind::Single),
        WITHOUT_QUOTAS,
        None,
    ),
    load(
        "hidden-page-100",
        "a page, 100 members hidden, over nobody",
        "requests/s",
        (&HIDDEN_FEW, Kind::Page),
        WITHOUT_HIDDEN,
        None,
    ),
    load(
        "hidden-page-10000",
        "the same, 10,000 hidden",
        "requests/s",
        (&HIDDEN_MANY, Kind::Page),
        WITHOUT_HIDDEN,
        None,
    ),
    load(
        "hidden-batch-100",
        "batches, 100 members hidden, over nobody",
        "events/s",
        (&HIDDEN_FEW, Kind::BATCH),
        WITHOUT_HIDDEN,
        None,
    ),
    load(
        "hidden-batch-10000",
        "the same, 10,000 hidden",
        "events/s",
        (&HIDDEN_MANY, Kind::BATCH),
        WITHOUT_HIDDEN,
        None,
    ),
    row(
        "memory-member",
        "memory of an entry, `ties: member`",
        "B",
        Measure::EntryMemory(&ROLLING_MEMBER),
        Some(Goal::Max(110.0)),
    ),
    row(
        "memory-first",
        "memory of an entry, `ties: first`",
        "B",
        Measure::EntryMemory(&ROLLING_FIRST),
        Some(Goal::Max(220.0)),
    ),
    row(
        "memory-data",
        "the same with data of 50 bytes",
        "B",
        Measure::EntryMemory(&ROLLING_DATA),
        None,
    ),
    row(
        "memory-id",
        "memory of a remembered event id with six outcomes",
        "B",
        Measure::IdMemory,
        Some(Goal::Max(220.0)),
    ),
    row(
        "rollover-wait",
        "completing tomorrow's rolling standing: the longest wait of another client",
        "ms",
        Measure::RolloverWait(&ROLLING_FIRST),
        Some(Goal::Max(10.0)),
    ),
    row(
        "rollover-speed",
        "the same: speed",
        "members/s",
        Measure::RolloverSpeed(&ROLLING_FIRST),
        Some(Goal::Min(200_000.0)),
    ),
    row(
        "rollover-member-wait",
        "the same with `ties: member`: the longest wait",
        "ms",
        Measure::RolloverWait(&ROLLING_MEMBER),
        None,
    ),
    row(
        "rollover-member-speed",
        "the same: speed",
        "members/s",
        Measure::RolloverSpeed(&ROLLING_MEMBER),
        None,
    ),
    load(
        "league-batch",
        "batches on a league, over a board of 16 shards with one list",
        "events/s",
        (&LEAGUE, Kind::BATCH),
        Beside::Board(&WEEK),
        None,
    ),
    row(
        "league-joins",
        "20,000 members join a league, each with a request",
        "joins/s",
        Measure::LeagueJoins,
        None,
    ),
    row(
        "league-speed",
        "turning over a league of a million in cohorts of 100: speed",
        "members/s",
        Measure::LeagueSpeed,
        None,
    ),
    row(
        "league-wait",
        "the same: the longest wait of another client",
        "ms",
        Measure::LeagueWait,
        Some(Goal::Max(10.0)),
    ),
    row(
        "queue-single",
        "single events that are queued, over a server that does one `XADD`",
        "requests/s",
        Measure::QueueSingle,
        Some(Goal::RatioMin(0.8)),
    ),
    row(
        "queue-batch",
        "batches that are queued",
        "events/s",
        Measure::Queue(Figure::Batch),
        None,
    ),
    row(
        "queue-memory",
        "memory of an event that waits",
        "B",
        Measure::Queue(Figure::Memory),
        None,
    ),
    row(
        "queue-speed",
        "applying votes that wait (six windows, four quotas, `uniques: member`), over the same without queue",
        "events/s",
        Measure::Queue(Figure::Speed),
        None,
    ),
    row(
        "queue-lag",
        "such a vote, at half of that speed: from its answer until it is shown, 99 of 100",
        "ms",
        Measure::Queue(Figure::Lag),
        Some(Goal::Max(1_000.0)),
    ),
    row(
        "queue-peak",
        "a peak of ten times that speed for 20 s, with 512 MiB for the queue: taken",
        "events/s",
        Measure::Queue(Figure::Peak),
        Some(Goal::RatioMin(9.9)),
    ),
    row(
        "queue-recovery",
        "the same: from its end until all of it is applied",
        "s",
        Measure::Queue(Figure::Recovery),
        None,
    ),
    row(
        "kafka-speed",
        "taking such votes out of a topic, and applying them, over the same without queue",
        "events/s",
        Measure::Kafka(kafka::Figure::Speed),
        None,
    ),
    row(
        "kafka-lag",
        "such a vote, at half of that speed: from its answer until it is shown, 99 of 100",
        "ms",
        Measure::Kafka(kafka::Figure::Lag),
        Some(Goal::Max(1_000.0)),
    ),
    row(
        "stream-memory",
        "the service's memory for one who watches, and waits",
        "kB",
        Measure::Stream(streams::Figure::Memory),
        Some(Goal::Max(10.0)),
    ),
    row(
        "stream-delay",
        "a change that 1,000 watch, 20 in a second: from its sending to a screen, 99 of 100",
        "ms",
        Measure::Stream(streams::Figure::Delay),
        Some(Goal::Max(500.0)),
    ),
    row(
        "stream-cpu",
        "the same: what the service takes of a core",
        "%",
        Measure::Stream(streams::Figure::Cpu),
        None,
    ),
    row(
        "service-idle",
        "the service's own memory, idle",
        "MB",
        Measure::IdleMemory,
        Some(Goal::Max(40.0)),
    ),
    row(
        "service-peak",
        "the service's own memory, the most under full load",
        "MB",
        Measure::PeakMemory,
        Some(Goal::Max(200.0)),
    ),
];

const fn row(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    measure: Measure,
    goal: Option<Goal>,
) -> Row {
    Row {
        name,
        title,
        unit,
        measure,
        goal,
    }
}

const fn load(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    (board, kind): (&'static Board, Kind),
    beside: Beside,
    ratio_min: Option<f64>,
) -> Row {
    let goal = match ratio_min {
        Some(ratio) => Some(Goal::RatioMin(ratio)),
        None => None,
    };
    let measure = Measure::Load(Workload { board, kind }, beside);
    row(name, title, unit, measure, goal)
}

const fn size(name: &'static str, title: &'static str, unit: &'static str, kind: Kind) -> Row {
    let board = &SMALL;
    let measure = Measure::Load(Workload { board, kind }, Beside::Board(&LIVE));
    row(name, title, unit, measure, Some(Goal::RatioMax(2.0)))
}
