//! The conversation: a session as its members read it, turn by turn.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::content::Speaker;
use super::dataset::Reference;
use super::ids::{SessionId, SpanId, TraceId, bounded};
use super::span::{SpanBody, StoredSpan, ToolCall, hex};
use super::time::Timestamp;
use super::transcript::{self, ToolContext};
use super::{records, said};

/// One user message in, one agent reply out.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Its number in the conversation, from 1.
    pub number: u32,
    /// Its trace.
    pub trace_id: TraceId,
    /// The span that leads it: its root, or the first of the top-most spans that stand in.
    pub head: SpanId,
    /// Its place in time.
    pub at: Timestamp,
    /// What the user said: the root's input.
    pub input: Option<String>,
    /// Where the root has no input, the input of the top-most span below it that has one. A web framework's span above the
    /// agent's carries no word of the user; a judge is to read them all the same.
    pub request: Option<String>,
    /// What the agent said: the root's output, else what its child spans gave out.
    pub output: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// The tools it called, in time order.
    pub tool_calls: Vec<ToolCall>,
}

/// The agent that held a conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Agent {
    /// What identifies it: the client's agent id, else its name.
    pub id: String,
    /// What people call it.
    pub name: String,
}

/// A session as its members read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The session.
    pub session: SessionId,
    /// Its turns, in time order.
    pub turns: Vec<Turn>,
    /// The agent that held it, as its last turn tells.
    pub agent: Option<Agent>,
    /// How many spans it has in all.
    pub span_count: usize,
    /// The spans of the anchor trace, the trace of the last turn, in time order.
    pub anchor: Vec<StoredSpan>,
    /// What the answer is compared with, where this is a row of a dataset run: one query and its answer.
    pub reference: Option<Reference>,
}

impl Agent {
    /// The agent that a turn's head names: the first present of the client's agent id, the agent's name, the service's name
    /// and the span's own name. A name identifies it, so that it is kept no further than an id may be long: some senders call
    /// a span by what was said in it.
    pub fn named_by(span_name: &str, body: &SpanBody) -> Option<Self> {
        let present =
            |text: Option<&str>| text.filter(|text| !text.trim().is_empty()).map(|text| bounded(text).to_owned());
        let name = present(body.agent_name.as_deref())
            .or_else(|| present(body.service_name.as_deref()))
            .or_else(|| present(Some(span_name)));
        match present(body.agent_id.as_deref()) {
            Some(id) => Some(Self { name: name.unwrap_or_else(|| id.clone()), id }),
            None => name.map(|name| Self { id: name.clone(), name }),
        }
    }
}

impl Conversation {
    /// Puts a session together from all its spans, in whatever order they come.
    pub fn assemble(session: SessionId, spans: Vec<StoredSpan>) -> Self {
        let span_count = spans.len();
        let spans = records::joined(spans);
        let mut by_trace: BTreeMap<TraceId, Vec<StoredSpan>> = BTreeMap::new();
        for span in spans {
            by_trace.entry(span.span.trace_id.clone()).or_default().push(span);
        }
        let mut turns: Vec<(Turn, Option<Agent>)> = Vec::new();
        for (trace_id, spans) in &by_trace {
            turns.extend(said::turns_of(trace_id, spans));
        }
        turns.sort_by(|(a, _), (b, _)| (a.at, &a.head).cmp(&(b.at, &b.head)));
        let agent = turns.last().and_then(|(_, agent)| agent.clone());
        let anchor_trace = turns.last().map(|(turn, _)| turn.trace_id.clone());
        let mut anchor = anchor_trace.and_then(|trace_id| by_trace.remove(&trace_id)).unwrap_or_default();
        anchor.sort_by(|a, b| (a.at, &a.span.span_id).cmp(&(b.at, &b.span.span_id)));
        let turns = (1..).zip(turns).map(|(number, (turn, _))| Turn { number, ..turn }).collect();
        Self { session, turns, agent, span_count, anchor, reference: None }
    }

    /// The trace of the last turn.
    pub fn anchor_trace(&self) -> Option<&TraceId> {
        self.turns.last().map(|turn| &turn.trace_id)
    }

    /// The last turn's own place in time.
    pub fn last_turn_at(&self) -> Option<Timestamp> {
        self.turns.last().map(|turn| turn.at)
    }

    /// Everything the user said, turns joined by a blank line. Where no turn carries any of it, the whole transcript:
    /// over-matching is the honest direction for a tripwire.
    pub fn user_side(&self) -> String {
        if self.turns.iter().all(|turn| turn.input.is_none()) {
            return transcript::render(self, ToolContext::None);
        }
        join(self.turns.iter().filter_map(|turn| turn.input.as_deref()))
    }

