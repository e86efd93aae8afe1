//! The document's part on what came in, and what came of it: spans, sessions, scores, signals, reports.

use super::doc::{Doc, PAGE, Resource};

pub(super) const SPANS: Resource = Resource {
    name: "Spans",
    docs: &[
        Doc::new("POST /v1/traces", "Store spans: OTLP/HTTP")
            .note("What can be read is stored; `partialSuccess` names what is not.")
            .takes("object")
            .gives(&[(200, "{partialSuccess?: {rejectedSpans: text, errorMessage: text}}")])
            .or_protobuf(),
        Doc::new("POST /v1/logs", "Store what log records tell of spans: OTLP/HTTP")
            .note("Records that name a span and tell what it took in or gave out (`gen_ai.*` events, and bodies with `input` and \
                   `output`) are read as that span's, before or after it has arrived; others are passed over.")
            .takes("object")
            .gives(&[(200, "{partialSuccess?: {rejectedLogRecords: text, errorMessage: text}}")])
            .or_protobuf(),
        Doc::new("POST /ingest/traces", "Store one span")
            .note("Keys may be in camelCase too; null counts as absent. It answers once the span is stored; the same span again \
                   changes nothing.")
            .takes("NewSpan & NewSpanInCamelCase")
            .gives(&[(200, "{trace_id: id, traceId: id, deduped: flag}")])
            .fails(&[422]),
        Doc::new("GET /ingest/traces", "List the roots of traces, newest first")
            .note("Rows carry the trace's score once it was scored by itself: judgeRating is the leading one of judgeScores, which \
                   has groups first, then judges, the worst first among each.")
            .asks("limit?: whole(1..200), cursor?: text, framework?: text")
            .gives(&[(200, "Next & {traces: [Span]}")]),
        Doc::new("GET /ingest/traces/{id}", "Read a span")
            .gives(&[(200, "Span & {metadata?: any, cacheReadTokens?: whole, cacheWriteTokens?: whole}")])
            .fails(&[404]),
        Doc::new("GET /ingest/sessions/{id}/spans", "List the spans of a session, oldest first; none where it is unknown")
            .asks(PAGE)
            .gives(&[(200, "Next & {spans: [Span]}")]),
    ],
    shapes: &[
        ("Next", "{hasNextPage: flag, nextCursor: text|null}"),
        (
            "ToolCall",
            "{name: text, input?: any, output?: any, latency_ms?: number, error?: text, success?: flag, type?: text, status?: \
             text}",
        ),
        (
            "Span",
            "{_id: id, name: text, input?: any, output?: any, latencyMs?: number, error?: text, framework?: text, model?: text, \
             toolCalls?: [ToolCall], sessionId?: id, spanId: id, parentSpanId?: id, traceId: id, startedAt?: time, source: text, \
             createdAt: time, inputTokens: whole|null, outputTokens: whole|null, spanKind: text, trafficSource?: text, judgeRating?: number(0..10), \
             judgeName?: text, judgeCheckedAt?: time, judgeScores?: [Headline]}",
        ),
        (
            "Headline",
            "{name: text, rating: number(0..10), pass?: flag, scorecardScore?: number, band?: text}",
        ),
        (
            "NewSpan",
            "{name: text, input?: any, output?: any, latency_ms?: number(0..)|null, error?: text|null, tool_calls?: \
             [NewToolCall]|null, metadata?: object|null, model?: text|null, framework?: text|null, session_id?: \
             text(..512)|null, span_id?: text(..512)|null, parent_span_id?: text(..512)|null, started_at_unix_nano?: \
             text|number|null, span_kind?: text|null, input_tokens?: whole(0..)|null, output_tokens?: whole(0..)|null, \
             cache_read_tokens?: whole(0..)|null, cache_write_tokens?: whole(0..)|null, agent_id?: text(..512)|null, user_id?: \
             text|null, source?: text|null, monitor?: flag|null, pattern_ids?: [id]|null}",
        ),
        (
            "NewSpanInCamelCase",
            "{latencyMs?: number(0..)|null, toolCalls?: [NewToolCall]|null, sessionId?: text(..512)|null, spanId?: \
             text(..512)|null, parentSpanId?: text(..512)|null, startedAtUnixNano?: text|number|null, spanKind?: text|null, \
             inputTokens?: whole(0..)|null, outputTokens?: whole(0..)|null, cacheReadTokens?: whole(0..)|null, \
             cacheWriteTokens?: whole(0..)|null, agentId?: text(..512)|null, userId?: text|null, patternIds?: [id]|null}",
        ),
        (
            "NewToolCall",
            "{name?: text|null, input?: any, output?: any, latency_ms?: number(0..)|null, latencyMs?: number(0..)|null, error?: \
             text|null, success?: flag|null, type?: text|null, status?: text|null}",
        ),
    ],
};

