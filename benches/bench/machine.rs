//! What the benchmark runs on.

use std::process::Command;

use chrono::Utc;
use serde::Serialize;

use crate::Result;
use crate::redis::Redis;
use crate::session::Extent;

/// A machine, what is installed on it, and when.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// The day of the run.
    pub date: String,
    /// The processor.
    pub processor: String,
    /// How many cores the benchmark may use.
    pub cores: usize,
    /// The memory of the machine.
    pub memory: String,
    /// The system.
    pub system: String,
    /// The Redis server.
    pub redis: String,
    /// The compiler.
    pub rustc: String,
    /// How many members big boards have.
    pub members: usize,
    /// How often each row was measured.
    pub rounds: usize,
}

impl Machine {
    /// Looks around. What a system doesn't tell is `-`.
    pub async fn look(redis: &Redis, extent: &Extent) -> Result<Self> {
        let info = redis.call(&["INFO", "server"]).await?.text();
        let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let redis = match line("valkey_version:") {
            Some(version) => format!("Valkey {version}"),
            None => format!("Redis {}", line("redis_version:").unwrap_or("-")),
        };
        Ok(Self {
            date: Utc::now().format("%F").to_string(),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism()?.get(),
            memory: memory().unwrap_or_else(unknown),
            system: said_by("uname", "-sm").unwrap_or_else(unknown),
            redis: redis.trim().to_owned(),
            rustc: said_by("rustc", "--version").unwrap_or_else(unknown),
            members: extent.members,
            rounds: extent.rounds,
        })
    }
}

fn unknown() -> String {
    "-".to_owned()
}

fn memory() -> Option<String> {
    let kib = field("/proc/meminfo", "MemTotal")?;
    let kib: u64 = kib.split(' ').next()?.parse().ok()?;
    Some(format!("{} GiB", kib.div_ceil(1024 * 1024)))
}

/// A field of a file of `name: value` lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(other, _)| other.trim() == name)?;
    Some(value.trim().to_owned())
}

/// What a program says in one line.
fn said_by(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
