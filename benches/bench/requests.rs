//! The requests of one connection: bytes that are there beforehand, in which only some digits change.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::boards::{Board, Voting};
use crate::http;

/// Stands for an event id in a request; ids have this width.
pub const ID: &str = "<---- id ---->";
/// Stands for a member in a request; members have this width.
pub const MEMBER: &str = "<-- member -->";
/// Stands for the number of the member before it in a request.
pub const NUMBER: &str = "<numb>";
/// Stands for the number of a page in a request.
pub const PAGE: &str = "<pg>";
/// Stands for a voter in a request; voters have this width.
const VOTER: &str = "<-- voter --->";
/// Stands for a score.
pub const SCORE: &str = "<scor>";
/// How many voters there are.
const VOTERS: u64 = 100_000;

/// How many entries a page has.
pub const PAGE_SIZE: usize = 50;
/// The numbers of pages, where they are random.
const PAGES: Range<u64> = 1_000..5_000;
/// The page in the middle: behind 50,000 members.
const DEEP_PAGE: usize = 1_000;

/// What the answers must be.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The status of each.
    pub status: u16,
    /// What the body of each has in it.
    pub text: &'static str,
    /// How often.
    pub times: usize,
}

/// Which members the requests are about.
#[derive(Clone, Debug)]
pub enum Members {
    /// Any of so many, at random.
    Random(usize),
    /// Each of so many once, in a mixed order; all connections count together.
    Each(Arc<AtomicUsize>, usize),
}

impl Members {
    /// Each of so many once.
    pub fn each(count: usize) -> Self {
        Self::Each(Arc::default(), count)
    }
}

/// Requests of the same form, one after the other.
pub struct Requests {
    bytes: Vec<u8>,
    ids: Vec<usize>,
    members: Vec<usize>,
    numbers: Vec<usize>,
    pages: Vec<usize>,
    voters: Vec<usize>,
    scores: Vec<usize>,
    choice: Members,
    next_id: u64,
    random: fastrand::Rng,
}

impl Requests {
    /// Requests of this form, in which [`ID`], [`MEMBER`] and the like stand for what changes. `series` makes
    /// the ids differ from those of other requests; it is below 100,000.
    pub fn new(form: &str, choice: Members, series: u64) -> Self {
        Self {
            bytes: form.into(),
            ids: places(form, ID),
            members: places(form, MEMBER),
            numbers: places(form, NUMBER),
            pages: places(form, PAGE),
            voters: places(form, VOTER),
            scores: places(form, SCORE),
            choice,
            next_id: series * 100_000_000,
            random: fastrand::Rng::with_seed(series),
        }
    }

    /// The requests of so many connections, of which the first has this series.
    pub fn of_connections(form: &str, choice: &Members, first: u64, count: usize) -> Vec<Self> {
        (first..)
            .take(count)
            .map(|series| Self::new(form, choice.clone(), series))
            .collect()
    }

    /// The bytes of the next request, if there is one.
    pub fn next(&mut self) -> Option<&[u8]> {
        for &place in &self.ids {
            let id = &mut self.bytes[place..place + ID.len()];
            id[0] = b'e';
            write_digits(&mut id[1..], self.next_id);
            self.next_id += 1;
        }
        for (index, &place) in self.members.iter().enumerate() {
            let number = match &self.choice {
                Members::Random(of) => self.random.usize(..*of),
                Members::Each(next, of) => match next.fetch_add(1, Ordering::Relaxed) {
                    place if place < *of => mixed(place, *of),
                    _ => return None,
                },
            };
            let member = &mut self.bytes[place..place + MEMBER.len()];
            member[..2].copy_from_slice(b"m:");
            write_digits(&mut member[2..], number as u64);
            if let Some(&place) = self.numbers.get(index) {
                write_digits(&mut self.bytes[place..place + NUMBER.len()], number as u64);
            }
        }
        for &place in &self.pages {
            let page = &mut self.bytes[place..place + PAGE.len()];
            write_digits(page, self.random.u64(PAGES));
        }
        for &place in &self.voters {
            let voter = &mut self.bytes[place..place + VOTER.len()];
            voter[..2].copy_from_slice(b"v:");
            write_digits(&mut voter[2..], self.random.u64(..VOTERS));
        }
        for &place in &self.scores {
            let score = &mut self.bytes[place..place + SCORE.len()];
            write_digits(score, self.random.u64(100_000..1_000_000));
        }
        Some(&self.bytes)
    }
}

