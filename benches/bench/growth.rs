//! How cost grows: with members, windows and the size of batches as speed, with instances and shards as CPU time. All
//! processes share the machine, so that more of them can't be faster here.

use std::path::Path;

use futures::future::try_join_all;
use serde::Serialize;

use crate::beside::median;
use crate::boards::{BY_WINDOWS, Board, HUGE, LARGE, LARGE_BY_SHARDS, LIVE, MEDIUM, SMALL};
use crate::load::{Cpu, Load, Sample};
use crate::service::Service;
use crate::session::Session;
use crate::workload::{Kind, Workload};
use crate::{Options, Result};

/// On how many connections batches of all sizes come.
const CONNECTIONS: usize = 16;

/// What grows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// The members of a board.
    Members,
    /// Its windows.
    Windows,
    /// The events of a batch.
    BatchSize,
    /// The instances of the service.
    Instances,
    /// The shards of a board.
    Shards,
}

/// Figures over what grows.
#[derive(Debug, Serialize)]
pub struct Curve {
    /// What `--only` calls it.
    pub name: &'static str,
    /// What grows.
    pub title: &'static str,
    /// The figures, from small to large.
    pub points: Vec<Point>,
}

/// The figures at one place.
#[derive(Debug, Serialize)]
pub struct Point {
    /// How large it is.
    pub size: usize,
    /// Events in a second.
    pub events: f64,
    /// Pages in a second.
    pub pages: Option<f64>,
    /// The CPU time of an event in microseconds, where that is what is looked at: of Redis, and of the service.
    pub cpu_us: Option<[f64; 2]>,
}

/// All curves.
pub const CURVES: [(Cause, &str, &str); 5] = [
    (Cause::Members, "growth-members", "members"),
    (Cause::Windows, "growth-windows", "windows"),
    (Cause::BatchSize, "growth-batch", "events a batch"),
    (Cause::Instances, "growth-instances", "instances"),
    (Cause::Shards, "growth-shards", "shards"),
];

const BY_MEMBERS: [&Board; 5] = [&SMALL, &MEDIUM, &LARGE, &LIVE, &HUGE];
const BATCH_SIZES: [usize; 4] = [1, 10, 100, 1_000];
const INSTANCES: [usize; 3] = [1, 2, 4];

impl Session {
    /// The points of a curve.
    pub async fn curve(&self, cause: Cause, options: &Options) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        match cause {
            Cause::Members => {
                let largest = 10 * self.extent.members;
                let is_measured = |board: &&Board| self.members(board) <= largest;
                for board in BY_MEMBERS.into_iter().filter(is_measured) {
                    let events = self.rate(board, Kind::BATCH).await?;
                    points.push(Point {
                        pages: Some(self.rate(board, Kind::Page).await?),
                        ..Point::of_events(self.members(board), events)
                    });
                }
            }
            Cause::Windows => {
                for board in BY_WINDOWS {
                    let events = self.rate(board, Kind::BATCH).await?;
                    points.push(Point::of_events(board.windows.len(), events));
                }
            }
            Cause::BatchSize => {
                for size in BATCH_SIZES {
                    let kind = Kind::Batch {
                        query: "",
                        size,
                        connections: CONNECTIONS,
                    };
                    points.push(Point::of_events(size, self.rate(&LARGE, kind).await?));
                }
            }
            Cause::Instances => {
                for count in INSTANCES {
                    let sample = self.singles(&LARGE, count, &options.service).await?;
                    points.push(Point::of_cpu(count, &sample));
                }
            }
            Cause::Shards => {
                for board in LARGE_BY_SHARDS {
                    let sample = self.singles(board, 1, &options.service).await?;
                    points.push(Point::of_cpu(board.shards.into(), &sample));
                }
            }
        }
        Ok(points)
    }

    async fn rate(&self, board: &'static Board, kind: Kind) -> Result<f64> {
        self.ready(board).await?;
        let workload = Workload { board, kind };
        let form = workload.form(&self.service).await?;
        let mut samples = Vec::new();
        for _ in 0..self.extent.rounds {
            samples.push(self.load(workload, &form, self.extent.point).await?);
        }
        Ok(median(samples).map_or(0.0, |sample| sample.per_second))
    }

    /// Single events, of which each of so many instances gets as many.
    async fn singles(
        &self,
        board: &'static Board,
        instances: usize,
        program: &Path,
    ) -> Result<Sample> {
        self.ready(board).await?;
        let kind = Kind::Single;
        let workload = Workload { board, kind };
        let form = workload.form(&self.service).await?;
        let started = (1..instances).map(|_| Service::start(program, &self.redis));
        let started = try_join_all(started).await?;
        let services = || started.iter().chain([&self.service]);
        let mut samples = Vec::new();
        for _ in 0..self.extent.rounds {
            let series = self.take_series(workload.connections());
            let mut requests = workload.requests(&form, self.members(board), series);
            let loads = services().map(|service| {
                let rest = requests.len() - workload.connections() / instances;
                let load = Load::on(service, &self.redis, self.extent.point, workload.expected());
                let share = requests.split_off(rest);
                async move { load.run(share).await }
            });
            let parts = try_join_all(loads.collect::<Vec<_>>()).await?;
            samples.extend(parts.into_iter().reduce(together));
        }
        median(samples).ok_or_else(|| "no round".into())
    }
}

/// The loads of two instances on one Redis server at the same time.
fn together(one: Sample, other: Sample) -> Sample {
    let service = one.cpu.service.zip(other.cpu.service);
    Sample {
        per_second: one.per_second + other.per_second,
        cpu: Cpu {
            service: service.map(|(one, other)| one + other),
            ..one.cpu
        },
        ..one
    }
}

impl Point {
    fn of_events(size: usize, events: f64) -> Self {
        Self {
            size,
            events,
            pages: None,
            cpu_us: None,
        }
    }

    fn of_cpu(size: usize, sample: &Sample) -> Self {
        let events = sample.per_second;
        let us = |seconds: f64| seconds * 1e6 / (events * sample.seconds);
        let cpu = sample.cpu.redis.zip(sample.cpu.service);
        Self {
            cpu_us: cpu.map(|(redis, service)| [us(redis), us(service)]),
            ..Self::of_events(size, events)
        }
    }
}
