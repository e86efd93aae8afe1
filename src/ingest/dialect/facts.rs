//! What is known of a span while it is being understood, and which of its attributes a field took.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::ingest::wire::{Attributes, Event, Source, WireSpan};

/// A span's attributes and events, with a memory of what was used. What a field took need not be kept a second time.
pub(super) struct Facts<'a> {
    span: &'a WireSpan,
    source: &'a Source,
    used: RefCell<BTreeSet<String>>,
    tried: RefCell<Vec<String>>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(span: &'a WireSpan, source: &'a Source) -> Self {
        Self { span, source, used: RefCell::default(), tried: RefCell::default() }
    }

    pub(super) fn attributes(&self) -> &'a Attributes {
        &self.span.attributes
    }

    pub(super) fn resource(&self) -> &'a Attributes {
        &self.source.resource
    }

    pub(super) fn scope(&self) -> &'a str {
        &self.source.scope
    }

    pub(super) fn name(&self) -> &'a str {
        &self.span.name
    }

    pub(super) fn events(&self) -> &'a [Event] {
        &self.span.events
    }

    pub(super) fn failed(&self) -> Option<&'a str> {
        self.span.failed.as_deref()
    }

    pub(super) fn is_root(&self) -> bool {
        self.span.parent_id.is_none()
    }

    /// An attribute. Looking marks nothing as used.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.attributes().get(key)
    }

    /// An attribute's text, where it has some.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
    }

    /// The text of the first of `keys` that has some, marked as used. Texts in JSON quotes are taken out of them.
    pub(super) fn take_first_text(&self, keys: &[&str]) -> Option<String> {
        let (key, text) = keys.iter().find_map(|key| Some((*key, self.text(key)?)))?;
        self.mark(key);
        Some(unquoted(text))
    }

    /// Marks an attribute as used.
    pub(super) fn mark(&self, key: &str) {
        self.used.borrow_mut().insert(key.to_owned());
    }

    /// Notes that an attribute is being read for a field that may yet prefer another.
    pub(super) fn attempt(&self, key: &str) {
        self.tried.borrow_mut().push(key.to_owned());
    }

    /// What was attempted since the last call, forgetting it.
    pub(super) fn attempted(&self) -> Vec<String> {
        self.tried.take()
    }

    /// Every attribute that a field took.
    pub(super) fn into_used(self) -> BTreeSet<String> {
        self.used.into_inner()
    }
}

/// The text within a JSON string, for senders that write every value as JSON; other text as it is.
pub(super) fn unquoted(text: &str) -> String {
    match text.starts_with('"').then(|| serde_json::from_str::<String>(text)) {
        Some(Ok(inner)) => inner,
        _ => text.to_owned(),
    }
}
