//! Alerts: which sessions receivers know to lie below a threshold, so that each fall and each recovery is told once.
//!
//! What scorers that watch found goes along; of that receivers are told once a day, which the outbox sees to.
//!
//! Written in the verdict's transaction, and only where a project has receivers.

use std::collections::BTreeSet;

use super::engine::{Result, Rows, Tx, args};
use super::outbox;
use super::rail::Heads;
use super::sql::statements;
use crate::domain::event::{Event, Standing, standing};
use crate::domain::ids::ProjectId;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Verdict;
use crate::entropy::Entropy;

statements! {
    @bulk {
        BEGIN(1; project_id Text, session_id Text, group_id Text) = "INSERT INTO alerts (project_id, session_id, group_id, since)
            SELECT project_id, session_id, group_id, CAST($1 AS BIGINT) FROM v WHERE true
            ON CONFLICT (project_id, session_id, group_id) DO NOTHING RETURNING project_id, session_id, group_id";
        END(0; project_id Text, session_id Text, group_id Text) = "DELETE FROM alerts
            WHERE (project_id, session_id, group_id) IN (SELECT project_id, session_id, group_id FROM v)
            RETURNING project_id, session_id, group_id";
    }
}

/// The verdicts of a transaction that receivers may want to hear of.
#[derive(Debug, Default)]
pub(super) struct Alerts<'a> {
    /// Those that may begin or end an alert.
    rated: Vec<(&'a ProjectId, &'a Verdict, Standing)>,
    /// Those of scorers that watch.
    watched: Vec<(&'a ProjectId, &'a Verdict)>,
}

impl<'a> Alerts<'a> {
    /// Takes note of a verdict.
    pub(super) fn see(&mut self, project: &'a ProjectId, verdict: &'a Verdict) {
        if verdict.voice.watches() {
            self.watched.push((project, verdict));
        } else {
            self.rated.extend(standing(verdict).map(|standing| (project, verdict, standing)));
        }
    }

    /// Begins and ends alerts, and owes receivers what they want to hear of it. The projects' rails are locked.
    pub(super) async fn write(self, tx: &mut Tx, entropy: &dyn Entropy, heads: &Heads, now: Timestamp) -> Result<()> {
        let heard: Vec<_> = self.rated.into_iter().filter(|(project, ..)| heads.has_receivers(project)).collect();
        let rows = |wanted: Standing| -> Rows {
            let of_kind = heard.iter().filter(|(.., standing)| *standing == wanted);
            of_kind.map(|(project, verdict, _)| args![*project, &verdict.session, &verdict.group]).collect()
        };
        let mut changed = BTreeSet::new();
        let begun = tx.bulk(&BEGIN, args![now], rows(Standing::Below)).await?;
        let ended = tx.bulk(&END, args![], rows(Standing::Above)).await?;
        for row in begun.iter().chain(&ended) {
            changed.insert((row.text(0)?, row.text(1)?, row.text(2)?));
        }
        let is_new = |project: &ProjectId, verdict: &Verdict| {
            changed.contains(&(project.to_string(), verdict.session.to_string(), verdict.group.to_string()))
        };
        let fallen = heard.iter().filter(|(project, verdict, _)| is_new(project, verdict));
        let fallen =
            fallen.map(|(project, verdict, standing)| ((*project).clone(), Event::of_verdict(verdict, *standing, now)));
        let watched = self.watched.into_iter().filter(|(project, _)| heads.has_receivers(project));
        let matched = watched.filter_map(|(project, verdict)| Some((project.clone(), Event::of_match(verdict, now)?)));
        outbox::post(tx, entropy, fallen.chain(matched).collect(), None, now).await
    }
}
