//! Defining a board, and changing its definition: a form with every setting, what the change would do, and the change.
//!
//! The settings and what they mean come from the OpenAPI document: the form has all that there are.

use std::sync::LazyLock;

use askama::Template;
use axum::http::{HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Answer, Form, Frame, Query, Viewer, address, html, refused, to, v1};
use crate::domain::access::Scope;
use crate::domain::board::{Definition, FieldError};
use crate::http::boards::BoardPreview;
use crate::http::docs;
use crate::http::problem::{Problem, VALIDATION_FAILED};

/// How the form is divided; what is named in no part is in the last one.
const PARTS: [(&str, &str); 5] = [
    (
        "What it is",
        "title tags windows timezone week_start public",
    ),
    (
        "Scores and ranks",
        "update order decimals score_min score_max ties ranking",
    ),
    (
        "Which events are taken",
        "opens_at closes_at accept_late idempotency quotas",
    ),
    (
        "Ends of periods",
        "finalize rewards retention carryover season",
    ),
    ("Everything else", ""),
];

/// How a setting is filled in.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Input {
    /// Yes or no.
    Box,
    /// One of these; none of them is the default.
    Choice(Vec<String>),
    /// A text.
    Text,
    /// A number, as it is written.
    Number,
    /// Texts, one in a line.
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

/// All settings, in the order of the document.
static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(docs::DOCUMENT).unwrap_or_default();
    let fields = document["components"]["schemas"]["Definition"]["properties"].as_object();
    let settings = fields.into_iter().flatten().map(|(name, schema)| Setting {
        name: name.clone(),
        about: schema["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        input: input(schema, &document),
    });
    settings.collect()
});

fn input(schema: &Value, document: &Value) -> Input {
    fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
        let at = schema["$ref"].as_str().and_then(|at| at.strip_prefix('#'));
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
    /// A value as the form has it.
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
    fn read(&self, filled_in: &str) -> Result<Option<Value>, FieldError> {
        let text = filled_in.trim();
        if self.input == Input::Box {
            return Ok(Some(Value::Bool(text == "true")));
        }
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some(match self.input {
            Input::Lines => text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .collect(),
            // What is no number the service calls so.
            Input::Number => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
            Input::Json => serde_json::from_str(text).map_err(|error| {
                let detail = format!("is not JSON: {error}");
                FieldError::new(format!("/{}", self.name), detail)
            })?,
            _ => text.into(),
        }))
    }
}

/// A setting in the form.
struct Field {
    setting: &'static Setting,
    value: String,
    faults: Vec<String>,
}

impl Field {
    fn lines(&self) -> usize {
        self.value.lines().count().clamp(2, 20)
    }
}

/// A part of the form.
struct Part {
    name: &'static str,
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Previewed {
    preview: BoardPreview,
}

#[derive(Template)]
#[template(path = "console/define.html")]
struct DefinePage {
    frame: Frame,
    /// The board; empty if its id is to be filled in.
    board: String,
    /// The version of the definition that is changed; empty for a new board.
    etag: String,
    parts: Vec<Part>,
    drop_windows: String,
    preview: Option<BoardPreview>,
}

impl DefinePage {
    fn new(
        viewer: &Viewer,
        board: &str,
        etag: &str,
        value_of: impl Fn(&Setting) -> String,
    ) -> Self {
        let title = match etag {
            "" => "Define a board".to_owned(),
            _ => format!("Change {board}"),
        };
        let field = |setting: &'static Setting| Field {
            value: value_of(setting),
            faults: Vec::new(),
            setting,
        };
        let place =
            |names: &str, setting: &Setting| names.split(' ').position(|name| name == setting.name);
        let part_of = |setting: &Setting| {
            let mut named = PARTS.iter();
            let named = named.position(|(_, names)| place(names, setting).is_some());
            named.unwrap_or(PARTS.len() - 1)
        };
        let parts = PARTS.iter().enumerate().map(|(index, (name, names))| {
            let settings = SETTINGS.iter().filter(|setting| part_of(setting) == index);
            let mut fields: Vec<Field> = settings.map(field).collect();
            fields.sort_by_key(|field| place(names, field.setting));
            Part { name, fields }
        });
        Self {
            frame: Frame::new(viewer, title),
            board: board.to_owned(),
            etag: etag.to_owned(),
            parts: parts.collect(),
            drop_windows: String::new(),
            preview: None,
        }
    }

