//! The service that is measured, and calls to it that are not.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Result;
use crate::http::{self, Connection};
use crate::kit::process::eventually;
use crate::kit::servers::free_ports;
use crate::process::Process;
use crate::redis::Redis;

/// The service; it ends with this value.
pub struct Service {
    process: Process,
    address: SocketAddr,
}

/// An answer that is kept.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The status.
    pub status: u16,
    /// The headers that matter to caches and readers, as they were sent.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What a page says about its standing.
pub struct Standing {
    /// Its key.
    pub key: String,
    /// How many members it has.
    pub total: usize,
}

impl Standing {
    /// Fails unless it has so many members.
    pub fn check(&self, members: usize) -> Result<()> {
        if self.total == members {
            return Ok(());
        }
        let Self { key, total } = self;
        Err(format!("the standing {key} has {total} members, not {members}").into())
    }
}

impl Kept {
    /// A header that was kept.
    pub fn header(&self, name: &str) -> Result<String> {
        let header = self.headers.iter().find(|(other, _)| other == name);
        let (_, value) = header.ok_or_else(|| format!("the answer has no {name}"))?;
        Ok(value.clone())
    }
}

/// What the reference H repeats of an answer's headers.
const HEADERS_KEPT: [&str; 3] = ["content-type", "etag", "cache-control"];

impl Service {
    /// Starts this program on a Redis server and waits until it is ready. It gets nothing of the
    /// benchmark's environment, and finds no `.env`.
    pub async fn start(program: &Path, redis: &Redis) -> Result<Self> {
        Self::start_on(program, redis, &redis.url()).await
    }

    /// The same with further settings.
    pub async fn start_with(
        program: &Path,
        redis: &Redis,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        Self::begin(program, redis, &redis.url(), settings).await
    }

    /// The same with the address of the store, of which one server is this.
    pub async fn start_on(program: &Path, redis: &Redis, url: &str) -> Result<Self> {
        Self::begin(program, redis, url, &[]).await
    }

    async fn begin(
        program: &Path,
        redis: &Redis,
        url: &str,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let address = free_address();
        let mut command = Command::new(program.canonicalize()?);
        command
            .arg("serve")
            .env_clear()
            .env("STANDINGS_REDIS_URL", url)
            .env("STANDINGS_LISTEN", address.to_string())
            .env("STANDINGS_LOG", "warn")
            .envs(settings.iter().copied());
        Ok(Self::run(command, redis, address, "/readyz").await)
    }

    /// Starts any service that uses a Redis server, and waits until a `GET` of this path finds it ready.
    pub async fn run(
        mut command: Command,
        redis: &Redis,
        address: SocketAddr,
        ready: &str,
    ) -> Self {
        let socket = redis.socket();
        let process = Process::start(command.current_dir(socket.parent().unwrap_or(&socket)));
        let is_ready = async || {
            let ready = call(address, &http::get(ready, "")).await;
            ready.is_ok_and(|answer| answer.status == 200)
        };
        eventually("the service is ready", is_ready).await;
        Self { process, address }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Sends one request and keeps the answer, which must have one of these statuses.
    pub async fn call(&self, request: &str, statuses: &[u16]) -> Result<Kept> {
        let answer = call(self.address, request).await?;
        if statuses.contains(&answer.status) {
            return Ok(answer);
        }
        let (line, _) = request.split_once("\r\n").unwrap_or((request, ""));
        let body = String::from_utf8_lossy(&answer.body);
        Err(format!("{line}: {}: {body}", answer.status).into())
    }

    /// Reads JSON.
    pub async fn read(&self, path: &str) -> Result<Value> {
        let answer = self.call(&http::get(path, ""), &[200]).await?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Defines a board.
    pub async fn define(&self, board: &str, definition: &Value) -> Result<()> {
        let path = format!("/v1/boards/{board}");
        let put = http::with_json("PUT", &path, &definition.to_string());
        self.call(&put, &[200, 201]).await.map(drop)
    }

    /// Reads a standing, which is complete then: it is read again for as long as it is not.
    pub async fn standing(&self, board: &str, window: &str, key: &str) -> Result<Standing> {
        let path = format!("/v1/boards/{board}/standings/{window}?size=1&key={key}");
        loop {
            let answer = self.call(&http::get(&path, ""), &[200, 503]).await?;
            if answer.status == 200 {
                let page: Value = serde_json::from_slice(&answer.body)?;
                let total = page["total"].as_u64().ok_or("a page without a total")?;
                return Ok(Standing {
                    key: page["key"].as_str().ok_or("a page without a key")?.into(),
                    total: usize::try_from(total)?,
                });
            }
        }
    }
}

/// An address of this machine that nobody listens on.
pub fn free_address() -> SocketAddr {
    ([127, 0, 0, 1], free_ports()[0]).into()
}

/// Sends one request and keeps the answer.
pub async fn call(address: SocketAddr, request: &str) -> Result<Kept> {
    let mut connection = Connection::open(address).await?;
    let answer = connection.exchange(request.as_bytes()).await?;
    let headers = HEADERS_KEPT
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), answer.header(name)?.to_owned())));
    Ok(Kept {
        status: answer.status,
        headers: headers.collect(),
        body: answer.body.to_vec(),
    })
}
