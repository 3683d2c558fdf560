//! The revocations of a board, and the form that begins one.

use super::boards::Defined;
use super::prelude::*;
use crate::corrections::revocations::routes::{
    Revocation, RevocationList, RevocationReport, RevocationStatus,
};
use crate::domain::timezone::Zone;

/// How many revocations a part of the list has.
const REVOCATIONS_MAX: &str = "20";
/// The fields that say which events are revoked.
const CRITERIA: [&str; 6] = ["voter", "device", "ip", "channel", "key", "member"];

#[derive(Template)]
#[template(path = "console/revoked.html")]
pub(super) struct RevokedPage {
    frame: Frame,
    /// Whether the board keeps events.
    is_kept: bool,
    revocations: Vec<Revocation>,
    parts: Parts,
}

impl Page for RevokedPage {
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [board, after] = frame.params(["board", "after"])?;
        let path = ["boards", &board, "revocations"];
        let query = [("after", &*after), ("limit", REVOCATIONS_MAX)];
        let found: RevocationList = frame.read(&path, &query).await?;
        frame.read_board(&board, "Revoked events").await?;
        let order = json!({"voter": "v-77", "reason": "bought votes", "dry_run": true});
        frame.example(&Method::POST, &path, Some(&order));
        let defined: Option<Defined> = frame.visitor.defined(&board).await?;
        Ok(Self {
            is_kept: defined.is_none_or(|board| board.history.is_some()),
            parts: Parts::new("revocations", &frame, found.next),
            revocations: found.revocations,
            frame,
        })
    }
}

impl RevokedPage {
    /// What a revocation covers, in pairs of a name and a value, but for times.
    fn criteria(revocation: &Revocation) -> Vec<(&'static str, String)> {
        let own = &revocation.criteria;
        let pairs = [
            ("voter", own.voter.clone()),
            ("device", own.device.clone()),
            (
                "address",
                own.ip_hash.as_ref().map(|_| "(its hash)".to_owned()),
            ),
            ("channel", own.channel.clone()),
            ("key", own.key.clone()),
            ("member", own.member.clone()),
            ("events", own.events.map(|count| count.to_string())),
        ];
        let pairs = pairs.into_iter();
        pairs
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// What came of it last.
    fn report(revocation: &Revocation) -> Option<&RevocationReport> {
        let restored = revocation.restored.as_ref();
        restored.or(revocation.report.as_ref())
    }

    /// The class of a state, and its words.
    fn state(revocation: &Revocation) -> (&'static str, &'static str) {
        match revocation.status {
            RevocationStatus::Running => ("warn", "running"),
            RevocationStatus::Done if revocation.dry_run => ("", "only counted"),
            RevocationStatus::Done => ("good", "in force"),
            RevocationStatus::Restoring => ("warn", "being restored"),
            RevocationStatus::Restored => ("", "restored"),
            RevocationStatus::Over => ("", "events no longer kept"),
        }
    }

    /// Whether it may be restored.
    fn is_restorable(revocation: &Revocation) -> bool {
        let has_failed = |report: &RevocationReport| report.failed_count > 0;
        !revocation.dry_run
            && match revocation.status {
                RevocationStatus::Running | RevocationStatus::Done => true,
                RevocationStatus::Restored => revocation.restored.as_ref().is_some_and(has_failed),
                RevocationStatus::Restoring | RevocationStatus::Over => false,
            }
    }
}

/// Begins a revocation, or counts what it would cover.
pub(super) async fn revoke(viewer: Viewer, form: Form) -> Answer {
    let revoked = async {
        let board = form.field("board");
        let zone: Zone = viewer.zone(board).await?;
        let mut body = json!({"reason": form.required("reason")?});
        for name in CRITERIA {
            add(&mut body, name, form.given(name).map(str::trim));
        }
        for name in ["since", "until"] {
            add(&mut body, name, form.local(name, zone)?);
        }
        let counts = form.field("step") == "count";
        body["dry_run"] = counts.into();
        let path = ["boards", board, "revocations"];
        viewer.order(Method::POST, &path, Some(&body)).await?;
        let done = if counts { "counted" } else { "revoked" };
        Ok(to(&path, &[("done", done)]))
    };
    carry_out::<RevokedPage>(&viewer, &form, revoked).await
}
