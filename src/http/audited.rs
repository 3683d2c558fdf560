//! What a handler tells the audit log of its request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use super::problem::{INTERNAL, Problem};

/// What a request has changed, as far as its handler tells. Nothing of it may be a secret.
#[derive(Clone, Debug, Default)]
pub struct Audit(Arc<Mutex<Change>>);

/// What was there before a request, and after it; null where nothing was, and where the request does not tell.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) before: Value,
    pub(crate) after: Value,
}

impl Audit {
    /// What was there before.
    pub fn before(&self, value: &impl Serialize) {
        self.0.lock().before = serde_json::to_value(value).unwrap_or_default();
    }

    /// What is there now.
    pub fn after(&self, value: &impl Serialize) {
        self.0.lock().after = serde_json::to_value(value).unwrap_or_default();
    }

    /// Takes what the handler has told.
    pub(crate) fn take(&self) -> Change {
        std::mem::take(&mut *self.0.lock())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Audit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let audit = parts.extensions.get::<Self>().cloned();
        audit.ok_or_else(|| Problem::new(INTERNAL, "a route that is not audited"))
    }
}
