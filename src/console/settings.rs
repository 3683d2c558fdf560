//! The settings of a board in people's words.
//!
//! `settings.json` has all of them: the place of each in a definition, what people call it, and what fills it in. A field of
//! a form is named after that place, as in `league.tiers.0.name`. What is left empty is not sent, and gets its default.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Number};

use super::prelude::*;
use super::shown::{Clock, capitalized, instant};
use crate::domain::board::FieldError;
use crate::domain::time::Timestamp;
use crate::domain::timezone::Zone;

/// Values, each with its words.
type Options = Vec<(String, String)>;

/// What fills in a setting.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Input {
    Tick,
    Text,
    Number,
    Zone,
    /// A local time in the board's time zone.
    Instant,
    /// A length of time, or also `any`.
    Duration {
        #[serde(default)]
        or_any: bool,
    },
    /// One of these.
    Choice(Options),
    /// Some of these, and others as text if they can be named.
    Checks {
        options: Options,
        #[serde(default)]
        others: String,
    },
    /// Texts, one per line.
    Lines,
    /// An object with a field in a line: `ann, 3`.
    Pairs,
    /// The first and the last rank: `1-3`.
    Ranks,
    /// A text, or any JSON.
    Any,
    /// Channels with extra allowances: `a, b: 5; c: 2`.
    Extras,
    /// Objects with these fields.
    Rows {
        row: String,
        columns: Vec<Setting>,
    },
}

/// A setting, or a column of rows.
#[derive(Debug, Deserialize)]
pub(super) struct Setting {
    /// Its place in the definition, or in its row.
    pub(super) path: String,
    pub(super) label: String,
    pub(super) help: String,
    pub(super) input: Input,
    /// Whether its object or row needs it.
    #[serde(default)]
    needed: bool,
}

/// Settings that belong together.
#[derive(Debug, Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    #[serde(default)]
    pub(super) advanced: bool,
    pub(super) settings: Vec<Setting>,
}

/// All settings, in the order of the form.
pub(super) static PARTS: LazyLock<Vec<Part>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("settings.json")).expect("invariant: a test reads it")
});

/// The units of lengths of time.
pub(super) const UNITS: [(&str, &str); 4] = [
    ("s", "seconds"),
    ("m", "minutes"),
    ("h", "hours"),
    ("d", "days"),
];

pub(super) fn settings() -> impl Iterator<Item = &'static Setting> {
    PARTS.iter().flat_map(|part| &part.settings)
}

/// What people call fields that are not called by their names.
const LABELS: [(&str, &str); 2] = [("url", "URL"), ("ip", "Address")];

