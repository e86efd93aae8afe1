//! What the demo prints: every session with its rating and what decided it, and why the others were not judged.

use std::fmt::Write as _;

use super::script::Script;
use crate::cli::table::{Cell, Column, Table, Tone, shorten};
use crate::cli::terminal::Style;
use crate::domain::ids::ProjectId;
use crate::domain::plan::{LiveGroup, NotNow, Patience, Standing};
use crate::domain::time::{Micros, Timestamp};
use crate::store::{SavedGroup, SessionRow, SignalFilter, Store, VerdictRow};

/// The widest that the account of a deciding member gets.
const WIDEST: usize = 52;

/// The window that holds everything the demo plays.
const WINDOW: Micros = Micros::seconds(-86_400);

pub(super) async fn render(
    store: &Store,
    project: &ProjectId,
    group: &SavedGroup,
    script: &Script,
    has_judge: bool,
    now: Timestamp,
    style: Style,
) -> anyhow::Result<String> {
    let sessions = store.recent_sessions(project, now + WINDOW, script.conversations.len() * 2).await?;
    let mut judged: Vec<(SessionRow, Vec<VerdictRow>)> = Vec::new();
    let mut others = Vec::new();
    for session in sessions {
        let verdicts = store.verdicts_of_session(project, &session.session).await?;
        if verdicts.is_empty() {
            let assessments = store.assessments_of_session(project, &session.session).await?;
            let put_off = assessments.into_iter().find(|(id, _)| *id == group.id).and_then(|(_, it)| it.last_error);
            others.push((why_not(&session, put_off, group, now), session));
        } else {
            judged.push((session, verdicts));
        }
    }
    judged.sort_by(|(a, a_verdicts), (b, b_verdicts)| {
        let rating = |verdicts: &[VerdictRow]| verdicts[0].rating.unwrap_or(f64::INFINITY);
        rating(a_verdicts).total_cmp(&rating(b_verdicts)).then_with(|| a.session.cmp(&b.session))
    });
    let signals =
        store.signals(project, &SignalFilter { polarity: "all".into(), limit: 100, ..SignalFilter::default() }).await?;

    let mut text = format!(
        "{} bundled conversations, one scorer group \"{}\" of {} members, two sweeps.\n{}\n\n",
        script.conversations.len(),
        group.spec.name,
        group.spec.members.len(),
        if has_judge {
            "The configured judge is one of the members."
        } else {
            "No judge is configured, so patterns alone decide: set judge.base_url and judge.model to add one."
        },
    );
    text.push_str(&judged_table(&judged).render(style));
    text.push_str("\nNot judged:\n\n");
    text.push_str(&others_table(&others).render(style));
    // Writing to a String can't fail.
    let _ = writeln!(text, "\nSignals raised below {}/10:\n", threshold(group));
    for signal in signals {
        let _ = writeln!(text, "  [{}] {} ×{}", signal.severity, agent(&signal), signal.occurrence_count);
    }
    Ok(text)
}

fn agent(signal: &crate::store::SignalRow) -> &str {
    signal.agent.as_ref().map_or("unknown agent", |agent| agent.name.as_str())
}

fn threshold(group: &SavedGroup) -> f64 {
    group.spec.online.as_ref().and_then(|online| online.alert_threshold).unwrap_or_default()
}

fn judged_table(judged: &[(SessionRow, Vec<VerdictRow>)]) -> Table {
    let mut table = Table::new([
        Column::text("session"),
        Column::number("turns"),
        Column::number("rating"),
        Column::text("decided by"),
        Column::text("re-scores"),
    ]);
    for (session, verdicts) in judged {
        let latest = &verdicts[0];
        let rating = latest.rating.map_or_else(|| "none".to_owned(), |rating| format!("{rating:.1}"));
        table.row([
            Cell::from(session.session.as_str()),
            Cell::from(latest.turns.to_string()),
            Cell::toned(rating, tone(latest.rating)),
            Cell::from(decided_by(latest)),
            Cell::from(history(verdicts)),
        ]);
    }
    table
}

fn tone(rating: Option<f64>) -> Tone {
    match rating {
        Some(rating) if rating < 4.0 => Tone::Bad,
        Some(rating) if rating < 7.0 => Tone::Doubtful,
        Some(_) => Tone::Good,
        None => Tone::Faint,
    }
}

/// The member that took most off the rating; where none took anything off, that.
fn decided_by(verdict: &VerdictRow) -> String {
    if let Some(gate) = &verdict.gated_by {
        return format!("{gate} (must-pass)");
    }
    let cost = |member: &crate::domain::verdict::MemberReport| {
        member.outcome.goodness().map_or(0.0, |goodness| member.weight * (1.0 - goodness.get()))
    };
    verdict.members.iter().filter(|member| cost(member) > 0.0).max_by(|a, b| cost(a).total_cmp(&cost(b))).map_or_else(
        || "all members agree".to_owned(),
        |member| shorten(&format!("{}: {}", member.name, member.detail), WIDEST),
    )
}

/// The ratings over the session's growth, oldest first; blank where it was judged once.
fn history(verdicts: &[VerdictRow]) -> String {
    if verdicts.len() < 2 {
        return String::new();
    }
    let steps = verdicts.iter().rev().map(|verdict| {
        let rating = verdict.rating.map_or_else(|| "none".to_owned(), |rating| format!("{rating:.1}"));
        format!("{rating} at turn {}", verdict.turns)
    });
    steps.collect::<Vec<_>>().join(" → ")
}

fn others_table(others: &[(String, SessionRow)]) -> Table {
    let mut table = Table::new([Column::text("session"), Column::number("turns"), Column::long_text("why not")]);
    for (why_not, session) in others {
        table.row([
            Cell::from(session.session.as_str()),
            Cell::from(session.turns.to_string()),
            Cell::from(why_not.as_str()),
        ]);
    }
    table
}

/// `put_off` is what the last try waits for, where there was one.
fn why_not(session: &SessionRow, put_off: Option<String>, group: &SavedGroup, now: Timestamp) -> String {
    let standing = Standing {
        session: session.session.clone(),
        revision: session.revision,
        last_arrival_at: session.last_arrival_at,
        turns: session.turns,
        rootless: 0,
        rootless_at: None,
        pruned_at: None,
    };
    let Some(live) = LiveGroup::of(group.id.clone(), &group.spec) else {
        return "the group does not score live".to_owned();
    };
    match standing.eligible(&live, now, Patience { root_grace: Micros::ZERO, trace_settle: Micros::ZERO }) {
        Err(NotNow::Pruned) => "pruned".to_owned(),
        Err(NotNow::OtherScope) => "the group scores single traces".to_owned(),
        Err(NotNow::TooFewTurns) => format!("fewer than {} turns", live.min_turns),
        Err(NotNow::SampledOut) => format!("left out by sampling at rate {}", live.sample_rate),
        Err(NotNow::Active(until)) => {
            format!(
                "still active: quiet for {} s, judged after {} s",
                (now - session.last_arrival_at).get() / 1_000_000,
                (until - session.last_arrival_at).get() / 1_000_000
            )
        }
        Ok(()) => put_off.map_or_else(|| "waiting for a worker".to_owned(), |reason| format!("put off: {reason}")),
    }
}
