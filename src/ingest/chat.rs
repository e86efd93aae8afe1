//! Chats from a file: one conversation a line, as a list of messages in chat form.
//!
//! A turn is one user message and everything up to the next; what stands before the first user message joins turn 1. Each
//! turn becomes a trace of its own: an agent span, and below it one span per tool call.
//!
//! Importing a line again must change nothing, and a line that has grown must change its last turn only. So nothing in a
//! span depends on when it is imported: ids come from the session id and the turn's number, and message k of a line that
//! has a time of its own happened k seconds after it. A line without one gives its spans no start, so the store files them
//! under their first arrival, where the numbers in the ids keep them in order. Their end is then only a count, message k
//! being k+1 microseconds after 1970: of two versions of a turn the one with more messages has the later end, and wins.

use chrono::{DateTime, NaiveDateTime};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Decoded, Refusal, dialect, text};
use crate::domain::content::message_text;
use crate::domain::ids::{SessionId, SpanId, TraceId};
use crate::domain::span::{Origin, Span, SpanBody, SpanKind, hex};
use crate::domain::time::{Micros, Timestamp};

/// Reads `{"session_id", "agent"?, "messages": […], "created_at" | "timestamp"?}`. Other keys are ignored. A time is RFC 3339
/// text (UTC where it names no zone) or a number of seconds or milliseconds since 1970; one outside 1970-2261 counts as none,
/// and is counted for each span.
///
/// # Errors
/// A [`Refusal`] of the whole line: no usable session id, no messages, a message that is none, an unknown role, no time where
/// one is claimed.
pub fn decode(line: &Value) -> Result<Decoded, Refusal> {
    let session = session(line)?;
    let refuse = |reason: String| Refusal { place: format!("chat of session {session}"), reason };
    let agent = match line.get("agent") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.as_str()).filter(|name| !name.trim().is_empty()),
        Some(_) => return Err(refuse("agent must be text".to_owned())),
    };
    let messages = match line.get("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        Some(Value::Array(_)) => return Err(refuse("messages is empty, a conversation needs at least one".to_owned())),
        None | Some(Value::Null) => return Err(refuse("messages is missing".to_owned())),
        Some(_) => return Err(refuse("messages must be a list".to_owned())),
    };
    let claimed = claimed_time(line).map_err(refuse)?;
    let turns = turns(messages).map_err(refuse)?;
    if turns.iter().all(|turn| turn.input.is_none() && turn.said.is_empty() && turn.calls.is_empty()) {
        return Err(refuse("messages holds no word of a user or an assistant".to_owned()));
    }
    let writer = Writer { session: &session, agent, begun: claimed.and_then(since_1970), hash: hash(&session) };
    let spans: Vec<Span> = (1..).zip(&turns).flat_map(|(number, turn)| writer.spans(number, turn)).collect();
    let adjusted_times = if claimed.is_some() && writer.begun.is_none() { spans.len() } else { 0 };
    Ok(Decoded { spans, adjusted_times, ..Decoded::default() })
}

/// The spans of a chat, see [`decode`].
///
/// # Errors
/// As [`decode`].
pub fn spans(line: &Value) -> Result<Vec<Span>, Refusal> {
    decode(line).map(|decoded| decoded.spans)
}

fn session(line: &Value) -> Result<SessionId, Refusal> {
    let refuse = |reason: String| Refusal { place: "chat".to_owned(), reason };
    let id = match line.get("session_id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        None | Some(Value::Null) => return Err(refuse("session_id is missing".to_owned())),
        Some(_) => return Err(refuse("session_id must be text".to_owned())),
    };
    SessionId::parse(&id).map_err(|problem| refuse(format!("session_id {problem}")))
}

