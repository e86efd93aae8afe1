//! The document's part on what a project chooses for itself and whom it lets in, and on the server itself.

use super::doc::{Doc, MASKS, PAGE, Resource};

pub(super) const SERVER: Resource = Resource {
    name: "Server",
    docs: &[
        Doc::new("GET /health", "Whether the server and its database answer")
            .gives(&[(200, "{status: text, version: text}")]),
        Doc::new("GET /ready", "Whether the server does its work").gives(&[(200, "{status: text, version: text}")]),
        Doc::new("GET /metrics", "Figures for Prometheus").gives(&[(200, "text")]).written_in("text/plain"),
        Doc::new("GET /openapi.json", "This document").gives(&[(200, "object")]),
        Doc::new("GET /docs", "This document as a page").gives(&[(200, "text")]).written_in("text/html"),
    ],
    shapes: &[],
};

pub(super) const ACCESS: Resource = Resource {
    name: "Access",
    docs: &[
        Doc::new("GET /agent-monitoring/keys", "List the API keys, newest first, those that are over too")
            .asks(PAGE)
            .gives(&[(200, "Next & {keys: [ApiKey]}")]),
        Doc::new(
            "POST /agent-monitoring/keys",
            "Make an API key that may do no more than this one; the answer shows it, once",
        )
        .takes(
            "{name: text(1..200), scopes: [Scope](1..), expiresAt?: time|null, requestsPerMinute?: \
                    whole(1..10000000)|null}",
        )
        .gives(&[(201, "{key: ApiKey}")]),
        Doc::new(
            "POST /agent-monitoring/keys/{id}/rotate",
            "Put a new key in the place of another, which goes on for the overlap",
        )
        .takes("{overlapSeconds?: whole(0..604800)|null}?")
        .gives(&[(201, "{key: ApiKey}")])
        .fails(&[404, 409]),
        Doc::new("DELETE /agent-monitoring/keys/{id}", "Revoke an API key, at once").gives(&[(204, "")]).fails(&[404]),
        Doc::new("GET /projects", "List the caller's project and those made below it, newest first")
            .asks(PAGE)
            .gives(&[(200, "Next & {projects: [Project]}")]),
        Doc::new("POST /projects", "Make a project below the caller's own; the answer shows its first key, once")
            .takes("{name: text(1..200)}")
            .gives(&[(201, "{project: Project}")])
            .fails(&[409]),
        Doc::new("DELETE /projects/{id}", "Shut a project that was made below the caller's own")
            .note(
                "Its keys and groups end at once; all it holds goes for good `retention.deleted_projects_days` later.",
            )
            .gives(&[(204, "")])
            .fails(&[404, 409]),
    ],
    shapes: &[
        ("Scope", "'ingest'|'read'|'manage'|'operate'"),
        (
            "ApiKey",
            "{_id: id, name: text, prefix: text, scopes: [Scope], state: 'live'|'expired'|'revoked', createdAt: time, expiresAt?: \
             time, revokedAt?: time, requestsPerMinute?: whole, apiKey?: text}",
        ),
        ("Project", "{_id: id, name: text, isDefault: flag, createdAt: time, apiKey?: text}"),
    ],
};

pub(super) const SETTINGS: Resource = Resource {
    name: "Settings",
    docs: &[
        Doc::new("GET /agent-monitoring/signing-secret", "Read the secret that outgoing calls are signed with")
            .gives(&[(200, "SigningSecrets")]),
        Doc::new("POST /agent-monitoring/signing-secret/rotate", "Sign outgoing calls with another secret from now on")
            .gives(&[(200, "SigningSecrets")]),
        Doc::new("GET /agent-monitoring/settings/redaction", "What is hidden from judges")
            .gives(&[(200, "{redaction: Redaction}")]),
        Doc::new(
            "PUT /agent-monitoring/settings/redaction",
            "Choose what is hidden from judges; null goes back to the configuration",
        )
        .takes("{kinds: [RedactionKind]|null}")
        .gives(&[(200, "{redaction: Redaction}")]),
        Doc::new(
            "GET /agent-monitoring/settings/monitoring-defaults",
            "Which of the built-in patterns watch the project's traffic",
        )
        .gives(&[(200, "{monitoringDefaults: {enabledBuiltinPatterns: [text]}}")]),
        Doc::new(
            "PUT /agent-monitoring/settings/monitoring-defaults",
            "Choose which of the built-in patterns watch the project's traffic: these, and no others",
        )
        .takes("{enabledBuiltinPatterns: [text]}")
        .gives(&[(200, "{monitoringDefaults: {enabledBuiltinPatterns: [text]}}")]),
        Doc::new("GET /agents", "List the agents, newest first")
            .note("Those that were made by name, and those that roots of spans named, by the id that lists of sessions have. The \
                   newest 1000 are listed, and spans name no further ones.")
            .asks(PAGE)
            .gives(&[(200, "Next & {agents: [Agent]}")]),
        Doc::new("POST /agents", "Make an agent").takes("{name: text(1..200)}").gives(&[(201, "{agent: Agent}")]),
        Doc::new("GET /monitor/profiles/{id}", "How an agent is watched; null where nobody said")
            .note(MASKS)
            .gives(&[(200, "{profile: AgentProfile|null}")]),
        Doc::new("PUT /monitor/profiles/{id}", "Say how an agent is watched: what is absent stays as it is")
            .takes("AgentProfilePatch")
            .gives(&[(200, "{profile: AgentProfile}")]),
    ],
    shapes: &[
        ("RedactionKind", "'secret'|'iban'|'card'|'national-id'|'email'|'phone'"),
        ("Redaction", "{kinds: [RedactionKind], source: 'project'|'config', available: [RedactionKind]}"),
        ("SigningSecrets", "{signingSecret: text, previousValidUntil: time|null}"),
        ("Agent", "{_id: id, name: text, createdAt: time}"),
        (
            "AgentProfile",
            "{_id: id, workspaceId: text, agentId: id, enabled: flag, failureDetectionEnabled: flag, infoDetectionEnabled: flag, \
             topicsEnabled: flag, coverageMode: text, sampleRate: number(0..1), channels: [text], retentionDays: whole, \
             thresholdOverrides: object, approvalPolicy?: {*: text}, datasetId?: text, createdAt: time, updatedAt: time}",
        ),
        (
            "AgentProfilePatch",
            "{enabled?: flag|null, failureDetectionEnabled?: flag|null, infoDetectionEnabled?: flag|null, topicsEnabled?: \
             flag|null, coverageMode?: text(1..50)|null, sampleRate?: number(0..1)|null, channels?: [text(1..2000)](..20)|null, \
             retentionDays?: whole(1..3650)|null, thresholdOverrides?: object|null, approvalPolicy?: {*: text}|null, datasetId?: \
             text(1..512)|null}",
        ),
    ],
};
