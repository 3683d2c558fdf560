//! A secret that the service has made: it is shown this once.

use askama::Template;

use super::{Answer, Frame, Viewer, html};

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

/// Shows it.
pub(super) fn show(
    viewer: &Viewer,
    title: String,
    (secret, warning): (&str, Option<&str>),
    about: &'static str,
    next: String,
) -> Answer {
    html(&SecretPage {
        frame: Frame::new(viewer, title),
        secret,
        warning,
        about,
        next,
    })
}
