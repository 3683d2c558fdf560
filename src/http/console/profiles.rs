//! Profiles of many members at once: a form for lines, with a preview, and errors by line.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::forms::Form;
use super::lines::{Fault, Faults, Record, records};
use super::page::{Frame, html, refused, to};
use super::session::Viewer;
use crate::domain::access::Scope;
use crate::domain::board::FieldError;
use crate::http::problem::{Problem, ProblemBody, VALIDATION_FAILED};

/// The fields of a line; the last two may be left out.
const COLUMNS: [&str; 4] = ["member", "name", "avatar_url", "attributes"];
/// How many lines a preview shows.
const LINES_SHOWN: usize = 20;
/// Where profiles are sent to.
const PROFILES: &str = "/v1/profiles";

/// A profile that was filled in.
#[derive(Debug, PartialEq)]
struct Line {
    number: usize,
    member: String,
    name: String,
    /// As `/v1` takes it.
    profile: Value,
}

impl Line {
    fn read(Record { number, fields }: Record) -> Result<Self, Fault> {
        let fault = |detail: String| Fault { number, detail };
        if !(2..=COLUMNS.len()).contains(&fields.len()) {
            let detail = "is not a member and its name, as in 999,Ann";
            return Err(fault(detail.to_owned()));
        }
        let field = |index: usize| fields.get(index).cloned().unwrap_or_default();
        let [member, name, picture, attributes] = [0, 1, 2, 3].map(field);
        let mut profile = json!({"member": member, "name": name});
        if !picture.is_empty() {
            profile["avatar_url"] = picture.into();
        }
        if !attributes.is_empty() {
            let attributes = serde_json::from_str(&attributes);
            let attributes = attributes.map_err(|error| fault(format!("attributes: {error}")))?;
            profile["attributes"] = attributes;
        }
        Ok(Self {
            number,
            member,
            name,
            profile,
        })
    }
}

/// The profiles of a text, or what is wrong with it.
fn parse(text: &str) -> Result<Vec<Line>, Vec<Fault>> {
    let records = records(text, &COLUMNS).map_err(|fault| vec![fault])?;
    let (mut lines, mut faults) = (Vec::new(), Vec::new());
    for record in records {
        match Line::read(record) {
            Ok(line) => lines.push(line),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() && lines.is_empty() {
        let detail = "there is no line with a member and its name".to_owned();
        faults.push(Fault { number: 0, detail });
    }
    if faults.is_empty() {
        Ok(lines)
    } else {
        Err(faults)
    }
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Outcome>,
}

/// What became of a profile.
#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Outcome {
    Stored,
    Rejected { problem: Box<ProblemBody> },
}

/// What would be stored.
struct Preview {
    total: usize,
    lines: Vec<Line>,
}

#[derive(Template)]
#[template(path = "console/profiles.html")]
struct ProfilesPage {
    frame: Frame,
    text: String,
    faults: Faults,
    /// How many were stored, where others were not.
    stored: Option<usize>,
    preview: Option<Preview>,
    problem: Option<Problem>,
    curl: String,
}

impl ProfilesPage {
    fn new(viewer: &Viewer, text: &str) -> Self {
        let example = json!({"profiles": [{"member": "999", "name": "Ann"}]});
        Self {
            frame: Frame::new(viewer, "Many profiles"),
            text: text.to_owned(),
            faults: Faults::default(),
            stored: None,
            preview: None,
            problem: None,
            curl: viewer.curl_to(&Method::POST, PROFILES, Some(&example)),
        }
    }
}

/// The form.
pub(super) async fn show(viewer: Viewer) -> Result<Response, Problem> {
    viewer.require(Scope::Write)?;
    html(&ProfilesPage::new(&viewer, ""))
}

/// Shows what would be stored, or stores it.
pub(super) async fn store(viewer: Viewer, form: Form) -> Result<Response, Problem> {
    viewer.require(Scope::Write)?;
    let text = form.field("profiles");
    let mut page = ProfilesPage::new(&viewer, text);
    let mut lines = match parse(text) {
        Ok(lines) => lines,
        Err(faults) => {
            let wrong = FieldError::new("/profiles", "has lines that can't be read");
            return refused(Problem::invalid(vec![wrong]), page, |page, _| {
                page.faults = faults.into();
            });
        }
    };
    if form.field("step") != "save" {
        let total = lines.len();
        lines.truncate(LINES_SHOWN);
        page.preview = Some(Preview { total, lines });
        return html(&page);
    }
    let profiles: Vec<&Value> = lines.iter().map(|line| &line.profile).collect();
    let profiles = json!({"profiles": profiles});
    let sent = viewer.call::<Answer>(Method::POST, PROFILES, Some(&profiles));
    let results = match sent.await {
        Ok(answer) => answer.results,
        Err(problem) => {
            return refused(problem.mendable()?, page, |page, problem| {
                page.problem = Some(problem);
            });
        }
    };
    let rejected = lines.iter().zip(results);
    let rejected = rejected.filter_map(|(line, outcome)| match outcome {
        Outcome::Stored => None,
        Outcome::Rejected { problem } => Some(Fault {
            number: line.number,
            detail: problem.detail,
        }),
    });
    let rejected: Vec<Fault> = rejected.collect();
    if rejected.is_empty() {
        let done = [("done", "profiles")];
        return Ok(to(&["console", "members"], &done));
    }
    let problem = Problem::new(VALIDATION_FAILED, "some profiles were not stored");
    refused(problem, page, |page, _| {
        page.stored = Some(lines.len() - rejected.len());
        page.faults = rejected.into();
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_member_with_its_name_and_what_else_is_known() {
        let lines = parse(
            "member,name\n999,Ann\n7,Bob,,\"{\"\"country\"\":\"\"NZ\"\"}\"\n8,Cid,https://img.example/c.png",
        );
        let profiles: Vec<_> = lines
            .unwrap()
            .into_iter()
            .map(|line| line.profile)
            .collect();
        let expected = [
            json!({"member": "999", "name": "Ann"}),
            json!({"member": "7", "name": "Bob", "attributes": {"country": "NZ"}}),
            json!({"member": "8", "name": "Cid", "avatar_url": "https://img.example/c.png"}),
        ];
        assert_eq!(profiles, expected);
        let numbers = |text: &str| {
            let faults = parse(text).unwrap_err().into_iter();
            faults.map(|fault| fault.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers("999,Ann\n7\n8,Cid,,{\n9,Dan,,,,"), [2, 3, 4]);
        assert_eq!(numbers("member,name\n\n"), [0]);
    }
}
