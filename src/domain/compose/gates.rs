//! Gates, and the order in which the rules speak: a known failure first, then what is not known, then the budget.

use super::Opinion;

/// The goodness below which a gate fails. Exactly at it passes.
pub const GATE_FLOOR: f64 = 0.5;

/// What is decided before any goodness is combined.
pub(super) enum Ruling<'a> {
    /// This gate failed.
    Gated(&'a Opinion),
    /// This gate could not score, for this reason: fail closed.
    Closed(&'a Opinion, &'a str),
    /// The judge budget ran out: no partial panel.
    OutOfBudget,
    /// Nothing: goodness decides.
    Open,
}

/// The first rule that speaks. The order matters: a known failure stays a failure, even if another gate could not score.
pub(super) fn ruling(opinions: &[Opinion]) -> Ruling<'_> {
    if let Some(failing) = failing_gate(opinions) {
        return Ruling::Gated(failing);
    }
    let unscored = opinions.iter().filter(|opinion| opinion.gate).find_map(|gate| Some((gate, gate.outcome.reason()?)));
    if let Some((gate, reason)) = unscored {
        return Ruling::Closed(gate, reason);
    }
    let is_broke = |opinion: &Opinion| opinion.out_of_budget && opinion.outcome.goodness().is_none();
    if opinions.iter().any(is_broke) { Ruling::OutOfBudget } else { Ruling::Open }
}

/// The first gated member, in member order, whose goodness lies below the floor. Whatever else happens, it decides.
pub fn failing_gate(opinions: &[Opinion]) -> Option<&Opinion> {
    opinions
        .iter()
        .find(|opinion| opinion.gate && opinion.outcome.goodness().is_some_and(|goodness| goodness.get() < GATE_FLOOR))
}
