//! A connection between servers that can be held up.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Passes on all that is sent to its port, while it is not held; it ends with this value.
pub struct Delay {
    pub port: u16,
    is_held: Arc<watch::Sender<bool>>,
    /// What waits on each connection, in each direction.
    waiting: Arc<Mutex<Vec<Waiting>>>,
    _passing: AbortOnDropHandle<()>,
}

/// What was sent and not passed on yet.
type Waiting = Arc<Mutex<Vec<u8>>>;

impl Delay {
    /// A way to this port of the machine.
    pub async fn before(port: &str) -> Self {
        let target = format!("127.0.0.1:{port}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_held = Arc::new(watch::channel(false).0);
        let held = Arc::clone(&is_held);
        let waiting: Arc<Mutex<Vec<Waiting>>> = Arc::default();
        let all = Arc::clone(&waiting);
        let passing = tokio::spawn(async move {
            let mut connections = Vec::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let Ok(far) = TcpStream::connect(&target).await else {
                    continue;
                };
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                for (from, to) in [(near_in, far_out), (far_in, near_out)] {
                    let waiting = Waiting::default();
                    all.lock().push(Arc::clone(&waiting));
                    let passed = tokio::spawn(pass(from, to, held.subscribe(), waiting));
                    connections.push(AbortOnDropHandle::new(passed));
                }
            }
        });
        Self {
            port,
            is_held,
            waiting,
            _passing: AbortOnDropHandle::new(passing),
        }
    }

    /// Holds everything up, or lets it go on.
    pub fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// Whether something with this text is held up.
    pub fn is_holding(&self, text: &str) -> bool {
        let holds = |waiting: &Waiting| {
            let waiting = waiting.lock();
            let mut parts = waiting.windows(text.len());
            parts.any(|part| part == text.as_bytes())
        };
        self.waiting.lock().iter().any(holds)
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_held: watch::Receiver<bool>,
    waiting: Waiting,
) {
    let mut bytes = vec![0; 65_536];
    loop {
        tokio::select! {
            read = from.read(&mut bytes) => {
                let Ok(count @ 1..) = read else { return };
                waiting.lock().extend(&bytes[..count]);
            }
            changed = is_held.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        let passed = if *is_held.borrow() {
            Vec::new()
        } else {
            std::mem::take(&mut *waiting.lock())
        };
        if to.write_all(&passed).await.is_err() {
            return;
        }
    }
}
