//! How cost grows with members, windows and the size of batches.

use serde::Serialize;

use crate::Result;
use crate::beside::median;
use crate::boards::{BY_WINDOWS, Board, LARGE, LIVE, MEDIUM, SMALL};
use crate::session::Session;
use crate::workload::{Kind, Workload};

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
}

/// All curves.
pub const CURVES: [(Cause, &str, &str); 3] = [
    (Cause::Members, "growth-members", "members"),
    (Cause::Windows, "growth-windows", "windows"),
    (Cause::BatchSize, "growth-batch", "events a batch"),
];

const BY_MEMBERS: [&Board; 4] = [&SMALL, &MEDIUM, &LARGE, &LIVE];
const BATCH_SIZES: [usize; 4] = [1, 10, 100, 1_000];

impl Session {
    /// The points of a curve.
    pub async fn curve(&self, cause: Cause) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        match cause {
            Cause::Members => {
                for board in BY_MEMBERS {
                    points.push(Point {
                        size: self.members(board),
                        events: self.rate(board, Kind::BATCH).await?,
                        pages: Some(self.rate(board, Kind::Page).await?),
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
}

impl Point {
    fn of_events(size: usize, events: f64) -> Self {
        Self {
            size,
            events,
            pages: None,
        }
    }
}
