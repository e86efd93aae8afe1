//! The transcript: a conversation as one text, turns numbered from 1.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::conversation::{Conversation, Turn};
use super::span::ToolCall;

/// How much of the tool calls a transcript shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolContext {
    /// Nothing.
    None,
    /// Names and whether they failed.
    #[default]
    Simple,
    /// Names, arguments and answers.
    Detailed,
}

/// The whole conversation as text.
pub fn render(conversation: &Conversation, tools: ToolContext) -> String {
    let mut text = String::new();
    for turn in &conversation.turns {
        if !text.is_empty() {
            text.push('\n');
        }
        render_turn(&mut text, turn, tools);
    }
    text
}

/// Appends one turn: a head line with its number, then what was said and called. Writing to a `String` can't fail.
fn render_turn(text: &mut String, turn: &Turn, tools: ToolContext) {
    let _ = writeln!(text, "[Turn {}]", turn.number);
    if let Some(input) = &turn.input {
        let _ = writeln!(text, "User: {input}");
    }
    if tools != ToolContext::None {
        for call in &turn.tool_calls {
            render_call(text, call, tools);
        }
    }
    if let Some(output) = &turn.output {
        let _ = writeln!(text, "Agent: {output}");
    }
    if let Some(error) = &turn.error {
        let _ = writeln!(text, "Error: {error}");
    }
}

fn render_call(text: &mut String, call: &ToolCall, tools: ToolContext) {
    let failed = call.error.is_some() || call.success == Some(false);
    let _ = write!(text, "Tool: {}", call.name);
    if tools == ToolContext::Detailed {
        let compact = |value: &Option<serde_json::Value>| value.as_ref().map_or_else(String::new, ToString::to_string);
        let _ = write!(text, "({}) -> {}", compact(&call.input), compact(&call.output));
    }
    match &call.error {
        Some(error) => {
            let _ = writeln!(text, " [failed: {error}]");
        }
        None => text.push_str(if failed { " [failed]\n" } else { "\n" }),
    }
}
