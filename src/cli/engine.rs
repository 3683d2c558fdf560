//! Work of a command on Redis itself, with the settings of `serve`. If these are for a private server and no service runs, the
//! command runs that server until it has finished.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Failure;
use super::args::RedisArgs;
use crate::core::Engine;
use crate::core::jobs::clock;
use crate::domain::clock::Clock;
use crate::redis::embedded::{EmbeddedError, EmbeddedServer, socket_in};
use crate::redis::{Address, Store};
use crate::runtime::timeouts::TimeoutFactor;

/// How long a command tries to reach Redis.
const CONTACT_TIME_MAX: Duration = Duration::from_secs(15);
/// The pause between two attempts.
const CONTACT_INTERVAL: Duration = Duration::from_millis(50);

/// Creates a service.
pub type MakeEngine = fn(Store, Clock) -> Arc<Engine>;

/// Does some work on Redis, until `stop` ends at the latest.
pub(super) async fn with_redis<T>(
    redis: &RedisArgs,
    make_engine: MakeEngine,
    stop: impl Future<Output = ()>,
    work: impl AsyncFnOnce(Arc<Engine>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut stop = std::pin::pin!(stop);
    let stopped = || "stopped before the command was complete".into();
    let (address, embedded) = tokio::select! {
        opened = open(redis) => opened?,
        () = &mut stop => return Err(stopped()),
    };
    let done = async { work(contact(&address, make_engine).await?).await };
    let done = tokio::select! {
        done = done => done,
        () = &mut stop => Err(stopped()),
    };
    if let Some(server) = embedded {
        server.stop().await;
    }
    done
}

/// The address of Redis: the given one, or that of a running service's private server, or of one started for this command.
async fn open(redis: &RedisArgs) -> Result<(Address, Option<EmbeddedServer>), Failure> {
    if let Some(url) = redis.url() {
        return Ok((Address::parse(url), None));
    }
    // Looked up first, since starting a server creates the directory.
    let socket = socket_in(&redis.data_dir)?;
    match EmbeddedServer::start(redis.embedded()).await {
        Ok(server) => Ok((Address::Socket(server.socket().to_owned()), Some(server))),
        Err(EmbeddedError::DataDirInUse(..)) => Ok((Address::Socket(socket), None)),
        Err(error) => Err(error.into()),
    }
}

/// A service on the Redis at this address, once that answers.
async fn contact(address: &Address, make_engine: MakeEngine) -> Result<Arc<Engine>, Failure> {
    let engine = make_engine(
        Store::connect(address, TimeoutFactor::default())?,
        Clock::system(),
    );
    let begun = Instant::now();
    while let Err(error) = engine.store.prepare().await {
        if begun.elapsed() > CONTACT_TIME_MAX {
            return Err(error.into());
        }
        tokio::time::sleep(CONTACT_INTERVAL).await;
    }
    clock::follow(&engine).await?;
    Ok(engine)
}
