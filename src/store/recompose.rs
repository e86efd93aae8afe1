//! Re-composition: the present recipe of a group applied to stored outcomes, as further verdicts of the same revision and round.

use super::alerts::Alerts;
use super::catalogue::{SavedGroup, read_group};
use super::engine::{Result, Tx, args};
use super::latest::{Latest, Place, page};
use super::record::NewVerdicts;
use super::sql::statements;
use super::{Store, retrying, scorecards, signals};
use crate::domain::compose::scorecard::DEFAULT_ID;
use crate::domain::compose::{Composition, Recipe, Scorecard};
use crate::domain::conversation::Agent;
use crate::domain::group::Severity;
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::period::Period;
use crate::domain::recompose::{Headline, Ledger, Recomposed, Report, falls_below, recompose};
use crate::domain::signal::{self, SignalDraft};
use crate::domain::time::Timestamp;
use crate::domain::verdict::{Verdict, Voice};

statements! {
    LOCK_GROUP = "SELECT group_id, version, spec, created_at, updated_at FROM scorer_groups
        WHERE project_id = $1 AND group_id = $2 AND owner_id IS NULL AND deleted_at IS NULL FOR UPDATE";
    GROUP = "SELECT group_id, version, spec, created_at, updated_at FROM scorer_groups
        WHERE project_id = $1 AND group_id = $2 AND owner_id IS NULL AND deleted_at IS NULL";
    SCORECARD = "SELECT spec FROM scorecards WHERE project_id = $1 AND scorecard_id = $2";
}

/// What to compose anew.
#[derive(Debug, Clone)]
pub struct RecomposeOrder {
    /// The group.
    pub group: GroupId,
    /// When the sessions' last turns were.
    pub period: Period,
    /// A scorecard in place of the group's own, by id.
    pub scorecard: Option<String>,
    /// Only report.
    pub dry_run: bool,
    /// Raise a signal for each session that falls below the alert threshold by it.
    pub signals: bool,
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq)]
pub enum RecomposeEnd {
    /// It was carried out.
    Done(Box<Report>),
    /// There is no such group.
    NoGroup,
    /// There is no such scorecard.
    NoScorecard,
}

/// How many sessions one transaction composes anew: short enough for others to write in between.
const BATCH: usize = 200;

/// The recipe of an order, the same for all its batches.
struct Applied {
    group: SavedGroup,
    recipe: Recipe,
    threshold: Option<f64>,
}

impl Store {
    /// Composes the latest verdict of each session anew, by the group's present recipe, from what members said then. Where
    /// that changes anything, a further verdict of the same revision and round is appended; nothing is taken away. In batches
    /// of one transaction each: cut short, it can be ordered again, and what was done stays as it is.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn recompose(&self, project: &ProjectId, order: &RecomposeOrder, now: Timestamp) -> Result<RecomposeEnd> {
        let mut tx = self.db.read().await?;
        let Some(row) = tx.fetch_one(&GROUP, args![project, &order.group]).await? else {
            return Ok(RecomposeEnd::NoGroup);
        };
        let group = read_group(&row)?;
        let Some(scorecard) = scorecard(&mut tx, project, &group, order).await? else {
            return Ok(RecomposeEnd::NoScorecard);
        };
        drop(tx);
        let threshold = group.spec.online.as_ref().and_then(|online| online.alert_threshold);
        let recipe = group.spec.recipe(scorecard);
        let mut ledger = Ledger::new(group.version, order.dry_run, threshold);
        let applied = Applied { group, recipe, threshold };
        let mut place = Place::start();
        loop {
            let (next, seen) = retrying!(self.recompose_batch(project, order, &applied, place.clone(), now))?;
            let count = seen.len();
            for one in &seen {
                one.enter(&mut ledger);
            }
            if count < BATCH {
                return Ok(RecomposeEnd::Done(Box::new(ledger.report())));
            }
            place = next;
        }
    }

    async fn recompose_batch(
        &self,
        project: &ProjectId,
        order: &RecomposeOrder,
        applied: &Applied,
        mut place: Place,
        now: Timestamp,
    ) -> Result<(Place, Vec<Seen>)> {
        if order.dry_run {
            let mut tx = self.db.read().await?;
            let latest = page(&mut tx, project, &order.group, order.period, &mut place, BATCH).await?;
            return Ok((place, latest.into_iter().map(|it| Seen::of(it, applied)).collect()));
        }
        let mut tx = self.db.write().await?;
        // Two re-compositions of one group must not draw the same sequence.
        tx.lock(&LOCK_GROUP, args![project, &order.group]).await?;
        let latest = page(&mut tx, project, &order.group, order.period, &mut place, BATCH).await?;
        let mut seen: Vec<Seen> = latest.into_iter().map(|it| Seen::of(it, applied)).collect();
        let mut writing = NewVerdicts::default();
        let mut told: Vec<Verdict> = Vec::new();
        let mut drafts: Vec<(ProjectId, SignalDraft)> = Vec::new();
        for one in &mut seen {
            let Some(verdict) = one.verdict(applied) else { continue };
            writing.verdict(self, project, &verdict, one.latest.verdict.sequence + 1)?;
            if order.signals
                && one.falls_below(applied.threshold)
                && let Some(draft) = signal::of_verdict(&verdict)
            {
                drafts.push((project.clone(), draft));
                one.is_signalled = true;
            }
            if order.signals {
                told.push(verdict);
            }
        }
        signals::raise(&mut tx, self.entropy.as_ref(), drafts, now).await?;
        let heads = writing.write(&mut tx, now).await?;
        let mut alerts = Alerts::default();
        for verdict in &told {
            alerts.see(project, verdict);
        }
        alerts.write(&mut tx, self.entropy.as_ref(), &heads, now).await?;
        tx.commit().await?;
        Ok((place, seen))
    }
}

