//! What was said in a turn: its spans' inputs, outputs and tool calls as one user message, one reply and a list of calls.

use std::collections::{HashMap, HashSet};

use super::content::{Speaker, text_of};
use super::conversation::{Agent, Turn};
use super::ids::{SpanId, TraceId};
use super::span::{SpanKind, StoredSpan, ToolCall};
use super::turns::{self, Node};

/// The turns of one trace, each with the agent that its head names. Numbers are given when all traces are together.
pub(super) fn turns_of(trace_id: &TraceId, spans: &[StoredSpan]) -> Vec<(Turn, Option<Agent>)> {
    let nodes: Vec<Node<'_>> = spans
        .iter()
        .map(|span| Node {
            span_id: &span.span.span_id,
            parent_id: span.span.parent_id.as_ref(),
            at: span.at,
            content: span.span.has_content(),
        })
        .collect();
    turns::of_trace(&nodes).into_iter().map(|shape| read_turn(trace_id, spans, &shape)).collect()
}

fn read_turn(trace_id: &TraceId, spans: &[StoredSpan], shape: &turns::Turn) -> (Turn, Option<Agent>) {
    let head = &spans[shape.heads[0]];
    let heads = || shape.heads.iter().map(|&n| &spans[n]);
    let input = heads().find_map(|head| head.span.body.input.as_ref().and_then(|value| text_of(value, Speaker::User)));
    let said = |span: &StoredSpan| span.span.body.output.as_ref().and_then(|value| text_of(value, Speaker::Agent));
    let root_output = if shape.rooted { said(head) } else { None };
    let turn = Turn {
        number: 0,
        trace_id: trace_id.clone(),
        head: head.span.span_id.clone(),
        at: head.at,
        request: if input.is_none() { child_input(spans, shape) } else { None },
        input,
        output: root_output.or_else(|| child_outputs(spans, shape)),
        error: heads().find_map(|head| head.span.body.error.clone()),
        tool_calls: tool_calls(spans, shape),
    };
    (turn, Agent::named_by(&head.span.name, &head.span.body))
}

fn by_id<'a>(spans: &'a [StoredSpan], shape: &turns::Turn) -> HashMap<&'a SpanId, &'a StoredSpan> {
    shape.spans.iter().map(|&n| (&spans[n].span.span_id, &spans[n])).collect()
}

/// The input of the turn's top-most span below its heads that has one, of several the earliest. Tools, searches and checks are
/// asked by the agent, not by the user.
fn child_input(spans: &[StoredSpan], shape: &turns::Turn) -> Option<String> {
    let by_id = by_id(spans, shape);
    let depth = |span: &StoredSpan| {
        let above = std::iter::successors(Some(span), |span| by_id.get(span.span.parent_id.as_ref()?).copied());
        // A circle ends where every span was passed.
        above.take(shape.spans.len()).count()
    };
    let asked = |span: &StoredSpan| span.span.body.input.as_ref().and_then(|value| text_of(value, Speaker::User));
    let below = shape.spans.iter().map(|&n| &spans[n]).filter(|span| span.span.kind.speaks_for_agent());
    let asked = below.filter_map(|span| Some((depth(span), asked(span)?)));
    // The first of the least: spans stand in order of time.
    asked.min_by_key(|(depth, _)| *depth).map(|(_, text)| text)
}

/// What the turn's spans below its root gave out in the agent's name. A text that a span and one of its ancestors both say
/// counts once.
fn child_outputs(spans: &[StoredSpan], shape: &turns::Turn) -> Option<String> {
    let by_id = by_id(spans, shape);
    let said = |span: &StoredSpan| -> Option<String> {
        let speaks = span.span.kind.speaks_for_agent();
        span.span.body.output.as_ref().filter(|_| speaks).and_then(|value| text_of(value, Speaker::Agent))
    };
    let said_above = |span: &StoredSpan, text: &str| {
        let mut seen = HashSet::new();
        let mut above = span.span.parent_id.as_ref();
        while let Some(parent) = above.and_then(|id| by_id.get(id)) {
            if !seen.insert(&parent.span.span_id) {
                return false;
            }
            if said(parent).as_deref() == Some(text) {
                return true;
            }
            above = parent.span.parent_id.as_ref();
        }
        false
    };
    let texts: Vec<String> = shape
        .spans
        .iter()
        .map(|&n| &spans[n])
        .filter_map(|span| said(span).filter(|text| !said_above(span, text)))
        .collect();
    if texts.is_empty() { None } else { Some(texts.join("\n\n")) }
}

/// The tools that a turn called: its tool spans; where it has none, the calls that its spans list. What a list says of a call
/// that has a span too (whether a person approved it, say) completes that call; a call that never ran has no span and stands
/// in the list alone.
fn tool_calls(spans: &[StoredSpan], shape: &turns::Turn) -> Vec<ToolCall> {
    let of_kind = |kind| shape.spans.iter().map(|&n| &spans[n].span).filter(move |span| span.kind == kind);
    let calls: Vec<ToolCall> = of_kind(SpanKind::Tool)
        .map(|span| {
            let attribute = |key: &str| span.body.attributes.get(key).and_then(|v| v.as_str()).map(str::to_owned);
            ToolCall {
                name: span.name.clone(),
                input: span.body.input.clone(),
                output: span.body.output.clone(),
                latency_ms: span.body.latency_ms,
                error: span.body.error.clone(),
                success: None,
                tool_type: attribute("afterword.tool.type"),
                status: attribute("afterword.tool.status"),
            }
        })
        .collect();
    let listed = shape.spans.iter().flat_map(|&n| spans[n].span.body.tool_calls.iter());
    if calls.is_empty() {
        return listed.cloned().collect();
    }
    completed(calls, listed.filter(|call| call.tool_type.is_some() || call.status.is_some()))
}

/// Calls with what a list says of them. An entry stands for a call of its name with its status, else for one of its name
/// without a status, else for a call of its own; each call is stood for once.
fn completed<'a>(mut calls: Vec<ToolCall>, listed: impl Iterator<Item = &'a ToolCall>) -> Vec<ToolCall> {
    let mut taken = vec![false; calls.len()];
    let mut take = |calls: &[ToolCall], name: &str, status: Option<&String>| {
        let place =
            (0..taken.len()).find(|&n| !taken[n] && calls[n].name == name && calls[n].status.as_ref() == status);
        place.inspect(|&n| taken[n] = true)
    };
    let mut own = Vec::new();
    for entry in listed {
        let same = entry.status.as_ref().and_then(|status| take(&calls, &entry.name, Some(status)));
        match same.or_else(|| take(&calls, &entry.name, None)) {
            Some(place) => {
                let call = &mut calls[place];
                call.tool_type = call.tool_type.take().or_else(|| entry.tool_type.clone());
                call.status = call.status.take().or_else(|| entry.status.clone());
            }
            None => own.push(entry.clone()),
        }
    }
    calls.extend(own);
    calls
}
