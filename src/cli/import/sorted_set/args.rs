//! The options of `import --from-redis` and of `compare`.

use clap::{ArgGroup, ValueEnum};

use super::names::NamePattern;
use crate::cli::ServiceArgs;
use crate::cli::args::Secret;
use crate::domain::ids::BoardId;
use crate::domain::period::Unit;
use crate::domain::score::Decimals;
use crate::domain::time::Timestamp;
use crate::redis::Address;

/// Which sorted sets, which standings, and what their scores mean.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sorted sets of Redis")]
pub struct SortedSetArgs {
    /// The Redis that has the sorted sets: redis://, rediss:// (with TLS), redis-cluster://, rediss-cluster://,
    /// redis-sentinel:// or unix:///path. It is only read.
    #[arg(long, value_name = "URL")]
    pub from_redis: Option<String>,
    /// The password of the Redis that `import --from-redis` and `compare` read, if its address has none.
    #[arg(
        long,
        env = "STANDINGS_SOURCE_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD"
    )]
    pub source_password: Option<Secret>,
    /// The sorted set.
    #[arg(long, requires = "from_redis")]
    pub key: Option<String>,
    /// Sorted sets of several periods: their name with the period in braces, as in 'weekly_{%G-%V}'. %G and %V are the year and
    /// the week of ISO 8601, %Y, %m and %d a date, %H and %M a time in UTC, and %s seconds since 1970.
    #[arg(
        long,
        requires = "from_redis",
        conflicts_with = "key",
        value_name = "PATTERN"
    )]
    pub keys: Option<NamePattern>,
    /// The board's window that the members belong to: `all` (the default), or a unit such as `week`.
    #[arg(long, requires = "from_redis", value_parser = parse_unit)]
    pub window: Option<Unit>,
    /// The period of --key in that window, such as 2026-11-23 for a week.
    #[arg(long, requires = "key", value_name = "PERIOD")]
    pub period: Option<String>,
    /// Round scores to this number of decimals, 0 to 6. Without it scores with more decimals than the board keeps are refused.
    #[arg(long, requires = "from_redis", value_name = "DECIMALS", value_parser = parse_decimals)]
    pub round: Option<Decimals>,
    /// Also write the names of members, from this hash: its fields are the members, its values their names, or JSON objects that
    /// have the name in --name-field. A name replaces the member's profile. The API key must be for all boards.
    #[arg(long, requires = "from_redis", value_name = "HASH")]
    pub profiles_from_hash: Option<String>,
    /// The field with the name, if the values of --profiles-from-hash are JSON objects.
    #[arg(long, requires = "profiles_from_hash", value_name = "FIELD")]
    pub name_field: Option<String>,
    /// How members with equal scores are ordered.
    #[arg(long, requires = "from_redis", value_enum, default_value_t)]
    pub ties: TieOrder,
    /// With --ties score-fraction: how many seconds the decimals stand for as they go from 0 to 1, such as 1e10.
    #[arg(long, requires = "from_redis", value_name = "SECONDS", value_parser = parse_seconds)]
    pub fraction_seconds: Option<f64>,
    /// With --ties score-fraction: the time for which they are 0 (or 1 with --fraction-falls), by default 1970-01-01T00:00:00Z.
    #[arg(long, requires = "from_redis", value_name = "TIME", value_parser = Timestamp::parse)]
    pub fraction_epoch: Option<Timestamp>,
    /// With --ties score-fraction: they fall with time, as in points + 1 - seconds / 1e10.
    #[arg(long, requires = "from_redis")]
    pub fraction_falls: bool,
    /// Leave out the members that can't come over: those with an infinite score or one with too many digits, and those whose
    /// names can't be ids. Without it nothing is done if there are any.
    #[arg(long, requires = "from_redis")]
    pub skip: bool,
}

/// How members with equal scores are ordered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum TieOrder {
    /// As the other Redis does: as in ZREVRANGE, or on a board with `order: asc` as in ZRANGE.
    #[default]
    Lex,
    /// By the time in the decimals of the score, whose whole part is the score.
    ScoreFraction,
    /// By their ids: all have the same time.
    None,
}

/// Compare the members of a sorted set with those of a board.
///
/// The exit status is 0 if all agree, 2 if some don't, and 1 if the comparison failed.
#[derive(clap::Args, Clone, Debug)]
#[command(group = ArgGroup::new("source").args(["key", "keys"]).required(true))]
pub struct CompareArgs {
    /// The board.
    #[arg(long, value_parser = BoardId::parse)]
    pub board: BoardId,
    /// The service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// The sorted sets.
    #[command(flatten)]
    pub sorted_sets: SortedSetArgs,
}

/// What is to be done with members that differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::cli::import) enum Task {
    /// Only report differences.
    Compare,
    /// Send an event for each member that has no score here.
    Import,
    /// Send the difference for the others, too.
    Sync,
}

/// What is to be done.
pub(in crate::cli::import) struct Work {
    pub(super) service: ServiceArgs,
    pub(super) board: BoardId,
    pub(super) sets: SortedSetArgs,
    pub(super) address: Address,
    pub(super) task: Task,
    /// The time of the events, in place of an early one.
    pub(in crate::cli::import) at: Option<Timestamp>,
    /// Whether nothing is sent.
    pub(in crate::cli::import) is_dry: bool,
}

impl CompareArgs {
    pub(super) fn work(self) -> Result<Work, String> {
        let (service, board) = (self.service, self.board);
        Work::new(Task::Compare, service, board, self.sorted_sets)
    }
}

impl Work {
    /// The window that the members belong to.
    pub(super) fn window(&self) -> Unit {
        self.sets.window.unwrap_or(Unit::All)
    }

    /// The password of the other Redis, if its address has none.
    pub(super) fn source_password(&self) -> Option<&str> {
        let password = self.sets.source_password.as_ref();
        let password = password.map(|secret| secret.0.as_str());
        password.filter(|password| !password.is_empty())
    }

    /// Checks what the options don't check alone.
    pub(in crate::cli::import) fn new(
        task: Task,
        service: ServiceArgs,
        board: BoardId,
        sets: SortedSetArgs,
    ) -> Result<Self, String> {
        let has_fraction = sets.ties == TieOrder::ScoreFraction;
        let fault = if has_fraction != sets.fraction_seconds.is_some() {
            "--ties score-fraction and --fraction-seconds belong together"
        } else if has_fraction && sets.round.is_some() {
            "with --ties score-fraction the whole part is the score: leave out --round"
        } else if task == Task::Compare && sets.profiles_from_hash.is_some() {
            "names are not compared: leave out --profiles-from-hash"
        } else if sets.key.is_none() && sets.keys.is_none() {
            "--from-redis needs --key or --keys"
        } else {
            let url = sets.from_redis.as_deref().unwrap_or_default();
            return Ok(Self {
                address: Address::parse(url),
                service,
                board,
                sets,
                task,
                at: None,
                is_dry: false,
            });
        };
        Err(fault.to_owned())
    }
}

fn parse_unit(text: &str) -> Result<Unit, String> {
    Unit::named(text)
        .ok_or_else(|| "must be minute, hour, day, week, month, year, season or all".to_owned())
}

fn parse_decimals(text: &str) -> Result<Decimals, String> {
    let digits: u64 = text.parse().map_err(|_| "must be a number from 0 to 6")?;
    Decimals::try_from(digits)
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds: &f64| seconds.is_normal() && *seconds > 0.0);
    seconds.ok_or_else(|| "must be a number above 0".to_owned())
}
