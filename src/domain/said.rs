//! What was said in a turn: its spans' inputs, outputs and tool calls as one user message, one reply and a list of calls.

use std::collections::{HashMap, VecDeque};

use super::content::{Speaker, text_of};
use super::conversation::{Agent, Turn};
use super::ids::TraceId;
use super::lineage;
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
    let tree = Tree::of(spans, shape);
    // What stands in for a root that has not arrived may be a tool's span, and a tool is asked by the agent.
    let mut asked = heads().filter(|head| shape.rooted || head.span.kind.speaks_for_agent());
    let input = asked.find_map(text_in);
    let turn = Turn {
        number: 0,
        trace_id: trace_id.clone(),
        head: head.span.span_id.clone(),
        at: head.at,
        request: if input.is_none() { tree.child_input() } else { None },
        input,
        output: if shape.rooted { text_out(head) } else { None }.or_else(|| tree.child_outputs()),
        error: heads().find_map(|head| head.span.body.error.clone()),
        tool_calls: tree.tool_calls(),
    };
    (turn, Agent::named_by(&head.span.name, &head.span.body))
}

fn text_in(span: &StoredSpan) -> Option<String> {
    span.span.body.input.as_ref().and_then(|value| text_of(value, Speaker::User))
}

fn text_out(span: &StoredSpan) -> Option<String> {
    span.span.body.output.as_ref().and_then(|value| text_of(value, Speaker::Agent))
}

/// The spans of a turn, in order of time, and which stands below which.
struct Tree<'a> {
    spans: Vec<&'a StoredSpan>,
    parents: Vec<Option<usize>>,
}

impl<'a> Tree<'a> {
    fn of(spans: &'a [StoredSpan], shape: &turns::Turn) -> Self {
        let spans: Vec<&StoredSpan> = shape.spans.iter().map(|&n| &spans[n]).collect();
        let parents = lineage::parents(spans.iter().map(|span| (&span.span.span_id, span.span.parent_id.as_ref())));
        Self { spans, parents }
    }

    /// The input of the turn's top-most span below its heads that has one, of several the earliest. Tools, searches and checks
    /// are asked by the agent, not by the user.
    fn child_input(&self) -> Option<String> {
        let depth = lineage::follow(&self.parents, |n| self.parents[n].is_none().then_some(0), |above| above + 1, &0);
        let mut below: Vec<usize> = (0..self.spans.len()).filter(|&n| self.speaks(n)).collect();
        // A stable sort: of one depth, in order of time.
        below.sort_by_key(|&n| depth[n]);
        below.into_iter().find_map(|n| text_in(self.spans[n]))
    }

    /// What the turn's spans below its root gave out in the agent's name. A text that a span and one of its ancestors both say
    /// counts once.
    fn child_outputs(&self) -> Option<String> {
        let said = |n: usize| text_out(self.spans[n]).filter(|_| self.speaks(n));
        let said: Vec<Option<String>> = (0..self.spans.len()).map(said).collect();
        let is_news = self.news(|n| said[n].as_deref().into_iter().collect());
        let texts = said.into_iter().zip(is_news).filter(|(_, is_news)| is_news.contains(&true));
        let texts: Vec<String> = texts.filter_map(|(text, _)| text).collect();
        if texts.is_empty() { None } else { Some(texts.join("\n\n")) }
    }

    fn speaks(&self, n: usize) -> bool {
        self.spans[n].span.kind.speaks_for_agent()
    }

    /// Of the things that each span says, whether each is said by none of the spans above it. In a circle the first in time is
    /// taken to stand above the others.
    fn news<T: Eq + std::hash::Hash>(&self, said: impl Fn(usize) -> Vec<T>) -> Vec<Vec<bool>> {
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.spans.len()];
        for (n, parent) in self.parents.iter().enumerate() {
            below[parent.unwrap_or(n)].extend(parent.map(|_| n));
        }
        let mut news: Vec<Option<Vec<bool>>> = vec![None; self.spans.len()];
        let mut above: HashMap<T, usize> = HashMap::new();
        let tops = (0..self.spans.len()).filter(|&n| self.parents[n].is_none());
        for top in tops.chain(0..self.spans.len()) {
            let mut open = vec![(top, false)];
            while let Some((n, is_done)) = open.pop() {
                if is_done {
                    for thing in said(n) {
                        above.entry(thing).and_modify(|times| *times -= 1);
                    }
                } else if news[n].is_none() {
                    let things = said(n);
                    news[n] =
                        Some(things.iter().map(|thing| above.get(thing).is_none_or(|times| *times == 0)).collect());
                    for thing in things {
                        *above.entry(thing).or_default() += 1;
                    }
                    open.push((n, true));
                    open.extend(below[n].iter().map(|&child| (child, false)));
                }
            }
        }
        news.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// The tools that a turn called: its tool spans; where it has none, the calls that its spans list, each once where two
    /// instrumentations traced one model call, a span above the other. What a list says of a call that has a span too (whether a person approved it, say)
    /// completes that call; a call that never ran has no span and stands in the list alone.
    fn tool_calls(&self) -> Vec<ToolCall> {
        let calls: Vec<ToolCall> =
            self.spans.iter().filter(|span| span.span.kind == SpanKind::Tool).map(|span| run(span)).collect();
        if calls.is_empty() {
            let is_model = |n: usize| self.spans[n].span.kind == SpanKind::Llm;
            let listed = |n: usize| self.spans[n].span.body.tool_calls.iter();
            let news = self.news(|n| listed(n).filter(|_| is_model(n)).map(likeness).collect());
            let told = |(n, news): (usize, Vec<bool>)| {
                let is_news = news.into_iter().chain(std::iter::repeat(!is_model(n)));
                listed(n).zip(is_news).filter(|(_, is_news)| *is_news).map(|(call, _)| call.clone())
            };
            return news.into_iter().enumerate().flat_map(told).collect();
        }
        let listed = self.spans.iter().flat_map(|span| span.span.body.tool_calls.iter());
        completed(calls, listed.filter(|call| call.tool_type.is_some() || call.status.is_some()))
    }
}

/// What two listings of one call have in common.
fn likeness(call: &ToolCall) -> (&str, String) {
    (&call.name, call.input.as_ref().map(ToString::to_string).unwrap_or_default())
}

/// A tool's span as a call.
fn run(span: &StoredSpan) -> ToolCall {
    let span = &span.span;
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
}

/// Calls with what a list says of them. An entry stands for a call of its name with its status, else for one of its name
/// without a status, else for a call of its own; each call is stood for once.
fn completed<'a>(mut calls: Vec<ToolCall>, listed: impl Iterator<Item = &'a ToolCall>) -> Vec<ToolCall> {
    let mut waiting: HashMap<(String, Option<String>), VecDeque<usize>> = HashMap::new();
    for (place, call) in calls.iter().enumerate() {
        waiting.entry((call.name.clone(), call.status.clone())).or_default().push_back(place);
    }
    let mut take = |name: &str, status: Option<&String>| {
        waiting.get_mut(&(name.to_owned(), status.cloned())).and_then(VecDeque::pop_front)
    };
    let mut own = Vec::new();
    for entry in listed {
        let same = entry.status.as_ref().and_then(|status| take(&entry.name, Some(status)));
        match same.or_else(|| take(&entry.name, None)) {
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
