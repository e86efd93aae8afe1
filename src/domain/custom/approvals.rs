//! Approvals: which actions agents proposed, what people decided about them, and how likely they are to approve the next one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Opinion, declined};
use crate::domain::conversation::Conversation;
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::span::{Span, SpanKind, ToolCall};

/// What became of a proposed action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// A person has yet to decide.
    PendingApproval,
    /// A person said no.
    Rejected,
    /// A person said yes, and it was done.
    Executed,
    /// A person said yes, and it went wrong.
    Failed,
    /// It was done without asking anybody.
    AutoExecuted,
}

/// What a person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Approved,
    /// No.
    Rejected,
}

impl Status {
    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PendingApproval => "pending_approval",
            Self::Rejected => "rejected",
            Self::Executed => "executed",
            Self::Failed => "failed",
            Self::AutoExecuted => "auto_executed",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::PendingApproval, Self::Rejected, Self::Executed, Self::Failed, Self::AutoExecuted]
            .into_iter()
            .find(|status| status.as_str() == name)
    }

    /// What a person decided; `None` where nobody has, or nobody was asked. An approved action that failed was approved.
    pub const fn decision(self) -> Option<Decision> {
        match self {
            Self::Rejected => Some(Decision::Rejected),
            Self::Executed | Self::Failed => Some(Decision::Approved),
            Self::PendingApproval | Self::AutoExecuted => None,
        }
    }
}

/// An action of which a span tells the status, for the project's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAction {
    /// The tool.
    pub tool: String,
    /// What became of it.
    pub status: Status,
    /// Its place in the span's list of calls, from 0; `None` where it is the span itself. A call that is in both counts once:
    /// of one tool and status, a trace has as many as the larger of the two numbers.
    pub listed: Option<usize>,
}

/// A tool's name as it is counted by: at most 200 characters.
fn counted(name: &str) -> String {
    name.chars().take(200).collect()
}

const ACTION: &str = "action";

/// The actions of which a span tells the status. Most spans have none.
pub fn actions_of(span: &Span) -> Vec<ToolAction> {
    let mut actions = Vec::new();
    if span.kind == SpanKind::Tool && !span.body.attributes.is_empty() {
        let attribute = |key: &str| span.body.attributes.get(key).and_then(Value::as_str);
        let is_action = attribute("afterword.tool.type") == Some(ACTION);
        if let Some(status) = attribute("afterword.tool.status").filter(|_| is_action).and_then(Status::from_name) {
            actions.push(ToolAction { tool: counted(&span.name), status, listed: None });
        }
    }
    let listed = span.body.tool_calls.iter().enumerate().filter(|(_, call)| is_action(call));
    actions.extend(listed.filter_map(|(place, call)| {
        let status = Status::from_name(call.status.as_deref()?)?;
        Some(ToolAction { tool: counted(&call.name), status, listed: Some(place) })
    }));
    actions
}

fn is_action(call: &ToolCall) -> bool {
    call.tool_type.as_deref() == Some(ACTION)
}

/// How often people decided about a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often they said yes.
    pub approved: u64,
    /// How often they said no.
    pub rejected: u64,
}

/// How likely people are to approve a tool, going by what they decided so far: one yes and one no are added, so that a tool
/// that nobody ever decided about stands at 0.5.
#[allow(clippy::cast_precision_loss, reason = "nobody decides 2^53 times")]
pub fn chance_of_approval(counts: Counts) -> f64 {
    (counts.approved as f64 + 1.0) / (counts.approved as f64 + counts.rejected as f64 + 2.0)
}

/// A tool that was proposed as an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// Its name.
    pub tool: String,
    /// The turns that proposed it, by number.
    pub turns: Vec<u32>,
}

/// The tools that were proposed as actions, whatever became of them, in the order of their first proposal.
pub fn proposed_tools(conversation: &Conversation) -> Vec<Proposed> {
    let mut proposed: Vec<Proposed> = Vec::new();
    for turn in &conversation.turns {
        for call in turn.tool_calls.iter().filter(|call| is_action(call)) {
            let tool = counted(&call.name);
            match proposed.iter_mut().find(|known| known.tool == tool) {
                Some(known) if known.turns.last() == Some(&turn.number) => {}
                Some(known) => known.turns.push(turn.number),
                None => proposed.push(Proposed { tool, turns: vec![turn.number] }),
            }
        }
    }
    proposed
}

