//! Defining a board, and changing its definition: a form, or JSON; then what the change would do; then the change.

use axum::http::{HeaderValue, header};
use serde::Deserialize;

use super::board::zone_of;
use super::prelude::*;
use super::settings::{Input, PARTS, Part, Reader, Setting, UNITS, settings};
use super::shown::{pretty, window};
use super::upkeep::what_closing_does;
use crate::boards::draft::Fields;
use crate::boards::preview::BoardPreview;
use crate::boards::templates::{self, TEMPLATES, new_board};
use crate::domain::board::FieldError;
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;
use crate::http::inner::parsed;
use crate::http::problem::{PRECONDITION_FAILED, VALIDATION_FAILED, WINDOWS_IN_USE};

/// A definition that is filled in.
struct Draft {
    /// The id; empty if it has to be filled in.
    board: String,
    /// The version of the definition that is changed; empty for a new board.
    etag: String,
    definition: Value,
    /// Whether it is written as JSON.
    is_json: bool,
    errors: Vec<FieldError>,
}

impl Draft {
    /// That of the form, of the JSON, or of the review.
    fn read(form: &Form) -> Self {
        let board = form.field("board").trim().to_owned();
        let wrong = match board.as_str() {
            "" => Some("is missing: give the board an id"),
            id if BoardId::parse(id).is_ok() => None,
            _ => Some(
                "must have letters, digits, dots, underscores and hyphens only, begin with a letter or a digit, and have up to 128 characters",
            ),
        };
        let mut errors: Vec<FieldError> = Vec::new();
        errors.extend(wrong.map(|detail| FieldError::new("/board", detail)));
        let text = form.field("definition");
        let definition = if text.is_empty() {
            let zone = form.field("timezone").trim().parse().unwrap_or(Zone::UTC);
            let mut reader = Reader { form, zone, errors };
            let definition = reader.definition();
            errors = reader.errors;
            definition
        } else {
            serde_json::from_str(text).unwrap_or_else(|error| {
                let detail = format!("is not JSON: {error}");
                errors.push(FieldError::new("/definition", detail));
                text.into()
            })
        };
        Self {
            board,
            etag: form.field("etag").to_owned(),
            definition,
            is_json: form.field("as") == "json",
            errors,
        }
    }

    /// Whether it is of a board that is not there yet.
    fn is_new(&self) -> bool {
        self.etag.is_empty()
    }

    fn zone(&self) -> Zone {
        zone_of(&self.definition)
    }

    /// The definition as text.
    fn text(&self) -> String {
        match &self.definition {
            Value::String(text) => text.clone(),
            definition => pretty(definition),
        }
    }

    /// Sends it with the windows that may be deleted; `dry_run` is `true` or empty.
    async fn put(&self, viewer: &Viewer, drop: &str, dry_run: &str) -> Answer {
        let condition = if self.is_new() {
            (header::IF_NONE_MATCH, HeaderValue::from_static("*"))
        } else {
            let wrong = |_| Problem::new(VALIDATION_FAILED, "etag: is none");
            let etag = HeaderValue::try_from(&self.etag).map_err(wrong)?;
            (header::IF_MATCH, etag)
        };
        let query = [("drop_windows", drop), ("dry_run", dry_run)];
        let put_to = v1_with(&["boards", &self.board], &query);
        let conditions = [condition];
        let put = viewer.respond(Method::PUT, &put_to, &conditions, Some(&self.definition));
        put.await.map_err(|problem| {
            if self.is_new() && problem.kind == PRECONDITION_FAILED {
                let detail = format!("is taken: there is a board {} already", self.board);
                return Problem::invalid_field("/board", detail);
            }
            problem
        })
    }
}

/// An input with what is filled in.
struct Control<'a> {
    setting: &'a Setting,
    name: String,
    value: String,
    unit: String,
    /// The boxes of `Checks`: what is chosen comes first, in its order.
    boxes: Vec<(String, String, bool)>,
    faults: Vec<String>,
}

#[derive(Template)]
#[template(path = "console/define.html")]
struct DefinePage {
    /// Its form has what is filled in.
    frame: Frame,
    draft: Draft,
}

impl DefinePage {
    async fn new(viewer: &Visitor, draft: Draft) -> Self {
        let mut frame = frame(viewer, &draft, "Edit").await;
        for setting in settings() {
            let value = setting.of(&draft.definition);
            setting.fill_in(&setting.path, value, draft.zone(), &mut frame.form);
        }
        Self { frame, draft }
    }

    /// Shows the form again with the problem, and the errors next to the settings.
    fn refused(mut self, problem: Problem) -> Answer {
        let status = self.frame.refuse(problem);
        refused(status, &self)
    }