    /// Writes the form again with the problem, and beside each setting what is wrong with it.
    fn refused(mut self, problem: Problem) -> Answer {
        for field in self.parts.iter_mut().flat_map(|part| &mut part.fields) {
            let of_field =
                |error: &&FieldError| error.pointer.split('/').nth(1) == Some(&field.setting.name);
            let errors = problem.errors.iter().filter(of_field);
            field.faults = errors.map(|error| error.detail.clone()).collect();
        }
        let status = self.frame.refuse(problem);
        refused(status, &self)
    }
}

/// Which board; none for a new one.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {
    board: String,
}

/// The form.
pub(super) async fn show(viewer: Viewer, Query(Params { board }): Query<Params>) -> Answer {
    if board.is_empty() {
        viewer.require_anywhere(Scope::Configure)?;
        return html(&DefinePage::new(&viewer, "", "", |setting| {
            let default = DEFAULTS.get(&setting.name);
            default.map_or_else(String::new, |value| setting.written(value))
        }));
    }
    let defined_at = v1(&["boards", &board]);
    let read = viewer.send::<Value>(Method::GET, &defined_at, &[], None);
    let (headers, definition) = read.await?;
    let etag = headers
        .get(header::ETAG)
        .and_then(|etag| etag.to_str().ok());
    let value_of = |setting: &Setting| setting.written(&definition[&setting.name]);
    html(&DefinePage::new(
        &viewer,
        &board,
        etag.unwrap_or_default(),
        value_of,
    ))
}

/// What a board has that says as little as can be.
static DEFAULTS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let least = serde_json::json!({"windows": ["day", "week", "all"]});
    let definition = serde_json::from_value::<Definition>(least);
    let fields = definition.map(|definition| serde_json::to_value(definition).unwrap_or_default());
    match fields {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
});

/// Shows what the change would do, or makes it.
pub(super) async fn put(viewer: Viewer, form: Form) -> Answer {
    let (board, etag) = (form.field("board").trim(), form.field("etag"));
    let mut page = DefinePage::new(&viewer, board, etag, |setting| {
        form.field(&setting.name).to_owned()
    });
    form.field("drop_windows")
        .clone_into(&mut page.drop_windows);
    let (mut fields, mut errors) = (Map::new(), Vec::new());
    for setting in &*SETTINGS {
        match setting.read(form.field(&setting.name)) {
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
        ("drop_windows", page.drop_windows.trim()),
        ("dry_run", if is_preview { "true" } else { "" }),
    ];
    let put_to = address(&["v1", "boards", board], &query);
    let condition = match etag {
        "" => (header::IF_NONE_MATCH, HeaderValue::from_static("*")),
        etag => {
            let etag = HeaderValue::try_from(etag);
            let wrong = |_| Problem::new(VALIDATION_FAILED, "etag: is none");
            (header::IF_MATCH, etag.map_err(wrong)?)
        }
    };
    let conditions = [condition];
    let put = viewer.send::<Value>(Method::PUT, &put_to, &conditions, Some(&definition));
    match put.await {
        Ok((_, answer)) if is_preview => {
            let previewed = serde_json::from_value::<Previewed>(answer);
            let fault = |error: serde_json::Error| Problem::internal(error.to_string());
            page.preview = Some(previewed.map_err(fault)?.preview);
            let put_to = address(&["v1", "boards", board], &query[..1]);
            let put = viewer.curl_to(&Method::PUT, &put_to, Some(&definition));
            page.frame.curl = vec![put];
            html(&page)
        }
        Ok(_) => Ok(to(&["boards", board, "definition"], &[])),
        Err(problem) => page.refused(problem.mendable()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_comes_back_from_the_form_as_it_was() {
        assert_eq!(SETTINGS.len(), DEFAULTS.len());
        let values = serde_json::json!({
            "title": "Votes", "tags": ["a, b", "c"], "public": true, "decimals": 2, "score_max": 9.25,
            "ties": "last", "windows": ["day", "last-7-days"], "carryover": {"week": 0.2},
            "quotas": [{"name": "q", "by": ["voter"], "window": "day", "max": 1}], "uniques": "member",
            "finalize": "10m", "closes_at": "2026-12-01T00:00:00.000Z",
        });
        for setting in &*SETTINGS {
            assert!(!setting.about.is_empty(), "{}", setting.name);
            let own = &values[&setting.name];
            for value in [own, &DEFAULTS[&setting.name]] {
                let read = setting.read(&setting.written(value)).unwrap();
                let is_default = read.is_none() && *value == DEFAULTS[&setting.name];
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
            let setting = SETTINGS.iter().find(|setting| setting.name == name);
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
