//! Signals: raised in the verdict's transaction, read back by people.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Store;
use super::catalogue::{from_json, to_json};
use super::engine::{Result, Row, Rows, Tx, args};
use super::events::last_said;
use super::place::Place;
use super::plan::count;
use super::sql::statements;
use crate::domain::conversation::Agent;
use crate::domain::ids::{ProjectId, SessionId, SignalId, TraceId};
use crate::domain::signal::SignalDraft;
use crate::domain::time::Timestamp;
use crate::entropy::Entropy;

/// How many occurrences of one signal are kept.
const KEPT_OCCURRENCES: i64 = 100;

statements! {
    LIST = "SELECT signal_id, pattern_key, agent_id, agent_name, type, severity, polarity, status, summary, root_cause,
            occurrence_count, first_seen_at, last_seen_at, review_status, recommended_actions, triaged_at FROM signals
        WHERE project_id = $1 AND (polarity = $2 OR $2 IN ('', 'all')) AND (status = $3 OR $3 = '')
            AND (severity = $4 OR $4 = '') AND (agent_id = $5 OR $5 = '')
            AND (last_seen_at < $7 OR (last_seen_at = $7 AND signal_id > $8))
        ORDER BY last_seen_at DESC, signal_id LIMIT $6";
    ONE = "SELECT signal_id, pattern_key, agent_id, agent_name, type, severity, polarity, status, summary, root_cause,
            occurrence_count, first_seen_at, last_seen_at, review_status, recommended_actions, triaged_at FROM signals WHERE project_id = $1 AND signal_id = $2";
    TO_TRIAGE = "SELECT status, severity, chosen_severity, review_status, recommended_actions FROM signals
        WHERE project_id = $1 AND signal_id = $2 FOR UPDATE";
    TRIAGE = "UPDATE signals SET status = $3, severity = $4, chosen_severity = $5, review_status = $6, recommended_actions = $7,
            triaged_at = $8
        WHERE project_id = $1 AND signal_id = $2";
    COUNTS = "SELECT pattern_key, COUNT(*), CAST(SUM(CASE WHEN status = 'open' THEN 1 ELSE 0 END) AS BIGINT) FROM signals
        WHERE project_id = $1 GROUP BY pattern_key";
    OCCURRENCES = "SELECT signal_id, number, session_id, trace_id, rating, threshold, justification, seen_at
        FROM signal_occurrences WHERE project_id = $1 AND signal_id = ANY($2) ORDER BY signal_id, number DESC";
    @bulk {
        RAISE(1; project_id Text, signal_id Text, pattern_key Text, agent_id Text, agent_name Text, type Text, severity Text,
            polarity Text, summary Text, root_cause Text, occurrences Int) = "INSERT INTO signals (project_id, signal_id, pattern_key,
                agent_id, agent_name, type, severity, polarity, status, summary, root_cause, occurrence_count,
                first_seen_at, last_seen_at)
            SELECT project_id, signal_id, pattern_key, agent_id, agent_name, type, severity, polarity, 'open', summary,
                root_cause, occurrences, CAST($1 AS BIGINT), CAST($1 AS BIGINT) FROM v WHERE true
            ON CONFLICT (project_id, pattern_key, agent_id, type) DO UPDATE SET
                severity = COALESCE(signals.chosen_severity, excluded.severity), polarity = excluded.polarity,
                summary = excluded.summary, root_cause = excluded.root_cause,
                agent_name = excluded.agent_name, last_seen_at = excluded.last_seen_at,
                occurrence_count = signals.occurrence_count + excluded.occurrence_count
            RETURNING project_id, pattern_key, agent_id, type, signal_id, occurrence_count";
        INSERT_OCCURRENCES(1; project_id Text, signal_id Text, number Int, session_id Text, trace_id Text, rating Real,
            threshold Real, justification Text) = "INSERT INTO signal_occurrences (project_id, signal_id, number, session_id,
                trace_id, rating, threshold, justification, seen_at)
            SELECT project_id, signal_id, number, session_id, trace_id, rating, threshold, justification, CAST($1 AS BIGINT) FROM v";
        FORGET_OCCURRENCES(0; project_id Text, signal_id Text, up_to Int) = "DELETE FROM signal_occurrences
            WHERE (project_id, signal_id, number) IN (SELECT o.project_id, o.signal_id, o.number FROM v
                JOIN signal_occurrences o ON o.project_id = v.project_id AND o.signal_id = v.signal_id AND o.number <= v.up_to)";
    }
}

