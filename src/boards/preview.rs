//! Describes to an operator what a change of a definition would do.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::domain::board::{Board, Definition, History};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;

/// How many boundaries of a window are returned.
const BOUNDARIES: usize = 3;

/// The effect of setting `finalize`, and of removing it.
const FIRST_FINALIZE: &str = "Periods that end from now on become final, and have results. Earlier periods become final with the next one that does, but never get a result.";
const NO_MORE_FINALIZE: &str =
    "Periods that are not final stay open, and get no result. Final periods stay final.";

/// The effect of keeping events for a shorter time.
const SHORTER_HISTORY: &str = "Older events are removed. Their ids are remembered for the board's `idempotency` from then on. No standing changes.";

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

/// What a change of a definition would do.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct BoardPreview {
    /// Whether the service would create the board.
    pub created: bool,
    /// The fields that would change, ordered by name.
    pub changes: Vec<FieldChange>,
    /// For each window, when its next periods begin.
    pub boundaries: Vec<Boundaries>,
}

/// When the next periods of a window begin.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct Boundaries {
    /// The window.
    pub window: String,
    /// The next three times at which one period ends and another begins; none for `all`.
    pub starts_at: Vec<String>,
}

impl BoardPreview {
    /// That of a board which has another definition, if any, before.
    pub fn new(before: Option<&Definition>, board: &Board, now: Timestamp) -> Self {
        let windows = board.definition.windows.iter();
        Self {
            created: before.is_none(),
            changes: changes(before, &board.definition),
            boundaries: windows
                .map(|window| boundaries(board, *window, now))
                .collect(),
        }
    }
}

/// The fields that would change, sorted by name.
fn changes(before: Option<&Definition>, after: &Definition) -> Vec<FieldChange> {
    let fields = before.map(object).unwrap_or_default();
    object(after)
        .into_iter()
        .filter_map(|(field, to)| {
            let from = fields.get(&field).cloned().unwrap_or_default();
            let effect = match before {
                _ if from == to => return None,
                None => "The board is new.".to_owned(),
                Some(before) if field == "windows" => effect_on_windows(before, after),
                Some(before) if field == "finalize" && before.finalize.is_none() => {
                    FIRST_FINALIZE.to_owned()
                }
                Some(_) if field == "finalize" && after.finalize.is_none() => {
                    NO_MORE_FINALIZE.to_owned()
                }
                Some(before) if field == "history" => effect_on_history(before, after).to_owned(),
                Some(_) => effect(&field).to_owned(),
            };
            Some(FieldChange {
                field,
                from,
                to,
                effect,
            })
        })
        .collect()
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
            "It applies to reads from now on. No data changes."
        }
        "ranking" => "Reads count ranks like this from now on. No score changes.",
        "score_min" | "score_max" | "accept_late" | "opens_at" | "closes_at" => {
            "It applies to events from now on. Accepted events stay."
        }
        "quotas" => "It applies to events from now on. Counts under the name of a quota are kept.",
        "rewards" => {
            "Periods that close from now on give these rewards. Rewards already won are kept."
        }
        "idempotency" => "It applies to event ids from now on.",
        "retention" => {
            "It applies to standings that get their first event from now on. Others expire as before."
        }
        "carryover" => {
            "Events from now on carry this share over. Points already carried over stay."
        }
        "finalize" => {
            "It applies to periods that end from now on, and to ended periods that are not final. Final periods stay final."
        }
        "max_delay" => "Closings that begin from now on wait for queued events like this.",
        "league" => {
            "It applies to periods that begin from now on. The running period is unchanged."
        }
        "ingest" => "It applies to events from now on. Queued events are applied.",
        "shards" => "The data moves to the new shards in the background.",
        "timezone" => {
            "Once the board has events, only another name of the same zone is allowed. No data changes."
        }
        "update" | "order" | "decimals" | "ties" | "week_start" | "weight" | "initial"
        | "uniques" | "keep_top" | "entry_data" => {
            "It can only change while the board has no events. No data changes."
        }
        "season" => "It defines the window `season`. Once the board has events it can't change.",
        field => panic!("the effect of a change of {field} is not described"),
    }
}

/// The effect of changing how long events are kept.
fn effect_on_history(before: &Definition, after: &Definition) -> &'static str {
    match (before.history, after.history) {
        (None, _) => {
            "Events from now on are kept. An id is free again only once its event is no longer kept. No standing changes."
        }
        (_, None) => {
            "The kept events are removed. Their ids are remembered for the board's `idempotency` from then on. No standing changes."
        }
        (Some(History::Board), _) => SHORTER_HISTORY,
        (Some(History::For(before)), Some(History::For(after))) if after < before => {
            SHORTER_HISTORY
        }
        _ => "Events that are kept now are kept for longer. No standing changes.",
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
        .filter(|window| !before.windows.contains(window))
        .map(|window| match window {
            window if !recorded(window) => format!("{window} counts events from now on."),
            Window::Period(_) => {
                format!("{window} begins with the events that its rolling windows counted.")
            }
            Window::Rolling { .. } => format!("{window} begins with the events of its periods."),
        });
    let removed = before
        .windows
        .iter()
        .filter(|window| !after.windows.contains(window))
        .map(|window| format!("{window} can no longer be read."));
    let sentences: Vec<String> = added.chain(removed).collect();
    if sentences.is_empty() {
        return "Only the order of the windows changes.".to_owned();
    }
    sentences.join(" ")
}

fn boundaries(board: &Board, window: Window, now: Timestamp) -> Boundaries {
    let running = board.calendar.containing(window.unit(), now);
    let next = |period: &_| board.calendar.next(period);
    let starts = std::iter::successors(next(&running), next).filter_map(|period| period.start());
    Boundaries {
        window: window.to_string(),
        starts_at: starts
            .take(BOUNDARIES)
            .map(Timestamp::to_rfc3339_seconds)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effect_of_each_field_is_described() {
        let definition: Definition = serde_json::from_str(r#"{"windows": ["day"]}"#).unwrap();
        for field in object(&definition)
            .keys()
            .filter(|field| *field != "windows" && *field != "history")
        {
            assert!(effect(field).ends_with('.'), "{field}");
        }
    }
}
