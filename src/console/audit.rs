//! The audit log: who has changed what, or has tried to.

use askama::Template;
use serde::Deserialize;

use super::{Answer, Frame, Parts, Query, Viewer, address, html};
use crate::audit::routes::{AuditLine, AuditLog};

/// How many lines a part of the log has.
const LINES_MAX: &str = "50";

#[derive(Template)]
#[template(path = "console/audit.html")]
struct AuditPage {
    frame: Frame,
    params: Params,
    lines: Vec<AuditLine>,
    parts: Parts,
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
    /// The reports of the request and its outcome, as JSON.
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

/// The log, newest line first.
pub(super) async fn list(viewer: Viewer, Query(params): Query<Params>) -> Answer {
    let query = [
        ("board", params.board.trim()),
        ("member", &params.member),
        ("key", params.key.trim()),
    ];
    let part = [("after", params.after.as_str()), ("limit", LINES_MAX)];
    let mut frame = Frame::new(&viewer, "Audit log");
    let found: AuditLog = frame
        .read(&["audit"], &[&query[..], &part].concat())
        .await?;
    let own = address(&["console", "audit"], &query);
    html(&AuditPage {
        frame,
        lines: found.lines,
        parts: Parts::new("lines", &own, &params.after, found.next),
        params,
    })
}