/// The share of the decided actions of all turns that a person approved; declined where none was decided.
pub fn approval_outcome(conversation: &Conversation) -> Opinion {
    let mut counts = Counts::default();
    let mut rejected: Vec<&str> = Vec::new();
    let mut turns = BTreeSet::new();
    for turn in &conversation.turns {
        for call in turn.tool_calls.iter().filter(|call| is_action(call)) {
            match call.status.as_deref().and_then(Status::from_name).and_then(Status::decision) {
                None => continue,
                Some(Decision::Approved) => counts.approved += 1,
                Some(Decision::Rejected) => {
                    counts.rejected += 1;
                    if !rejected.contains(&call.name.as_str()) {
                        rejected.push(&call.name);
                    }
                }
            }
            turns.insert(turn.number);
        }
    }
    let decided = counts.approved + counts.rejected;
    if decided == 0 {
        return declined("no action was decided by a person");
    }
    #[allow(clippy::cast_precision_loss, reason = "a session has fewer than 2^53 actions")]
    let share = Goodness::new(counts.approved as f64 / decided as f64).unwrap_or(Goodness::BAD);
    let mut text = format!("a human approved {} of {decided} decided actions", counts.approved);
    if !rejected.is_empty() {
        text = format!("{text} (rejected: {})", rejected.join(", "));
    }
    Opinion { evidence: turns.into_iter().collect(), ..Opinion::told(Outcome::Scored { goodness: share }, text) }
}

