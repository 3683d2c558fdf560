//! Leagues as a property. Random seasons are played through three instances: members join and have events, at once or one after the
//! other, late and twice, until their quotas are used up; they leave, are hidden and brought back, erased, and sent to other tiers;
//! rewards are claimed; tiers are renamed, added and removed, and other settings change; periods of all kinds pass, some with nobody,
//! and clocks change; jobs run at random moments, or not at all. Who sits where is taken from the answers. A naive model checks that
//! by the rules of seating, and computes all else: tiers, bonuses, ranks, zones, histories, results, exports, rewards, revisions.
//!
//! - `naive.rs` is the model of seats and tiers, `finals.rs` that of results. `calendar.rs` has the periods.
//! - `game.rs` plays a case. What it does lies in `seating.rs`, `events.rs`, `moderation.rs` and `claims.rs`, what it compares in
//!   `checks.rs`.
//! - `great.rs` plays a league of many members, `sieges.rs` breaks off and kills.
//!
//! `STANDINGS_LEAGUE_MEMBERS` and `STANDINGS_LEAGUE_PERIODS` are those of the great league.

mod calendar;
mod checks;
mod claims;
mod events;
mod finals;
mod game;
mod great;
mod moderation;
pub mod naive;
mod seating;
mod sieges;

use self::game::{Game, world};
use crate::harness::World;
use crate::harness::random::case_count;

const CASES: usize = 4;
const STEPS: usize = 70;
const INSTANCES: usize = 3;
/// When the first case begins: a Saturday.
const BEGIN: &str = "2026-11-21T12:00:00Z";

async fn play(number: u64, world: &World, begin: i64) -> i64 {
    let mut game = Game::begin(world, number, begin).await;
    for _ in 0..STEPS {
        game.step().await;
    }
    game.check_all().await;
    game.now
}

#[tokio::test(flavor = "multi_thread")]
async fn seasons_follow_the_model() {
    let (world, mut now) = world().await;
    // On a cluster slots move all the time.
    let _moving = world.redis.keep_moving().await;
    for number in (0..).take(case_count(CASES)) {
        now = play(number, &world, now).await;
    }
}