/// What people call the place of an error: `Quotas 1, At most`.
pub(super) fn label(pointer: &str) -> String {
    let path = pointer.trim_start_matches('/').replace('/', ".");
    let found = settings().find_map(|setting| {
        let rest = path.strip_prefix(&setting.path)?;
        (rest.is_empty() || rest.starts_with('.')).then_some((setting, rest))
    });
    let Some((setting, rest)) = found else {
        let label = LABELS.iter().find(|(name, _)| *name == path);
        let words = || capitalized(&path.replace(['_', '.'], " "));
        return label.map_or_else(words, |(_, label)| (*label).to_owned());
    };
    let mut steps = rest.split('.').skip(1);
    let row = steps.next().and_then(|row| row.parse::<usize>().ok());
    let columns = match &setting.input {
        Input::Rows { columns, .. } => &columns[..],
        _ => &[],
    };
    let column = steps
        .next()
        .and_then(|column| columns.iter().find(|own| own.path == column));
    let row = row.map_or_else(String::new, |row| format!(" {}", row + 1));
    let column = column.map_or_else(String::new, |column| format!(", {}", column.label));
    format!("{}{row}{column}", setting.label)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

impl Setting {
    /// The value in a definition.
    pub(super) fn of<'a>(&self, definition: &'a Value) -> &'a Value {
        let steps = self.path.split('.');
        steps.fold(definition, |value, step| &value[step])
    }

    /// The field of the definition in which it is, and its key there; no key if it is that field.
    pub(super) fn place(&self) -> (&str, &str) {
        self.path.split_once('.').unwrap_or((&self.path, ""))
    }

    /// Whether it is a local time.
    pub(super) fn is_instant(&self) -> bool {
        matches!(self.input, Input::Instant)
    }

    /// The attributes of its element `<input>`.
    pub(super) fn attributes(&self) -> &'static str {
        match self.input {
            Input::Number => r#" inputmode="decimal""#,
            Input::Zone => r#" list="zones" spellcheck="false""#,
            Input::Instant => r#" type="datetime-local" step="any""#,
            _ => r#" spellcheck="false""#,
        }
    }

    /// Fills in the fields of this name with a value.
    pub(super) fn fill_in(&self, name: &str, value: &Value, zone: Zone, form: &mut Form) {
        let text = match (&self.input, value) {
            (Input::Checks { .. }, Value::Array(_)) => {
                for text in texts(value) {
                    form.fill_field(name, text);
                }
                return;
            }
            (Input::Rows { columns, .. }, Value::Array(rows)) => {
                for (index, row) in rows.iter().enumerate() {
                    for column in columns {
                        let name = format!("{name}.{index}.{}", column.path);
                        column.fill_in(&name, &row[&column.path], zone, form);
                    }
                }
                return;
            }
            (Input::Duration { .. }, Value::String(span)) => {
                let (count, unit) = count_and_unit(span);
                form.fill_field(&format!("{name}.unit"), unit);
                count.to_owned()
            }
            (input, value) => input.text(value, zone),
        };
        if !text.is_empty() {
            form.fill_field(name, text);
        }
    }

    /// A value in words.
    pub(super) fn words(&self, value: &Value, zone: Zone) -> String {
        let word = |options: &Options, value: &str| {
            let option = options.iter().find(|(own, _)| own == value);
            option.map_or_else(|| value.to_owned(), |(_, words)| words.clone())
        };
        let words = match (&self.input, value) {
            (Input::Tick, value) => if *value == true { "Yes" } else { "No" }.to_owned(),
            (Input::Choice(options), value) => word(options, &text(value)),
            (Input::Checks { options, .. }, value) => {
                let words = texts(value).into_iter().map(|value| word(options, &value));
                words.collect::<Vec<_>>().join(", ")
            }
            (Input::Rows { columns, .. }, Value::Array(rows)) => {
                let rows = rows.iter().map(|row| row_in_words(columns, row, zone));
                rows.collect::<Vec<_>>().join("; ")
            }
            (Input::Duration { .. }, Value::String(span)) => {
                let (count, unit) = count_and_unit(span);
                let unit = UNITS.iter().find(|(own, _)| *own == unit);
                match (count, unit.map_or("", |(_, unit)| unit)) {
                    ("", _) => "Any age".to_owned(),
                    ("1", unit) => format!("1 {}", unit.trim_end_matches('s')),
                    (count, unit) => format!("{count} {unit}"),
                }
            }
            (Input::Instant, Value::String(_)) => {
                let local = self.input.text(value, zone);
                format!("{} {}", local.replace('T', " "), zone.name())
            }
            (input, value) => input.text(value, zone).replace('\n', "; "),
        };
        if words.is_empty() {
            NONE.to_owned()
        } else {
            words
        }
    }
}

/// The count and the unit of a length of time; no count: of any length.
fn count_and_unit(span: &str) -> (&str, &str) {
    span.split_at(span.trim_end_matches(char::is_alphabetic).len())
}

/// What a row has, after its first column each with the name of the column.
fn row_in_words(columns: &[Setting], row: &Value, zone: Zone) -> String {
    let words = columns
        .iter()
        .map(|column| (column, column.words(&row[&column.path], zone)));
    let words = words.filter(|(_, words)| words != NONE).enumerate();
    let words = words.map(|(index, (column, words))| match index {
        0 => words,
        _ => format!("{} {words}", column.label.to_lowercase()),
    });
    words.collect::<Vec<_>>().join(", ")
}