/// A signal as people read it.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalRow {
    /// Its id.
    pub id: SignalId,
    /// What it is keyed by: `scorer-group:<id>`, `online-eval:<id>`, `custom-eval:<id>`, or the key of a pattern.
    pub pattern_key: String,
    /// The agent concerned.
    pub agent: Option<Agent>,
    /// Its type.
    pub signal_type: String,
    /// `low`, `medium`, `high` or `critical`.
    pub severity: String,
    /// `failure` or `proper`.
    pub polarity: String,
    /// `open`, or what triage made of it.
    pub status: String,
    /// What happened last, in one sentence.
    pub summary: String,
    /// The group's name.
    pub root_cause: Option<String>,
    /// How often it happened.
    pub occurrence_count: i64,
    /// When it happened first.
    pub first_seen_at: Timestamp,
    /// When it happened last.
    pub last_seen_at: Timestamp,
    /// How far people are with it, in a word of theirs.
    pub review_status: Option<String>,
    /// What people are to do about it.
    pub recommended_actions: Vec<String>,
    /// When people last said anything about it.
    pub triaged_at: Option<Timestamp>,
    /// The latest occurrences, newest first.
    pub occurrences: Vec<OccurrenceRow>,
}

/// One occurrence of a signal.
#[derive(Debug, Clone, PartialEq)]
pub struct OccurrenceRow {
    /// Its number, from 1.
    pub number: i64,
    /// The session, or the trace in its place.
    pub session: SessionId,
    /// Its last turn's trace.
    pub trace: TraceId,
    /// The rating that raised it.
    pub rating: Option<f64>,
    /// The threshold it fell below.
    pub threshold: Option<f64>,
    /// The verdict's text.
    pub justification: Option<String>,
    /// When it happened.
    pub seen_at: Timestamp,
    /// The session of that trace, where it was looked up and is still stored.
    pub trace_session: Option<SessionId>,
    /// What the user said in it, its beginning.
    pub query: Option<String>,
    /// What the agent said, its beginning.
    pub response: Option<String>,
}

/// How many signals one pattern key has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalCounts {
    /// All of them.
    pub total_signals: i64,
    /// Those whose status is `open`.
    pub open_signals: i64,
}

/// Which signals to list; empty text is any.
#[derive(Debug, Clone, Default)]
pub struct SignalFilter {
    /// `failure`, `proper` or `all`.
    pub polarity: String,
    /// A status.
    pub status: String,
    /// A severity.
    pub severity: String,
    /// An agent's id.
    pub agent: String,
    /// The most to list.
    pub limit: usize,
    /// Only those behind this place; all where `None`.
    pub behind: Option<Place>,
}

/// What people say about a signal; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Triage {
    /// Its status from now on, whatever happens again.
    pub status: Option<String>,
    /// Its severity from now on, whatever the group's profile says.
    pub severity: Option<String>,
    /// How far people are with it.
    pub review_status: Option<String>,
    /// What people are to do about it.
    pub recommended_actions: Option<Vec<String>>,
}

