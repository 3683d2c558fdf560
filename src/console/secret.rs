//! Shows a secret that the service has made, this once.

use super::prelude::*;

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
pub(super) async fn show(
    viewer: &Viewer,
    (kind, name): (&str, &str),
    (secret, warning): (&str, Option<&str>),
    about: &'static str,
) -> Answer {
    let frame = Frame::new(viewer, format!("Secret of the {kind} {name}"));
    frame.look_around().await;
    html(&SecretPage {
        frame,
        secret,
        warning,
        about,
        next: address(&["console", &format!("{kind}s"), name], &[]),
    })
}