impl Input {
    /// A value as a single field has it.
    fn text(&self, value: &Value, zone: Zone) -> String {
        match (self, value) {
            (Self::Instant, Value::String(at)) => {
                Timestamp::parse(at).map_or_else(|_| at.clone(), |at| Clock::local_text(zone, at))
            }
            (Self::Lines, Value::Array(_)) => texts(value).join("\n"),
            (Self::Pairs, Value::Object(fields)) => {
                let pairs = fields.iter();
                let lines = pairs.map(|(key, value)| format!("{key}, {}", text(value)));
                lines.collect::<Vec<_>>().join("\n")
            }
            (Self::Ranks, Value::Array(_)) => {
                let mut ends = texts(value);
                ends.dedup();
                ends.join("-")
            }
            // A text that would be read as something else is in quotes.
            (Self::Any, Value::String(text)) if serde_json::from_str::<Value>(text).is_ok() => {
                value.to_string()
            }
            (Self::Extras, Value::Array(extras)) => {
                let extra = |extra: &Value| {
                    format!("{}: {}", texts(&extra["channel"]).join(", "), extra["max"])
                };
                extras.iter().map(extra).collect::<Vec<_>>().join("; ")
            }
            _ => text(value),
        }
    }
}

/// The words for nothing.
pub(super) const NONE: &str = "–";

/// Whether a text is meant as JSON.
fn is_json(text: &str) -> bool {
    text.starts_with(['{', '[', '"']) || serde_json::from_str::<Value>(text).is_ok()
}

/// Reads a form, and collects what is wrong in it.
pub(super) struct Reader<'a> {
    pub(super) form: &'a Form,
    pub(super) zone: Zone,
    pub(super) errors: Vec<FieldError>,
}

