//! The kinds of requests that the service is loaded with.

use crate::Result;
use crate::boards::Board;
use crate::requests::{self, Expected, Members, Requests};
use crate::service::Service;

/// How many events a batch has, unless it is told otherwise.
const BATCH: usize = 1_000;
/// On how many connections batches come.
const BATCH_CONNECTIONS: usize = 4;
/// On how many connections all else comes.
const CONNECTIONS: usize = 64;
/// The window of which pages and members are read.
const WINDOW: &str = "all";

/// Requests of one kind on one board.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The board.
    pub board: &'static Board,
    /// What they do.
    pub kind: Kind,
}

/// What requests do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Send events one by one.
    Single,
    /// Send batches of events.
    Batch {
        /// The query of the address.
        query: &'static str,
        /// How many events each batch has.
        size: usize,
        /// On how many connections they come.
        connections: usize,
    },
    /// Read the first page.
    Page,
    /// Read a page in the middle.
    DeepPage,
    /// Ask whether the first page has changed, which it has not.
    PageUnchanged,
    /// Read a member with its neighbours.
    Member,
}

impl Kind {
    /// Batches as they are mostly measured.
    pub const BATCH: Self = Self::batch("");
    /// The same without the outcomes.
    pub const BATCH_STATUS: Self = Self::batch("?standings=false");

    const fn batch(query: &'static str) -> Self {
        Self::Batch {
            query,
            size: BATCH,
            connections: BATCH_CONNECTIONS,
        }
    }
}

impl Workload {
    /// On how many connections the requests come.
    pub fn connections(self) -> usize {
        match self.kind {
            Kind::Batch { connections, .. } => connections,
            _ => CONNECTIONS,
        }
    }

    /// How many events or answers a request counts for.
    pub fn count(self) -> usize {
        match self.kind {
            Kind::Batch { size, .. } => size,
            _ => 1,
        }
    }

    /// What the answers must be.
    pub fn expected(self) -> Expected {
        let (taken, ended) = if self.board.is_queued {
            (202, r#""status":"queued""#)
        } else {
            (200, r#""status":"applied""#)
        };
        let (status, text, times) = match self.kind {
            Kind::Single => (taken, ended, 1),
            Kind::Batch { size, .. } => (200, ended, size),
            Kind::Page | Kind::DeepPage => (200, r#""reached_at""#, requests::PAGE_SIZE),
            // Nothing is found once in nothing.
            Kind::PageUnchanged => (304, "", 1),
            Kind::Member => (200, r#""around":[{"rank":"#, 1),
        };
        Expected {
            status,
            text,
            times,
        }
    }

    /// The form of the requests.
    pub async fn form(self, service: &Service) -> Result<String> {
        let board = self.board;
        Ok(match self.kind {
            Kind::Single => requests::single(board),
            Kind::Batch { query, size, .. } => requests::batch(board, query, size),
            Kind::Page => requests::page(board.name, WINDOW, ""),
            Kind::DeepPage => requests::deep_page(board.name, WINDOW),
            Kind::PageUnchanged => {
                let page = requests::page(board.name, WINDOW, "");
                let etag = service.call(&page, &[200]).await?.header("etag")?;
                requests::page(board.name, WINDOW, &format!("If-None-Match: {etag}\r\n"))
            }
            Kind::Member => requests::member(board.name, WINDOW),
        })
    }

    /// The requests of all connections, on a board of so many members.
    pub fn requests(self, form: &str, members: usize, first_series: u64) -> Vec<Requests> {
        let any = Members::Random(members);
        Requests::of_connections(form, &any, first_series, self.connections())
    }
}
