//! A dry run: reads the whole file as an import does, and checks each row with the code of the service, as far as the board's
//! definition decides. Nothing is sent or written.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use bytes::Bytes;
use indicatif::{HumanBytes, HumanCount};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::cost::Cost;
use super::reading::Reading;
use super::rows::Batch;
use super::sender::{BatchSender, ItemAnswer, ItemStatus, Refusal, counted};
use super::sketch::Sketch;
use super::summary::{Tally, fmt_count};
use super::{ImportArgs, ImportError, ImportProgress, Input, Surroundings, client, now, read};
use crate::core::error::Error;
use crate::core::write::events::IncomingEvent;
use crate::domain::board::{Board, Definition, FIRST_AMENDMENT};
use crate::domain::event::Rejection;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::plan::{Plan, Routes};
use crate::domain::problems::Problem;
use crate::domain::profile::{Draft, Rules};
use crate::domain::time::Timestamp;
use crate::events::body::read_item;

/// What an import would send.
pub(super) struct DryRun {
    rows: u64,
    /// What the board would take, and what it would reject.
    pub(super) tally: Tally,
    /// The times of events, the earliest and the latest.
    times: Option<(Timestamp, Timestamp)>,
    /// How many events have no time.
    untimed: u64,
    members: Sketch,
    /// `None` if the definition is not known.
    entries: Option<Entries>,
}

/// The entries that events write, and what they and the events take of memory.
struct Entries {
    count: Sketch,
    cost: Cost,
}

/// Reads the file.
///
/// # Errors
/// Fails if the file can't be read, or if the service can't be reached or has no such board.
pub(super) async fn run<P: FnOnce(Option<u64>) -> ImportProgress>(
    args: &ImportArgs,
    surroundings: Surroundings<P>,
) -> Result<DryRun, ImportError> {
    let reading = Reading::new(args)?;
    let input = Input::open(args.file(), None)?;
    let bytes = input.identity.as_ref().map(|identity| identity.bytes);
    let progress = Arc::new((surroundings.progress)(bytes));
    let sender = BatchSender::new(client(args, surroundings.limits, &progress)?);
    sender.board().await?;
    let definition = sender.definition().await?;
    let mut check = Check::new(&args.board, definition);
    let mut batches = read(input, (args, &reading), 0, &progress)?;
    let mut ticks = progress.ticks();
    let mut bytes_read = 0;
    loop {
        let batch = tokio::select! {
            batch = batches.recv() => batch,
            _ = ticks.tick() => {
                progress.show(check.found.rows, bytes_read);
                continue;
            }
        };
        let Some(batch) = batch.transpose()? else {
            break;
        };
        bytes_read = batch.bytes_read;
        check.add(&batch);
    }
    progress.finish();
    Ok(check.found)
}

/// Checks rows as the service does.
struct Check {
    /// `None` if the definition is not known.
    board: Option<Board>,
    routes: Routes,
    rules: Rules,
    now: Timestamp,
    found: DryRun,
}

impl Check {
    fn new(id: &BoardId, definition: Option<Definition>) -> Self {
        let found = DryRun {
            rows: 0,
            tally: Tally::default(),
            times: None,
            untimed: 0,
            members: Sketch::default(),
            entries: definition.as_ref().map(|definition| Entries {
                count: Sketch::default(),
                cost: Cost::of(definition),
            }),
        };
        let board = definition.map(|definition| {
            Board::new(id.clone(), definition, 0, FIRST_AMENDMENT, BTreeMap::new())
        });
        Self {
            board,
            routes: Routes::default(),
            rules: Rules::default(),
            now: now(),
            found,
        }
    }

    fn add(&mut self, batch: &Batch) {
        let events = items(batch.events.as_ref()).events;
        let events = events.into_iter().map(|event| self.event(event)).collect();
        let profiles = items(batch.profiles.as_ref()).profiles;
        let profiles = profiles
            .into_iter()
            .map(|profile| self.profile(profile))
            .collect();
        let (tally, mut rejections) = counted(&batch.sent, events, profiles);
        rejections.extend_from_slice(&batch.unreadable);
        rejections.sort_by_key(|rejection| rejection.source.place);
        let found = &mut self.found;
        found.rows += batch.rows;
        found.tally.add(&tally);
        found.tally.skipped += batch.skipped;
        for rejection in rejections {
            found.tally.reject(&rejection);
        }
    }

    fn event(&mut self, event: &RawValue) -> ItemAnswer {
        let incoming = read_item(event.get().as_bytes(), self.now).map_err(refusal)?;
        let plan = self.plan(&incoming).map_err(refusal)?;
        self.found.note(&incoming, plan.as_ref(), self.now);
        Ok(ItemStatus::Applied)
    }

