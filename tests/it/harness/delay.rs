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
    /// What was held up so far.
    held: Arc<Mutex<Vec<u8>>>,
    _passing: AbortOnDropHandle<()>,
}

impl Delay {
    /// A way to this port of the machine.
    pub async fn before(port: &str) -> Self {
        let target = format!("127.0.0.1:{port}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_held = Arc::new(watch::channel(false).0);
        let (sender, held) = (Arc::clone(&is_held), Arc::default());
        let noted = Arc::clone(&held);
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
                    let passed = pass(from, to, sender.subscribe(), Arc::clone(&noted));
                    let passed = tokio::spawn(passed);
                    connections.push(AbortOnDropHandle::new(passed));
                }
            }
        });
        Self {
            port,
            is_held,
            held,
            _passing: AbortOnDropHandle::new(passing),
        }
    }

    /// Holds everything up, or lets it go on.
    pub fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// Whether something was held up that has this text in one piece.
    pub fn has_held(&self, text: &str) -> bool {
        let held = self.held.lock();
        held.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_held: watch::Receiver<bool>,
    held: Arc<Mutex<Vec<u8>>>,
) {
    let mut bytes = vec![0; 65_536];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else {
            return;
        };
        if *is_held.borrow() {
            held.lock().extend(&bytes[..count]);
        }
        if is_held.wait_for(|is_held| !is_held).await.is_err() {
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
