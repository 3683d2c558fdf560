//! The layer before a route that admits callers with access.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use futures::future::{BoxFuture, ready};
use tower::layer::layer_fn;
use tower::{Layer, Service};

use super::caller::{Caller, KnownBy, board_of};
use super::gate::{Gate, check_rate};
use super::requirement::{Access, For};
use crate::core::Error;
use crate::domain::access::{Boards, Scope, Scopes, Spent};
use crate::http::problem::{FORBIDDEN, Problem};
use crate::http::{caching, ratelimit};

/// The gate's decision on a request.
enum Decision {
    Admitted(Caller),
    /// The caller is admitted if the board of the path exists.
    IfThere(Caller),
    /// Anyone is admitted if the board of the path is public; otherwise this is the response.
    IfPublic(Problem),
    /// Admitted if this stream token is valid.
    IfGood(String),
    /// The request is refused with this problem.
    Refused(Problem),
}

impl Gate {
    /// Puts a guard before a route.
    pub(crate) fn guard(
        self: &Arc<Self>,
        access: Access,
    ) -> impl Layer<Route, Service = Guarded> + Clone + Send + Sync + 'static {
        let gate = Arc::clone(self);
        layer_fn(move |route| Guarded {
            route,
            gate: Arc::clone(&gate),
            access,
        })
    }

    /// Decides on a request, and counts it against the rate of its key.
    fn decide(&self, access: Access, parts: &mut Parts) -> (Option<Spent>, Decision) {
        if let Some(token) = self.sent_token(access, parts) {
            return (None, Decision::IfGood(token));
        }
        let is_nobody = !parts.headers.contains_key(header::AUTHORIZATION);
        let identified = self.identify(access, parts);
        Self::judge(access, parts, identified, is_nobody)
    }

    /// Decides on an identified caller.
    fn judge(
        access: Access,
        parts: &mut Parts,
        identified: Result<(Caller, Option<Spent>), Problem>,
        is_nobody: bool,
    ) -> (Option<Spent>, Decision) {
        let (caller, spent) = match identified {
            Ok((caller, spent)) => (Ok(caller), spent),
            Err(problem) => (Err(problem), None),
        };
        if let Err(problem) = check_rate(spent.as_ref()) {
            return (spent, Decision::Refused(problem));
        }
        let checked = caller.and_then(|caller| caller.check(access, parts).map(|()| caller));
        let is_of_board = access.is_for_players && access.boards == For::Path;
        let decision = match checked {
            // There are many players, and a body costs memory: their bodies are read only for existing boards.
            Ok(caller) if is_of_board && caller.player().is_some() => Decision::IfThere(caller),
            Ok(caller) => Decision::Admitted(caller),
            // A wrong key is reported, even on a public board.
            Err(problem) if access.is_public && (is_nobody || problem.kind == FORBIDDEN) => {
                Decision::IfPublic(problem)
            }
            Err(problem) => Decision::Refused(problem),
        };
        (spent, decision)
    }

    /// Completes a decision that has to wait; returns the admitted caller.
    async fn admit(
        &self,
        access: Access,
        parts: &mut Parts,
        (spent, decision): (Option<Spent>, Decision),
    ) -> (Option<Spent>, Result<Caller, Problem>) {
        match decision {
            Decision::Admitted(caller) => (spent, Ok(caller)),
            Decision::Refused(problem) => (spent, Err(problem)),
            Decision::IfThere(caller) => (spent, self.check_board(parts).await.map(|()| caller)),
            Decision::IfPublic(problem) => (spent, self.visitor(parts, problem).await),
            Decision::IfGood(token) => {
                let opened = self.opened_by(&token).await.map(|caller| (caller, None));
                let judged = Self::judge(access, parts, opened, false);
                Box::pin(self.admit(access, parts, judged)).await
            }
        }
    }

    /// Attaches the caller to the request.
    fn let_in(&self, parts: &mut Parts, mut caller: Caller) {
        if caller.ip.is_none() && !caller.has_sent_key() {
            caller.ip = self.client(parts);
        }
        // Bodies of other requests are not read.
        if ![Method::GET, Method::HEAD].contains(&parts.method) {
            parts.extensions.insert(caller.takers());
        }
        parts.extensions.insert(caller);
    }

    /// Checks that the board of the path exists. Invalid ids are refused by the route itself.
    async fn check_board(&self, parts: &mut Parts) -> Result<(), Problem> {
        if let Some(id) = board_of(parts) {
            self.app.engine.live_board(&id).await?;
        }
        Ok(())
    }

    /// The anonymous caller, if the board of the path is public; otherwise the problem.
    async fn visitor(&self, parts: &mut Parts, problem: Problem) -> Result<Caller, Problem> {
        let Some(id) = board_of(parts) else {
            return Err(problem);
        };
        match self.app.engine.live_board(&id).await {
            Ok(live) if live.board.definition.public => {
                let read = Scopes::from_iter([Scope::Read]);
                Ok(Caller {
                    includes: live.board.definition.public_includes(),
                    ..Caller::with(read, Boards::one(&id), KnownBy::Visit(problem.kind))
                })
            }
            Ok(_) | Err(Error::BoardNotFound(_)) => Err(problem),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the headers of a response on caching and on the remaining rate of the key.
    fn finish(&self, access: Access, spent: Option<&Spent>, mut response: Response) -> Response {
        caching::rule_answer(access.scope, self.app.is_open, &mut response);
        let headers = response.headers_mut();
        let rule = headers.get(header::CACHE_CONTROL);
        let is_public = rule.is_some_and(|rule| rule.as_bytes().starts_with(b"public"));
        if !is_public && !self.app.is_open {
            headers.append(header::VARY, HeaderValue::from_static("authorization"));
        }
        if let Some(spent) = spent {
            ratelimit::of_key(spent, headers);
        }
        response
    }
}

#[derive(Clone)]
pub(crate) struct Guarded {
    route: Route,
    gate: Arc<Gate>,
    access: Access,
}

impl Service<Request> for Guarded {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.route, context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (gate, access) = (Arc::clone(&self.gate), self.access);
        let (mut parts, body) = request.into_parts();
        let (spent, decision) = gate.decide(access, &mut parts);
        // These need no clone of the route.
        let decision = match decision {
            Decision::Admitted(caller) => {
                gate.let_in(&mut parts, caller);
                let response = self.route.call(Request::from_parts(parts, body));
                return Box::pin(async move {
                    Ok(gate.finish(access, spent.as_ref(), response.await?))
                });
            }
            Decision::Refused(problem) => {
                let response = gate.finish(access, spent.as_ref(), problem.into_response());
                return Box::pin(ready(Ok(response)));
            }
            undecided => undecided,
        };
        let waiting = self.route.clone();
        let mut route = std::mem::replace(&mut self.route, waiting);
        Box::pin(async move {
            let (spent, admitted) = gate.admit(access, &mut parts, (spent, decision)).await;
            let response = match admitted {
                Ok(caller) => {
                    gate.let_in(&mut parts, caller);
                    route.call(Request::from_parts(parts, body)).await?
                }
                Err(problem) => problem.into_response(),
            };
            Ok(gate.finish(access, spent.as_ref(), response))
        })
    }
}