    /// The errors of a field, which is named after its place, and of up to so many levels within it.
    fn faults(&self, name: &str, levels: usize) -> Vec<String> {
        let at = format!("/{}", name.replace('.', "/"));
        let is_within = |pointer: &str| {
            let rest = pointer.strip_prefix(&at);
            rest.is_some_and(|rest| {
                (rest.is_empty() || rest.starts_with('/')) && rest.matches('/').count() <= levels
            })
        };
        let errors = self.frame.errors();
        let own = errors.filter(|error| is_within(&error.pointer));
        own.map(|error| error.detail.clone()).collect()
    }

    /// The name of the board's time zone.
    fn zone(&self) -> &'static str {
        self.draft.zone().name()
    }

    fn control<'a>(&self, setting: &'a Setting, name: &str) -> Control<'a> {
        let form = &self.frame.form;
        let mut boxes = Vec::new();
        if let Input::Checks { options, .. } = &setting.input {
            let chosen = form.chosen(name);
            let words = |value: &str| {
                let option = options.iter().find(|(own, _)| own == value);
                option.map_or_else(|| window(value), |(_, words)| words.clone())
            };
            let others = options.iter().map(|(value, _)| value.as_str());
            let others = others.filter(|value| !chosen.contains(value));
            let others: Vec<_> = others.map(|value| (value, false)).collect();
            let chosen = chosen.iter().map(|value| (*value, true));
            let all = chosen.chain(others);
            boxes.extend(all.map(|(value, own)| (value.to_owned(), words(value), own)));
        }
        Control {
            setting,
            name: name.to_owned(),
            value: form.field(name).to_owned(),
            unit: form.field(&format!("{name}.unit")).to_owned(),
            boxes,
            faults: self.faults(name, usize::MAX),
        }
    }

    /// The controls of each row; the last one is empty, and not there yet.
    fn rows<'a>(&self, columns: &'a [Setting], name: &str) -> Vec<(usize, Vec<Control<'a>>)> {
        let row = |index: usize| {
            let column = |column: &'a Setting| {
                self.control(column, &format!("{name}.{index}.{}", column.path))
            };
            (index, columns.iter().map(column).collect())
        };
        (0..=self.frame.form.rows(name).len()).map(row).collect()
    }

    /// The parts of the form: those that most boards need, or the others.
    fn parts(advanced: bool) -> impl Iterator<Item = &'static Part> {
        PARTS.iter().filter(move |part| part.advanced == advanced)
    }

    /// Whether something is filled in, or wrong, in a part that is not open by itself.
    fn is_open(&self, part: &Part) -> bool {
        let wrong = |setting: &Setting| !self.faults(&setting.path, usize::MAX).is_empty();
        part.settings.iter().any(wrong)
            || (part.name == "League" && !self.draft.definition["league"].is_null())
    }
}

/// The frame of a page about a draft.
async fn frame(viewer: &Visitor, draft: &Draft, verb: &str) -> Frame {
    let frame = Frame::new(viewer, "New board").under("Boards", "/console/boards");
    frame.look_around().await;
    if draft.is_new() {
        return frame;
    }
    let board = &draft.board;
    let definition = address(&["console", "boards", board, "definition"], &[]);
    frame
        .named(format!("{verb} {board}"))
        .under(board, definition)
}

/// The form, for a board, or for a new one that begins with a template.
pub(super) async fn show(frame: Frame) -> Answer {
    let [board, template] = frame.params(["board", "template"])?;
    let viewer = &frame.visitor;
    let (etag, definition) = if board.is_empty() {
        viewer.require_anywhere(Scope::Configure)?;
        let template = templates::named(&template).map(templates::Template::definition);
        let definition = template.unwrap_or_else(|| new_board(Fields::default()));
        (String::new(), json!(definition))
    } else {
        let defined_at = v1(&["boards", &board]);
        let found = viewer.respond(Method::GET, &defined_at, &[], None).await?;
        let etag = found.headers().get(header::ETAG);
        let etag = etag.and_then(|etag| etag.to_str().ok());
        (
            etag.unwrap_or_default().to_owned(),
            parsed(found.into_body()).await?,
        )
    };
    let draft = Draft {
        board,
        etag,
        definition,
        is_json: false,
        errors: Vec::new(),
    };
    html(&DefinePage::new(viewer, draft).await)
}

/// Shows the form or the JSON again, or what the change would do, or makes the change.
pub(super) async fn put(viewer: Viewer, form: Form) -> Answer {
    let mut draft = Draft::read(&form);
    let step = form.field("step");
    if let "form" | "json" = step {
        draft.is_json = step == "json" || draft.definition.is_string();
        return html(&DefinePage::new(&viewer, draft).await);
    }
    if !draft.errors.is_empty() {
        let problem = Problem::invalid(std::mem::take(&mut draft.errors));
        return DefinePage::new(&viewer, draft).await.refused(problem);
    }
    if step != "save" {
        return review(&viewer, draft, None).await;
    }
    let name = form.field("must_confirm");
    if !name.is_empty()
        && let Err(problem) = form.confirm(name)
    {
        return review(&viewer, draft, Some(problem)).await;
    }
    match draft.put(&viewer, form.field("drop_windows"), "").await {
        Ok(_) if draft.is_new() => Ok(to(&["boards", &draft.board], &[("done", "created")])),
        Ok(_) => {
            let definition = ["boards", &draft.board, "definition"];
            Ok(to(&definition, &[("done", "changed")]))
        }
        Err(problem) => {
            let problem = problem.mendable()?;
            DefinePage::new(&viewer, draft).await.refused(problem)
        }
    }
}

