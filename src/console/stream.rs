//! The stream of a standing, for the page that shows it live: that of `/v1`, with the viewer's key, until the session ends.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, HeaderName};
use futures::StreamExt;
use futures::stream::unfold;
use tokio::time::{sleep, timeout};

use super::prelude::*;
use super::standing::SIZE;
use crate::http::problem::UNAUTHENTICATED;
use crate::live::message;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The longest time by which a stream outlives its session.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The pause before a session is looked up again after that has failed.
const UNCERTAIN_PAUSE: Duration = Duration::from_millis(500);

/// Begins to watch what the first page of a standing shows, in a league that of a cohort.
pub(super) async fn show(frame: Frame, headers: HeaderMap) -> Answer {
    let [board, window, cohort] = frame.params(["board", "window", "cohort"])?;
    let size = SIZE.to_string();
    let query = [
        ("cohort", &*cohort),
        ("size", &size),
        ("include", "profile"),
    ];
    let path = ["boards", &board, "standings", &window, "stream"];
    let address = v1_with(&path, &query);
    let known = headers.get(LAST_EVENT_ID).cloned();
    let headers = Vec::from_iter(known.map(|known| (LAST_EVENT_ID, known)));
    let visitor = frame.visitor;
    let response = visitor
        .respond(Method::GET, &address, &headers, None)
        .await?;
    Ok(response.map(|body| {
        let watching = Watching {
            visitor,
            parts: body.into_data_stream(),
            is_between: true,
        };
        Body::from_stream(unfold(Some(watching), async |watching| {
            watching?.next().await
        }))
    }))
}

/// A stream for a viewer.
struct Watching {
    visitor: Visitor,
    parts: BodyDataStream,
    /// Whether the last part ended a message.
    is_between: bool,
}

impl Watching {
    /// The next part, and the state after it: `None` once the session has ended.
    async fn next(mut self) -> Option<(Result<Bytes, axum::Error>, Option<Self>)> {
        loop {
            let part = match timeout(LOOK_INTERVAL, self.parts.next()).await {
                Ok(part) => Some(part?),
                Err(_) => None,
            };
            // A viewer that has signed out gets no further messages.
            if self.is_between
                && let Err(problem) = wait_for_session(&self.visitor).await?
            {
                return Some((Ok(message::end(&problem)), None));
            }
            if let Some(part) = part {
                self.is_between = part.as_ref().is_ok_and(|part| part.ends_with(b"\n\n"));
                return Some((part, Some(self)));
            }
        }
    }
}

/// Looks up the session, and waits while that fails. `None` if the instance stops meanwhile.
async fn wait_for_session(visitor: &Visitor) -> Option<Result<(), Problem>> {
    loop {
        match visitor.signed_in().await {
            Err(problem) if problem.kind != UNAUTHENTICATED => {
                tokio::select! {
                    () = visitor.console.app.shutdown.cancelled() => return None,
                    () = sleep(UNCERTAIN_PAUSE) => {}
                }
            }
            checked => return Some(checked.map(drop)),
        }
    }
}
