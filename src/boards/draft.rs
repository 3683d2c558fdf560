//! A definition or patch as a request sends it, and the resulting definition.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::domain::board::{Definition, FieldError, Update};
use crate::domain::document::{self, DocumentError};
use crate::domain::ids::BoardId;
use crate::domain::league::LEAGUE_SHARDS;

/// The fields of a JSON object, with numbers as written: all digits are kept.
pub type Fields = BTreeMap<String, Box<RawValue>>;

/// A definition or a change of one, from a request.
#[derive(Clone, Debug)]
pub enum Draft {
    /// A whole definition. Missing fields get their defaults, but a board keeps its windows and its number of shards.
    Whole(Fields),
    /// A merge patch (RFC 7396). Missing fields are kept, and null gives the default.
    Patch(Fields),
    /// Another number of shards. Everything else is kept.
    Spread(u16),
}

impl Draft {
    /// The resulting definition of a board, which may have a `stored` one and has this many shards.
    ///
    /// A definition never moves data: `shards` counts when the board is created, and is kept if missing later. So are
    /// `windows`, since leaving them out must not delete any. A response can be sent back: `board` is accepted if it is
    /// the board's id.
    ///
    /// # Errors
    ///
    /// Errors in single fields, and then also those of [`Definition::check`], which checks fields against each other.
    pub fn definition(
        &self,
        id: &BoardId,
        stored: Option<&Definition>,
        shards: Option<u16>,
    ) -> Result<Definition, Vec<FieldError>> {
        let mut fields = match self {
            Self::Whole(fields) => fields.clone(),
            Self::Patch(patch) => merge(fields_of(stored), patch),
            Self::Spread(_) => fields_of(stored),
        };
        if let Some(board) = fields.remove("board")
            && serde_json::from_str::<String>(board.get()).ok().as_deref() != Some(id.as_str())
        {
            let detail = format!("must be {id}, the board in the path");
            return Err(vec![FieldError::new("/board", detail)]);
        }
        if !fields.contains_key("order") && update(&fields) == Some(Update::Min) {
            // The lowest score is the best: it has rank 1.
            fields.insert("order".into(), raw(&"asc"));
        }
        if let (Self::Whole(_), Some(stored)) = (self, stored) {
            let windows = || raw(&stored.windows);
            fields.entry("windows".into()).or_insert_with(windows);
        }
        let shards = match self {
            Self::Spread(shards) => Some(*shards),
            Self::Whole(_) | Self::Patch(_) => shards.filter(|_| !fields.contains_key("shards")),
        };
        if let Some(shards) = shards {
            fields.insert("shards".into(), raw(&shards));
        }
        if is_given(&fields, "league") {
            let shards = raw(&LEAGUE_SHARDS);
            fields.entry("shards".into()).or_insert(shards);
            if !is_given(&fields, "finalize") {
                fields.insert("finalize".into(), raw(&"0s"));
            }
        }
        let text = raw(&fields);
        let read = |text: &str| document::read(text);
        let more_of = |rest: Definition, known: &[FieldError]| more_errors(&rest, known);
        let read = document::read_whole(text.get(), read, more_of);
        read.map_err(DocumentError::into_errors)
    }
}

/// The errors of a definition without the places of these. Those that may only follow from one of these are left out.
fn more_errors(rest: &Definition, errors: &[FieldError]) -> Vec<FieldError> {
    let mut more = rest.check();
    more.retain(|error| {
        let mut wrong = errors.iter().flat_map(FieldError::fields);
        !wrong.any(|wrong| error.fields().any(|field| field == wrong))
    });
    more
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("numbers, texts, and objects of JSON are JSON")
}

/// Whether a field is there and not null.
fn is_given(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_some_and(|value| value.get() != "null")
}

fn update(fields: &Fields) -> Option<Update> {
    serde_json::from_str(fields.get("update")?.get()).ok()
}

fn fields_of(stored: Option<&Definition>) -> Fields {
    stored.map_or_else(Fields::new, |stored| {
        serde_json::from_str(raw(stored).get()).expect("a definition is an object")
    })
}

