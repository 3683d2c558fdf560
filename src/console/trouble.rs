//! The page of a problem, which says what to do.

use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};

use super::prelude::*;
use crate::http::observe::HasBody;
use crate::http::problem::{FORBIDDEN, RATE_LIMITED, UNAUTHENTICATED};

#[derive(Template)]
#[template(path = "console/trouble.html")]
struct Trouble<'a> {
    frame: Frame,
    problem: &'a Problem,
    status: u16,
    /// After how many seconds to retry.
    wait_s: Option<&'a str>,
    request_id: &'a str,
}

/// A page that redirects to itself.
#[derive(Template)]
#[template(path = "console/again.html")]
struct Again<'a> {
    frame: Frame,
    address: &'a str,
}

/// Shows a response that is a problem as a page; others are unchanged. A visitor that has to sign in is redirected.
pub(super) async fn explained(visitor: &Visitor, mut response: Response) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    if response.extensions().get::<HasBody>().is_some() {
        return response;
    }
    let problem = response.extensions_mut().remove::<Problem>();
    let problem = problem.unwrap_or_else(|| Problem::of_status(status));
    if problem.kind == UNAUTHENTICATED {
        return to_sign_in(visitor);
    }
    let wait = response.headers().get(header::RETRY_AFTER);
    let frame = Frame::new(visitor, problem.kind.title);
    if status.is_client_error() {
        frame.look_around().await;
    }
    let page = html(&Trouble {
        frame,
        problem: &problem,
        status: status.as_u16(),
        wait_s: wait.and_then(|wait| wait.to_str().ok()),
        request_id: visitor.arrival.request_id(),
    });
    let Ok(mut page) = page else {
        return problem.into_response();
    };
    *page.status_mut() = status;
    for name in [header::RETRY_AFTER, header::ALLOW] {
        if let Some(value) = response.headers_mut().remove(&name) {
            page.headers_mut().insert(name, value);
        }
    }
    page.extensions_mut().insert(HasBody);
    // The layer around all routes writes its cause into the log.
    page.extensions_mut().insert(problem);
    page
}

impl Problem {
    /// The problem, if it can be fixed in the form; otherwise it is shown on a separate page.
    pub(super) fn mendable(self) -> Result<Self, Self> {
        let is_elsewhere = [UNAUTHENTICATED, FORBIDDEN, RATE_LIMITED].contains(&self.kind);
        if is_elsewhere || self.kind.status.is_server_error() {
            return Err(self);
        }
        Ok(self)
    }
}

fn to_sign_in(visitor: &Visitor) -> Response {
    // A link on another site has led here, so the browser withholds the cookie; from this page it does not.
    if visitor.is_from_elsewhere {
        let again = html(&Again {
            frame: Frame::new(visitor, "Opening the console"),
            address: &visitor.address,
        });
        return again.into_response();
    }
    let to = match visitor.method {
        Method::GET => visitor.address.as_str(),
        _ => "",
    };
    Redirect::to(&address(&["console", "sign-in"], &[("to", to)])).into_response()
}