impl Store {
    /// Keeps what people say about a signal; answers the signal as it is then. `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn triage_signal(
        &self,
        project: &ProjectId,
        id: &str,
        triage: &Triage,
        now: Timestamp,
    ) -> Result<Option<SignalRow>> {
        let mut tx = self.db.write().await?;
        let Some(row) = tx.fetch_one(&TO_TRIAGE, args![project, id]).await? else { return Ok(None) };
        let severity = triage.severity.clone();
        let actions = triage.recommended_actions.as_ref().map(to_json).transpose()?;
        let said = args![
            project,
            id,
            triage.status.clone().map_or_else(|| row.text(0), Ok)?,
            severity.clone().map_or_else(|| row.text(1), Ok)?,
            severity.map_or_else(|| row.opt_text(2), |severity| Ok(Some(severity)))?,
            triage.review_status.clone().map_or_else(|| row.opt_text(3), |status| Ok(Some(status)))?,
            actions.map_or_else(|| row.opt_text(4), |actions| Ok(Some(actions)))?,
            now,
        ];
        tx.execute(&TRIAGE, said).await?;
        let rows = tx.fetch(&ONE, args![project, id]).await?;
        let signal = with_occurrences(&mut tx, project, &rows, ALL_SHOWN).await?.into_iter().next();
        tx.commit().await?;
        Ok(signal)
    }

    /// Signals, the one seen last first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn signals(&self, project: &ProjectId, filter: &SignalFilter) -> Result<Vec<SignalRow>> {
        let mut tx = self.db.read().await?;
        let SignalFilter { polarity, status, severity, agent, limit, behind } = filter;
        let behind = behind.clone().unwrap_or_else(Place::first);
        let by = args![project, polarity, status, severity, agent, count(*limit), behind.at, behind.id];
        let rows = tx.fetch(&LIST, by).await?;
        with_occurrences(&mut tx, project, &rows, 1).await
    }

    /// How many signals there are, by what they are keyed by.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn signal_counts(&self, project: &ProjectId) -> Result<BTreeMap<String, SignalCounts>> {
        let rows = self.db.fetch(&COUNTS, args![project]).await?;
        let counts =
            |row: &Row| Ok((row.text(0)?, SignalCounts { total_signals: row.int(1)?, open_signals: row.int(2)? }));
        rows.iter().map(counts).collect()
    }

    /// The signal of that id.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn signal(&self, project: &ProjectId, id: &str) -> Result<Option<SignalRow>> {
        let mut tx = self.db.read().await?;
        let rows = tx.fetch(&ONE, args![project, id]).await?;
        Ok(with_occurrences(&mut tx, project, &rows, ALL_SHOWN).await?.into_iter().next())
    }
}

/// Of how many occurrences of a signal that is read by itself it is shown what was said. In a list that is the newest alone,
/// since each costs reading a span.
const ALL_SHOWN: usize = 100;

/// The longest beginning of what was said, in characters.
const PREVIEW: usize = 500;

async fn with_occurrences(tx: &mut Tx, project: &ProjectId, rows: &[Row], shown: usize) -> Result<Vec<SignalRow>> {
    let mut signals = Vec::with_capacity(rows.len());
    for row in rows {
        let agent_id = row.text(2)?;
        let agent_name = row.opt_text(3)?.unwrap_or_else(|| agent_id.clone());
        signals.push(SignalRow {
            id: SignalId::trusted(row.text(0)?),
            pattern_key: row.text(1)?,
            agent: (!agent_id.is_empty()).then_some(Agent { id: agent_id, name: agent_name }),
            signal_type: row.text(4)?,
            severity: row.text(5)?,
            polarity: row.text(6)?,
            status: row.text(7)?,
            summary: row.text(8)?,
            root_cause: row.opt_text(9)?,
            occurrence_count: row.int(10)?,
            first_seen_at: row.time(11)?,
            last_seen_at: row.time(12)?,
            review_status: row.opt_text(13)?,
            recommended_actions: row.opt_text(14)?.map_or_else(|| Ok(Vec::new()), |list| from_json(&list))?,
            triaged_at: row.opt_time(15)?,
            occurrences: Vec::new(),
        });
    }
    let ids: Vec<String> = signals.iter().map(|signal| signal.id.to_string()).collect();
    for row in tx.fetch(&OCCURRENCES, args![project, ids]).await? {
        let id = row.text(0)?;
        if let Some(signal) = signals.iter_mut().find(|signal| signal.id.as_str() == id) {
            signal.occurrences.push(OccurrenceRow {
                number: row.int(1)?,
                session: SessionId::trusted(row.text(2)?),
                trace: TraceId::trusted(row.text(3)?),
                rating: row.opt_real(4)?,
                threshold: row.opt_real(5)?,
                justification: row.opt_text(6)?,
                seen_at: row.time(7)?,
                trace_session: None,
                query: None,
                response: None,
            });
        }
    }
    show_said(tx, project, signals.iter_mut().flat_map(|signal| signal.occurrences.iter_mut().take(shown)).collect())
        .await?;
    Ok(signals)
}

