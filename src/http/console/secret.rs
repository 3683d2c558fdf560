//! A secret that the service has made: it is shown this once.

use askama::Template;
use axum::response::Response;

use super::page::{Frame, html};
use super::session::Viewer;
use super::shown::{Prose, prose};
use crate::http::problem::Problem;

#[derive(Template)]
#[template(path = "console/secret.html")]
struct SecretPage<'a> {
    frame: Frame,
    secret: &'a str,
    /// Why it protects nothing yet, if it does not.
    warning: Option<&'a str>,
    /// What it is for.
    about: &'static str,
    /// The page that it is shown before.
    next: String,
}

impl SecretPage<'_> {
    fn about(&self) -> Vec<Prose<'static>> {
        prose(self.about)
    }
}

/// Shows it.
pub(super) fn show(
    viewer: &Viewer,
    title: String,
    (secret, warning): (&str, Option<&str>),
    about: &'static str,
    next: String,
) -> Result<Response, Problem> {
    html(&SecretPage {
        frame: Frame::new(viewer, title),
        secret,
        warning,
        about,
        next,
    })
}
