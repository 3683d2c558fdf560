//! The slot that a connection takes of the allowed number, and the client that it counts for.

use axum::http::{Extensions, HeaderMap};
use parking_lot::Mutex;

use crate::http::proxies::TrustedProxies;
use crate::http::supply::{Taken, Taker, Takers};

/// A connection's share of the allowed number; it is returned when this value is dropped, or before.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None` once it was returned.
    taken: Mutex<Option<Taken>>,
    /// For a connection of a trusted proxy: it counts for the client of its last request.
    proxies: Option<TrustedProxies>,
}

impl Place {
    pub(crate) fn new(taken: Taken, proxies: Option<TrustedProxies>) -> Self {
        Self {
            taken: Mutex::new(Some(taken)),
            proxies,
        }
    }

    /// Returns it early; the connection is about to be closed.
    pub(crate) fn give_back(&self) {
        self.taken.lock().take();
    }

    /// Whether there is room for the client of a request.
    pub(super) fn is_for(&self, headers: &HeaderMap, extensions: &Extensions) -> bool {
        let Some(proxies) = &self.proxies else {
            return true;
        };
        let client = proxies.client(headers, extensions);
        let by = Takers::one(client.map(|ip| Taker::Address(ip.into())));
        let mut taken = self.taken.lock();
        taken.as_mut().is_some_and(|taken| taken.pass_to(&by))
    }
}
