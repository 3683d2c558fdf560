//! The audit log: who has changed what, and who has tried to.

use askama::Template;
use axum::response::Response;
use chrono_tz::Tz;
use serde::Deserialize;

use super::address::address;
use super::page::{Frame, html};
use super::session::Viewer;
use super::shown::Clock;
use crate::http::audit::{AuditLine, AuditLog};
use crate::http::extract::Query;
use crate::http::problem::Problem;

/// How many lines a part of the log has.
const LINES_MAX: &str = "50";

#[derive(Template)]
#[template(path = "console/audit.html")]
struct AuditPage {
    frame: Frame,
    clock: Clock,
    params: Params,
    lines: Vec<AuditLine>,
    next: Option<String>,
    curl: String,
}

/// Which lines.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    board: String,
    member: String,
    key: String,
    after: String,
}

impl AuditLine {
    /// What the request and its outcome tell, as JSON.
    fn details(&self) -> String {
        let outcome = self.outcome.as_ref();
        let told = [
            ("body", Some(&self.body)),
            ("before", outcome.map(|outcome| &outcome.before)),
            ("after", outcome.map(|outcome| &outcome.after)),
        ];
        let told = told.into_iter().filter_map(|(name, value)| {
            let value = value.filter(|value| !value.is_null())?;
            let json = serde_json::to_string_pretty(value).unwrap_or_default();
            Some(format!("{name}: {json}"))
        });
        told.collect::<Vec<_>>().join("\n")
    }
}

/// The log, the newest line first.
pub(super) async fn list(
    viewer: Viewer,
    Query(params): Query<Params>,
) -> Result<Response, Problem> {
    let query = [
        ("board", params.board.trim()),
        ("member", params.member.as_str()),
        ("key", params.key.trim()),
    ];
    let part = [("after", params.after.as_str()), ("limit", LINES_MAX)];
    let listed_at = address(&["v1", "audit"], &[&query[..], &part].concat());
    let found: AuditLog = viewer.read(&listed_at).await?;
    let next = found.next.map(|next| {
        let part = [("after", next.as_str())];
        address(&["console", "audit"], &[&query[..], &part].concat())
    });
    html(&AuditPage {
        frame: Frame::new(&viewer, "Audit log"),
        clock: Clock(Tz::UTC),
        lines: found.lines,
        next,
        curl: viewer.curl(&listed_at),
        params,
    })
}