impl Reader<'_> {
    /// The definition that is filled in. What can't be read is in it as text.
    pub(super) fn definition(&mut self) -> Value {
        let mut fields = Map::new();
        let settings: Vec<&Setting> = settings().collect();
        // The settings of an object follow each other.
        for settings in settings.chunk_by(|a, b| a.place().0 == b.place().0) {
            let (field, _) = settings[0].place();
            let filled = settings.iter().map(|setting| {
                let value = self.value(setting, &setting.path, &setting.path);
                (*setting, setting.place().1, value)
            });
            let mut filled: Vec<Filled<'_>> = filled.collect();
            let value = match &mut filled[..] {
                [(_, "", value)] => value.take(),
                _ => self.object(field, filled),
            };
            fields.extend(value.map(|value| (field.to_owned(), value)));
        }
        Value::Object(fields)
    }

    /// An object with these fields, at a place in the definition; none if nothing is filled in.
    fn object(&mut self, at: &str, filled: Vec<Filled<'_>>) -> Option<Value> {
        let is_filled = |(setting, _, value): &Filled<'_>| {
            value.is_some() && !matches!(setting.input, Input::Choice(_) | Input::Tick)
        };
        if !filled.iter().any(is_filled) {
            return None;
        }
        let is_missing = |(setting, _, value): &&Filled<'_>| setting.needed && value.is_none();
        for (_, key, _) in filled.iter().filter(is_missing) {
            self.wrong(&format!("{at}.{key}"), "is missing");
        }
        let given = filled.into_iter();
        let given = given.filter_map(|(_, key, value)| Some((key.to_owned(), value?)));
        Some(Value::Object(given.collect()))
    }

    fn wrong(&mut self, at: &str, detail: &str) {
        let pointer = format!("/{}", at.replace('.', "/"));
        self.errors.push(FieldError::new(pointer, detail));
    }

    /// The value of a setting in the fields of a name; `at` is its place in the definition.
    fn value(&mut self, setting: &Setting, name: &str, at: &str) -> Option<Value> {
        let form = self.form;
        let text = form.field(name).trim();
        let read: Result<Value, &str> = match &setting.input {
            Input::Tick => Ok((text == "true").into()),
            Input::Rows { columns, .. } => return self.rows(columns, name, at),
            Input::Checks { .. } => {
                let others = form.field(&format!("{name}.more"));
                let others = others.split([',', ' ']).filter(|other| !other.is_empty());
                let chosen: Vec<_> = form.chosen(name).into_iter().chain(others).collect();
                return (!chosen.is_empty()).then(|| chosen.into());
            }
            Input::Duration { .. } => {
                let unit = form.field(&format!("{name}.unit"));
                match text {
                    "" if unit != "any" => return None,
                    _ if unit == "any" => Ok("any".into()),
                    _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                        Ok(format!("{text}{unit}").into())
                    }
                    _ => Err("is not a whole number"),
                }
            }
            _ if text.is_empty() => return None,
            Input::Number => {
                let number: Result<Number, _> = serde_json::from_str(text);
                number.map(Value::Number).map_err(|_| "is not a number")
            }
            Input::Instant => instant(text, self.zone)
                .map(Value::String)
                .ok_or("is not a date and a time"),
            Input::Lines => Ok(form.lines(name).into()),
            Input::Pairs => {
                pairs(&form.lines(name)).ok_or("has a line that is not a name, a comma and a value")
            }
            Input::Ranks => ranks(text).ok_or("must be ranks, such as 1-3"),
            Input::Any if is_json(text) => serde_json::from_str(text).map_err(|_| "is not JSON"),
            Input::Any | Input::Text | Input::Zone | Input::Choice(_) => Ok(text.into()),
            Input::Extras => {
                extras(text).ok_or("must be channels and a number, as in partner-a, partner-b: 5")
            }
        };
        Some(read.unwrap_or_else(|detail| {
            self.wrong(at, detail);
            text.into()
        }))
    }

    fn rows(&mut self, columns: &[Setting], name: &str, at: &str) -> Option<Value> {
        let mut rows: Vec<Value> = Vec::new();
        for index in self.form.rows(name) {
            let row = format!("{name}.{index}");
            if self.form.has(&format!("{row}.remove"), "true") {
                continue;
            }
            // Without the rows that are left out.
            let at = format!("{at}.{}", rows.len());
            let filled = columns.iter().map(|column| {
                let path = column.path.as_str();
                let [name, at] = [&row, &at].map(|outer| format!("{outer}.{path}"));
                (column, path, self.value(column, &name, &at))
            });
            let filled = filled.collect();
            rows.extend(self.object(&at, filled));
        }
        (!rows.is_empty()).then(|| rows.into())
    }
}

/// A setting, its key in its object, and what is filled in.
type Filled<'a> = (&'a Setting, &'a str, Option<Value>);

fn pairs(lines: &[&str]) -> Option<Value> {
    let pair = |line: &&str| {
        let (key, value) = line.rsplit_once([',', ':', '\t'])?;
        let (key, value) = (key.trim(), value.trim());
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        Some((key.to_owned(), value))
    };
    let fields: Option<Map<_, _>> = lines.iter().map(pair).collect();
    fields.map(Value::Object)
}

fn ranks(text: &str) -> Option<Value> {
    let (first, last) = text.split_once(['-', '–']).unwrap_or((text, text));
    let rank = |text: &str| text.trim().parse::<u64>().ok();
    Some(json!([rank(first)?, rank(last)?]))
}

