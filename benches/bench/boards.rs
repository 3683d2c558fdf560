//! The boards of the benchmark, and filling them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::Result;
use crate::http;
use crate::load::{Load, Watched};
use crate::requests::{self, Expected, Members, Requests};
use crate::service::Service;

/// A board and what it is filled with.
#[derive(Debug, Eq, PartialEq)]
pub struct Board {
    /// Its id.
    pub name: &'static str,
    /// Its windows.
    pub windows: &'static [&'static str],
    /// Who is ahead at equal scores.
    pub ties: &'static str,
    /// How many members it has.
    pub size: Size,
    /// What it has to do with votes.
    pub voting: Voting,
    /// Over how many shards its members are spread.
    pub shards: u16,
    /// How many of its best members are hidden.
    pub hidden: usize,
    /// The data that its events bring along, as JSON.
    pub data: Option<&'static str>,
    /// Whether its members compete in cohorts.
    pub is_league: bool,
    /// Whether its events are queued.
    pub is_queued: bool,
    /// Whether it keeps its events.
    pub keeps_events: bool,
}

/// How many members a board has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Size {
    /// As many as big boards have: a million, unless the run is a quick one.
    Big,
    /// So many.
    Fixed(usize),
}

/// What a board has to do with votes: events that say who sends them, and which way they come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Voting {
    /// Nothing.
    None,
    /// Its events are votes, which it takes like any events.
    Free,
    /// Its events are votes, of which it has four quotas, and counts the voters of each member.
    Limited,
}

const ROLLING: &[&str] = &["last-7-days"];
const SIX: &[&str] = &["hour", "day", "week", "month", "all", "last-7-days"];
const DAY_AND_ALL: &[&str] = &["day", "all"];
const DAY_AND_ROLLING: &[&str] = &["day", "all", "last-7-days"];
const PERIODS: &[&str] = &[
    "minute", "hour", "day", "week", "month", "year", "all", "season",
];
const PERIODS_AND_ROLLING: &[&str] = &[
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "year",
    "all",
    "season",
    "last-2-days",
    "last-3-days",
    "last-4-days",
    "last-5-days",
    "last-6-days",
    "last-7-days",
    "last-8-days",
    "last-9-days",
];

