//! Profiles of many members at once: a form for lines, with a preview, and errors by line.

use axum::http::StatusCode;
use serde::Deserialize;

use super::lines::{FAULTS_SHOWN, Fault, LINES_SHOWN, Record, parse};
use super::prelude::*;
use crate::http::problem::ProblemBody;

/// The fields of a line; the last two may be left out.
const COLUMNS: [&str; 4] = ["member", "name", "avatar_url", "attributes"];

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
    fn read(Record { number, fields }: &Record) -> Result<Self, String> {
        if !(2..=COLUMNS.len()).contains(&fields.len()) {
            return Err("is not a member and its name, as in 999,Ann".to_owned());
        }
        let field = |index: usize| fields.get(index).cloned().unwrap_or_default();
        let [member, name, picture, attributes] = [0, 1, 2, 3].map(field);
        let mut profile = json!({"member": member, "name": name});
        if !picture.is_empty() {
            profile["avatar_url"] = picture.into();
        }
        if !attributes.is_empty() {
            let attributes = serde_json::from_str(&attributes);
            profile["attributes"] = attributes.map_err(|error| format!("attributes: {error}"))?;
        }
        Ok(Self {
            number: *number,
            member,
            name,
            profile,
        })
    }
}

/// The profiles of a text, or what is wrong with it.
fn lines(text: &str) -> Result<Vec<Line>, Vec<Fault>> {
    let none = "there is no line with a member and its name";
    parse(text, &COLUMNS, none, Line::read)
}

/// The response to a request that stores profiles.
#[derive(Deserialize)]
struct Outcomes {
    results: Vec<Outcome>,
}

/// The outcome of a profile; `None`: it was stored.
#[derive(Deserialize)]
struct Outcome {
    problem: Option<ProblemBody>,
}

#[derive(Template)]
#[template(path = "console/profiles.html")]
struct ProfilesPage {
    frame: Frame,
    faults: Vec<Fault>,
    /// How many were stored, if others were not.
    stored: Option<usize>,
    /// What would be stored.
    preview: Vec<Line>,
}

impl ProfilesPage {
    async fn new(viewer: &Visitor) -> Result<Self, Problem> {
        let example = json!({"profiles": [{"member": "999", "name": "Ann"}]});
        viewer.require(Scope::Write)?;
        let mut frame = Frame::new(viewer, "Many profiles").under("Members", "/console/members");
        frame.look_around().await;
        frame.example(&Method::POST, &["profiles"], Some(&example));
        Ok(Self {
            frame,
            faults: Vec::new(),
            stored: None,
            preview: Vec::new(),
        })
    }
}

/// The form.
pub(super) async fn show(viewer: Viewer) -> Answer {
    html(&ProfilesPage::new(&viewer).await?)
}

/// Shows what would be stored, or stores it.
pub(super) async fn store(viewer: Viewer, form: Form) -> Answer {
    let mut page = ProfilesPage::new(&viewer).await?;
    page.frame.form = form.clone();
    let lines = match lines(form.field("profiles")) {
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
    let profiles: Vec<&Value> = lines.iter().map(|line| &line.profile).collect();
    let profiles = json!({"profiles": profiles});
    let sent = viewer.call(Method::POST, "/v1/profiles", Some(&profiles));
    let Outcomes { results } = match sent.await {
        Ok(outcomes) => outcomes,
        Err(problem) => {
            let status = page.frame.refuse(problem.mendable()?);
            return refused(status, &page);
        }
    };
    let rejected = lines.iter().zip(results).filter_map(|(line, outcome)| {
        let (number, detail) = (line.number, outcome.problem?.detail);
        Some(Fault { number, detail })
    });
    let rejected: Vec<Fault> = rejected.collect();
    if rejected.is_empty() {
        return Ok(to(&["members"], &[("done", "profiles")]));
    }
    page.stored = Some(lines.len() - rejected.len());
    page.faults = rejected;
    refused(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_member_with_its_name_and_what_else_is_known() {
        let read = lines(
            "member,name\n999,Ann\n7,Bob,,\"{\"\"country\"\":\"\"NZ\"\"}\"\n8,Cid,https://img.example/c.png",
        );
        let profiles: Vec<_> = read.unwrap().into_iter().map(|line| line.profile).collect();
        let expected = [
            json!({"member": "999", "name": "Ann"}),
            json!({"member": "7", "name": "Bob", "attributes": {"country": "NZ"}}),
            json!({"member": "8", "name": "Cid", "avatar_url": "https://img.example/c.png"}),
        ];
        assert_eq!(profiles, expected);
        let numbers = |text: &str| {
            let faults = lines(text).unwrap_err().into_iter();
            faults.map(|fault| fault.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers("999,Ann\n7\n8,Cid,,{\n9,Dan,,,,"), [2, 3, 4]);
        assert_eq!(numbers("member,name\n\n"), [0]);
    }
}
