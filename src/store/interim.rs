//! How old sessions are that never become quiet, and when each group judged them last. What was composed anew was not judged anew.

use std::collections::BTreeMap;

use super::Store;
use super::engine::{Result, Rows, Tx, args};
use super::sql::statements;
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::plan::Age;

statements! {
    @bulk {
        BEGAN(0; project_id Text, session_id Text) = "SELECT s.project_id, s.session_id,
                LEAST(MIN(p.arrived_at), COALESCE(s.began_at, MIN(p.arrived_at))) FROM v
            JOIN sessions s ON s.project_id = v.project_id AND s.session_id = v.session_id
            JOIN spans p ON p.project_id = s.project_id AND p.session_id = s.session_id
            GROUP BY s.project_id, s.session_id, s.began_at";
        JUDGED(0; project_id Text, session_id Text) = "SELECT d.project_id, d.session_id, d.group_id, MAX(d.created_at) FROM v
            JOIN verdicts d ON d.project_id = v.project_id AND d.session_id = v.session_id
            WHERE NOT d.recomposed
            GROUP BY d.project_id, d.session_id, d.group_id";
    }
}

impl Store {
    /// How old a session is; `None` where none of its spans is stored.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn age(&self, project: &ProjectId, session: &SessionId) -> Result<Option<Age>> {
        let mut tx = self.db.read().await?;
        let ages = read(&mut tx, std::iter::once(args![project, session]).collect()).await?;
        Ok(ages.into_values().next())
    }
}

/// How old sessions are, by project and session.
pub(super) async fn read(tx: &mut Tx, keys: Rows) -> Result<BTreeMap<(String, String), Age>> {
    let mut ages = BTreeMap::new();
    for row in tx.bulk(&BEGAN, args![], keys.clone()).await? {
        ages.insert((row.text(0)?, row.text(1)?), Age { began_at: row.time(2)?, judged_at: BTreeMap::new() });
    }
    for row in tx.bulk(&JUDGED, args![], keys).await? {
        if let Some(age) = ages.get_mut(&(row.text(0)?, row.text(1)?)) {
            age.judged_at.insert(GroupId::trusted(row.text(2)?), row.time(3)?);
        }
    }
    Ok(ages)
}
