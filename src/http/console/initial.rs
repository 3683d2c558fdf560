//! The initial scores of a board: the list, and a form for many, with a preview and errors by line.

use std::collections::BTreeMap;

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::{Map, Number, Value, json};

use super::lines::{Fault, Faults, parse};
use super::{
    Answer, Form, Frame, Page, PartParams, Parts, Path, Viewer, address, html, refused, to, v1,
};
use crate::domain::board::FieldError;
use crate::http::initial::{InitialEntry, InitialList};
use crate::http::problem::Problem;

/// How many scores a part of the list has.
const SCORES_MAX: &str = "100";
/// How many lines a preview shows.
const LINES_SHOWN: usize = 20;

/// A line that was filled in.
#[derive(Debug, PartialEq)]
struct Line {
    number: usize,
    member: String,
    /// None takes the score away.
    score: Option<Value>,
}

/// The lines of a text, each with a member and its score: `ann,12`. A score that is left out takes the member's away.
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
                Some(
                    score
                        .map_err(|_| format!("{text:?} is not a number"))?
                        .into(),
                )
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

/// What the service has found wrong, by the lines that it stands in.
fn by_line(errors: &[FieldError], lines: &[Line]) -> Vec<Fault> {
    let pointer = |line: &Line| FieldError::pointer(["scores", &line.member]);
    let of_pointer: BTreeMap<String, usize> = lines
        .iter()
        .map(|line| (pointer(line), line.number))
        .collect();
    let mut faults: Vec<Fault> = errors
        .iter()
        .map(|error| Fault {
            number: of_pointer.get(&error.pointer).copied().unwrap_or_default(),
            detail: error.detail.clone(),
        })
        .collect();
    faults.sort_by_key(|fault| fault.number);
    faults
}

/// What would be set.
struct Preview {
    set: usize,
    taken: usize,
    lines: Vec<Line>,
}

#[derive(Template)]
#[template(path = "console/initial.html")]
pub(super) struct InitialPage {
    frame: Frame,
    total: u64,
    entries: Vec<InitialEntry>,
    parts: Parts,
    faults: Faults,
    preview: Option<Preview>,
}

impl Page for InitialPage {
    type Of = String;
    type Params = PartParams;

    async fn read(viewer: &Viewer, board: &String, params: PartParams) -> Result<Self, Problem> {
        let own = v1(&["boards", board, "initial-scores"]);
        let path = ["v1", "boards", board, "initial-scores"];
        let listed_at = address(&path, &params.of_at_most(SCORES_MAX));
        let found: InitialList = viewer.read(&listed_at).await?;
        let example = json!({"scores": {"ann": 12, "bob": null}});
        let set = viewer.curl_to(&Method::PATCH, &own, Some(&example));
        let page = address(&["console", "boards", board, "initial-scores"], &[]);
        let frame = Frame::read(viewer, board, "Initial scores").await?;
        Ok(Self {
            frame: frame
                .done(&params.done)
                .curl([viewer.curl(&listed_at), set]),
            total: found.total,
            entries: found.entries,
            parts: Parts::new("scores", &page, &params.after, found.next),
            faults: Faults::default(),
            preview: None,
        })
    }
}

/// Shows what would be set, or sets it.
pub(super) async fn set(viewer: Viewer, Path(board): Path<String>, form: Form) -> Answer {
    let mut page = InitialPage::read(&viewer, &board, PartParams::default()).await?;
    page.frame.form = form.clone();
    let mut lines = match lines(form.field("scores")) {
        Ok(lines) => lines,
        Err(faults) => {
            page.faults = faults.into();
            return refused(StatusCode::UNPROCESSABLE_ENTITY, &page);
        }
    };
    if form.field("step") != "save" {
        let set = lines.iter().filter(|line| line.score.is_some()).count();
        let taken = lines.len() - set;
        lines.truncate(LINES_SHOWN);
        page.preview = Some(Preview { set, taken, lines });
        return html(&page);
    }
    let scores = lines.iter().map(|line| {
        let score = line.score.clone().unwrap_or(Value::Null);
        (line.member.clone(), score)
    });
    let scores = json!({"scores": scores.collect::<Map<_, _>>()});
    let own = v1(&["boards", &board, "initial-scores"]);
    match viewer.order(Method::PATCH, &own, Some(&scores)).await {
        Ok(()) => Ok(to(
            &["boards", &board, "initial-scores"],
            &[("done", "set")],
        )),
        Err(problem) => {
            let mut problem = problem.mendable()?;
            let errors = std::mem::take(&mut problem.errors);
            page.faults = by_line(&errors, &lines).into();
            let status = page.frame.refuse(problem);
            refused(status, &page)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize, member: &str, score: Option<Value>) -> Line {
        let member = member.to_owned();
        Line {
            number,
            member,
            score,
        }
    }

    #[test]
    fn a_line_is_a_member_and_a_score() {
        let ann = line(1, "ann", Some(json!(12)));
        assert_eq!(lines("ann,12"), Ok(vec![ann]));
        let read = vec![line(2, "ann", Some(json!(-1.5))), line(3, "bob", None)];
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
