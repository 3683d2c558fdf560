//! What a handler reports to the audit log about its request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use super::problem::{INTERNAL, Problem};

/// What a request has changed, as far as its handler reports it. It must not contain secrets.
#[derive(Clone, Debug, Default)]
pub struct Audit(Arc<Mutex<Change>>);

/// The values before a request and after it; null if there was none, or if it is not reported.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) before: Value,
    pub(crate) after: Value,
}

impl Audit {
    /// Sets the value before the request.
    pub fn before(&self, value: &impl Serialize) {
        self.0.lock().before = serde_json::to_value(value).unwrap_or_default();
    }

    /// Sets the value after the request.
    pub fn after(&self, value: &impl Serialize) {
        self.0.lock().after = serde_json::to_value(value).unwrap_or_default();
    }

    /// Takes what the handler has reported.
    pub(crate) fn take(&self) -> Change {
        std::mem::take(&mut *self.0.lock())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Audit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let audit = parts.extensions.get::<Self>().cloned();
        audit.ok_or_else(|| Problem::new(INTERNAL, "the route is not audited"))
    }
}