/// How likely people are to approve the least approved tool that was proposed. `history` holds what they decided about these
/// tools in other sessions of the project; a tool without any was never decided about. Declined where no action was proposed.
pub fn approval_risk(conversation: &Conversation, history: &BTreeMap<String, Counts>) -> Opinion {
    let proposed = proposed_tools(conversation);
    let of = |tool: &Proposed| history.get(&tool.tool).copied().unwrap_or_default();
    let chance = |tool: &Proposed| chance_of_approval(of(tool));
    // Of equals the first: `min_by` keeps it.
    let Some(riskiest) = proposed.iter().min_by(|a, b| chance(a).total_cmp(&chance(b))) else {
        return declined("no action was proposed");
    };
    let counts = of(riskiest);
    let tools: serde_json::Map<String, Value> = proposed
        .iter()
        .map(|tool| {
            let Counts { approved, rejected } = of(tool);
            (tool.tool.clone(), json!({"approved": approved, "rejected": rejected, "chance": chance(tool)}))
        })
        .collect();
    let decided = counts.approved + counts.rejected;
    let text = if decided == 0 {
        format!("{} is the riskiest action proposed: nobody ever decided about it", riskiest.tool)
    } else {
        format!(
            "{} is the riskiest action proposed: people approved it {} of {decided} times before",
            riskiest.tool, counts.approved
        )
    };
    let goodness = Goodness::new(chance(riskiest)).unwrap_or(Goodness::BAD);
    Opinion {
        evidence: riskiest.turns.clone(),
        facts: Some(json!({"riskiestTool": riskiest.tool, "tools": tools})),
        ..Opinion::told(Outcome::Scored { goodness }, text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{client_span, conversation};
    use super::*;

    fn call(name: &str, status: &str) -> Value {
        json!({"name": name, "type": "action", "status": status})
    }

    fn turn(id: &str, at: i64, calls: &[Value]) -> Value {
        json!({"span_id": id, "at": at, "input": "q", "output": "a", "tool_calls": calls})
    }

    #[test]
    fn half_of_two_decided_actions_in_the_known_words() {
        let talk = conversation(&[turn("a", 1, &[call("refund", "executed"), call("purgeCache", "rejected")])]);
        let opinion = approval_outcome(&talk);
        let text = "a human approved 1 of 2 decided actions (rejected: purgeCache)";
        assert_eq!(opinion.justification.as_deref(), Some(text));
        assert_eq!(opinion.outcome, Outcome::Scored { goodness: Goodness::new(0.5).expect("a goodness") });
        assert_eq!((opinion.detail.as_str(), opinion.evidence), ("0.50", vec![1]));
    }

    #[test]
    fn only_decided_actions_count_and_a_failed_one_was_approved() {
        let talk = conversation(&[
            turn("a", 1, &[call("x", "failed"), call("y", "pending_approval"), call("z", "auto_executed")]),
            turn("b", 2, &[json!({"name": "look", "type": "read", "status": "rejected"}), json!({"name": "plain"})]),
        ]);
        let opinion = approval_outcome(&talk);
        assert_eq!(opinion.justification.as_deref(), Some("a human approved 1 of 1 decided actions"));
        assert_eq!(opinion.outcome, Outcome::Scored { goodness: Goodness::GOOD });
        let none = conversation(&[turn("a", 1, &[call("y", "pending_approval"), call("z", "made_up")])]);
        assert!(matches!(approval_outcome(&none).outcome, Outcome::Declined { .. }));
    }

    #[test]
    fn a_call_with_a_span_and_a_place_in_the_roots_list_counts_once() {
        let tool = |id: &str, name: &str, attributes: Value| {
            json!({"span_id": id, "parent_span_id": "a", "trace": "a", "name": name, "span_kind": "tool", "at": 2,
                   "input": {"k": 1}, "attributes": attributes})
        };
        let executed = json!({"afterword.tool.type": "action", "afterword.tool.status": "executed"});
        let root = turn("a", 1, &[call("refund", "executed"), call("purge", "rejected"), call("mail", "executed")]);
        let talk = conversation(&[root, tool("t1", "refund", executed), tool("t2", "mail", json!({}))]);
        let calls: Vec<(&str, Option<&str>)> =
            talk.turns[0].tool_calls.iter().map(|call| (call.name.as_str(), call.status.as_deref())).collect();
        assert_eq!(calls, [("refund", Some("executed")), ("mail", Some("executed")), ("purge", Some("rejected"))]);
        assert_eq!(
            approval_outcome(&talk).justification.as_deref(),
            Some("a human approved 2 of 3 decided actions (rejected: purge)")
        );
    }

    #[test]
    fn a_span_tells_its_actions_from_its_attributes_and_its_list() {
        let span = client_span(&turn("a", 1, &[call("x", "rejected"), json!({"name": "y", "status": "rejected"})]));
        assert_eq!(
            actions_of(&span.span),
            [ToolAction { tool: "x".into(), status: Status::Rejected, listed: Some(0) }]
        );
        let own = json!({"span_id": "t", "name": "x", "span_kind": "tool",
                         "attributes": {"afterword.tool.type": "action", "afterword.tool.status": "failed"}});
        let own = actions_of(&client_span(&own).span);
        assert_eq!(own, [ToolAction { tool: "x".into(), status: Status::Failed, listed: None }]);
        let read = json!({"span_id": "t", "name": "x", "span_kind": "tool",
                          "attributes": {"afterword.tool.type": "read", "afterword.tool.status": "executed"}});
        assert_eq!(actions_of(&client_span(&read).span), []);
    }

    #[test]
    fn the_chance_of_approval_is_as_the_table_says() {
        let rows = [((0, 1), "0.33"), ((0, 3), "0.20"), ((0, 50), "0.02"), ((0, 0), "0.50"), ((3, 1), "0.67")];
        for ((approved, rejected), expected) in rows {
            assert_eq!(format!("{:.2}", chance_of_approval(Counts { approved, rejected })), expected);
        }
    }

    #[test]
    fn the_riskiest_tool_decides_and_all_are_told() {
        let talk = conversation(&[
            turn("a", 1, &[call("mail", "executed"), call("purge", "pending_approval")]),
            turn("b", 2, &[json!({"name": "purge", "type": "action"}), json!({"name": "look", "type": "read"})]),
        ]);
        let history = BTreeMap::from([("purge".to_owned(), Counts { approved: 0, rejected: 3 })]);
        let opinion = approval_risk(&talk, &history);
        assert_eq!((opinion.detail.as_str(), opinion.evidence), ("0.20", vec![1, 2]));
        let facts = opinion.facts.expect("facts");
        assert_eq!(facts["riskiestTool"], "purge");
        assert_eq!(facts["tools"]["mail"], json!({"approved": 0, "rejected": 0, "chance": 0.5}));
        assert_eq!(facts["tools"].as_object().map(serde_json::Map::len), Some(2));
        let quiet = conversation(&[turn("a", 1, &[json!({"name": "look", "type": "read", "status": "executed"})])]);
        assert!(matches!(approval_risk(&quiet, &history).outcome, Outcome::Declined { .. }));
    }
}
