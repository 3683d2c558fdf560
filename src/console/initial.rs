//! The initial scores of a board: the list, and a form for many, with a preview and errors by line.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::Number;

use super::lines::{FAULTS_SHOWN, Fault, LINES_SHOWN, parse};
use super::prelude::*;
use crate::boards::initial::routes::{InitialEntry, InitialList};
use crate::domain::board::FieldError;

/// How many scores a part of the list has.
const SCORES_MAX: &str = "100";

/// A line that was filled in.
#[derive(Debug, PartialEq)]
struct Line {
    number: usize,
    member: String,
    /// `None` removes the score.
    score: Option<Number>,
}

/// The lines of a text, each with a member and its score: `ann,12`. Without a score, the member's score is removed.
fn lines(text: &str) -> Result<Vec<Line>, Vec<Fault>> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let none = "there is no line with a member and a score";
    parse(text, &["member", "score"], none, |record| {
        let [member, score] = &record.fields[..] else {
            return Err("is not a member and a score, as in ann,12".to_owned());
        };
        let score = match score.as_str() {
            "" => None,
            text => {
                let score: Result<Number, _> = serde_json::from_str(text);
                Some(score.map_err(|_| format!("{text:?} is not a number"))?)
            }
        };
        if let Some(first) = seen.insert(member.clone(), record.number) {
            return Err(format!("{member:?} stands in line {first} already"));
        }
        Ok(Line {
            number: record.number,
            member: member.clone(),
            score,
        })
    })
}

/// The errors found by the service, by line.
fn by_line(errors: &[FieldError], lines: &[Line]) -> Vec<Fault> {
    let pointer = |line: &Line| FieldError::pointer(["scores", &line.member]);
    let numbers = lines.iter().map(|line| (pointer(line), line.number));
    let numbers: BTreeMap<String, usize> = numbers.collect();
    let faults = errors.iter().map(|error| Fault {
        number: numbers.get(&error.pointer).copied().unwrap_or_default(),
        detail: error.detail.clone(),
    });
    let mut faults: Vec<Fault> = faults.collect();
    faults.sort_by_key(|fault| fault.number);
    faults
}

#[derive(Template)]
#[template(path = "console/initial.html")]
pub(super) struct InitialPage {
    frame: Frame,
    total: u64,
    entries: Vec<InitialEntry>,
    parts: Parts,
    faults: Vec<Fault>,
    /// What would be set.
    preview: Vec<Line>,
}

impl InitialPage {
    /// How many scores would be set; the others would be removed.
    fn set(&self) -> usize {
        let lines = self.preview.iter();
        lines.filter(|line| line.score.is_some()).count()
    }
}

impl Page for InitialPage {
    async fn read(mut frame: Frame) -> Result<Self, Problem> {
        let [board, after] = frame.params(["board", "after"])?;
        let path = ["boards", &board, "initial-scores"];
        let query = [("after", &*after), ("limit", SCORES_MAX)];
        let found: InitialList = frame.read(&path, &query).await?;
        let example = json!({"scores": {"ann": 12, "bob": null}});
        frame.example(&Method::PATCH, &path, Some(&example));
        frame.read_board(&board, "Initial scores").await?;
        Ok(Self {
            total: found.total,
            entries: found.entries,
            parts: Parts::new("scores", &frame, found.next),
            frame,
            faults: Vec::new(),
            preview: Vec::new(),
        })
    }
}

/// Shows what would be set, or sets it.
pub(super) async fn set(viewer: Viewer, form: Form) -> Answer {
    let mut page = InitialPage::read(Frame::new(&viewer, "")).await?;
    let lines = lines(form.field("scores"));
    let own = ["boards", form.field("board"), "initial-scores"];
    page.frame.form = form.clone();
    let lines = match lines {
        Ok(lines) => lines,
        Err(faults) => {
            page.faults = faults;
            return refused(StatusCode::UNPROCESSABLE_ENTITY, &page);
        }
    };
    if form.field("step") != "save" {
        page.preview = lines;
        return html(&page);
    }
    let scores = lines.iter().map(|line| (&line.member, &line.score));
    let scores = json!({"scores": scores.collect::<BTreeMap<_, _>>()});
    if let Err(problem) = viewer.order(Method::PATCH, &own, Some(&scores)).await {
        let mut problem = problem.mendable()?;
        page.faults = by_line(&std::mem::take(&mut problem.errors), &lines);
        let status = page.frame.refuse(problem);
        return refused(status, &page);
    }
    Ok(to(&own, &[("done", "set")]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize, member: &str, score: Option<Number>) -> Line {
        let member = member.to_owned();
        Line {
            number,
            member,
            score,
        }
    }

    #[test]
    fn a_line_is_a_member_and_a_score() {
        let ann = line(1, "ann", Some(12.into()));
        assert_eq!(lines("ann,12"), Ok(vec![ann]));
        let read = vec![line(2, "ann", Number::from_f64(-1.5)), line(3, "bob", None)];
        assert_eq!(lines("member,score\nann,-1.5\nbob,\n"), Ok(read));
    }

    #[test]
    fn what_is_wrong_is_said_by_line() {
        let numbers = |text: &str| {
            let faults = lines(text).unwrap_err();
            faults.iter().map(|fault| fault.number).collect::<Vec<_>>()
        };
        assert_eq!(
            numbers("ann,1\nbob\ncid,many\ndan,1,2\nann,3"),
            [2, 3, 4, 5]
        );
        assert_eq!(numbers(""), [0]);
        let lines = [line(1, "ann", None), line(7, "a/b", None)];
        let errors = [FieldError::new("/scores/a~1b", "is wrong")];
        let fault = Fault {
            number: 7,
            detail: "is wrong".to_owned(),
        };
        assert_eq!(by_line(&errors, &lines), [fault]);
    }
}
