//! The events of a member that its board keeps, and the form that corrects them.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Number;

use super::board::standing_page;
use super::case::{self, Case};
use super::prelude::*;
use crate::domain::event::KEY_OF_PLAYERS;
use crate::history::routes::KeptEventBody;

/// How many events a part of the list has.
const EVENTS_MAX: &str = "20";

/// The kept events of a member of a board.
pub(super) struct Kept {
    /// The latest first.
    pub(super) events: Vec<KeptEventBody>,
    pub(super) parts: Parts,
    /// Whether the viewer could have the board keep events, which it doesn't.
    pub(super) is_off: bool,
    /// The command that reads the same.
    curl: String,
}

/// A part of the list.
#[derive(Deserialize)]
struct KeptList {
    events: Vec<KeptEventBody>,
    next: Option<String>,
}

impl Kept {
    /// Reads them; `None` if the viewer may not know or correct them, or there is nothing to say.
    pub(super) async fn read(visitor: &Visitor, case: &Case) -> Result<Option<Self>, Problem> {
        let Case {
            member,
            board,
            window,
            key,
            hidden,
            older,
            ..
        } = case;
        if !case.is_of_board() || !visitor.may_on(Scope::Moderate, board) {
            return Ok(None);
        }
        let query = [
            ("member", &**member),
            ("after", older),
            ("limit", EVENTS_MAX),
        ];
        let listed_at = v1_with(&["boards", board, "events"], &query);
        let KeptList { events, next } = visitor.read(&listed_at).await?;
        let is_none = events.is_empty() && next.is_none() && older.is_empty();
        let is_off = is_none && visitor.could_keep(board).await?;
        if is_none && !is_off {
            return Ok(None);
        }
        let part = |older: &str| {
            let query = [
                ("member", &**member),
                ("key", key),
                ("hidden", hidden),
                ("older", older),
            ];
            standing_page(board, window, &["member"], &query)
        };
        Ok(Some(Self {
            events,
            parts: Parts {
                listed: "events",
                first: (!older.is_empty()).then(|| part("")),
                next: next.map(|next| part(&next)),
            },
            is_off,
            curl: visitor.curl(&listed_at),
        }))
    }

    /// Adds the commands of what it shows, and of what can be done with an event.
    pub(super) fn examples(&self, frame: &mut Frame, board: &str) {
        frame.curl.push(self.curl.clone());
        if !self.events.is_empty() {
            let why = json!({"reason": "a mistake"});
            let path = ["boards", board, "events", "ID", "retract"];
            frame.example(&Method::POST, &path, Some(&why));
        }
    }
}

impl Visitor {
    /// Whether the visitor may turn on the history of a board that has none, and can have one.
    async fn could_keep(&self, board: &str) -> Result<bool, Problem> {
        let defined = self.defined(board).await?;
        Ok(defined.is_some_and(|board| {
            [board.history, board.league, board.keep_top] == [None, None, None]
        }))
    }
}

impl KeptEventBody {
    /// The player that sent it; empty if no player did.
    pub(super) fn player(&self) -> &str {
        let is_of_player = self.key.as_deref() == Some(KEY_OF_PLAYERS);
        let player = self.voter.as_deref().filter(|_| is_of_player);
        player.unwrap_or_default()
    }
}

/// Corrects the score of an event.
pub(super) async fn correct(viewer: Viewer, form: Form) -> Answer {
    let corrected = async {
        let number = |name: &str| -> Result<Number, Problem> {
            let wrong = |_| Problem::invalid_field(format!("/{name}"), "is not a number");
            form.required(name)?.parse().map_err(wrong)
        };
        let (from, score) = (number("from")?, number("score")?);
        let body = json!({"from": from, "score": score, "reason": form.required("reason")?});
        let [board, event, member, player] =
            ["board", "event", "member", "player"].map(|name| form.field(name));
        let path = ["boards", board, "events", event, "correct"];
        let at = v1_with(&path, &[("member", member), ("player", player)]);
        let IgnoredAny = viewer.call(Method::POST, &at, Some(&body)).await?;
        Ok(())
    };
    case::carry_out(&viewer, &form, corrected, "corrected").await
}