    /// Everything the agent said, turns joined by a blank line.
    pub fn agent_side(&self) -> String {
        join(self.turns.iter().filter_map(|turn| turn.output.as_deref()))
    }

    /// The number of the turn that a place in one side's text lies in, `offset` in bytes of [`Conversation::user_side`] or
    /// [`Conversation::agent_side`].
    pub fn turn_at(&self, speaker: Speaker, offset: usize) -> Option<u32> {
        let said = |turn: &Turn| match speaker {
            Speaker::User => turn.input.as_ref().map(String::len),
            Speaker::Agent => turn.output.as_ref().map(String::len),
        };
        if speaker == Speaker::User && self.turns.iter().all(|turn| turn.input.is_none()) {
            return transcript::turn_at(self, ToolContext::None, offset);
        }
        let mut end = 0;
        let spoken = self.turns.iter().filter_map(|turn| said(turn).map(|length| (turn.number, length)));
        for (number, length) in spoken {
            end += length + BETWEEN_TURNS.len();
            if offset < end {
                return Some(number);
            }
        }
        None
    }

    /// The conversation with nothing but what the user said, the agent said, or both; turns keep their numbers. Where no turn
    /// carries a word of the user, the user's side is everything, as in [`Conversation::user_side`].
    #[must_use]
    pub fn only(&self, input: bool, output: bool) -> Self {
        let output = output || (input && self.turns.iter().all(|turn| turn.input.is_none()));
        let turns = self.turns.iter().map(|turn| Turn {
            input: turn.input.clone().filter(|_| input),
            request: turn.request.clone().filter(|_| input),
            output: turn.output.clone().filter(|_| output),
            error: None,
            tool_calls: Vec::new(),
            ..turn.clone()
        });
        let is_said = |turn: &Turn| turn.input.is_some() || turn.request.is_some() || turn.output.is_some();
        let turns = turns.filter(is_said).collect();
        Self { turns, ..self.clone() }
    }

    /// A digest of all that members can read: the turns and the anchor's spans. 64 hex digits.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        let mut part = |text: Option<&str>| {
            let length = text.map_or(u64::MAX, |text| text.len() as u64);
            hasher.update(length.to_le_bytes());
            hasher.update(text.unwrap_or_default());
        };
        for turn in &self.turns {
            part(Some("turn"));
            part(turn.input.as_deref());
            if turn.request.is_some() {
                part(turn.request.as_deref());
            }
            part(turn.output.as_deref());
            part(turn.error.as_deref());
            part(Some(&serde_json::to_string(&turn.tool_calls).unwrap_or_default()));
        }
        for span in &self.anchor {
            part(Some("span"));
            part(Some(span.span.span_id.as_str()));
            part(Some(&span.digest));
        }
        hex(&hasher.finalize())
    }
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(BETWEEN_TURNS)
}