/// A setting that changes, in words.
struct Change {
    label: String,
    from: String,
    to: String,
    effect: String,
}

#[derive(Template)]
#[template(path = "console/change.html")]
struct ChangePage {
    frame: Frame,
    draft: Draft,
    changes: Vec<Change>,
    /// When the next periods of each window begin.
    starts: Vec<(String, Vec<Timestamp>)>,
    /// The windows that are deleted with their data.
    lost: String,
    /// What the change ends or deletes, and the name that confirms it.
    ends: Vec<String>,
    must_confirm: String,
}

#[derive(Deserialize)]
struct Previewed {
    preview: BoardPreview,
    #[serde(flatten)]
    after: Value,
}

/// Shows what the change would do, and why it was not made if it was refused.
async fn review(viewer: &Viewer, draft: Draft, refusal: Option<Problem>) -> Answer {
    let before = if draft.is_new() {
        json!(new_board(Fields::default()))
    } else {
        viewer.read(&v1(&["boards", &draft.board])).await?
    };
    let mut lost = String::new();
    let mut put = draft.put(viewer, "", "true").await;
    if let Err(problem) = &put
        && problem.kind == WINDOWS_IN_USE
    {
        lost = removed(&before, &draft.definition);
        put = draft.put(viewer, &lost, "true").await;
    }
    let answer = match put {
        Ok(answer) => answer,
        Err(problem) => {
            let problem = problem.mendable()?;
            return DefinePage::new(viewer, draft).await.refused(problem);
        }
    };
    let Previewed { preview, after } = parsed(answer.into_body()).await?;
    let mut frame = frame(viewer, &draft, "Review the change of").await;
    frame.clock.zone = draft.zone();
    let put_to = v1_with(&["boards", &draft.board], &[("drop_windows", &lost)]);
    let put = viewer.curl_to(&Method::PUT, &put_to, Some(&draft.definition));
    frame.curl.push(put);
    let ends = ends(&lost, &before, &after, frame.clock.now);
    let starts = preview.boundaries.iter().map(|boundary| {
        let starts = boundary.starts_at.iter();
        let starts = starts.filter_map(|at| Timestamp::parse(at).ok());
        (window(&boundary.window), starts.collect())
    });
    let mut page = ChangePage {
        changes: changes(&preview, &before, &after, frame.clock.zone),
        starts: starts
            .filter(|(_, starts): &(_, Vec<_>)| !starts.is_empty())
            .collect(),
        must_confirm: match (ends.is_empty(), lost.is_empty()) {
            (true, _) => String::new(),
            (_, false) => lost.clone(),
            _ => draft.board.clone(),
        },
        frame,
        draft,
        lost,
        ends,
    };
    match refusal {
        None => html(&page),
        Some(problem) => {
            let status = page.frame.refuse(problem);
            refused(status, &page)
        }
    }
}

/// The windows that one definition has and another one has not.
fn removed(before: &Value, after: &Value) -> String {
    let windows = |definition: &Value| {
        definition["windows"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let (before, after) = (windows(before), windows(after));
    let removed = before.iter().filter(|window| !after.contains(window));
    removed
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(",")
}

/// What a change ends or deletes, in sentences.
fn ends(lost: &str, before: &Value, after: &Value, now: Timestamp) -> Vec<String> {
    let is_over = |definition: &Value| {
        let at = definition["closes_at"].as_str().map(Timestamp::parse);
        at.is_some_and(|at| at.is_ok_and(|at| at <= now))
    };
    let mut ends = Vec::new();
    if !lost.is_empty() {
        let lost = lost.replace(',', ", ");
        ends.push(format!(
            "All data of {lost} is deleted. Nothing brings it back."
        ));
    }
    if is_over(after) && !is_over(before) {
        let closing = what_closing_does(&after["finalize"]);
        ends.push(format!("The board closes at once. {closing}"));
    }
    ends
}

/// The settings that change. A sentence about several of them is with the first one.
fn changes(preview: &BoardPreview, before: &Value, after: &Value, zone: Zone) -> Vec<Change> {
    let mut said = Vec::new();
    let changed = settings().filter(|setting| setting.of(before) != setting.of(after));
    changed
        .map(|setting| {
            let (field, _) = setting.place();
            let own = preview.changes.iter().find(|change| change.field == field);
            let own = own.filter(|_| !preview.created && !said.contains(&field));
            said.push(field);
            Change {
                label: setting.label.clone(),
                from: setting.words(setting.of(before), zone),
                to: setting.words(setting.of(after), zone),
                effect: own.map_or_else(String::new, |change| change.effect.clone()),
            }
        })
        .collect()
}