/// The time that a line claims for itself, in microseconds since 1970, within the accepted years or not.
fn claimed_time(line: &Value) -> Result<Option<i128>, String> {
    let found = ["created_at", "timestamp"].into_iter().find_map(|key| Some((key, line.get(key)?)));
    let Some((key, value)) = found.filter(|(_, value)| !value.is_null()) else { return Ok(None) };
    let time = match value {
        Value::String(text) => written_time(text.trim()),
        Value::Number(number) => number.as_f64().map(counted_time),
        _ => None,
    };
    time.map(Some).ok_or_else(|| format!("{key} is no time; write it as 2026-11-30T04:32:22Z"))
}

fn written_time(text: &str) -> Option<i128> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.timestamp_micros().into());
    }
    let forms = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
    let time = forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())?;
    Some(time.and_utc().timestamp_micros().into())
}

/// Seconds, or milliseconds where as seconds they would lie thousands of years ahead.
#[allow(clippy::cast_possible_truncation, reason = "a float beyond i128 saturates, and no such time is accepted")]
fn counted_time(number: f64) -> i128 {
    if number < 1e11 { (number * 1e6) as i128 } else { (number * 1e3) as i128 }
}

fn since_1970(micros: i128) -> Option<Timestamp> {
    Timestamp::claimed_nanos(micros.saturating_mul(1_000))
}

fn hash(session: &SessionId) -> String {
    let mut hasher = Sha256::new();
    hasher.update(b"afterword/chat\0");
    hasher.update(session.as_str());
    hex(&hasher.finalize()[..8])
}

/// A turn as its messages tell it. Numbers are positions of messages in the line.
#[derive(Default)]
struct Turn {
    first: usize,
    last: usize,
    spoken_to: bool,
    input: Option<Value>,
    said: Vec<String>,
    system: Vec<String>,
    calls: Vec<Call>,
}

struct Call {
    at: usize,
    answered: Option<usize>,
    id: Option<String>,
    name: String,
    input: Option<Value>,
    output: Option<Value>,
}

fn turns(messages: &[Value]) -> Result<Vec<Turn>, String> {
    let mut turns: Vec<Turn> = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        let Value::Object(object) = message else { return Err(format!("messages[{position}] must be an object")) };
        let Some(role) = object.get("role").and_then(Value::as_str) else {
            return Err(format!("messages[{position}] has no role"));
        };
        let begins = matches!(role, "user" | "human");
        if turns.last().is_none_or(|turn| begins && turn.spoken_to) {
            turns.push(Turn { first: position, ..Turn::default() });
        }
        let Some(turn) = turns.last_mut() else { continue };
        turn.last = position;
        let words = message_text(message);
        match role {
            "user" | "human" => {
                turn.spoken_to = true;
                let other =
                    || object.get("content").filter(|content| content.is_array() || content.is_object()).cloned();
                turn.input = words.map(Value::String).or_else(other);
            }
            "assistant" | "ai" | "model" | "agent" | "bot" => {
                let refusal = || object.get("refusal").and_then(Value::as_str).map(str::to_owned);
                turn.said.extend(words.or_else(refusal));
                turn.calls.extend(calls(object, position));
            }
            "system" | "developer" => turn.system.extend(words),
            "tool" | "function" => answer(turn, object, position),
            other => {
                let shown: String = other.chars().take(40).collect();
                return Err(format!("messages[{position}] has the unknown role {shown:?}"));
            }
        }
    }
    Ok(turns)
}

/// The calls of an assistant's message, the older single `function_call` included.
fn calls(message: &Map<String, Value>, at: usize) -> Vec<Call> {
    let listed = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    let single = message.get("function_call").filter(|call| call.is_object());
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    listed
        .chain(single)
        .map(|call| {
            let function = call.get("function").filter(|function| function.is_object()).unwrap_or(call);
            let input = match function.get("arguments") {
                Some(Value::String(arguments)) => Some(dialect::arguments(arguments)),
                other => other.filter(|value| !value.is_null()).cloned(),
            };
            let name = text(function.get("name")).unwrap_or_else(|| "tool".to_owned());
            Call { at, answered: None, id: text(call.get("id")), name, input, output: None }
        })
        .collect()
}

