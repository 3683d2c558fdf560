//! The reference R: what Redis itself does with the textbook scripts, as `redis-benchmark` measures it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::Result;
use crate::load::{Sample, Watched};
use crate::redis::Redis;

/// The event id is taken if it is new, and the score added.
const ADD: &str = "\
if redis.call('SET', KEYS[1], '1', 'NX', 'EX', 3600) then
  return redis.call('ZINCRBY', KEYS[2], ARGV[2], ARGV[1])
end
return false";

/// Three writes: the day, the rolling standing, and the next one, from which the oldest day drops out.
const ROLLING: &str = "\
redis.call('ZINCRBY', KEYS[1], ARGV[2], ARGV[1])
local rolling = redis.call('ZINCRBY', KEYS[2], ARGV[2], ARGV[1])
local expiring = redis.call('ZSCORE', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[4], rolling - (tonumber(expiring) or 0), ARGV[1])
return rolling";

/// Fills the sorted sets with the members from ARGV[1] to ARGV[2] - 1, out of ARGV[3], in a mixed order.
const FILL: &str = "\
local words = {}
for place = tonumber(ARGV[1]), tonumber(ARGV[2]) - 1 do
  words[#words + 1] = math.random(100000, 999999)
  words[#words + 1] = string.format('m:%012d', place * 611953 % tonumber(ARGV[3]))
  if #words == 2000 then
    for _, key in ipairs(KEYS) do redis.call('ZADD', key, unpack(words)) end
    words = {}
  end
end
if #words > 0 then
  for _, key in ipairs(KEYS) do redis.call('ZADD', key, unpack(words)) end
end";

/// The sorted sets.
const SETS: [&str; 4] = ["r:day", "r:rolling", "r:expiring", "r:next"];
/// How many members one call fills in: few enough that the service does not take Redis for dead.
const FILL_STEP: usize = 10_000;
/// How many calls tell about how fast a script is, so that a round takes as long as it shall.
const TRIAL_CALLS: u32 = 50_000;

/// A textbook script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Script {
    /// The idempotent add.
    Add,
    /// The rolling window.
    Rolling,
}

/// The scripts and their data in a server.
pub struct Textbook {
    members: usize,
    rates: [Cell<Option<f64>>; 2],
}

impl Textbook {
    /// Fills the sorted sets.
    pub async fn fill(redis: &Redis, members: usize) -> Result<Self> {
        for from in (0..members).step_by(FILL_STEP) {
            let to = (from + FILL_STEP).min(members);
            let bounds = [from, to, members].map(|bound| bound.to_string());
            let mut words = vec!["EVAL", FILL, "4"];
            words.extend(SETS);
            words.extend(bounds.iter().map(String::as_str));
            redis.call(&words).await?;
        }
        Ok(Self {
            members,
            rates: Default::default(),
        })
    }

    /// Runs a script for about this time.
    pub async fn run(&self, redis: &Redis, script: Script, time: Duration) -> Result<Sample> {
        let rate = &self.rates[script as usize];
        let known = match rate.get() {
            Some(known) => known,
            None => self.call(redis, script, TRIAL_CALLS).await?.per_second,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count"
        )]
        let calls = (known * time.as_secs_f64()) as u32;
        let sample = self.call(redis, script, calls).await?;
        rate.set(Some(sample.per_second));
        Ok(sample)
    }

    async fn call(&self, redis: &Redis, script: Script, calls: u32) -> Result<Sample> {
        let watched = Watched {
            redis: [Some(redis.id()), None, None],
            service: None,
        };
        let source = match script {
            Script::Add => ADD,
            Script::Rolling => ROLLING,
        };
        let sha = redis.call(&["SCRIPT", "LOAD", source]).await?.text();
        let keys: &[&str] = match script {
            Script::Add => &["2", "r:e:__rand_int____rand_int__", SETS[0]],
            Script::Rolling => &["4", SETS[0], SETS[1], SETS[2], SETS[3]],
        };
        let (begun, before) = (Instant::now(), watched.cpu());
        let output = tokio::process::Command::new("redis-benchmark")
            .arg("-s")
            .arg(redis.socket())
            .args(["-P", "32", "--csv", "-r", &self.members.to_string()])
            .args(["-n", &calls.to_string(), "EVALSHA", &sha])
            .args(keys)
            .args(["m:__rand_int__", "7"])
            .output()
            .await
            .map_err(|error| format!("redis-benchmark can't be started: {error}"))?;
        let cpu = watched.cpu().since(before);
        let figure = |name| figure(&output.stdout, name);
        Ok(Sample {
            per_second: figure("rps")?,
            p50_ms: figure("p50_latency_ms")?,
            p99_ms: figure("p99_latency_ms")?,
            seconds: begun.elapsed().as_secs_f64(),
            cpu,
        })
    }
}

/// A column of what `redis-benchmark` prints: a header and one row.
fn figure(output: &[u8], column: &str) -> Result<f64> {
    let missing = || {
        let output = String::from_utf8_lossy(output);
        format!("redis-benchmark printed no {column}: {output}")
    };
    let mut table = csv::Reader::from_reader(output);
    let index = table.headers()?.iter().position(|name| name == column);
    let row = table.records().next().ok_or_else(missing)??;
    let text = index.and_then(|index| row.get(index)).ok_or_else(missing)?;
    Ok(text.parse()?)
}
