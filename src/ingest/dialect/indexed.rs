//! Flattened attributes: `llm.input_messages.0.message.content` and its kin, put back together.
//!
//! Indexes come with gaps, out of order and as large as a sender likes; they order, they never size anything.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::facts::Facts;
use super::messages::{self, Reading};

/// How many dots of one key are followed; beyond that it is nobody's message.
const DEEPEST: usize = 12;

enum Node<'a> {
    Leaf(&'a Value),
    Branch(BTreeMap<&'a str, Node<'a>>),
}

/// The items below `prefix` (which ends in a dot), by index. `None` where there is none.
pub(super) fn items(facts: &Facts<'_>, prefix: &str) -> Option<Vec<Value>> {
    let mut found: BTreeMap<u64, Node<'_>> = BTreeMap::new();
    let below = facts.attributes().range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
    for (key, value) in below {
        let rest = &key[prefix.len()..];
        let (index, path) = rest.split_once('.').unwrap_or((rest, ""));
        let Some(index) = number(index) else { continue };
        if path.split('.').count() > DEEPEST {
            continue;
        }
        facts.attempt(key);
        let node = found.entry(index).or_insert_with(|| Node::Branch(BTreeMap::new()));
        insert(node, path, value);
    }
    (!found.is_empty()).then(|| found.into_values().map(build).collect())
}

/// The messages below `prefix`.
pub(super) fn messages(facts: &Facts<'_>, prefix: &str, reading: Reading) -> Option<Vec<Value>> {
    let mut out = Vec::new();
    for item in items(facts, prefix)? {
        if let Value::Object(mut message) = item {
            // OpenInference keeps the parts of a message under another key than its text.
            if let (Some(parts), None) = (message.remove("contents"), message.get("content")) {
                message.insert("content".to_owned(), parts);
            }
            if let Some(name) = message.remove("function_call_name") {
                let arguments = message.remove("function_call_arguments_json").unwrap_or_default();
                let call = Map::from_iter([("name".to_owned(), name), ("arguments".to_owned(), arguments)]);
                message.insert("function_call".to_owned(), Value::Object(call));
            }
            messages::convert(&message, reading, &mut out);
        }
    }
    (!out.is_empty()).then_some(out)
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Puts a value at a dotted path. Where a value and a branch claim one place, the first stays.
fn insert<'a>(node: &mut Node<'a>, path: &'a str, value: &'a Value) {
    let mut here = node;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let Node::Branch(branch) = here else { return };
        here = branch.entry(step).or_insert_with(|| Node::Branch(BTreeMap::new()));
    }
    if matches!(here, Node::Branch(branch) if branch.is_empty()) {
        *here = Node::Leaf(value);
    }
}

/// A branch as JSON: numbered entries are a list, and a lone wrapper such as `message` or `tool_call` is taken off.
fn build(node: Node<'_>) -> Value {
    const WRAPPERS: [&str; 5] = ["message", "message_content", "tool_call", "document", "completion"];
    let branch = match node {
        Node::Leaf(value) => return value.clone(),
        Node::Branch(branch) => branch,
    };
    if !branch.is_empty() && branch.keys().all(|key| number(key).is_some()) {
        let by_number: BTreeMap<u64, Node<'_>> =
            branch.into_iter().filter_map(|(key, node)| Some((number(key)?, node))).collect();
        return Value::Array(by_number.into_values().map(build).collect());
    }
    let mut object: Map<String, Value> = branch.into_iter().map(|(key, node)| (key.to_owned(), build(node))).collect();
    if object.len() == 1 {
        for wrapper in WRAPPERS {
            if matches!(object.get(wrapper), Some(Value::Object(_))) {
                return object.remove(wrapper).unwrap_or_default();
            }
        }
    }
    Value::Object(object)
}