pub(super) const SESSIONS: Resource = Resource {
    name: "Sessions",
    docs: &[
        Doc::new("GET /agent-monitoring/sessions", "List the sessions of a window, the most recent first")
            .asks("window?: '24h'|'7d'|'30d', sort?: 'recent'|'worst'|'best', below?: number(0..10), atLeast?: number(0..10), limit?: whole(1..1000), cursor?: text")
            .gives(&[(200, "Next & {window: text, sessions: [Session]}")]),
        Doc::new(
            "GET /agent-monitoring/sessions/{id}/scores",
            "List the verdicts on a session, newest first; none where it is unknown",
        )
        .asks(PAGE)
        .gives(&[(200, "Next & {scores: [Score]}")]),
        Doc::new("GET /agent-monitoring/sessions/{id}/explain", "Why a session has the verdicts it has, or none")
            .asks("groupId?: id")
            .gives(&[(200, "{sessionId: id, groups: [Explanation]}")]),
        Doc::new("POST /agent-monitoring/sessions/{id}/release", "Let a quarantined session go on")
            .gives(&[(200, "{sessionId: id, released: flag}")])
            .fails(&[404]),
        Doc::new("POST /agent-monitoring/session-sweep/run", "Judge what is due, now").gives(&[(200, "Swept")]),
        Doc::new("GET /agent-monitoring/backlog", "How much work waits for each group, why, and for how long")
            .gives(&[(200, "{groups: [Backlog]}")]),
        Doc::new("GET /agent-monitoring/resweeps", "List the re-sweeps, newest first")
            .asks("limit?: whole(1..200), cursor?: text")
            .gives(&[(200, "Next & {resweeps: [Resweep]}")]),
        Doc::new("POST /agent-monitoring/resweeps", "Have sessions judged again, or count what that would come to")
            .takes("NewResweep")
            .gives(&[(200, "{dryRun: flag, estimate: Estimate}"), (201, "{resweep: Resweep}")])
            .fails(&[404, 409]),
        Doc::new("GET /agent-monitoring/resweeps/{id}", "Read a re-sweep and how far it is")
            .gives(&[(200, "{resweep: Resweep}")])
            .fails(&[404]),
        Doc::new("POST /agent-monitoring/resweeps/{id}/pause", "Let a re-sweep rest")
            .gives(&[(200, "{resweep: Resweep}")])
            .fails(&[404, 409]),
        Doc::new("POST /agent-monitoring/resweeps/{id}/resume", "Let a paused re-sweep go on")
            .gives(&[(200, "{resweep: Resweep}")])
            .fails(&[404, 409]),
        Doc::new("POST /agent-monitoring/resweeps/{id}/cancel", "End a re-sweep")
            .gives(&[(200, "{resweep: Resweep}")])
            .fails(&[404, 409]),
    ],
    shapes: &[
        (
            "Decision",
            "'unknown'|'quarantined'|'not_live'|'pruned'|'too_few_turns'|'sampled_out'|'active'|'other_agent'|'unplanned'|'waiting'|\
             'judging'|'deferred'|'failed'|'judged'|'no_score'",
        ),
        (
            "Explanation",
            "{groupId: id, groupName: text, decision: Decision, text: text, agent?: {id: text, name: text}|null, selected?: [text], \
             turns?: whole, minTurns?: whole, hash?: text, unit?: number(0..1), rate?: number(0..1), ahead?: whole, by?: text, since?: \
             time, until?: time|null, at?: time, reason?: text, error?: text, attempts?: whole, revision?: whole, rating?: \
             number(0..10), coverage?: number(0..1), superseded?: {revision: whole, rating: number(0..10)|null}}",
        ),
        (
            "Session",
            "{sessionId: id, agentId: text|null, agentName: text|null, turnCount: whole, spanCount: whole, errorCount: whole, \
             totalLatencyMs: number, firstAt: time, lastAt: time, judgeRating: number(0..10)|null, judgeName: text|null, \
             judgeCheckedAt: time|null, judges: [Headline], revision: whole, lastArrivalAt: time}",
        ),
        (
            "Score",
            "{_id: id, sessionId: id, kind: text, rating: number(0..10)|null, justification: text, driftSpanId: null, findings: [any], \
             spanCount: whole, judgeModel: text, createdAt: time, groupName: text, groupVersion: whole, revision: whole, round: \
             whole, sequence: whole, superseded: flag, turns: whole, coverage: number(0..1), gatedBy: text|null, mean: \
             number(0..1)|null, aggregation: Aggregation, pass: flag|null, passThreshold: number(0..1)|null, scorecardScore: \
             number|null, band: text|null, scorecard: object|null, recomposed: flag, incomplete: flag, interim: flag, agentName: \
             text|null, lastTurnAt: time, members: [ScoreMember]}",
        ),
        (
            "ScoreMember",
            "{kind: MemberKind, refId: text, name: text, version: whole|null, weight: number(0..1000), gate: flag, passThreshold: \
             number(0..1)|null, category: Category, pinned: flag, scorerKind: 'rule'|'statistical'|'model', outcome: \
             'scored'|'declined'|'failed', goodness: number(0..1)|null, reason: text|null, permanence: \
             'transient'|'permanent'|null, detail: text, justification: text|null, evidence: [whole], shown: number(0..1)|null, \
             facts: any, redactions: object}",
        ),
        (
            "Swept",
            "{judged: whole, unrated: whole, watched: whole, unchanged: whole, deferred: whole, withdrawn: whole, failed: whole, lookedAt: whole, \
             wanted: whole, cutShort: flag}",
        ),
        (
            "Backlog",
            "{groupId: id, groupName: text, due: whole, inWork: whole, putOff: whole, oldestDueAt: time|null, blocked: {cause: \
             any, reason: text, since: time, until: time|null}|null, verdicts: whole, drain: any}",
        ),
        ("Mode", "'uncovered'|'stale'|'incomplete'|'all'"),
        (
            "Resweep",
            "{_id: id, groupId: id, state: 'running'|'paused'|'cancelled'|'done', mode: Mode, from: time|null, to: time|null, \
             sessionIds: [id]|null, agent: text|null, fresh: flag, force: flag, signals: flag, limit: whole|null, scorecardId: \
             text|null, reason: text, counts: {ordered: whole, open: whole, judged: whole, failed: whole, withdrawn: whole, \
             cancelled: whole}, expected: whole|null, etaSeconds: whole|null, note: text|null, createdAt: time, endedAt: \
             time|null}",
        ),
        (
            "NewResweep",
            "{groupId: id, mode?: Mode|null, from?: time|null, to?: time|null, sessionIds?: [id](1..1000)|null, agent?: \
             text(1..500)|null, fresh?: flag|null, force?: flag|null, signals?: flag|null, limit?: whole(1..)|null, scorecardId?: \
             text(1..500)|null, reason?: text(1..500)|null, dryRun?: flag|null}",
        ),
        (
            "Estimate",
            "{matched: whole, sampled: whole, covered: whole, pruned: whole, toJudge: whole, judgeCalls: whole, cost: number|null}",
        ),
    ],
};

