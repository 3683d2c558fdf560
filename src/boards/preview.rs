//! Describes to an operator what a change of a definition would do.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::domain::board::{Board, Definition};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;

/// How many boundaries of a window are returned.
const BOUNDARIES: usize = 3;

/// A field of a definition that would change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct FieldChange {
    /// Its name.
    pub field: String,
    /// Its current value; null if the board is new.
    pub from: Value,
    /// Its new value.
    pub to: Value,
    /// What the change would do to the data.
    pub effect: String,
}

/// The fields that would change, sorted by name.
pub fn changes(before: Option<&Definition>, after: &Definition) -> Vec<FieldChange> {
    let fields = before.map(object).unwrap_or_default();
    let changed = object(after).into_iter().filter_map(|(field, to)| {
        let from = fields.get(&field).cloned().unwrap_or_default();
        let effect = match before {
            _ if from == to => return None,
            None => "The board is new.".to_owned(),
            Some(before) if field == "windows" => effect_on_windows(before, after),
            Some(_) => effect(&field).to_owned(),
        };
        Some(FieldChange {
            field,
            from,
            to,
            effect,
        })
    });
    changed.collect()
}

fn object(definition: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(definition) {
        Ok(Value::Object(fields)) => fields,
        other => panic!("a definition is an object, not {other:?}"),
    }
}

/// The effect of changing a field, except for the windows.
fn effect(field: &str) -> &'static str {
    match field {
        "title" | "tags" => "No data changes.",
        "public" | "public_includes" | "names" => {
            "It holds for reads from now on. No data changes."
        }
        "ranking" => "Reads count ranks like this from now on. No score changes.",
        "score_min" | "score_max" | "accept_late" | "opens_at" | "closes_at" => {
            "It applies to events from now on. Events that were taken stay."
        }
        "quotas" => {
            "It applies to events from now on. What was counted under the name of a quota stays counted."
        }
        "rewards" => {
            "Periods that are closed from now on give these rewards. What members have won in others stays."
        }
        "idempotency" => "It applies to the ids of events from now on.",
        "retention" => {
            "It applies to standings that get their first event from now on. Others expire as before."
        }
        "carryover" => "Events from now on carry this share over. What was carried over stays.",
        "finalize" => {
            "It applies to periods that end from now on, and to those that have ended and are not final. What is final stays final."
        }
        "max_delay" => "Closings that begin from now on wait for queued events like this.",
        "league" => "Periods that begin from now on go by it. The running one ends as it began.",
        "ingest" => "Events from now on are answered like this. Those that are queued are applied.",
        "shards" => "The data moves to the new shards in the background.",
        "update" | "order" | "decimals" | "ties" | "timezone" | "week_start" | "weight"
        | "initial" | "uniques" | "keep_top" | "entry_data" => {
            "This can change only as long as the board has no events. No data changes."
        }
        "season" => {
            "The window `season` goes by it. Once the board has events it can't change any more."
        }
        field => panic!("the effect of a change of {field} is not told"),
    }
}

fn effect_on_windows(before: &Definition, after: &Definition) -> String {
    let recorded = |window: &Window| {
        let unit = window.unit();
        before.windows.contains(&Window::Period(unit)) || before.rolls(unit)
    };
    let added = after
        .windows
        .iter()
        .filter(|window| !before.windows.contains(window));
    let added = added.map(|window| match window {
        window if !recorded(window) => format!("{window} counts events from now on."),
        Window::Period(_) => format!("{window} has the events that its rolling windows counted."),
        Window::Rolling { .. } => format!("{window} begins with what its periods hold."),
    });
    let removed = before
        .windows
        .iter()
        .filter(|window| !after.windows.contains(window));
    let removed = removed.map(|window| format!("{window} can't be read any more."));
    let sentences: Vec<String> = added.chain(removed).collect();
    if sentences.is_empty() {
        return "Only the order of the windows changes.".to_owned();
    }
    sentences.join(" ")
}

/// For each window of a board, the next instants at which one period ends and another begins; none for `all`.
pub fn boundaries(board: &Board, now: Timestamp) -> Vec<(Window, Vec<Timestamp>)> {
    let windows = board.definition.windows.iter();
    let windows = windows.map(|window| {
        let running = board.calendar.containing(window.unit(), now);
        let next = |period: &_| board.calendar.next(period);
        let periods = std::iter::successors(next(&running), next);
        let starts = periods.filter_map(|period| period.start());
        (*window, starts.take(BOUNDARIES).collect())
    });
    windows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effect_of_each_field_is_told() {
        let definition: Definition = serde_json::from_str(r#"{"windows": ["day"]}"#).unwrap();
        for field in object(&definition)
            .keys()
            .filter(|field| *field != "windows")
        {
            assert!(effect(field).ends_with('.'), "{field}");
        }
    }
}
