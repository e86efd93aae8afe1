//! The document's part on how people are told: receivers, deliveries, the rail.

use super::doc::{Doc, MASKS, PAGE, Resource};

pub(super) const TELLING: Resource = Resource {
    name: "Receivers and the rail",
    docs: &[
        Doc::new("GET /agent-monitoring/receivers", "List the receivers, newest first")
            .note(MASKS)
            .asks(PAGE)
            .gives(&[(200, "Next & {receivers: [Receiver]}")]),
        Doc::new("POST /agent-monitoring/receivers", "Make a receiver")
            .note("Only a receiver of kind pagerduty needs no url.")
            .takes("ReceiverPatch & {name: text(1..200)}")
            .gives(&[(201, "{receiver: Receiver}")]),
        Doc::new("GET /agent-monitoring/receivers/{id}", "Read a receiver")
            .note(MASKS)
            .gives(&[(200, "{receiver: Receiver}")])
            .fails(&[404]),
        Doc::new("PUT /agent-monitoring/receivers/{id}", "Edit a receiver; what failed before does not count any more")
            .takes("ReceiverPatch")
            .gives(&[(200, "{receiver: Receiver}")])
            .fails(&[404]),
        Doc::new("DELETE /agent-monitoring/receivers/{id}", "Delete a receiver, with all that it is owed or was sent")
            .gives(&[(204, "")])
            .fails(&[404]),
        Doc::new("POST /agent-monitoring/receivers/{id}/test", "Send a receiver an event of type test, now")
            .gives(&[(200, "{ok: flag, status: whole|null, error: text|null, latencyMs: number}")])
            .fails(&[404]),
        Doc::new("POST /agent-monitoring/receivers/{id}/redeliver", "Owe a receiver once more everything that was given up")
            .gives(&[(200, "{ordered: whole}")])
            .fails(&[404]),
        Doc::new("GET /agent-monitoring/deliveries", "List the deliveries, newest first")
            .asks("receiverId?: id, state?: 'pending'|'delivered'|'dead', limit?: whole(1..500), cursor?: text")
            .gives(&[(200, "Next & {deliveries: [Delivery]}")]),
        Doc::new("GET /agent-monitoring/deliveries/{id}", "Read a delivery").gives(&[(200, "{delivery: Delivery}")]).fails(&[404]),
        Doc::new("POST /agent-monitoring/deliveries/{id}/redeliver", "Owe a delivery once more")
            .gives(&[(200, "{delivery: Delivery}")])
            .fails(&[404, 409]),
        Doc::new("GET /agent-monitoring/sessions/{id}/rail", "A session's verdicts as people read them, the worst first")
            .gives(&[(200, "{sessionId: id, headline: {label: text, rating: number(0..10)}|null, rail: [RailEntry]}")]),
        Doc::new("GET /agent-monitoring/rail/stream", "Follow a project's verdicts as server-sent events")
            .note("It goes on behind `after`, or behind the header Last-Event-ID, which comes first; without either from now on. It ends with its key.")
            .asks("agent?: text, group?: text, below?: number(0..10), after?: whole(0..)")
            .gives(&[(200, "text")])
            .written_in("text/event-stream"),
    ],
    shapes: &[
        (
            "EventType",
            "'below_threshold'|'recovered'|'judging_failing'|'budget_exhausted'|'quarantined'|'scorer_matched'|'delivery_dead'|'test'",
        ),
        (
            "Receiver",
            "{_id: id, name: text, kind: 'generic'|'slack'|'pagerduty', url: text, hasRoutingKey: flag, eventTypes: \
             [EventType]|null, minimumSeverity: Severity, agentId: text|null, isChannel: flag, enabled: flag, circuit: \
             'closed'|'open'|'half-open', failures: whole, lastError: text|null, pending: whole, nextAttemptAt: time|null, \
             createdAt: time, updatedAt: time}",
        ),
        (
            "ReceiverPatch",
            "{name?: text|null, kind?: 'generic'|'slack'|'pagerduty'|null, url?: text|null, routingKey?: text|null, eventTypes?: \
             [EventType]|null, minimumSeverity?: Severity|null, agentId?: text|null, enabled?: flag|null}",
        ),
        (
            "Delivery",
            "{_id: id, receiverId: id, number: whole, type: EventType, severity: Severity, subject: text, summary: text, \
             sessionId: text|null, state: 'pending'|'delivered'|'dead', attempts: whole, lastStatus: whole|null, lastError: \
             text|null, createdAt: time, settledAt: time|null, data: any}",
        ),
        (
            "RailEntry",
            "{kind: text, label: text, verdictId: id, rating: number(0..10)|null, justification: text, gatedBy: text|null, pass: \
             flag|null, scorecardScore: number|null, band: text|null, coverage: number(0..1), shown: number(0..1)|null, evidence: \
             [whole], incomplete: flag, recomposed: flag, interim: flag, revision: whole, round: whole, sequence: whole, turns: \
             whole, groupVersion: whole, agentName: text|null, lastTurnAt: time, createdAt: time, members: [ScoreMember], \
             timeline: [RailPoint]}",
        ),
        (
            "RailPoint",
            "{revision: whole, round: whole, sequence: whole, turns: whole, rating: number(0..10)|null, incomplete: flag, \
             recomposed: flag, interim: flag, createdAt: time, moved: [{name: text, refId: text, from: number|null, to: \
             number|null, outcome: text}]}",
        ),
    ],
};