fn extras(text: &str) -> Option<Value> {
    let extra = |extra: &str| {
        let (channels, max) = extra.rsplit_once(':')?;
        let channels: Vec<&str> = channels.split(',').map(str::trim).collect();
        Some(json!({"channel": channels, "max": max.trim().parse::<u64>().ok()?}))
    };
    let parts = text.split(';').filter(|part| !part.trim().is_empty());
    parts.map(extra).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::boards::draft::Fields;
    use crate::boards::templates::{TEMPLATES, new_board};

    fn read(form: &Form, zone: Zone) -> Value {
        let mut reader = Reader {
            form,
            zone,
            errors: Vec::new(),
        };
        let definition = reader.definition();
        assert_eq!(reader.errors, []);
        definition
    }

    #[test]
    fn each_field_of_a_definition_has_its_setting() {
        let defaults = json!(new_board(Fields::default()));
        let fields: BTreeSet<&str> = defaults
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let outer = settings().map(|setting| setting.place().0);
        assert_eq!(outer.collect::<BTreeSet<_>>(), fields);
    }

    /// What is empty is not sent.
    fn without_empty(value: &mut Value) {
        if let Value::Object(fields) = value {
            fields.retain(|_, value| {
                !value.is_null() && *value != json!([]) && *value != json!({}) && *value != ""
            });
            fields.values_mut().for_each(without_empty);
        } else if let Value::Array(items) = value {
            items.iter_mut().for_each(without_empty);
        }
    }

    #[test]
    fn every_setting_comes_back_from_the_form_as_it_was() {
        let zone: Zone = "Europe/Berlin".parse().unwrap();
        let all = json!({
            "title": "Votes", "tags": ["a, b", "c"], "public": true, "public_includes": ["profile"], "names": "approved",
            "update": "max", "order": "asc", "decimals": 2, "score_min": 0, "score_max": 9.25, "ties": "last",
            "ranking": "competition", "timezone": "Europe/Berlin", "week_start": "sunday",
            "windows": ["week", "last-7-days", "minute", "day"],
            "season": {"start": "2026-01-04T23:00:00.000Z", "length": "28d"}, "carryover": {"week": 0.2},
            "accept_late": "any", "idempotency": "1h", "retention": {"day": "90d", "hour": "7d"},
            "quotas": [
                {"name": "q", "by": ["voter"], "window": "day", "max": 1, "measure": "events"},
                {"name": "r", "by": ["ip", "voter"], "window": "10m", "max": 5, "measure": "score",
                 "extra": [{"channel": ["a", "b"], "max": 5}, {"channel": ["c"], "max": 2}]},
            ],
            "weight": {"default": 2, "members": {"ann": 3}}, "initial": ["all", "day"], "uniques": "member", "keep_top": 10,
            "entry_data": true,
            "rewards": [
                {"id": "a", "window": "day", "ranks": [1, 3], "reward": {"item": "medal"}},
                {"id": "b", "window": "day", "ranks": [1, 1], "min_score": 0.5, "reward": "coin"},
                {"id": "c", "window": "day", "top_percent": 10, "reward": "5"},
            ],
            "league": {
                "cohort_size": 30, "join_until": "1d", "min_cohort": 2, "min_score_to_promote": 1, "idle": "demote",
                "tiers": [{"name": "bronze", "promote": 0.2, "demote": 0}], "entry_bonus": [{"ranks": [1, 2], "score": 5}],
            },
            "shards": 16, "ingest": "async", "opens_at": "2026-07-01T10:00:00.000Z",
            "closes_at": "2026-12-01T00:00:00.250Z", "finalize": "10m", "max_delay": "30s",
            "history": "90d",
        });
        let templates = TEMPLATES
            .iter()
            .map(|template| json!(template.definition()));
        for mut definition in templates.chain([all]) {
            let own: Zone = definition["timezone"].as_str().unwrap().parse().unwrap();
            assert!(own == zone || own == Zone::UTC);
            let mut form = Form::default();
            for setting in settings() {
                setting.fill_in(&setting.path, setting.of(&definition), own, &mut form);
                assert!(!setting.words(setting.of(&definition), own).is_empty());
            }
            without_empty(&mut definition);
            let mut read = read(&form, own);
            without_empty(&mut read);
            assert_eq!(read, definition);
        }
    }

    #[test]
    fn the_place_of_an_error_has_a_name() {
        for (pointer, name) in [
            ("/quotas/0/max", "Quotas 1, At most"),
            ("/league/tiers/1/promote", "Tiers 2, Share that goes up"),
            ("/timezone", "Time zone"),
            ("/windows/0", "Windows 1"),
            ("/by", "By"),
            ("/url", "URL"),
            ("/granted_as", "Granted as"),
        ] {
            assert_eq!(label(pointer), name);
        }
    }
}