pub(super) const SIGNALS: Resource = Resource {
    name: "Signals",
    docs: &[
        Doc::new("GET /monitor/signals, /agent-monitoring/signals", "List the signals, the one seen last first; failures where no polarity is asked for")
            .asks("limit?: whole(1..500), cursor?: text, polarity?: 'failure'|'proper'|'all', status?: text, severity?: text, agentId?: text")
            .gives(&[(200, "Next & {signals: [Signal]}")]),
        Doc::new("GET /monitor/signals/{id}", "Read a signal").gives(&[(200, "{signal: Signal}")]).fails(&[404]),
        Doc::new("GET /agent-monitoring/signals/{id}", "Read a signal and what people said of it")
            .gives(&[(200, "{signal: Signal, feedback: [any]}")])
            .fails(&[404]),
        Doc::new("PATCH /agent-monitoring/signals/{id}", "Triage a signal; it stays so when it is raised again")
            .takes("{status?: text(1..50)|null, severity?: Severity|null, reviewStatus?: text(1..50)|null, recommendedActions?: \
                    [text(1..2000)](..50)|null}")
            .gives(&[(200, "Signal")])
            .fails(&[404]),
        Doc::new("GET /agent-monitoring/approvals/pending", "List the actions that wait for a person, the riskiest first")
            .asks("limit?: whole(1..500), cursor?: text, from?: text")
            .gives(&[(200, "Next & {pending: [PendingAction]}")]),
    ],
    shapes: &[
        ("AgentRef", "{_id: text, name: text}"),
        (
            "Signal",
            "{_id: id, workspaceId: text, patternKey: text, type: text, severity: text, polarity: text, status: text, \
             reviewStatus?: text, recommendedActions?: [text], summary: text, rootCause?: text, agentId?: AgentRef, \
             occurrenceCount: whole, occurrences: [Occurrence], firstSeenAt: time, lastSeenAt: time, createdAt: time, updatedAt: \
             time}",
        ),
        (
            "Occurrence",
            "{id: id, agentId?: AgentRef, traceId: text, sessionId?: id, seenAt: time, rating?: number, threshold?: number, \
             justification?: text, query?: text, responsePreview?: text}",
        ),
        (
            "PendingAction",
            "{tool: text, chance: number(0..1), approved: whole, rejected: whole, input: any, sessionId: id|null, traceId: id, \
             spanId: id, proposedAt: time}",
        ),
    ],
};