/// One rolling window, and ties by the member's id.
pub const ROLLING_MEMBER: Board = big("rolling-member", ROLLING, "member");
/// One rolling window, and ties by time.
pub const ROLLING_FIRST: Board = big("rolling-first", ROLLING, "first");
/// The same with data: an object of 50 bytes.
pub const ROLLING_DATA: Board = Board {
    data: Some(r#"{"car":"gt-3","ghost":"3f9a1c7e","laps":[31,29,3]}"#),
    ..big("rolling-data", ROLLING, "first")
};
/// Five periods and one rolling window, and ties by the member's id.
pub const SIX_MEMBER: Board = big("six-member", SIX, "member");
/// Five periods and one rolling window, and ties by time.
pub const SIX_FIRST: Board = big("six-first", SIX, "first");
/// One window.
pub const ONE: Board = big("one", &["all"], "first");
/// What pages and members are read from.
pub const LIVE: Board = big("live", DAY_AND_ALL, "first");
/// The same with fewer members.
pub const SMALL: Board = fixed("small", DAY_AND_ALL, 1_000);
/// The same.
pub const MEDIUM: Board = fixed("medium", DAY_AND_ALL, 10_000);
/// The same.
pub const LARGE: Board = fixed("large", DAY_AND_ALL, 100_000);
/// The same with more than fit into any cache.
pub const HUGE: Board = fixed("huge", DAY_AND_ALL, 10_000_000);
/// Boards that differ from [`LARGE`] in the number of their shards only.
pub const LARGE_BY_SHARDS: [&Board; 3] = [
    &LARGE,
    &Board {
        shards: 4,
        ..fixed("large-4", DAY_AND_ALL, 100_000)
    },
    &Board {
        shards: 16,
        ..fixed("large-16", DAY_AND_ALL, 100_000)
    },
];
/// Boards that differ in the number of their windows only.
pub const BY_WINDOWS: [&Board; 5] = [
    &fixed("windows-1", &["all"], 10_000),
    &fixed("windows-2", DAY_AND_ALL, 10_000),
    &fixed("windows-4", &["day", "week", "month", "all"], 10_000),
    &fixed("windows-8", PERIODS, 10_000),
    &fixed("windows-16", PERIODS_AND_ROLLING, 10_000),
];
/// Six windows of which none gets a new period while the benchmark runs.
pub const REMEMBERED: Board = fixed(
    "remembered",
    &["day", "week", "month", "year", "all", "last-7-days"],
    100_000,
);

/// A vote with quotas.
pub const VOTE: Board = vote("vote", Voting::Limited);
/// The same without.
pub const VOTE_FREE: Board = vote("vote-free", Voting::Free);

/// One window, whose events are queued.
pub const QUEUED: Board = Board {
    is_queued: true,
    ..fixed("queued", &["all"], 100_000)
};
/// Votes on one window, which are kept.
pub const KEPT: Board = Board {
    name: "kept",
    keeps_events: true,
    ..NOT_KEPT
};
/// The same, which are not.
pub const NOT_KEPT: Board = Board {
    voting: Voting::Free,
    ..fixed("not-kept", &["all"], 100_000)
};
/// Votes on five windows, which are kept.
pub const FIVE_KEPT: Board = Board {
    name: "five-kept",
    keeps_events: true,
    ..FIVE_NOT_KEPT
};
/// The same, which are not.
pub const FIVE_NOT_KEPT: Board = Board {
    voting: Voting::Free,
    ..fixed(
        "five-not-kept",
        &["hour", "day", "week", "month", "all"],
        100_000,
    )
};
/// Votes that are much work: with quotas, in six windows.
pub const SIX_VOTE: Board = Board {
    windows: SIX,
    ..vote("six-vote", Voting::Limited)
};
/// The same, which are queued.
pub const QUEUED_VOTE: Board = Board {
    name: "queued-vote",
    is_queued: true,
    ..SIX_VOTE
};

/// How much each quota of a vote allows: more than a run sends, so that every event is taken.
const QUOTA_MAX: u32 = 100_000_000;
/// How many events one request of a filling has.
const FILL_BATCH: usize = 1_000;
/// On how many connections a board is filled.
const FILL_CONNECTIONS: usize = 4;
/// The longest that filling a board may take.
const FILL_WITHIN: Duration = Duration::from_mins(30);

const fn big(name: &'static str, windows: &'static [&'static str], ties: &'static str) -> Board {
    Board {
        ties,
        size: Size::Big,
        ..fixed(name, windows, 0)
    }
}

const fn fixed(name: &'static str, windows: &'static [&'static str], members: usize) -> Board {
    Board {
        name,
        windows,
        ties: "first",
        size: Size::Fixed(members),
        voting: Voting::None,
        shards: 1,
        hidden: 0,
        data: None,
        is_league: false,
        is_queued: false,
        keeps_events: false,
    }
}

const fn vote(name: &'static str, voting: Voting) -> Board {
    Board {
        voting,
        ..fixed(name, DAY_AND_ALL, 500)
    }
}

const fn spread(name: &'static str, shards: u16) -> Board {
    Board {
        shards,
        ..big(name, DAY_AND_ROLLING, "first")
    }
}

const fn hidden(name: &'static str, hidden: usize) -> Board {
    Board {
        hidden,
        ..fixed(name, DAY_AND_ALL, 100_000)
    }
}

/// A board on which nobody was ever hidden.
pub const HIDDEN_NONE: Board = hidden("hidden-0", 0);
/// The same with some hidden members.
pub const HIDDEN_FEW: Board = hidden("hidden-100", 100);
/// The same with many.
pub const HIDDEN_MANY: Board = hidden("hidden-10000", 10_000);

/// A league.
pub const LEAGUE: Board = Board {
    name: "league",
    is_league: true,
    ..WEEK
};
/// A league whose cohorts are turned over.
pub const TURNED: Board = Board {
    name: "league-turned",
    size: Size::Big,
    ..LEAGUE
};
/// The same members as in [`LEAGUE`] in one list, on as many shards.
pub const WEEK: Board = Board {
    shards: 16,
    ..fixed("week", &["week"], 20_000)
};

/// Boards of 1, 4 and 16 shards.
pub static BY_SHARDS: [Board; 3] = [
    spread("shards-1", 1),
    spread("shards-4", 4),
    spread("shards-16", 16),
];

impl Board {
    /// How many members it has, where big boards have this many.
    pub fn members(&self, big: usize) -> usize {
        match self.size {
            Size::Big => big,
            Size::Fixed(members) => members,
        }
    }

    /// Defines the board and gives each of so many members an event. Its rolling windows are complete from
    /// the beginning to the end, so that every event is written to them.
    pub async fn prepare(&self, service: &Service, members: usize) -> Result<()> {
        self.define(service).await?;
        self.check_complete(service, 0).await?;
        self.fill(service, members, None).await?;
        self.check_complete(service, members).await?;
        self.hide(service).await
    }

    /// Hides its best members: those on the first page, again and again.
    async fn hide(&self, service: &Service) -> Result<()> {
        let (mut left, board) = (self.hidden, self.name);
        let reason = json!({"reason": "benchmark"}).to_string();
        while left > 0 {
            let size = left.min(1_000);
            let path = format!("/v1/boards/{board}/standings/all?size={size}");
            let page = service.read(&path).await?;
            let entries = page["entries"].as_array().ok_or("a page without entries")?;
            if entries.is_empty() {
                return Err(format!("{board} has no more members to hide").into());
            }
            for entry in entries {
                let member = entry["member"]
                    .as_str()
                    .ok_or("an entry without a member")?;
                let path = format!("/v1/boards/{board}/hidden/{member}");
                let put = http::with_json("PUT", &path, &reason);
                service.call(&put, &[200]).await?;
            }
            left -= entries.len();
        }
        Ok(())
    }

    async fn check_complete(&self, service: &Service, members: usize) -> Result<()> {
        let is_rolling = |window: &&&str| window.starts_with("last-");
        for window in self.windows.iter().filter(is_rolling) {
            let standing = service.standing(self.name, window, "current").await?;
            standing.check(members)?;
        }
        Ok(())
    }

    /// Defines the board.
    pub async fn define(&self, service: &Service) -> Result<()> {
        let is_limited = self.voting == Voting::Limited;
        let mut definition = json!({
            "windows": self.windows,
            "ties": self.ties,
            "timezone": timezone(),
            "accept_late": "10d",
            "season": self.windows.contains(&"season").then(season),
            "quotas": if is_limited { quotas() } else { json!([]) },
            "uniques": is_limited.then_some("member"),
            "shards": self.shards,
            "entry_data": self.data.is_some(),
            "score_min": self.is_league.then_some(0),
            "league": self.is_league.then(settings),
            "ingest": if self.is_queued { "async" } else { "sync" },
        });
        // Builds from before the first release with a history can be measured, too.
        if self.keeps_events {
            definition["history"] = json!("90d");
        }
        service.define(self.name, &definition).await
    }

    /// Gives each of so many members one event of this time, or of now. They are at most a thousand, or a
    /// multiple of it.
    pub async fn fill(&self, service: &Service, members: usize, at: Option<&str>) -> Result<()> {
        let size = FILL_BATCH.min(members);
        let load = Load {
            address: service.address(),
            time: FILL_WITHIN,
            expected: Expected {
                status: 200,
                text: r#""status":"applied""#,
                times: size,
            },
            watched: Watched::default(),
        };
        let form = requests::filling(self, at, size);
        let each = Members::each(members);
        load.run_all(Requests::of_connections(&form, &each, 0, FILL_CONNECTIONS))
            .await
    }
}

/// A time zone in which it is the middle of the morning: so no day begins, nor is tomorrow prepared, while
/// the benchmark runs.
fn timezone() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
    let hour = seconds.map_or(0, |since| since.as_secs() / 3_600 % 24);
    match hour {
        // Behind a plus lies the west.
        10..=22 => format!("Etc/GMT+{}", hour - 10),
        23 => "Etc/GMT+12".to_owned(),
        _ => format!("Etc/GMT-{}", 10 - hour),
    }
}

/// The settings of a league.
pub fn settings() -> Value {
    json!({"cohort_size": 100, "idle": "demote", "tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0, "demote": 0.3},
    ]})
}

fn season() -> Value {
    json!({"start": "2026-01-05T00:00:00Z", "length": "14d"})
}

fn quotas() -> Value {
    json!([
        {"name": "voter-minute", "by": ["voter"], "window": "1m", "max": QUOTA_MAX},
        {"name": "voter-hour", "by": ["voter"], "window": "hour", "max": QUOTA_MAX},
        {"name": "voter-member-day", "by": ["voter", "member"], "window": "day", "max": QUOTA_MAX},
        {"name": "member-second", "by": ["member"], "window": "1s", "max": QUOTA_MAX},
    ])
}
