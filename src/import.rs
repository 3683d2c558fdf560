//! Sending a file of events to a service.

/// What the command takes.
#[derive(Debug, clap::Args)]
pub struct ImportArgs {}

/// Runs the command.
pub async fn command(_: ImportArgs) -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
