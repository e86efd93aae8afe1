//! `pause` and `resume`: lets a scorer group rest, and go on.

use super::args::{DEFAULT_PROJECT, name};
use crate::app::App;
use crate::clock::Clock as _;
use crate::domain::block::NO_REASON;
use crate::domain::ids::GroupId;
use crate::worker::Worker;

/// Options of `resume`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ResumeArgs {
    /// The scorer group
    #[arg(value_parser = GroupId::parse)]
    pub group: GroupId,
    /// The project it belongs to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
}

/// Options of `pause`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct PauseArgs {
    /// Which group
    #[command(flatten)]
    pub of: ResumeArgs,
    /// Why, for those who wonder later
    #[arg(long, value_name = "TEXT", default_value = NO_REASON)]
    pub reason: String,
}

/// Pauses a group. Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn pause(app: &App, worker: &Worker, args: &PauseArgs) -> anyhow::Result<String> {
    let PauseArgs { of: ResumeArgs { group, project }, reason } = args;
    let id = app.store.project_named(project, app.clock.now()).await?.id;
    match worker.pause(&id, group, reason).await? {
        Some(_) => Ok(format!("Group {group} rests; what is due stays due. Go on with: afterword resume {group}\n")),
        None => anyhow::bail!("project {project} has no scorer group {group}"),
    }
}

/// Lets a group go on. Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn resume(app: &App, worker: &Worker, args: &ResumeArgs) -> anyhow::Result<String> {
    let ResumeArgs { group, project } = args;
    let id = app.store.project_named(project, app.clock.now()).await?.id;
    match worker.resume(&id, group).await? {
        Some(true) => Ok(format!("Group {group} goes on.\n")),
        Some(false) => Ok(format!("Group {group} was not paused.\n")),
        None => anyhow::bail!("project {project} has no scorer group {group}"),
    }
}