/// One event on a board.
pub fn single(board: &Board) -> String {
    let origin = origin(board);
    let body = format!(r#"{{"id":"{ID}","member":"{MEMBER}","score":7{origin}}}"#);
    http::with_json("POST", &format!("/v1/boards/{}/events", board.name), &body)
}

/// Many events on a board.
pub fn batch(board: &Board, query: &str, size: usize) -> String {
    let (name, origin) = (board.name, origin(board));
    let event =
        format!(r#"{{"board":"{name}","id":"{ID}","member":"{MEMBER}","score":7{origin}}}"#);
    batch_of(&event, query, size)
}

/// Many events that only fill a board, so that the benchmark is over soon: `at` is a time or nothing.
pub fn filling(board: &Board, at: Option<&str>, size: usize) -> String {
    let (name, origin, data) = (board.name, origin(board), data(board));
    let at = at.map_or(String::new(), |at| format!(r#","at":"{at}""#));
    let event =
        format!(r#"{{"board":"{name}","member":"{MEMBER}","score":{SCORE}{at}{origin}{data}}}"#);
    batch_of(&event, "?standings=false", size)
}

/// What the events of a board say of where they come from.
fn origin(board: &Board) -> String {
    match board.voting {
        Voting::None => String::new(),
        Voting::Free | Voting::Limited => format!(r#","voter":"{VOTER}","channel":"web""#),
    }
}

/// What the events of a board bring along.
fn data(board: &Board) -> String {
    let data = board.data.map(|data| format!(r#","data":{data}"#));
    data.unwrap_or_default()
}

fn batch_of(event: &str, query: &str, size: usize) -> String {
    let body = format!(r#"{{"events":[{}]}}"#, vec![event; size].join(","));
    http::with_json("POST", &format!("/v1/events{query}"), &body)
}

/// A member that joins a league.
pub fn join(board: &str) -> String {
    let body = format!(r#"{{"member":"{MEMBER}"}}"#);
    http::with_json("POST", &format!("/v1/boards/{board}/league/members"), &body)
}

/// The first page of a window of a board.
pub fn page(board: &str, window: &str, headers: &str) -> String {
    let path = format!("/v1/boards/{board}/standings/{window}?size={PAGE_SIZE}");
    http::get(&path, headers)
}

/// A page far behind the first.
pub fn deep_page(board: &str, window: &str) -> String {
    let path = format!("/v1/boards/{board}/standings/{window}?size={PAGE_SIZE}&page={DEEP_PAGE}");
    http::get(&path, "")
}

/// A member with its neighbours.
pub fn member(board: &str, window: &str) -> String {
    http::get(
        &format!("/v1/boards/{board}/standings/{window}/members/{MEMBER}?around=3"),
        "",
    )
}

/// Where a text occurs in another one.
fn places(form: &str, text: &str) -> Vec<usize> {
    form.match_indices(text).map(|(place, _)| place).collect()
}

/// A place's number in an order that is neither sorted nor repeats anything.
fn mixed(place: usize, of: usize) -> usize {
    // A prime that divides no round number.
    place * 611_953 % of
}

fn write_digits(bytes: &mut [u8], mut number: u64) {
    for byte in bytes.iter_mut().rev() {
        *byte = b"0123456789"[usize::try_from(number % 10).unwrap_or_default()];
        number /= 10;
    }
}
