//! Compares the members of a sorted set with a standing, and decides what is to be sent.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use indicatif::HumanCount;

use super::args::{Task, Work};
use super::copy::{Checks, SetCopy};
use super::names::SortedSet;
use super::read_there;
use super::target::{Here, Target};
use super::times::Times;
use crate::cli::Failure;
use crate::cli::import::sender::BatchSender;
use crate::cli::text::{printable, shortened};
use crate::domain::board::Update;
use crate::domain::score::Score;
use crate::domain::time::Timestamp;
use crate::redis::source::Source;

/// How many members are compared at a time: the most that one request may ask for.
const CHUNK: usize = 500;
/// How many of these are in flight at a time.
const CONCURRENCY: usize = 8;
/// How long a difference must stay the same. An event that was sent to both has arrived in both by then.
const SETTLING_TIME: Duration = Duration::from_secs(1);
/// How many members are named.
pub(super) const EXAMPLES_MAX: usize = 10;
/// How often the progress is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// The comparison of one sorted set with one standing.
pub(super) struct Transfer<'a> {
    pub(super) work: &'a Work,
    pub(super) target: &'a Target,
    pub(super) source: &'a Source,
    pub(super) sender: &'a BatchSender,
    pub(super) checks: &'a Checks,
    pub(super) set: &'a SortedSet,
    pub(super) copy: &'a SetCopy,
    pub(super) times: &'a Times,
}

/// The outcome for the members of a sorted set.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// They have the same score in both.
    pub(super) equal: u64,
    /// The board has accepted an event; in a dry run, it would be sent one.
    pub(super) sent: u64,
    /// The board has had the event before, but the scores still differ.
    pub(super) duplicate: u64,
    /// Their names are written as profiles; in a dry run, they would be.
    pub(super) profiles: u64,
    /// Their values in the hash of names have none.
    pub(super) nameless: u64,
    /// They have another score here, and no event was sent.
    pub(super) different: u64,
    /// They have a better score here, which the board keeps.
    pub(super) better: u64,
    /// They changed in the meantime.
    pub(super) changing: u64,
    /// The board has rejected their events or names: by kind, how many, and the first of them.
    pub(super) rejected: BTreeMap<String, (u64, Vec<String>)>,
    /// The first of those that differ.
    pub(super) examples: Vec<String>,
    /// The earliest time of an event.
    pub(super) first: Option<Timestamp>,
    /// How many have a score here.
    found: u64,
    /// How many members the standing has.
    total: u64,
}

/// A member in both places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    /// The member's place in the copy.
    pub(super) place: usize,
    pub(super) there: Score,
    /// The double that the score was read from.
    value: f64,
    pub(super) here: Option<Here>,
}

/// An event that is to be sent for a member.
pub(super) struct NewEvent {
    pub(super) pair: Pair,
    pub(super) score: Score,
    pub(super) at: Timestamp,
    /// How often it was sent before, under other ids.
    pub(super) attempt: u32,
}

/// What is to be done about a difference.
enum Step {
    /// An event with this score and time.
    Send(Score, Timestamp),
    /// The board keeps the better score.
    KeepBetter,
    /// Nothing, unless the user asks for it.
    Leave,
}

