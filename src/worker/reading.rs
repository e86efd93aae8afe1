//! The reading: a session, a single trace or a dataset row as all its groups read it, put together once.

use crate::domain::conversation::Conversation;
use crate::domain::ids::SessionId;
use crate::domain::pattern::Sides;
use crate::domain::redact::{self, Counts, Kind};
use crate::domain::span::StoredSpan;

/// A session as all its groups read it: put together once.
pub(super) struct Reading {
    pub(super) conversation: Conversation,
    pub(super) user_side: String,
    pub(super) agent_side: String,
    trace_side: Option<String>,
    /// What it comes down to, for telling whether it changed.
    digest: String,
    /// What may leave the process, where the project has something hidden, and how much of each kind that was.
    redacted: Option<(Conversation, Counts)>,
}

impl Reading {
    /// What was said, split by speaker.
    pub(super) fn sides(&self) -> Sides<'_> {
        Sides { input: &self.user_side, output: &self.agent_side, trace: self.trace_side.as_deref() }
    }

    pub(super) fn of(session: SessionId, spans: Vec<StoredSpan>) -> Self {
        Self::of_conversation(Conversation::assemble(session, spans))
    }

    pub(super) fn of_conversation(conversation: Conversation) -> Self {
        Self {
            user_side: conversation.user_side(),
            agent_side: conversation.agent_side(),
            trace_side: conversation.trace_side(),
            digest: conversation.digest(),
            conversation,
            redacted: None,
        }
    }

    /// What it comes down to, for telling whether it changed.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    pub(super) fn redact(&mut self, kinds: &[Kind]) {
        if !kinds.is_empty() {
            let (mut outward, counts) = redact::conversation(&self.conversation, kinds);
            outward.anchor = redact::spans(&self.conversation.anchor, kinds);
            self.redacted = Some((outward, counts));
        }
    }

    /// The conversation as it may leave the process.
    pub(super) fn outward(&self) -> &Conversation {
        self.redacted.as_ref().map_or(&self.conversation, |(outward, _)| outward)
    }

    /// How much of each kind is hidden in it.
    pub(super) fn redactions(&self) -> &Counts {
        const NONE: &Counts = &Counts::new();
        self.redacted.as_ref().map_or(NONE, |(_, counts)| counts)
    }
}