/// The scorecard to apply; `None` where the order names one that does not exist.
async fn scorecard(
    tx: &mut Tx,
    project: &ProjectId,
    group: &SavedGroup,
    order: &RecomposeOrder,
) -> Result<Option<Scorecard>> {
    let Some(id) = &order.scorecard else {
        let cards = scorecards::named_by(tx, std::iter::once((project, &group.spec))).await?;
        return Ok(Some(scorecards::used_by(&cards, project, &group.spec)));
    };
    if id == DEFAULT_ID {
        return Ok(Some(Scorecard::default()));
    }
    let row = tx.fetch_one(&SCORECARD, args![project, id]).await?;
    row.map(|row| super::catalogue::from_json(&row.text(0)?)).transpose()
}

/// A session's verdict, and what the recipe makes of it.
struct Seen {
    latest: Latest,
    /// `None` where it takes a real re-score.
    again: Option<Recomposed>,
    is_changed: bool,
    is_signalled: bool,
}

impl Seen {
    fn of(latest: Latest, applied: &Applied) -> Self {
        let (row, members) = (&latest.verdict, &applied.group.spec.members);
        let again = recompose(&row.members, row.gated_by.is_some(), members, &applied.recipe);
        let is_changed = again.as_ref().is_some_and(|again| differs(&latest, again, &applied.recipe));
        Self { latest, again, is_changed, is_signalled: false }
    }

    fn headlines(&self) -> Option<(Headline<'_>, Headline<'_>)> {
        let (verdict, composition) = (&self.latest.verdict, &self.again.as_ref()?.composition);
        let band = verdict.scored.as_ref().map(|scored| scored.band.as_str());
        let before = Headline { rating: verdict.rating, band };
        let band = composition.scorecard.as_ref().map(|scored| scored.band.as_str());
        Some((before, Headline { rating: composition.rating, band }))
    }

    fn enter(&self, ledger: &mut Ledger) {
        match self.headlines() {
            None => ledger.need_rescore(),
            Some((before, after)) => ledger.see(before, after, self.is_changed),
        }
        if self.is_signalled {
            ledger.signal();
        }
    }

    fn falls_below(&self, threshold: Option<f64>) -> bool {
        self.headlines().is_some_and(|(before, after)| falls_below(before, after, threshold))
    }

    /// The verdict to append, where the recipe changes anything.
    fn verdict(&self, applied: &Applied) -> Option<Verdict> {
        let again = self.again.as_ref().filter(|_| self.is_changed)?;
        let row = &self.latest.verdict;
        let online = applied.group.spec.online.as_ref();
        let agent_id = row.agent_id.clone();
        Some(Verdict {
            group: row.group.clone(),
            group_name: applied.group.spec.name.clone(),
            group_version: applied.group.version,
            voice: Voice::Group,
            session: self.latest.session.clone(),
            read: row.read,
            recipe: applied.recipe.clone(),
            composition: again.composition.clone(),
            incomplete: row.incomplete && again.members.iter().any(|member| member.outcome.is_transient()),
            interim: row.interim,
            members: again.members.clone(),
            anchor_trace: row.anchor_trace.clone(),
            agent: agent_id.map(|id| Agent { name: row.agent_name.clone().unwrap_or_else(|| id.clone()), id }),
            last_turn_at: row.last_turn_at,
            turns: row.turns,
            spans: row.spans,
            live: true,
            alert_threshold: applied.threshold,
            severity: online.map_or(Severity::Medium, |online| online.severity),
        })
    }
}

/// Whether the recipe makes anything else of a verdict than what stands there.
fn differs(latest: &Latest, again: &Recomposed, recipe: &Recipe) -> bool {
    let row = &latest.verdict;
    let stands = Composition {
        rating: row.rating,
        mean: row.mean,
        pass: row.pass,
        gated_by: row.gated_by.clone(),
        justification: row.justification.clone(),
        coverage: row.coverage,
        scorecard: row.scored.clone(),
    };
    let is_same_recipe = (row.aggregation, row.pass_threshold) == (recipe.aggregation, recipe.pass_threshold)
        && row.scorecard.as_ref() == Some(&recipe.scorecard);
    !is_same_recipe || stands != again.composition || row.members != again.members
}