/// Fills in what was said, as the spans have it now: what was pruned is not kept anywhere else.
async fn show_said(tx: &mut Tx, project: &ProjectId, mut occurrences: Vec<&mut OccurrenceRow>) -> Result<()> {
    let said = last_said(tx, project, occurrences.iter().map(|it| &it.trace)).await?;
    let beginning = |text: &String| text.chars().take(PREVIEW).collect::<String>();
    for occurrence in &mut occurrences {
        let Some(said) = said.get(&occurrence.trace) else { continue };
        occurrence.query = said.input.as_ref().map(beginning);
        occurrence.response = said.output.as_ref().map(beginning);
        occurrence.trace_session.clone_from(&said.session);
    }
    Ok(())
}

/// What a signal is keyed by: project, pattern, agent and type.
type SignalKey = (String, String, String, String);

/// Raises signals: a new key opens one, a known key counts up, takes the newest summary and keeps its status. Drafts of one
/// key are folded, since a statement may touch a row only once.
pub(super) async fn raise(
    tx: &mut Tx,
    entropy: &dyn Entropy,
    drafts: Vec<(ProjectId, SignalDraft)>,
    now: Timestamp,
) -> Result<()> {
    let mut by_key: BTreeMap<SignalKey, Vec<(ProjectId, SignalDraft)>> = BTreeMap::new();
    for (project, draft) in drafts {
        let agent = draft.agent.as_ref().map_or_else(String::new, |agent| agent.id.clone());
        let key = (project.to_string(), draft.pattern_key.clone(), agent, draft.signal_type.clone());
        by_key.entry(key).or_default().push((project, draft));
    }
    let mut rows = Rows::new();
    for ((project, pattern_key, agent, signal_type), drafts) in &by_key {
        let Some((_, newest)) = drafts.last() else { continue };
        rows.push(args![
            project,
            entropy.id(),
            pattern_key,
            agent,
            newest.agent.as_ref().map(|agent| agent.name.clone()),
            signal_type,
            newest.severity.as_str(),
            newest.polarity.as_str(),
            &newest.summary,
            &newest.root_cause,
            count(drafts.len()),
        ]);
    }
    let (mut occurrences, mut forgotten) = (Rows::new(), Rows::new());
    for row in tx.bulk(&RAISE, args![now], rows).await? {
        let key = (row.text(0)?, row.text(1)?, row.text(2)?, row.text(3)?);
        let (signal, total) = (row.text(4)?, row.int(5)?);
        let drafts = by_key.remove(&key).unwrap_or_default();
        for (number, (project, draft)) in (total - count(drafts.len()) + 1..).zip(drafts) {
            occurrences.push(args![
                &project,
                &signal,
                number,
                &draft.session,
                &draft.trace,
                draft.rating,
                draft.threshold,
                &draft.justification,
            ]);
        }
        if total > KEPT_OCCURRENCES {
            forgotten.push(args![&key.0, &signal, total - KEPT_OCCURRENCES]);
        }
    }
    tx.bulk(&INSERT_OCCURRENCES, args![now], occurrences).await?;
    tx.bulk(&FORGET_OCCURRENCES, args![], forgotten).await?;
    Ok(())
}
