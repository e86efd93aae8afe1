//! What a command line names: a project by its name, a scorer group by its id or its name.

use anyhow::{anyhow, bail};

use crate::app::App;
use crate::domain::ids::ProjectId;
use crate::store::SavedGroup;

/// The project of that name. One that is not there is never made: a slip of the pen would leave a project behind, and an answer
/// about nothing.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn project(app: &App, name: &str) -> anyhow::Result<ProjectId> {
    let known = app.store.known_project(name).await?;
    known.map(|project| project.id).ok_or_else(|| {
        let database = &app.config.database.url;
        anyhow!("there is no project \"{name}\" in the database {database}; check --project and database.url")
    })
}

/// The scorer group that `asked` is the id or the name of. Where there is none, those that there are are named: no other command
/// lists them.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn group(app: &App, project: &ProjectId, asked: &str) -> anyhow::Result<SavedGroup> {
    let mut groups = app.store.groups(project).await?;
    if let Some(place) = groups.iter().position(|group| group.id.as_str() == asked) {
        return Ok(groups.swap_remove(place));
    }
    let (mut called, others): (Vec<SavedGroup>, Vec<SavedGroup>) =
        groups.into_iter().partition(|group| group.spec.name == asked);
    match called.pop() {
        Some(one) if called.is_empty() => Ok(one),
        Some(one) => {
            let ids: Vec<&str> = called.iter().chain([&one]).map(|group| group.id.as_str()).collect();
            bail!("several scorer groups are called \"{asked}\"; name one by its id: {}", ids.join(", "))
        }
        None => bail!("there is no scorer group with the id or name \"{asked}\" in that project; {}", listed(&others)),
    }
}

/// How many groups are named where none is called so.
const LISTED: usize = 10;

fn listed(groups: &[SavedGroup]) -> String {
    if groups.is_empty() {
        return "it has none".to_owned();
    }
    let some: Vec<String> =
        groups.iter().take(LISTED).map(|group| format!("\"{}\" ({})", group.spec.name, group.id)).collect();
    let more = groups.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("it has {}{rest}", some.join(", "))
}