/// What stands between two turns of one side.
const BETWEEN_TURNS: &str = "\n\n";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::span::{Origin, Span, SpanKind};
    use super::*;

    fn span(
        trace: &str,
        id: &str,
        parent: Option<&str>,
        at: i64,
        kind: SpanKind,
        io: (serde_json::Value, serde_json::Value),
    ) -> StoredSpan {
        let body = SpanBody { input: Some(io.0), output: Some(io.1), ..SpanBody::default() };
        let span = Span {
            origin: Origin::Otlp,
            trace_id: TraceId::trusted(trace),
            span_id: SpanId::trusted(id),
            parent_id: parent.map(SpanId::trusted),
            session_tag: None,
            kind,
            name: format!("{id}-name"),
            started_at: None,
            ended_at: None,
            body,
        };
        StoredSpan {
            digest: span.digest(""),
            span,
            session: Some(SessionId::trusted("s")),
            at: Timestamp::from_micros(at),
            arrived_at: Timestamp::from_micros(at),
        }
    }

    fn read(spans: Vec<StoredSpan>) -> Conversation {
        Conversation::assemble(SessionId::trusted("s"), spans)
    }

    #[test]
    fn speakers_are_split_and_turns_numbered_in_time_order() {
        let conversation = read(vec![
            span("t2", "b", None, 20, SpanKind::Agent, (json!("second?"), json!("answer two"))),
            span("t1", "a", None, 10, SpanKind::Agent, (json!({"q": "first?"}), json!("answer one"))),
            span("t1", "tool", Some("a"), 11, SpanKind::Tool, (json!({"k": 1}), json!("secret of the tool"))),
        ]);
        assert_eq!(conversation.user_side(), "first?\n\nsecond?");
        assert_eq!(conversation.agent_side(), "answer one\n\nanswer two");
        assert_eq!(conversation.turns.iter().map(|turn| turn.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(conversation.turns[0].tool_calls[0].name, "tool-name");
        assert_eq!(conversation.anchor_trace().map(TraceId::as_str), Some("t2"));
        assert_eq!(conversation.agent.as_ref().map(|agent| agent.name.as_str()), Some("b-name"));
    }

    #[test]
    fn a_turn_without_root_output_falls_back_to_its_own_children_alone() {
        let conversation = read(vec![
            span("t1", "a", None, 1, SpanKind::Agent, (json!("q1"), json!("root answer"))),
            span("t1", "a1", Some("a"), 2, SpanKind::Llm, (json!(null), json!("not this one"))),
            span("t2", "b", None, 3, SpanKind::Agent, (json!("q2"), json!(null))),
            span("t2", "b1", Some("b"), 4, SpanKind::Chain, (json!(null), json!("from the child"))),
            span("t2", "b2", Some("b1"), 5, SpanKind::Llm, (json!(null), json!("from the child"))),
            span("t2", "b3", Some("b1"), 6, SpanKind::Retriever, (json!(null), json!("a document"))),
        ]);
        assert_eq!(conversation.agent_side(), "root answer\n\nfrom the child");
    }

    #[test]
    fn without_any_user_text_the_user_side_is_the_transcript_and_the_agent_side_stays_the_agents() {
        let conversation = read(vec![
            span("t1", "a", None, 1, SpanKind::Agent, (json!({}), json!("hello"))),
            span("t2", "b", None, 2, SpanKind::Agent, (json!(null), json!("bye"))),
        ]);
        assert!(conversation.user_side().contains("hello") && conversation.user_side().contains("bye"));
        let silent = read(vec![span("t", "a", None, 1, SpanKind::Agent, (json!("q"), json!("<REDACTED>")))]);
        assert_eq!(silent.agent_side(), "");
    }

    #[test]
    fn what_was_asked_below_a_silent_root_is_shown_and_is_not_the_users_side() {
        let conversation = read(vec![
            span("t1", "web", None, 1, SpanKind::Unknown, (json!(null), json!(null))),
            span("t1", "tool", Some("web"), 2, SpanKind::Tool, (json!("a tool's question"), json!(null))),
            span("t1", "llm", Some("agent"), 3, SpanKind::Llm, (json!("a model's question"), json!("an answer"))),
            span("t1", "agent", Some("web"), 4, SpanKind::Agent, (json!("the question"), json!("an answer"))),
            span("t1", "late", Some("web"), 5, SpanKind::Agent, (json!("another"), json!(null))),
            span("t2", "b", None, 6, SpanKind::Agent, (json!("said"), json!("bye"))),
            span("t2", "b1", Some("b"), 7, SpanKind::Llm, (json!("told to the model"), json!("bye"))),
        ]);
        let requests: Vec<Option<&str>> = conversation.turns.iter().map(|turn| turn.request.as_deref()).collect();
        assert_eq!(requests, [Some("the question"), None]);
        let shown = transcript::render(&conversation, ToolContext::None);
        assert!(shown.contains("User: the question\n") && !shown.contains("told to the model"), "{shown}");
        assert_eq!(conversation.user_side(), "said");
    }

    #[test]
    fn where_tools_stand_in_for_a_root_their_arguments_are_no_words_of_the_user() {
        let conversation = read(vec![
            span("t", "tool", Some("gone"), 1, SpanKind::Tool, (json!("SELECT 1"), json!("a row"))),
            span("t", "agent", Some("gone"), 2, SpanKind::Agent, (json!("how many?"), json!("one"))),
        ]);
        assert_eq!((conversation.user_side(), conversation.agent_side()), ("how many?".into(), "one".into()));
    }

    #[test]
    fn a_call_that_two_instrumentations_saw_is_told_once() {
        let call = |name: &str| ToolCall { name: name.into(), input: Some(json!({"order": 7})), ..ToolCall::default() };
        let mut spans = vec![
            span("t", "root", None, 1, SpanKind::Agent, (json!("q"), json!("a"))),
            span("t", "outer", Some("root"), 2, SpanKind::Llm, (json!(null), json!(null))),
            span("t", "inner", Some("outer"), 3, SpanKind::Llm, (json!(null), json!(null))),
            span("t", "next", Some("root"), 4, SpanKind::Llm, (json!(null), json!(null))),
        ];
        spans[1].span.body.tool_calls = vec![call("lookup"), call("lookup")];
        spans[2].span.body.tool_calls = vec![call("lookup"), call("refund")];
        spans[3].span.body.tool_calls = vec![call("lookup")];
        let calls = &read(spans).turns[0].tool_calls;
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["lookup", "lookup", "refund", "lookup"]);
    }

    #[test]
    fn of_spans_whose_parents_run_in_a_circle_one_still_says_what_they_say() {
        let conversation = read(vec![
            span("t", "root", None, 1, SpanKind::Agent, (json!("q"), json!(null))),
            span("t", "a", Some("b"), 2, SpanKind::Llm, (json!(null), json!("the answer"))),
            span("t", "b", Some("a"), 3, SpanKind::Chain, (json!(null), json!("the answer"))),
        ]);
        assert_eq!(conversation.agent_side(), "the answer");
    }

    #[test]
    fn a_trace_that_nests_without_end_is_read_in_one_pass() {
        let deep = 100_000;
        let id = |n: usize| format!("s{n:06}");
        let chain = (0..deep).map(|n| {
            let parent = (n > 0).then(|| id(n - 1));
            let said = if n + 1 == deep { json!("the answer") } else { json!(null) };
            span("t", &id(n), parent.as_deref(), 1, SpanKind::Chain, (said.clone(), said))
        });
        let conversation = read(chain.collect());
        assert_eq!(conversation.turns[0].request.as_deref(), Some("the answer"));
        assert_eq!(conversation.agent_side(), "the answer");
    }

    #[test]
    fn an_agent_that_is_called_by_what_was_said_has_a_name_no_longer_than_an_id() {
        let named = Agent::named_by(&"é".repeat(400), &SpanBody::default()).expect("a name");
        assert_eq!((named.id.len(), named.name.len()), (512, 512));
    }

    #[test]
    fn a_place_in_a_side_lies_in_a_turn() {
        let conversation = read(vec![
            span("t1", "a", None, 1, SpanKind::Agent, (json!("q1"), json!("answer one"))),
            span("t2", "b", None, 2, SpanKind::Agent, (json!(null), json!("answer two"))),
            span("t3", "c", None, 3, SpanKind::Agent, (json!("q3 is long"), json!("x"))),
        ]);
        for (speaker, text, turn) in [
            (Speaker::User, "q1", Some(1)),
            (Speaker::User, "long", Some(3)),
            (Speaker::Agent, "one", Some(1)),
            (Speaker::Agent, "two", Some(2)),
            (Speaker::Agent, "x", Some(3)),
        ] {
            let side = if speaker == Speaker::User { conversation.user_side() } else { conversation.agent_side() };
            assert_eq!(conversation.turn_at(speaker, side.find(text).expect("it is said")), turn, "{text}");
        }
        assert_eq!(conversation.turn_at(Speaker::Agent, 10_000), None);
        let silent = read(vec![
            span("t1", "a", None, 1, SpanKind::Agent, (json!(null), json!("[Turn 9]\nhello"))),
            span("t2", "b", None, 2, SpanKind::Agent, (json!(null), json!("bye"))),
        ]);
        let side = silent.user_side();
        assert_eq!(silent.turn_at(Speaker::User, side.find("hello").expect("it is said")), Some(1));
        assert_eq!(silent.turn_at(Speaker::User, side.find("bye").expect("it is said")), Some(2));
    }

    #[test]
    fn one_side_alone_keeps_the_numbers_of_its_turns() {
        let conversation = read(vec![
            span("t1", "a", None, 1, SpanKind::Agent, (json!(null), json!("one"))),
            span("t2", "b", None, 2, SpanKind::Agent, (json!("q2"), json!("two"))),
        ]);
        let user = conversation.only(true, false);
        assert_eq!(
            user.turns.iter().map(|turn| (turn.number, turn.output.as_deref())).collect::<Vec<_>>(),
            [(2, None)]
        );
        assert_eq!(conversation.only(false, true).turns.len(), 2);
    }

    #[test]
    fn the_digest_follows_what_members_read() {
        let spans = || {
            vec![
                span("t1", "a", None, 1, SpanKind::Agent, (json!("q"), json!("x"))),
                span("t2", "b", None, 2, SpanKind::Agent, (json!("q"), json!("y"))),
            ]
        };
        let mut reversed = spans();
        reversed.reverse();
        assert_eq!(read(spans()).digest(), read(reversed).digest());
        let mut changed = spans();
        changed[0].span.body.output = Some(json!("z"));
        assert_ne!(read(spans()).digest(), read(changed).digest());
    }
}
