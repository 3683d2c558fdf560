//! The place of a connection among those that there may be, and for whom it counts.

use axum::http::{Extensions, HeaderMap};
use parking_lot::Mutex;

use crate::http::proxies::TrustedProxies;
use crate::http::supply::{Taken, Taker, Takers};

/// The place of a connection; it is given back with this value, or before.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None` once it was given back.
    taken: Mutex<Option<Taken>>,
    /// Of a connection of a trusted proxy: it counts for the client of its last request.
    proxies: Option<TrustedProxies>,
}

impl Place {
    pub(crate) fn new(taken: Taken, proxies: Option<TrustedProxies>) -> Self {
        Self {
            taken: Mutex::new(Some(taken)),
            proxies,
        }
    }

    /// Gives the place to others; the connection is about to be closed.
    pub(crate) fn give_back(&self) {
        self.taken.lock().take();
    }

    /// Whether there is a place for the client of a request.
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