/// Applies a merge patch (RFC 7396).
fn merge(mut fields: Fields, patch: &Fields) -> Fields {
    for (name, value) in patch {
        match serde_json::from_str(value.get()) {
            Ok(Value::Null) => drop(fields.remove(name)),
            Ok(Value::Object(inner)) => {
                let before = fields
                    .get(name)
                    .and_then(|text| serde_json::from_str(text.get()).ok());
                let merged = merge_objects(before.unwrap_or_default(), inner);
                fields.insert(name.clone(), raw(&merged));
            }
            _ => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    fields
}

fn merge_objects(mut target: Map<String, Value>, patch: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in patch {
        match value {
            Value::Null => drop(target.remove(&name)),
            Value::Object(inner) => {
                let before = match target.remove(&name) {
                    Some(Value::Object(before)) => before,
                    _ => Map::new(),
                };
                target.insert(name, merge_objects(before, inner).into());
            }
            value => drop(target.insert(name, value)),
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::board::Order;

    fn fields(json: &Value) -> Fields {
        serde_json::from_str(&json.to_string()).unwrap()
    }

    fn whole(json: &Value, stored: Option<&Definition>) -> Result<Definition, Vec<FieldError>> {
        let shards = stored.map(|stored| stored.shards);
        let id = BoardId::parse("b").unwrap();
        Draft::Whole(fields(json)).definition(&id, stored, shards)
    }

    fn patched(stored: &Value, patch: &Value) -> Result<Value, Vec<FieldError>> {
        let stored = whole(stored, None).unwrap();
        let id = BoardId::parse("b").unwrap();
        let draft = Draft::Patch(fields(patch));
        let definition = draft.definition(&id, Some(&stored), Some(stored.shards))?;
        let before = serde_json::to_value(&stored).unwrap();
        let Value::Object(after) = serde_json::to_value(&definition).unwrap() else {
            panic!("a definition is an object");
        };
        let changed = after
            .into_iter()
            .filter(|(name, value)| before[name] != *value);
        Ok(Value::Object(changed.collect()))
    }

    #[test]
    fn a_patch_changes_only_its_fields() {
        let stored = json!({"windows": ["day", "all"], "title": "a", "score_min": 1, "update": "min",
            "retention": {"day": "7d", "hour": "1d"}, "shards": 3});
        let unchanged = patched(&stored, &json!({}));
        assert_eq!(unchanged, Ok(json!({})));
        let patch =
            json!({"title": "b", "score_min": null, "retention": {"hour": null, "week": "9d"}});
        let changed =
            json!({"title": "b", "score_min": null, "retention": {"day": "7d", "week": "9d"}});
        assert_eq!(patched(&stored, &patch), Ok(changed));
        let patch = json!({"windows": ["all"], "retention": null, "shards": null, "order": "desc"});
        let changed = json!({"windows": ["all"], "retention": {}, "order": "desc"});
        assert_eq!(patched(&stored, &patch), Ok(changed));
        let season =
            json!({"season": {"start": "2026-01-05T00:00:00Z", "length": "14d", "x": null}});
        let changed = patched(&stored, &season).unwrap();
        assert_eq!(changed["season"]["length"], "14d");
        let reset = patched(&stored, &json!({"windows": null}));
        assert_eq!(reset, Ok(json!({"windows": ["all"]})));
        let unknown = patched(&stored, &json!({"retention": {"fortnight": "1d"}})).unwrap_err();
        assert!(unknown[0].pointer.starts_with("/retention"), "{unknown:?}");
    }

    #[test]
    fn omitted_fields_of_a_definition_have_defaults() {
        let windows = json!(["day"]);
        let order = |json: Value| whole(&json, None).unwrap().order;
        assert_eq!(order(json!({"windows": windows})), Order::Desc);
        assert_eq!(
            order(json!({"windows": windows, "update": "min"})),
            Order::Asc
        );
        let desc = json!({"windows": windows, "update": "min", "order": "desc"});
        assert_eq!(order(desc), Order::Desc);
        let least = whole(&json!({}), None).unwrap();
        assert_eq!(json!(least.windows), json!(["all"]));
        let spread = whole(&json!({"windows": windows, "shards": 4}), None).unwrap();
        let kept = whole(&json!({"title": "b"}), Some(&spread)).unwrap();
        assert_eq!(
            (json!(kept.windows), kept.shards, kept.title.as_str()),
            (windows.clone(), 4, "b")
        );
        let one = whole(&json!({"windows": windows, "shards": 1}), Some(&spread)).unwrap();
        assert_eq!(one.shards, 1);
    }

    #[test]
    fn a_definition_that_was_read_can_be_sent_back() {
        let stored = whole(
            &json!({"windows": ["day"], "score_max": 0.1, "decimals": 1}),
            None,
        )
        .unwrap();
        let mut read = serde_json::to_value(&stored).unwrap();
        read["board"] = json!("b");
        assert_eq!(whole(&read, Some(&stored)).as_ref(), Ok(&stored));
        read["board"] = json!("c");
        let other = whole(&read, Some(&stored)).unwrap_err();
        assert_eq!(other[0].pointer, "/board");
    }

    #[test]
    fn numbers_keep_their_digits() {
        let fine = r#"{"windows": ["day"], "decimals": 6, "score_max": 0.1000000000000000000001}"#;
        let draft = Draft::Whole(serde_json::from_str(fine).unwrap());
        let refused = draft.definition(&BoardId::parse("b").unwrap(), None, None);
        assert_eq!(refused.unwrap_err()[0].pointer, "/score_max");
    }

    #[test]
    fn all_mistakes_are_reported_at_once_but_none_that_only_follow_from_others() {
        let pointers = |json: &Value| -> Vec<String> {
            whole(json, None)
                .unwrap_err()
                .into_iter()
                .map(|error| error.pointer)
                .collect()
        };
        let wrong = json!({"titel": "a", "public": 1, "windows": ["dya", "all", "wek"], "decimals": 7,
            "idempotency": "400d", "score_min": 3, "score_max": 2});
        assert_eq!(
            pointers(&wrong),
            [
                "/decimals",
                "/public",
                "/titel",
                "/windows/0",
                "/windows/2",
                "/score_max",
                "/idempotency"
            ]
        );
        // `rolling windows need update: sum` and `the window season needs it` would only confuse.
        let wrong = json!({"update": "som", "windows": ["last-7-days"], "order": "asc"});
        assert_eq!(pointers(&wrong), ["/update"]);
        let wrong = json!({"updaet": "max", "keep_top": 100, "order": "desc"});
        assert_eq!(pointers(&wrong), ["/updaet"]);
        let wrong = json!({"season": 1, "windows": ["season"]});
        assert_eq!(pointers(&wrong), ["/season"]);
    }
}
