//! `release`: lets a quarantined session go on.

use anyhow::bail;

use super::args::{DEFAULT_PROJECT, name};
use super::named;
use crate::app::App;
use crate::clock::Clock as _;
use crate::domain::ids::SessionId;
use crate::store::Released;

/// Options of `release`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ReleaseArgs {
    /// The session's id
    #[arg(value_parser = SessionId::parse)]
    pub session: SessionId,
    /// The project the session belongs to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
}

/// Releases a session. Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn run(app: &App, args: &ReleaseArgs) -> anyhow::Result<String> {
    let ReleaseArgs { session, project } = args;
    let id = named::project(app, project).await?;
    match app.store.release_session(&id, session, app.clock.now()).await? {
        Released::GoesOn => Ok(format!("Session {session} goes on; the next sweep takes it up.\n")),
        Released::NotHeld => Ok(format!("Session {session} was not quarantined.\n")),
        Released::Unknown => bail!("project {project} has no session {session}"),
    }
}
