//! `pause` and `resume`: lets a scorer group rest, and go on.

use super::args::{DEFAULT_PROJECT, name};
use super::named;
use crate::app::App;
use crate::domain::block::NO_REASON;
use crate::worker::Worker;

/// Options of `resume`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ResumeArgs {
    /// The scorer group, by id or by name
    pub group: String,
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
    #[arg(long, value_name = "TEXT", default_value = NO_REASON, value_parser = reason)]
    pub reason: String,
}

/// Pauses a group. Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn pause(app: &App, worker: &Worker, args: &PauseArgs) -> anyhow::Result<String> {
    let PauseArgs { of: ResumeArgs { group, project }, reason } = args;
    let id = named::project(app, project).await?;
    let group = &named::group(app, &id, group).await?.id;
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
    let id = named::project(app, project).await?;
    let group = &named::group(app, &id, group).await?.id;
    match worker.resume(&id, group).await? {
        Some(true) => Ok(format!("Group {group} goes on.\n")),
        Some(false) => Ok(format!("Group {group} was not paused.\n")),
        None => anyhow::bail!("project {project} has no scorer group {group}"),
    }
}

fn reason(text: &str) -> Result<String, String> {
    if (1..=500).contains(&text.chars().count()) && !text.contains('\0') {
        Ok(text.to_owned())
    } else {
        Err("a reason is text of 1 to 500 characters".to_owned())
    }
}
