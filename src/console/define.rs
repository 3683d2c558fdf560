//! Defining a board, and changing its definition: a form with every setting, what the change would do, and the change.
//!
//! The settings and their descriptions come from the OpenAPI document, so the form is always complete.

use std::sync::LazyLock;

use askama::Template;
use axum::http::{HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Answer, Form, Frame, Query, Viewer, html, parsed, refused, to, v1, v1_with};
use crate::boards::draft::Fields;
use crate::boards::preview::BoardPreview;
use crate::boards::templates::{self, TEMPLATES, new_board};
use crate::domain::access::Scope;
use crate::domain::board::{Definition, FieldError};
use crate::http::packed;
use crate::http::problem::{PRECONDITION_FAILED, Problem, VALIDATION_FAILED};

/// The parts of the form: the name of each, and its settings. Settings that no part names come last.
const NAMED: [&str; 4] = [
    "What it is: title tags windows timezone week_start public",
    "Scores and ranks: update order decimals score_min score_max ties ranking",
    "Which events are taken: opens_at closes_at accept_late idempotency quotas",
    "Ends of periods: finalize rewards retention carryover season",
];

/// The input of a setting.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Input {
    /// Yes or no.
    Box,
    /// One of these; without a choice, the default.
    Choice(Vec<String>),
    /// A text.
    Text,
    /// A number, as it is written.
    Number,
    /// Texts, one per line.
    Lines,
    /// Anything, as JSON.
    Json,
}

/// A setting, as the OpenAPI document has it.
struct Setting {
    name: String,
    about: String,
    input: Input,
}

/// The parts of the form, each with its name and its settings.
static PARTS: LazyLock<Vec<(&str, Vec<Setting>)>> = LazyLock::new(|| {
    let document: Value = serde_json::from_slice(&packed::document()).unwrap_or_default();
    let fields = &document["components"]["schemas"]["Definition"]["properties"];
    let setting = |name: &str| Setting {
        name: name.to_owned(),
        about: fields[name]["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        input: input(&fields[name], &document),
    };
    let is_named = |name: &str| {
        NAMED
            .iter()
            .any(|part| part.split(' ').any(|own| own == name))
    };
    let all = fields.as_object().into_iter().flatten();
    let others = all.filter(|(name, _)| !is_named(name));
    let others = others.map(|(name, _)| setting(name)).collect();
    let named = NAMED.iter().filter_map(|part| part.split_once(": "));
    let named = named.map(|(part, names)| (part, names.split(' ').map(setting).collect()));
    named.chain([("Everything else", others)]).collect()
});

fn settings() -> impl Iterator<Item = &'static Setting> {
    PARTS.iter().flat_map(|(_, settings)| settings)
}

fn input(schema: &Value, document: &Value) -> Input {
    fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
        let reference = schema.pointer("/allOf/0").unwrap_or(schema);
        let at = reference["$ref"].as_str();
        let at = at.and_then(|at| at.strip_prefix('#'));
        at.and_then(|at| document.pointer(at)).unwrap_or(schema)
    }
    let schema = resolved(schema, document);
    if let Some(choices) = schema["enum"].as_array() {
        let names = choices.iter().filter_map(Value::as_str);
        return Input::Choice(names.map(ToOwned::to_owned).collect());
    }
    match schema["type"].as_str() {
        Some("boolean") => Input::Box,
        Some("string") => Input::Text,
        Some("integer" | "number") => Input::Number,
        Some("array") if resolved(&schema["items"], document)["type"] == "string" => Input::Lines,
        _ => Input::Json,
    }
}

impl Setting {
    /// A value as the form shows it.
    fn written(&self, value: &Value) -> String {
        match (&self.input, value) {
            (_, Value::Null) => String::new(),
            (Input::Lines, Value::Array(lines)) => {
                let lines: Vec<_> = lines.iter().filter_map(Value::as_str).collect();
                lines.join("\n")
            }
            (Input::Json, Value::Array(items)) if items.is_empty() => String::new(),
            (Input::Json, Value::Object(fields)) if fields.is_empty() => String::new(),
            (Input::Json, value) => serde_json::to_string_pretty(value).unwrap_or_default(),
            (_, Value::String(text)) => text.clone(),
            (_, value) => value.to_string(),
        }
    }

    /// The value that is filled in; `None` for the default.
    fn read(&self, form: &Form) -> Result<Option<Value>, FieldError> {
        let text = form.field(&self.name).trim();
        Ok(Some(match self.input {
            Input::Box => (text == "true").into(),
            _ if text.is_empty() => return Ok(None),
            Input::Lines => form.lines(&self.name).into(),
            // The service reports it if this is no number.
            Input::Number => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
            Input::Json => serde_json::from_str(text).map_err(|error| {
                let detail = format!("is not JSON: {error}");
                FieldError::new(format!("/{}", self.name), detail)
            })?,
            _ => text.into(),
        }))
    }
}

#[derive(Deserialize)]
struct Previewed {
    preview: BoardPreview,
}

#[derive(Template)]
#[template(path = "console/define.html")]
struct DefinePage {
    /// Its form has a field for each setting, and: `board`, empty if its id has to be filled in; `etag`, the version of the
    /// definition that is changed, empty for a new board; `drop_windows`.
    frame: Frame,
    preview: Option<BoardPreview>,
}

impl DefinePage {
    fn new(viewer: &Viewer, form: Form) -> Self {
        let title = match form.field("etag") {
            "" => "Define a board".to_owned(),
            _ => format!("Change {}", form.field("board").trim()),
        };
        let mut frame = Frame::new(viewer, title).under("Boards", "/console/boards");
        frame.form = form;
        Self {
            frame,
            preview: None,
        }
    }