    /// The plan of an event, if the definition is known.
    fn plan(&mut self, incoming: &IncomingEvent) -> Result<Option<Plan>, Error> {
        let Some(board) = &self.board else {
            return Ok(None);
        };
        let plan = self.routes.plan(board, incoming.event(board)?, self.now);
        Err(match plan.rejection {
            None => return Ok(Some(plan)),
            Some(Rejection::ScoreBounds) => {
                Error::out_of_bounds(&board.definition, plan.event.score)
            }
            Some(rejection) => Error::rejected(board, rejection, plan.at, self.now),
        })
    }

    fn profile(&self, profile: &RawValue) -> ItemAnswer {
        #[derive(Deserialize)]
        struct Item {
            member: String,
            name: String,
            avatar_url: Option<String>,
            attributes: Option<Box<RawValue>>,
        }
        let checked = serde_json::from_str(profile.get())
            .map_err(|error| Problem::invalid_field("", error))
            .and_then(|item: Item| {
                MemberId::parse(&item.member)
                    .map_err(|error| Problem::invalid_field("/member", error))?;
                let draft = Draft {
                    name: item.name,
                    avatar_url: item.avatar_url,
                    attributes: item.attributes,
                };
                self.rules.profile(&draft, None).map_err(Problem::invalid)
            });
        checked.map(|_| ItemStatus::Stored).map_err(refusal)
    }
}

/// The items of a body.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Items<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
    #[serde(borrow)]
    profiles: Vec<&'a RawValue>,
}

fn items(body: Option<&Bytes>) -> Items<'_> {
    let items = body.map(|body| serde_json::from_slice(body));
    // The import has written the body itself.
    items.and_then(Result::ok).unwrap_or_default()
}

fn refusal(problem: impl Into<Problem>) -> Refusal {
    let Problem { kind, detail, .. } = problem.into();
    Refusal {
        kind: kind.name.to_owned(),
        title: kind.title.to_owned(),
        detail,
    }
}

impl DryRun {
    /// Notes an event that the board would take.
    fn note(&mut self, event: &IncomingEvent, plan: Option<&Plan>, now: Timestamp) {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let member = event.member.as_str();
        self.members.add(hasher.hash_one(member));
        match event.at {
            Some(at) => {
                let (first, last) = self.times.unwrap_or((at, at));
                self.times = Some((first.min(at), last.max(at)));
            }
            None => self.untimed += 1,
        }
        let (Some(entries), Some(plan)) = (&mut self.entries, plan) else {
            return;
        };
        let is_kept = |expires: Option<i64>| expires.is_none_or(|expires| expires > now.ms());
        for write in &plan.route.writes {
            if is_kept(write.expires_at_ms) {
                entries.count.add(hasher.hash_one((member, write.standing)));
            }
        }
        for sum in &plan.route.sums {
            entries
                .count
                .add(hasher.hash_one((member, sum.derived, sum.period)));
        }
    }

    fn fmt_events(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((first, last)) = self.times {
            write!(f, "\nTimes: {first} to {last}")?;
        }
        if self.untimed > 0 {
            let untimed = HumanCount(self.untimed);
            write!(
                f,
                "\n{untimed} events have no time: they would count for the time at which they arrive (--at sets another one)"
            )?;
        }
        let members = HumanCount(self.members.estimate());
        write!(f, "\nMembers: about {members}")?;
        match &self.entries {
            Some(entries) => self.fmt_memory(entries, f),
            None => f.write_str("\nNot checked against the board's definition: that needs a key with the scope `configure`"),
        }
    }

    fn fmt_memory(&self, entries: &Entries, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, events) = (entries.count.estimate(), self.tally.applied);
        let bytes = count * entries.cost.entry + events * entries.cost.event;
        let (bytes, count, events) = (HumanBytes(bytes), HumanCount(count), HumanCount(events));
        write!(
            f,
            "\nMemory in Redis: about {bytes}, for {count} entries of standings and {events} event ids"
        )
    }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = &self.tally;
        write!(f, "{} rows; nothing was sent", HumanCount(self.rows))?;
        fmt_count(f, "events", tally.applied)?;
        for (name, count) in [("profiles", tally.profiles), ("skipped", tally.skipped)] {
            if count > 0 {
                fmt_count(f, name, count)?;
            }
        }
        fmt_count(f, "rejected", tally.rejected_count())?;
        tally.fmt_reasons(f)?;
        if tally.applied > 0 {
            self.fmt_events(f)?;
        }
        Ok(())
    }
}
