//! The initial scores of a board: the list, and a form for many, with a preview and errors by line.

use std::collections::BTreeMap;

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde_json::{Map, Number, Value, json};

use super::address::address;
use super::board::{Heading, Opening};
use super::forms::Form;
use super::lines::{Fault, Faults, Record, records};
use super::page::{Frame, Page, html, refused, to};
use super::parts::{PartParams, Parts};
use super::session::Viewer;
use super::shown::done;
use crate::domain::board::FieldError;
use crate::http::extract::Path;
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
fn parse(text: &str) -> Result<Vec<Line>, Vec<Fault>> {
    let (mut lines, mut faults) = (Vec::new(), Vec::new());
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let records = records(text, &["member", "score"]).map_err(|fault| vec![fault])?;
    for Record { number, fields } in records {
        let mut fault = |detail: String| faults.push(Fault { number, detail });
        let [member, score] = &fields[..] else {
            fault("is not a member and a score, as in ann,12".to_owned());
            continue;
        };
        let score = match score.as_str() {
            "" => None,
            text => {
                let Ok(score) = serde_json::from_str::<Number>(text) else {
                    fault(format!("{text:?} is not a number"));
                    continue;
                };
                Some(Value::Number(score))
            }
        };
        if let Some(first) = seen.insert(member.clone(), number) {
            fault(format!("{member:?} stands in line {first} already"));
            continue;
        }
        let member = member.clone();
        lines.push(Line {
            number,
            member,
            score,
        });
    }
    if faults.is_empty() && lines.is_empty() {
        let detail = "there is no line with a member and a score".to_owned();
        faults.push(Fault { number: 0, detail });
    }
    if faults.is_empty() {
        Ok(lines)
    } else {
        Err(faults)
    }
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
    heading: Heading,
    done: Option<&'static str>,
    total: u64,
    entries: Vec<InitialEntry>,
    parts: Parts,
    text: String,
    faults: Faults,
    problem: Option<Problem>,
    preview: Option<Preview>,
    curl: String,
}

impl Page for InitialPage {
    type Of = String;
    type Params = PartParams;

    async fn read(viewer: &Viewer, board: &String, params: PartParams) -> Result<Self, Problem> {
        let query = [("after", params.after.as_str()), ("limit", SCORES_MAX)];
        let own = ["v1", "boards", board, "initial-scores"];
        let listed_at = address(&own, &query);
        let found: InitialList = viewer.read(&listed_at).await?;
        let Opening { frame, heading, .. } = Opening::read(viewer, board, "Initial scores").await?;
        let path = ["console", "boards", board, "initial-scores"];
        let next = found.next.as_deref();
        let example = json!({"scores": {"ann": 12, "bob": null}});
        let set = viewer.curl_to(&Method::PATCH, &address(&own, &[]), Some(&example));
        Ok(Self {
            frame,
            heading,
            done: done(&params.done),
            total: found.total,
            entries: found.entries,
            parts: Parts::new("scores", &path, &[], &params.after, next),
            text: String::new(),
            faults: Faults::default(),
            problem: None,
            preview: None,
            curl: format!("{}\n{set}", viewer.curl(&listed_at)),
        })
    }
}

/// Shows what would be set, or sets it.
pub(super) async fn set(
    viewer: Viewer,
    Path(board): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let text = form.field("scores");
    let mut page = InitialPage::read(&viewer, &board, PartParams::default()).await?;
    text.clone_into(&mut page.text);
    let mut lines = match parse(text) {
        Ok(lines) => lines,
        Err(faults) => {
            let wrong = FieldError::new("/scores", "has lines that can't be read");
            return refused(Problem::invalid(vec![wrong]), page, |page, _| {
                page.faults = faults.into();
            });
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
    let own = address(&["v1", "boards", &board, "initial-scores"], &[]);
    match viewer.order(Method::PATCH, &own, Some(&scores)).await {
        Ok(()) => {
            let path = ["console", "boards", &board, "initial-scores"];
            Ok(to(&path, &[("done", "set")]))
        }
        Err(problem) => refused(problem.mendable()?, page, |page, mut problem| {
            let errors = std::mem::take(&mut problem.errors);
            page.faults = by_line(&errors, &lines).into();
            page.problem = Some(problem);
        }),
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
        assert_eq!(parse("ann,12"), Ok(vec![ann]));
        let lines = vec![line(2, "ann", Some(json!(-1.5))), line(3, "bob", None)];
        assert_eq!(parse("member,score\nann,-1.5\nbob,\n"), Ok(lines));
    }

    #[test]
    fn what_is_wrong_is_said_by_line() {
        let numbers = |text: &str| {
            let faults = parse(text).unwrap_err();
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
