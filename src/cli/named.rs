//! What a command line names: a project by its name, a scorer group by its id or its name.

use anyhow::{anyhow, bail};

use crate::app::App;
use crate::domain::ids::{GroupId, ProjectId};

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

/// The scorer group that `asked` is the id or the name of. What is no group's name counts as an id, known or not.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn group(app: &App, project: &ProjectId, asked: &str) -> anyhow::Result<GroupId> {
    let groups = app.store.groups(project).await?;
    if groups.iter().any(|group| group.id.as_str() == asked) {
        return GroupId::parse(asked).map_err(anyhow::Error::msg);
    }
    let named: Vec<&GroupId> = groups.iter().filter(|group| group.spec.name == asked).map(|group| &group.id).collect();
    match named.as_slice() {
        [one] => Ok((*one).clone()),
        [] => GroupId::parse(asked).map_err(|problem| anyhow!("the group's id {problem}")),
        several => {
            let ids: Vec<&str> = several.iter().map(|id| id.as_str()).collect();
            bail!("several scorer groups are called \"{asked}\"; name one by its id: {}", ids.join(", "))
        }
    }
}