impl Transfer<'_> {
    pub(super) async fn run(&self) -> Result<Counts, Failure> {
        let members = self.copy.members.len();
        let mut counts = Counts::default();
        let chunks = (0..members).step_by(CHUNK);
        let mut carried = stream::iter(chunks)
            .map(|first| self.carry(first..members.min(first + CHUNK)))
            .buffer_unordered(CONCURRENCY);
        let (mut shown, mut done) = (Instant::now(), 0);
        while let Some(chunk) = carried.try_next().await? {
            counts.add(chunk);
            done = members.min(done + CHUNK);
            if shown.elapsed() > PROGRESS_INTERVAL {
                shown = Instant::now();
                let (done, of) = (HumanCount(done as u64), HumanCount(members as u64));
                let text = printable(&format!("{}: {done} of {of} members", self.set.key));
                let _ = writeln!(io::stderr(), "{text}");
            }
        }
        if self.work.task == Task::Compare && counts.only_here() > 0 {
            counts.found += self.found_of_others().await?;
        }
        Ok(counts)
    }

    /// How many members that are not in the copy have a score here, although the sorted set has them by now.
    async fn found_of_others(&self) -> Result<u64, Failure> {
        let now = SetCopy::of(self.source, self.set, self.checks).await?;
        let mut others: Vec<&str> = now
            .members
            .iter()
            .chain(&now.refused_ids)
            .map(AsRef::as_ref)
            .collect();
        others.retain(|id| !self.is_copied(id));
        let mut found = 0;
        for ids in others.chunks(CHUNK) {
            let client = self.sender.client();
            let shown = self.target.standing(client, &self.set.period, ids).await?;
            found += shown.entries.len() as u64;
        }
        Ok(found)
    }

    fn is_copied(&self, id: &str) -> bool {
        let members = &self.copy.members;
        members
            .binary_search_by(|member| (**member).cmp(id))
            .is_ok()
    }

    /// Compares some members, and sends what is missing.
    async fn carry(&self, places: std::ops::Range<usize>) -> Result<Counts, Failure> {
        let mut counts = Counts::default();
        let mut differing = self
            .look(&places.clone().collect::<Vec<_>>(), &mut counts)
            .await?;
        counts.equal = remove_equal(&mut differing);
        if self.work.task != Task::Import && !differing.is_empty() {
            differing = self.still_different(&differing, &mut counts).await?;
        }
        let names = self.names(places, &mut counts).await?;
        let mut events = Vec::new();
        for pair in differing {
            match self.step(&pair) {
                Step::Send(score, at) => events.push(NewEvent {
                    pair,
                    score,
                    at,
                    attempt: 0,
                }),
                Step::KeepBetter => counts.better += 1,
                Step::Leave => {
                    counts.different += 1;
                    if counts.examples.len() < EXAMPLES_MAX {
                        counts.examples.push(self.shown(&pair));
                    }
                }
            }
        }
        counts.first = events.iter().map(|event| event.at).min();
        if self.work.is_dry {
            counts.sent += events.len() as u64;
            counts.profiles += names.len() as u64;
        } else {
            // First: if the key may not write profiles, no event counts.
            self.send_names(names, &mut counts).await?;
            self.send_events(events, &mut counts).await?;
        }
        Ok(counts)
    }

    /// Waits, and returns the pairs that are still as different as before.
    pub(super) async fn still_different(
        &self,
        pairs: &[Pair],
        counts: &mut Counts,
    ) -> Result<Vec<Pair>, Failure> {
        tokio::time::sleep(SETTLING_TIME).await;
        let places: Vec<usize> = pairs.iter().map(|pair| pair.place).collect();
        let mut again = self.look(&places, &mut Counts::default()).await?;
        let now_equal = remove_equal(&mut again);
        again.retain(|pair| pairs.contains(pair));
        counts.equal += now_equal;
        // Also those that are in the sorted set no more.
        counts.changing += (places.len() - again.len()) as u64 - now_equal;
        Ok(again)
    }

    /// The names of members, with their places, if they are to come over.
    async fn names(
        &self,
        places: std::ops::Range<usize>,
        counts: &mut Counts,
    ) -> Result<Vec<(usize, String)>, Failure> {
        let sets = &self.work.sets;
        let (Some(hash), Task::Import | Task::Sync) = (&sets.profiles_from_hash, self.work.task)
        else {
            return Ok(Vec::new());
        };
        let values = read_there(async || {
            let ids = places.clone().map(|place| self.member_id(place));
            self.source.hash_values(hash, ids).await
        });
        let values = values.await?;
        let name = |value: Bytes| match &sets.name_field {
            None => String::from_utf8(value.into()).ok(),
            Some(field) => {
                let fields: serde_json::Value = serde_json::from_slice(&value).ok()?;
                Some(fields.get(field)?.as_str()?.to_owned())
            }
        };
        let mut names = Vec::new();
        for (place, value) in places.zip(values) {
            match value.map(name) {
                Some(Some(name)) => names.push((place, name)),
                Some(None) => counts.nameless += 1,
                None => {}
            }
        }
        Ok(names)
    }

    /// Reads the scores of members in both places. A member that the sorted set has lost, or whose score can't come over
    /// any more, counts as changing.
    async fn look(&self, places: &[usize], counts: &mut Counts) -> Result<Vec<Pair>, Failure> {
        let ids: Vec<&str> = places.iter().map(|place| self.member_id(*place)).collect();
        let there = read_there(async || {
            let ids = ids.iter().copied();
            self.source.scores(&self.set.key, ids).await
        });
        let here = self
            .target
            .standing(self.sender.client(), &self.set.period, &ids);
        let there = there.await?;
        let here = here.await?;
        counts.total = here.total;
        counts.found = here.entries.len() as u64;
        let mut pairs = Vec::with_capacity(places.len());
        for ((place, id), value) in places.iter().zip(&ids).zip(there) {
            let score = |value| self.checks.score_in(&self.set.period, value).ok();
            let there = value.and_then(|value| Some((value, score(value)?)));
            let Some((value, there)) = there else {
                counts.changing += 1;
                continue;
            };
            pairs.push(Pair {
                place: *place,
                there,
                value,
                here: here.entries.get(*id).copied(),
            });
        }
        Ok(pairs)
    }

    pub(super) fn member_id(&self, place: usize) -> &str {
        &self.copy.members[place]
    }

    fn step(&self, pair: &Pair) -> Step {
        let time = || self.times.of(pair.place, pair.value);
        let Some(here) = pair.here else {
            return match self.work.task {
                Task::Compare => Step::Leave,
                Task::Import | Task::Sync => Step::Send(pair.there, time()),
            };
        };
        if self.work.task != Task::Sync {
            return Step::Leave;
        }
        let decimals = self.target.board.definition.decimals;
        let is_better = |is_better: bool| {
            if is_better {
                Step::Send(pair.there, time())
            } else {
                Step::KeepBetter
            }
        };
        match self.target.board.definition.update {
            Update::Max => is_better(pair.there > here.score),
            Update::Min => is_better(pair.there < here.score),
            // Without a time in the score: older than the member's newest event, so that its place among equals stays.
            Update::Sum => {
                let at = self.times.in_score(pair.value).unwrap_or(self.times.begin);
                let difference = pair.there.scaled() - here.score.scaled();
                Score::from_scaled(difference, decimals)
                    .map_or(Step::Leave, |difference| Step::Send(difference, at))
            }
            // Without a time in the score: just newer than what it replaces; an event that comes after it stays newer.
            Update::Last => here.reached_at.map_or(Step::Leave, |reached_at| {
                let next = Timestamp::from_us_clamped(reached_at.us() + 1);
                let at = self.times.in_score(pair.value).unwrap_or(next);
                if at >= next && self.set.period.contains(at) {
                    Step::Send(pair.there, at)
                } else {
                    Step::Leave
                }
            }),
        }
    }

    fn shown(&self, pair: &Pair) -> String {
        let decimals = self.target.board.definition.decimals;
        let there = pair.there.shown(decimals);
        let id = shortened(self.member_id(pair.place));
        match pair.here {
            Some(here) => format!("{id}: {there} there, {} here", here.score.shown(decimals)),
            None => format!("{id}: {there} there, none here"),
        }
    }
}

/// Removes the pairs that agree; returns how many.
fn remove_equal(pairs: &mut Vec<Pair>) -> u64 {
    let before = pairs.len();
    pairs.retain(|pair| pair.here.map(|here| here.score) != Some(pair.there));
    (before - pairs.len()) as u64
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.equal += more.equal;
        self.sent += more.sent;
        self.duplicate += more.duplicate;
        self.profiles += more.profiles;
        self.nameless += more.nameless;
        self.different += more.different;
        self.better += more.better;
        self.changing += more.changing;
        self.found += more.found;
        self.first = [self.first, more.first].into_iter().flatten().min();
        self.total = self.total.max(more.total);
        for (kind, (count, examples)) in more.rejected {
            let (counted, all) = self.rejected.entry(kind).or_default();
            *counted += count;
            all.extend(examples);
            all.truncate(EXAMPLES_MAX);
        }
        self.examples.extend(more.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }

    /// How many members only the standing has.
    pub(super) fn only_here(&self) -> u64 {
        self.total.saturating_sub(self.found)
    }

    /// How many events the board has rejected.
    pub(super) fn rejected_count(&self) -> u64 {
        self.rejected.values().map(|(count, _)| count).sum()
    }
}