pub(super) const REPORTS: Resource = Resource {
    name: "Reports",
    docs: &[
        Doc::new("GET /agent-monitoring/scorer-groups/{id}/summary", "A scorer group's figures over a period")
            .asks("from?: text, to?: text")
            .gives(&[(200, "About & Figures & {agents: [Figures & {agentId: text|null, agentName: text|null}]}")])
            .fails(&[404]),
        Doc::new("GET /agent-monitoring/scorer-groups/{id}/trend", "A scorer group's days, its own and its members'")
            .asks("from?: text, to?: text")
            .gives(&[(200, "About & {scorers: [TrendLine]}")])
            .fails(&[404]),
        Doc::new("GET /agent-monitoring/scorer-groups/{id}/worst", "List the sessions with the lowest ratings")
            .asks("limit?: whole(1..500), cursor?: text, from?: text, to?: text")
            .gives(&[(200, "About & Next & {samples: whole, sessions: [WorstSession]}")])
            .fails(&[404]),
        Doc::new("GET /agent-monitoring/scores", "Every scorer's figures, the worst mean first")
            .asks("from?: text, to?: text, scorer?: text, agent?: text")
            .gives(&[(200, "{from: time, to: time, scores: [ScorerFigures]}")]),
        Doc::new("GET /monitor/kpis", "Key figures of the runs of a window, and how they moved since the window before")
            .note("A run is a root span that belongs to no dataset run. Read are the latest 10,000 of the window, and the spans \
                   of their traces; where there are more, complete is false and totalRuns null. failureRate: the share of runs \
                   whose root reports an error. healthRate: the share of those in which no span does. toolFailureRate: the share \
                   of tool spans that do; calls that are only listed in a root are not counted. p95LatencyMs: over the roots that \
                   say when they began and ended. downvoteRate is always null: nothing records what users dislike. deltas: each figure \
                   less that of the window before, null where either is unknown.")
            .asks("window?: '24h'|'7d'|'30d'")
            .gives(&[(200, "Kpis & {window: text, from: time, complete: flag, deltas: Kpis, breakdown: RunCounts}")]),
        Doc::new(
            "GET /agent-monitoring/usage",
            "How many judge calls a project made, what they came to and what they cost",
        )
        .asks("day?: day, window?: '24h'|'7d'|'30d'")
        .gives(&[(200, "Usage")]),
    ],
    shapes: &[
        ("About", "{groupId: id, groupName: text, from: time, to: time}"),
        (
            "MemberFigures",
            "Spread & {kind: MemberKind, refId: text, name: text, listed: whole, failureRate: number(0..1)|null, declineRate: \
             number(0..1)|null}",
        ),
        (
            "Figures",
            "Spread & {unscored: whole, passed: whole, passSamples: whole, scorecard: Spread & {bands: [{band: text, count: \
             whole}]}, members: [MemberFigures]}",
        ),
        (
            "TrendLine",
            "{kind: MemberKind|null, refId: text|null, name: text, segments: [{version: whole|null, points: [Spread & {day: \
             day}]}]}",
        ),
        (
            "WorstSession",
            "{sessionId: id, rating: number(0..10), reason: text, gatedBy: text|null, pass: flag|null, scorecardScore: \
             number|null, band: text|null, agentName: text|null, turns: whole, lastTurnAt: time, createdAt: time}",
        ),
        (
            "ScorerFigures",
            "Spread & {scorer: text, kind: text, name: text, sessions: whole, failureRate: number(0..1)|null, declineRate: \
             number(0..1)|null}",
        ),
        (
            "Kpis",
            "{totalRuns: whole|null, healthRate: number|null, failureRate: number|null, downvoteRate: number|null, \
             toolFailureRate: number|null, p95LatencyMs: number|null}",
        ),
        ("RunCounts", "{runs: whole, failedRuns: whole, healthyRuns: whole, toolCalls: whole, failedToolCalls: whole}"),
        ("Used", "{used: whole|null, limit: whole|null}"),
        (
            "Usage",
            "{day: day, resetsAt: time, traces: Used, onlineJudgeCalls: Used, judgeCalls: Used, from: time, to: time, cost: \
             number|null, models: [{model: text, calls: whole, inputTokens: whole, outputTokens: whole, cost: number|null, \
             unpricedCalls: whole, meanLatencyMs: whole, outcomes: {*: whole}}], outcomes: {*: whole}}",
        ),
    ],
};
