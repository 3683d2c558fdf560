//! Names and pictures of members: the reviews, and reviewing one or many.

use serde::{Deserialize, Serialize};

use super::case;
use super::prelude::*;
use crate::profiles::routes::{MemberProfile, NameReviews};
use crate::profiles::work::ReviewCounts;
use crate::runtime::join::join_all;

/// How many names a part of the list has, the most that one form can review.
const NAMES_MAX: &str = "50";

/// What a review is about: the name and the picture that the page has shown.
#[derive(Deserialize, Serialize)]
pub(super) struct Item {
    member: String,
    name: String,
    avatar_url: Option<String>,
}

impl Item {
    pub(super) fn of(profile: &MemberProfile) -> Self {
        Self {
            member: profile.member.clone(),
            name: profile.name.clone(),
            avatar_url: profile.avatar_url.clone(),
        }
    }

    /// The item as the value of a field.
    pub(super) fn text(&self) -> String {
        json!(self).to_string()
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let wrong = |error| Problem::invalid_field("/ticked", format!("is not JSON: {error}"));
        serde_json::from_str(text).map_err(wrong)
    }

    /// Stores a review of the name.
    async fn judge(&self, viewer: &Visitor, verdict: &str, reason: &str) -> Result<(), Problem> {
        let mut review = json!({"name": self.name, "status": verdict});
        add(&mut review, "avatar_url", self.avatar_url.as_deref());
        let reason = Some(reason.trim()).filter(|reason| !reason.is_empty());
        add(&mut review, "reason", reason);
        let reviewed_by = ["members", &self.member, "name-review"];
        viewer.order(Method::PUT, &reviewed_by, Some(&review)).await
    }
}

/// What became of the names of a form.
struct Judged {
    verdict: String,
    done: Vec<Item>,
    failed: Vec<(Item, Problem)>,
}

#[derive(Template)]
#[template(path = "console/names.html")]
struct NamesPage {
    frame: Frame,
    /// The status of the names; empty: those to review.
    status: String,
    names: Vec<MemberProfile>,
    counts: ReviewCounts,
    parts: Parts,
    /// What was done before the page was shown.
    judged: Option<Judged>,
}

impl Visitor {
    /// Whether the visitor's key wrote this name, so another one has to approve it.
    pub(super) fn wrote(&self, profile: &MemberProfile) -> bool {
        let own = self.holder.as_ref().map(|holder| holder.caller.name());
        own.is_some() && own == profile.written_by
    }
}

impl NamesPage {
    /// Whether the viewer may review one of the names in any way.
    fn has_foreign(&self) -> bool {
        let mut names = self.names.iter();
        names.any(|profile| !self.frame.visitor.wrote(profile))
    }

    /// The lists by status, each with its name and how many names it has.
    fn tabs(&self) -> [(&'static str, &'static str, u64); 3] {
        let ReviewCounts {
            pending,
            approved,
            blocked,
        } = self.counts;
        [
            ("", "To review", pending),
            ("approved", "Approved", approved),
            ("blocked", "Blocked", blocked),
        ]
    }

    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [status, after] = frame.params(["status", "after"])?;
        let query = [
            ("status", &*status),
            ("after", &after),
            ("limit", NAMES_MAX),
        ];
        let found: NameReviews = frame.read(&["name-reviews"], &query).await?;
        let verdict = json!({"name": "Ann", "status": "approved"});
        let reviewed_by = ["members", "MEMBER", "name-review"];
        frame.example(&Method::PUT, &reviewed_by, Some(&verdict));
        Ok(Self {
            names: found.reviews,
            counts: found.counts,
            parts: Parts::new("names", &frame, found.next),
            frame: frame.named("Name review"),
            status,
            judged: None,
        })
    }
}

/// The list.
pub(super) async fn list(frame: Frame) -> Answer {
    html(&NamesPage::read(frame).await?)
}

/// The verdict of a form, and the names it is about: the one of the button, or those that were ticked.
fn verdict(form: &Form) -> Result<(String, Vec<Item>), Problem> {
    let mut verdicts = ["approved", "blocked"].into_iter();
    let one = verdicts.find_map(|verdict| Some((verdict, form.given(verdict)?)));
    let (verdict, items) = match one {
        Some((verdict, item)) => (verdict, vec![item]),
        None => (form.required("verdict")?, form.chosen("ticked")),
    };
    let items = items.into_iter().map(Item::parse);
    Ok((verdict.to_owned(), items.collect::<Result<_, _>>()?))
}

/// Reviews the names of a part of the list, and shows the same part again.
pub(super) async fn review_many(viewer: Viewer, form: Form) -> Answer {
    let (verdict, items) = verdict(&form)?;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let reason = form.field("reason");
    let results = items
        .into_iter()
        .map(async |item| (item.judge(&viewer, &verdict, reason).await, item));
    for (result, item) in join_all(results).await {
        match result {
            Ok(()) => done.push(item),
            Err(problem) => failed.push((item, problem)),
        }
    }
    let part = ["status", "after"].map(|name| (name, form.field(name)));
    let frame = Frame::new(&viewer, "").with_params(&part);
    let mut page = NamesPage::read(frame).await?;
    let status = failed.first().map(|(_, problem)| problem.kind.status);
    page.judged = Some(Judged {
        verdict,
        done,
        failed,
    });
    match status {
        Some(status) => refused(status, &page),
        None => html(&page),
    }
}

/// Reviews the name of a member on its page.
pub(super) async fn review(viewer: Viewer, form: Form) -> Answer {
    let (verdict, items) = verdict(&form)?;
    let reviewed = async {
        for item in &items {
            item.judge(&viewer, &verdict, form.field("reason")).await?;
        }
        Ok(())
    };
    case::carry_out(&viewer, &form, reviewed, &verdict).await
}
