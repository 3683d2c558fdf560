//! Signing in with an API key, and out.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect};

use super::prelude::*;
use crate::http::problem::UNAUTHENTICATED;

/// The page after signing in.
const HOME: &str = "/console";

#[derive(Template)]
#[template(path = "console/sign_in.html")]
struct SignIn<'a> {
    frame: Frame,
    /// The page to go on to.
    to: &'a str,
    /// What is wrong with the key.
    fault: Option<&'a str>,
}

/// The page to go on to, if it is one of the console.
fn page_of(to: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    let is_page = to.bytes().all(is_plain) && to.starts_with("/console/");
    if is_page { to } else { HOME }
}

/// The form; a visitor that is signed in already is redirected.
pub(super) async fn show(visitor: Visitor) -> Answer {
    let frame = Frame::new(&visitor, "Sign in");
    let [to] = frame.params(["to"])?;
    let (to, fault) = (page_of(&to), None);
    if visitor.holder.is_some() {
        return Ok(Redirect::to(to).into_response());
    }
    html(&SignIn { frame, to, fault })
}

/// Signs in with the key.
pub(super) async fn begin(visitor: Visitor, sent: Form) -> Answer {
    let to = page_of(sent.field("to"));
    if visitor.console.app.is_open {
        return Ok(Redirect::to(to).into_response());
    }
    match visitor.sign_in(sent.field("key").trim()).await {
        Ok(cookie) => Ok(([(header::SET_COOKIE, cookie)], Redirect::to(to)).into_response()),
        Err(problem) if problem.kind == UNAUTHENTICATED => {
            let fault = if problem.detail.contains("expired") {
                Some("This API key has expired.")
            } else {
                Some("No API key has this secret. Check that it was copied whole.")
            };
            let frame = Frame::new(&visitor, "Sign in");
            refused(StatusCode::UNAUTHORIZED, &SignIn { frame, to, fault })
        }
        Err(problem) => Err(problem),
    }
}

/// Ends the session.
pub(super) async fn end(visitor: Visitor, _: Form) -> Answer {
    let cookie = visitor.sign_out().await?;
    let to = Redirect::to("/console/sign-in");
    Ok(([(header::SET_COOKIE, cookie)], to).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_to_another_site() {
        for own in ["/console", "/console/boards?tag=a&after=b%20c"] {
            assert_eq!(page_of(own), own);
        }
        for other in [
            "",
            "https://evil.example/console/",
            "//evil.example/console/",
            "/\\evil.example",
            "/console/\\evil",
            "/consoles",
            "/console/\r\nSet-Cookie: a=b",
        ] {
            assert_eq!(page_of(other), HOME, "{other}");
        }
    }
}
