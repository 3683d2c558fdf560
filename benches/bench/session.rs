//! What all measurements share: a Redis server, the service on it, and boards that are filled once.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use crate::boards::Board;
use crate::load::{Load, Sample, Watched, float};
use crate::process::Process;
use crate::redis::{self, Redis};
use crate::reference::Textbook;
use crate::rows::{Figures, Group, Measured};
use crate::service::Service;
use crate::workload::Workload;
use crate::{Options, Result, kafka, league, queue, rollover, say, streams, table};

/// How long the service is left alone before its idle memory is read.
const IDLE_TIME: Duration = Duration::from_secs(2);
/// How many members come at once when a board is filled; big boards have a multiple of it.
const MEMBERS_STEP: usize = 1_000;

/// How long and how often things are measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How often; medians are told.
    pub rounds: usize,
    /// For how long the service is loaded in each round of a row.
    pub load: Duration,
    /// The same for a reference.
    pub reference: Duration,
    /// The same for a point of a curve.
    pub point: Duration,
    /// How many members big boards have.
    pub members: usize,
}

impl Extent {
    /// What was asked for.
    pub fn new(options: &Options) -> Result<Self> {
        let (rounds, [load, reference, point], members) = if options.quick {
            (1, [1_500, 1_500, 500], 100_000)
        } else {
            (3, [3_000, 2_000, 1_000], 1_000_000)
        };
        let members = options.members.unwrap_or(members);
        if members == 0 || !members.is_multiple_of(MEMBERS_STEP) {
            return Err("--members: a multiple of 1,000".into());
        }
        Ok(Self {
            rounds,
            load: Duration::from_millis(load),
            reference: Duration::from_millis(reference),
            point: Duration::from_millis(point),
            members,
        })
    }
}

/// The servers, and what has been done on them.
pub struct Session {
    // In this order they end.
    /// The service.
    pub service: Service,
    /// Its Redis server.
    pub redis: Redis,
    /// How long and how often things are measured.
    pub extent: Extent,
    /// The memory of the service before anything was done, in bytes.
    pub idle_bytes: Option<u64>,
    figures: RefCell<Vec<(Group, Figures)>>,
    textbook: OnceCell<Textbook>,
    filled: RefCell<HashSet<&'static str>>,
    next_series: Cell<u64>,
}

impl Session {
    /// Starts the servers.
    pub async fn start(options: &Options) -> Result<Self> {
        let extent = Extent::new(options)?;
        let redis = redis::start().await;
        let service = Service::start(&options.service, &redis).await?;
        tokio::time::sleep(IDLE_TIME).await;
        let idle_bytes = service.process().memory().map(|memory| memory.now);
        Ok(Self {
            service,
            redis,
            extent,
            idle_bytes,
            figures: RefCell::default(),
            textbook: OnceCell::new(),
            filled: RefCell::default(),
            next_series: Cell::new(0),
        })
    }

    /// Defines and fills a board the first time that it is needed.
    pub async fn ready(&self, board: &Board) -> Result<()> {
        if !self.filled.borrow_mut().insert(board.name) {
            return Ok(());
        }
        let begun = Instant::now();
        let members = self.members(board);
        board.prepare(&self.service, members).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let count = table::number(float(members as u64));
        say(&format!("{}: {count} members ({seconds:.1} s)", board.name));
        Ok(())
    }

    /// One of the figures of a group, which are all measured when the first of them is needed.
    pub async fn figure(&self, group: Group, name: &str, options: &Options) -> Result<Measured> {
        let is_known = |(known, _): &(Group, Figures)| *known == group;
        if !self.figures.borrow().iter().any(is_known) {
            let measured = match group {
                Group::Rollover(board) => rollover::measure(self, board).await?,
                Group::League => league::measure(self).await?,
                Group::Queue => queue::measure(self, options).await?,
                Group::Kafka => kafka::measure(self, options).await?,
                Group::Streams => streams::measure(options).await?,
            };
            self.figures.borrow_mut().push((group, measured));
        }
        let figures = self.figures.borrow();
        let of_group = figures.iter().find(|known| is_known(known));
        let figure = of_group.and_then(|(_, all)| all.iter().find(|(own, _)| *own == name));
        let (_, measured) = figure.ok_or_else(|| format!("{group:?} has no figure {name}"))?;
        Ok(*measured)
    }

    /// How many members a board has.
    pub fn members(&self, board: &Board) -> usize {
        board.members(self.extent.members)
    }

    /// The textbook scripts and their sorted sets.
    pub async fn textbook(&self) -> Result<&Textbook> {
        let fill = async || Textbook::fill(&self.redis, self.extent.members).await;
        self.textbook.get_or_try_init(fill).await
    }

    /// Loads the service.
    pub async fn load(&self, workload: Workload, form: &str, time: Duration) -> Result<Sample> {
        let target = (self.service.address(), self.service.process());
        self.load_server(target, workload, form, time).await
    }

    /// Loads a server as if it were the service.
    pub async fn load_server(
        &self,
        (address, process): (SocketAddr, &Process),
        workload: Workload,
        form: &str,
        time: Duration,
    ) -> Result<Sample> {
        let load = Load {
            address,
            time,
            expected: workload.expected(),
            watched: Watched::of(&self.redis, process),
        };
        let series = self.take_series(workload.connections());
        let requests = workload.requests(form, self.members(workload.board), series);
        let sample = load.run(requests).await?;
        Ok(sample.times(workload.count()))
    }

    /// Series of requests whose ids nobody else has, by the number of the first.
    pub fn take_series(&self, count: usize) -> u64 {
        let first = self.next_series.get();
        self.next_series.set(first + count as u64);
        first
    }
}
