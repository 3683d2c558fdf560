//! Shows a secret that the service has made, this once.

use askama::Template;

use super::{Answer, Frame, Viewer, address, html};

#[derive(Template)]
#[template(path = "console/secret.html")]
struct SecretPage<'a> {
    frame: Frame,
    secret: &'a str,
    /// Why it protects nothing yet, if that is so.
    warning: Option<&'a str>,
    /// What it is for.
    about: &'static str,
    /// The page that follows.
    next: String,
}

/// Shows the secret of the thing of this kind and name.
pub(super) fn show(
    viewer: &Viewer,
    (kind, name): (&str, &str),
    (secret, warning): (&str, Option<&str>),
    about: &'static str,
) -> Answer {
    html(&SecretPage {
        frame: Frame::new(viewer, format!("Secret of the {kind} {name}")),
        secret,
        warning,
        about,
        next: address(&["console", &format!("{kind}s"), name], &[]),
    })
}