/// Gives a tool's answer to the call with its id; without such a call to the first that waits (for that name, where the
/// answer has one and no id). An answer that nobody waits for stands as a call of its own.
fn answer(turn: &mut Turn, message: &Map<String, Value>, position: usize) {
    let text = |key: &str| message.get(key).and_then(Value::as_str);
    let (id, name) = (text("tool_call_id"), text("name"));
    let waits = |call: &Call| call.answered.is_none();
    let by_id = turn.calls.iter().position(|call| waits(call) && id.is_some() && call.id.as_deref() == id);
    let by_name = || turn.calls.iter().position(|call| waits(call) && id.is_none() && name == Some(call.name.as_str()));
    let by_order = || turn.calls.iter().position(|call| waits(call) && (id.is_none() || call.id.is_none()));
    let output = message.get("content").filter(|content| !content.is_null()).cloned();
    match by_id.or_else(by_name).or_else(by_order) {
        Some(found) => {
            turn.calls[found].answered = Some(position);
            turn.calls[found].output = output;
        }
        None => turn.calls.push(Call {
            at: position,
            answered: Some(position),
            id: None,
            name: name.unwrap_or("tool").to_owned(),
            input: None,
            output,
        }),
    }
}

/// Writes the spans of one line.
struct Writer<'a> {
    session: &'a SessionId,
    agent: Option<&'a str>,
    begun: Option<Timestamp>,
    hash: String,
}

impl Writer<'_> {
    fn spans(&self, number: usize, turn: &Turn) -> Vec<Span> {
        let root = format!("{}-{number:06}", self.hash);
        let body = SpanBody {
            input: turn.input.clone(),
            output: (!turn.said.is_empty()).then(|| Value::String(turn.said.join("\n\n"))),
            agent_name: self.agent.map(str::to_owned),
            metadata: (!turn.system.is_empty()).then(|| json!({"system": turn.system.join("\n\n")})),
            ..SpanBody::default()
        };
        let name = self.agent.unwrap_or("chat").to_owned();
        let mut spans = vec![self.span(&root, None, SpanKind::Agent, name, (turn.first, turn.last), body)];
        for (call_number, call) in (1..).zip(&turn.calls) {
            let body = SpanBody { input: call.input.clone(), output: call.output.clone(), ..SpanBody::default() };
            let times = (call.at, call.answered.unwrap_or(call.at));
            let place = Some((root.as_str(), call_number));
            spans.push(self.span(&root, place, SpanKind::Tool, call.name.clone(), times, body));
        }
        spans
    }

    /// `below` is the parent with the number of the call below it.
    fn span(
        &self,
        trace: &str,
        below: Option<(&str, usize)>,
        kind: SpanKind,
        name: String,
        (first, last): (usize, usize),
        body: SpanBody,
    ) -> Span {
        let id = below.map_or_else(|| trace.to_owned(), |(parent, number)| format!("{parent}-{number:04}"));
        let mut span = Span {
            origin: Origin::Chat,
            trace_id: TraceId::trusted(trace),
            span_id: SpanId::trusted(id),
            parent_id: below.map(|(parent, _)| SpanId::trusted(parent)),
            session_tag: Some(self.session.clone()),
            kind,
            name,
            started_at: self.begun.map(|begun| begun + seconds(first)).filter(|time| *time <= Timestamp::LATEST),
            ended_at: Some(match self.begun {
                Some(begun) => (begun + seconds(last)).min(Timestamp::LATEST),
                None => Timestamp::EARLIEST + Micros::new(count(last).saturating_add(1)),
            }),
            body,
        };
        text::tidy(&mut span);
        span
    }
}

fn count(position: usize) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

fn seconds(position: usize) -> Micros {
    Micros::seconds(count(position))
}

#[cfg(test)]
mod tests;
