//! The audit log: who has changed what, or has tried to.

use super::prelude::*;
use super::shown::pretty;
use crate::audit::routes::{AuditLine, AuditLog};

/// How many lines a part of the log has.
const LINES_MAX: &str = "25";

#[derive(Template)]
#[template(path = "console/audit.html")]
struct AuditPage {
    frame: Frame,
    lines: Vec<AuditLine>,
    parts: Parts,
}

/// What audited routes do, in words, and its class: hides, brings back, ends or deletes.
const ACTIONS: &str = "\
PUT /v1/boards/{board}|Board defined|
PATCH /v1/boards/{board}|Board changed|
DELETE /v1/boards/{board}|Board deleted|harm
PATCH /v1/boards/{board}/initial-scores|Initial scores set|
PUT /v1/boards/{board}/shards|Shards changed|
POST /v1/boards/{board}/standings/{window}/periods/{key}/close|Period closed|warn
POST /v1/boards/{board}/dead-letters/{id}/replay|Dead letter replayed|
DELETE /v1/boards/{board}/dead-letters/{id}|Dead letter deleted|harm
POST /v1/boards/{board}/events/{event}/retract|Event retracted|warn
POST /v1/boards/{board}/events/{event}/restore|Event restored|good
POST /v1/boards/{board}/events/{event}/correct|Event corrected|warn
POST /v1/boards/{board}/amendments|Event added|warn
POST /v1/boards/{board}/revocations|Events revoked|warn
POST /v1/boards/{board}/revocations/{revocation}/restore|Revocation restored|good
PUT /v1/boards/{board}/hidden/{member}|Member hidden|warn
DELETE /v1/boards/{board}/hidden/{member}|Member brought back|good
POST /v1/moderation|Member hidden on many boards|warn
DELETE /v1/boards/{board}/members/{member}|Member erased|harm
DELETE /v1/members/{member}|Member erased everywhere|harm
PUT /v1/members/{member}/name-review|Name reviewed|
PUT /v1/boards/{board}/league/members/{member}|Tier ordered|
PUT /v1/keys/{name}|Key created|
PATCH /v1/keys/{name}|Key changed|
DELETE /v1/keys/{name}|Key deleted|harm
POST /v1/keys/{name}/rotate|Key rotated|
PUT /v1/webhooks/{name}|Webhook saved|
DELETE /v1/webhooks/{name}|Webhook deleted|harm
POST /v1/webhooks/{name}/test|Webhook tested|
POST /v1/webhooks/{name}/rotate|Webhook rotated|
POST /v1/webhooks/{name}/deliveries/{id}/retry|Webhook retried|";

/// The rows of that table.
fn actions() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    ACTIONS.lines().filter_map(|row| {
        let (route, rest) = row.split_once('|')?;
        let (what, class) = rest.split_once('|')?;
        Some((route, what, class))
    })
}

impl AuditLine {
    /// What was done, in words, and its class.
    fn action(&self) -> (&str, &'static str) {
        let own = format!("{} {}", self.method, self.route);
        match actions().find(|(route, ..)| *route == own) {
            _ if own == "POST /v1/moderation" && self.body["action"] == "unhide" => {
                ("Member brought back on many boards", "good")
            }
            _ if self.query["dry_run"] == "true" => ("Definition previewed", ""),
            Some((_, what, class)) => (what, class),
            // A newer release has written it.
            None => (&self.route, ""),
        }
    }

    /// What it is about besides boards and members, such as a key, and the address of its page.
    fn thing(&self) -> Option<(&str, String)> {
        let name = self.path["name"].as_str()?;
        let kind = self.route.split('/').nth(2)?;
        Some((name, address(&["console", kind, name], &[])))
    }

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
            Some(format!("{name}: {}", pretty(value)))
        });
        told.collect::<Vec<_>>().join("\n")
    }
}

impl AuditPage {
    fn is_filtered(&self) -> bool {
        let mut wanted = ["board", "member", "key"].into_iter();
        wanted.any(|name| !self.frame.param(name).is_empty())
    }
}

/// The log, newest line first.
pub(super) async fn list(mut frame: Frame) -> Answer {
    let [board, member, key, after] = frame.params(["board", "member", "key", "after"])?;
    let query = [
        ("board", board.trim()),
        ("member", &member),
        ("key", key.trim()),
        ("after", &after),
        ("limit", LINES_MAX),
    ];
    let found: AuditLog = frame.read(&["audit"], &query).await?;
    html(&AuditPage {
        lines: found.lines,
        parts: Parts::new("lines", &frame, found.next),
        frame: frame.named("Audit log"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::table::routes;

    #[test]
    fn each_audited_route_is_named_in_words() {
        let audited = routes().into_iter().filter(|route| route.access.is_audited);
        let audited = audited.map(|route| format!("{} {}", route.method, route.path));
        let named = actions().map(|(route, ..)| route.to_owned());
        assert_eq!(named.collect::<BTreeSet<_>>(), audited.collect());
    }
}