    /// The errors of a setting.
    fn faults(&self, setting: &str) -> Vec<&str> {
        let problem = self.frame.problem.as_ref();
        let errors = problem.into_iter().flat_map(|problem| &problem.errors);
        errors
            .filter(|error| error.pointer.split('/').nth(1) == Some(setting))
            .map(|error| error.detail.as_str())
            .collect()
    }

    /// Shows the form again with the problem, and the errors next to the settings.
    fn refused(mut self, problem: Problem) -> Answer {
        let status = self.frame.refuse(problem);
        refused(status, &self)
    }
}

/// Which board, or with which template a new one begins.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    board: String,
    template: String,
}

/// The form.
pub(super) async fn show(viewer: Viewer, Query(params): Query<Params>) -> Answer {
    let Params { board, template } = params;
    let (etag, definition) = if board.is_empty() {
        viewer.require_anywhere(Scope::Configure)?;
        let template = templates::named(&template).map(templates::Template::definition);
        (None, json!(template.unwrap_or_else(defaults)))
    } else {
        let defined_at = v1(&["boards", &board]);
        let found = viewer.respond(Method::GET, &defined_at, &[], None).await?;
        let etag = found.headers().get(header::ETAG).cloned();
        (etag, parsed(found.into_body()).await?)
    };
    let etag = etag.and_then(|etag| Some(etag.to_str().ok()?.to_owned()));
    let fixed = [("board", board), ("etag", etag.unwrap_or_default())];
    let written = settings().map(|setting| {
        let name = setting.name.as_str();
        (name, setting.written(&definition[name]))
    });
    let form = fixed.into_iter().chain(written).collect();
    html(&DefinePage::new(&viewer, form))
}

/// The definition of a new board without any setting.
fn defaults() -> Definition {
    new_board(Fields::default())
}

/// Shows what the change would do, or makes it.
pub(super) async fn put(viewer: Viewer, form: Form) -> Answer {
    let (board, etag) = (form.field("board").trim(), form.field("etag"));
    let mut page = DefinePage::new(&viewer, form.clone());
    let (mut fields, mut errors) = (Map::new(), Vec::new());
    for setting in settings() {
        match setting.read(&form) {
            Ok(Some(value)) => drop(fields.insert(setting.name.clone(), value)),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return page.refused(Problem::invalid(errors));
    }
    let definition = Value::Object(fields);
    let is_preview = form.field("step") != "save";
    let query = [
        ("drop_windows", form.field("drop_windows").trim()),
        ("dry_run", if is_preview { "true" } else { "" }),
    ];
    let put_to = v1_with(&["boards", board], &query);
    let condition = match etag {
        "" => (header::IF_NONE_MATCH, HeaderValue::from_static("*")),
        etag => {
            let etag = HeaderValue::try_from(etag);
            let wrong = |_| Problem::new(VALIDATION_FAILED, "etag: is none");
            (header::IF_MATCH, etag.map_err(wrong)?)
        }
    };
    let conditions = [condition];
    let put = viewer.respond(Method::PUT, &put_to, &conditions, Some(&definition));
    match put.await {
        Ok(answer) if is_preview => {
            let Previewed { preview } = parsed(answer.into_body()).await?;
            page.preview = Some(preview);
            let put_to = v1_with(&["boards", board], &query[..1]);
            let put = viewer.curl_to(&Method::PUT, &put_to, Some(&definition));
            page.frame.curl.push(put);
            html(&page)
        }
        Ok(_) => Ok(to(&["boards", board, "definition"], &[])),
        Err(problem) if etag.is_empty() && problem.kind == PRECONDITION_FAILED => {
            let detail = format!("there is a board {board} already");
            page.refused(Problem::invalid_field("/board", detail))
        }
        Err(problem) => page.refused(problem.mendable()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_comes_back_from_the_form_as_it_was() {
        let defaults = json!(defaults());
        assert_eq!(settings().count(), defaults.as_object().unwrap().len());
        let values = serde_json::json!({
            "title": "Votes", "tags": ["a, b", "c"], "public": true, "decimals": 2, "score_max": 9.25,
            "ties": "last", "windows": ["day", "last-7-days"], "carryover": {"week": 0.2},
            "quotas": [{"name": "q", "by": ["voter"], "window": "day", "max": 1}], "uniques": "member",
            "finalize": "10m", "closes_at": "2026-12-01T00:00:00.000Z",
        });
        for setting in settings() {
            assert!(!setting.about.is_empty(), "{}", setting.name);
            let own = &values[&setting.name];
            for value in [own, &defaults[&setting.name]] {
                let written = (setting.name.as_str(), setting.written(value));
                let read = setting.read(&Form::from_iter([written])).unwrap();
                let is_default = read.is_none() && *value == defaults[&setting.name];
                let is_empty = read.is_none() && value.is_null();
                assert!(
                    is_default
                        || is_empty
                        || read.as_ref() == Some(value)
                        || setting.input == Input::Box,
                    "{}: {value}",
                    setting.name
                );
            }
        }
        let input = |name: &str| {
            let setting = settings().find(|setting| setting.name == name);
            setting.unwrap().input.clone()
        };
        assert_eq!(input("public"), Input::Box);
        assert_eq!(input("decimals"), Input::Number);
        assert_eq!(input("windows"), Input::Lines);
        assert_eq!(input("quotas"), Input::Json);
        let orders = ["desc", "asc"].map(str::to_owned).to_vec();
        assert_eq!(input("order"), Input::Choice(orders));
    }
}
