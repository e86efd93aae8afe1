//! The document's part on what is judged, and how: patterns, judges, custom scorers, groups, scorecards.

use super::doc::{Doc, MASKS, PAGE, Resource};

pub(super) const PATTERNS: Resource = Resource {
    name: "Patterns",
    docs: &[
        Doc::new("GET /monitor/patterns", "List the patterns: the built-in ones, then the newest first")
            .asks(PAGE)
            .gives(&[(200, "Next & {patterns: [Pattern]}")]),
        Doc::new("GET /agent-monitoring/patterns", "List the same, each with how many signals it has")
        .asks(PAGE)
        .gives(&[(200, "Next & {patterns: [Pattern]}")]),
        Doc::new("POST /monitor/patterns", "Make a pattern")
            .note(
                "With `enabled` it watches traffic on its own: each sampled trace is read, and a match raises a signal. Members of a \
                 group need not be enabled.",
            )
            .takes("NewPattern").gives(&[(201, "{pattern: Pattern}")]),
        Doc::new("GET /monitor/patterns/{id}, /agent-monitoring/patterns/{id}", "Read a pattern")
            .gives(&[(200, "{pattern: Pattern}")])
            .fails(&[404]),
        Doc::new("PUT /agent-monitoring/patterns/{id}", "Edit a pattern: what is absent stays as it is")
            .takes("PatternPatch")
            .gives(&[(200, "{pattern: Pattern}")])
            .fails(&[404, 409]),
        Doc::new("DELETE /agent-monitoring/patterns/{id}", "Delete a pattern").gives(&[(204, "")]).fails(&[404, 409]),
        Doc::new(
            "GET /agent-monitoring/patterns/{id}/versions",
            "List the versions of a pattern, deleted or not, newest first",
        )
        .asks(PAGE)
        .gives(&[(200, "Versions")])
        .fails(&[404]),
    ],
    shapes: &[
        ("Severity", "'low'|'medium'|'high'|'critical'"),
        ("Source", "'response'|'userMessage'|'trace'"),
        (
            "Condition",
            "{connector: 'and'|'or'|'nor', negate: flag, sources: [Source], detector: 'phrase'|'regex'|'semantic', value: text, \
             caseSensitive: flag}",
        ),
        (
            "Pattern",
            "{_id: id, workspaceId: text, key: text, name: text, description?: text, category?: text, source: \
             'custom'|'builtIn', detectorKind: text, matchTarget: [Source], matchMode: text, includeTerms: [text], excludeTerms: \
             [text], conditions?: [Condition], ruleSpec?: [text], severity: Severity, polarity: text, enabled: flag, sampleRate: \
             number(0..1), scopeMode: text, agentIds: [text], readOnly: flag, createdAt?: time, updatedAt?: time, \
             totalSignals?: whole, openSignals?: whole}",
        ),
        ("NewPattern", "PatternPatch & {name: text(1..200)}"),
        (
            "PatternPatch",
            "{name?: text(1..200)|null, description?: text(..2000)|null, category?: text|null, detectorKind?: \
             'contains'|'regex'|'semantic'|null, matchTarget?: [Source]|null, matchMode?: 'any'|'all'|null, includeTerms?: \
             [text]|null, excludeTerms?: [text]|null, regex?: text|null, semanticPrompt?: text|null, conditions?: \
             [NewCondition]|null, severity?: Severity|null, polarity?: text|null, enabled?: flag|null, sampleRate?: \
             number(0..1)|null, scopeMode?: 'all'|'selected'|null, agentIds?: [text]|null}",
        ),
        (
            "NewCondition",
            "{connector?: 'and'|'or'|'nor'|null, negate?: flag|null, sources?: [Source]|null, detector?: \
             'phrase'|'regex'|'semantic'|null, value: text(1..2000), caseSensitive?: flag|null}",
        ),
        (
            "Versions",
            "Next & {versions: [{version: whole, createdAt: time, name: text, spec: object}], deletedAt: time|null}",
        ),
    ],
};

pub(super) const JUDGES: Resource = Resource {
    name: "Judges",
    docs: &[
        Doc::new("GET /agent-monitoring/judge-scorers", "List the judges, newest first")
            .asks(PAGE)
            .gives(&[(200, "Next & {judgeScorers: [Judge]}")]),
        Doc::new("POST /agent-monitoring/judge-scorers", "Make a judge")
            .takes("JudgePatch & {name: text(1..200)}")
            .gives(&[(201, "{judgeScorer: Judge}")]),
        Doc::new("GET /agent-monitoring/judge-scorers/{id}", "Read a judge")
            .gives(&[(200, "{judgeScorer: Judge}")])
            .fails(&[404]),
        Doc::new(
            "PUT /agent-monitoring/judge-scorers/{id}",
            "Edit a judge: sparse in every section, null detaches online",
        )
        .takes("JudgePatch")
        .gives(&[(200, "{judgeScorer: Judge}")])
        .fails(&[404, 409]),
        Doc::new("DELETE /agent-monitoring/judge-scorers/{id}", "Delete a judge").gives(&[(204, "")]).fails(&[404]),
        Doc::new(
            "GET /agent-monitoring/judge-scorers/{id}/versions",
            "List the versions of a judge, deleted or not, newest first",
        )
        .asks(PAGE)
        .gives(&[(200, "Versions")])
        .fails(&[404]),
        Doc::new(
            "GET /custom-agent-evaluations/evaluation-settings",
            "List the judges in the form that dataset runs ask for, newest first",
        )
        .asks(PAGE)
        .gives(&[(200, "Next & {evaluationSettings: [Settings]}")]),
        Doc::new(
            "POST /custom-agent-evaluations/evaluation-settings",
            "Make a judge without live scoring, in the form that dataset runs ask for",
        )
        .takes("NewSettings")
        .gives(&[(201, "Settings")]),
        Doc::new(
            "GET /custom-agent-evaluations/evaluation-settings/{id}",
            "Read a judge in the form that dataset runs ask for",
        )
        .gives(&[(200, "Settings")])
        .fails(&[404]),
    ],
    shapes: &[
        (
            "Rubric",
            "{acceptanceCriteria?: text, rejectionCriteria?: text, evaluationCriteria?: text, judgePrompt?: text, judgeModel?: \
             text, toolContext: 'none'|'simple'|'detailed', requiresExpected: flag, output?: 'rating'|'pass_fail'|'choice', \
             choiceScores?: {*: number(0..1)}}",
        ),
        (
            "Judge",
            "{_id: id, name: text, description?: text, seeded: flag, judge: Rubric, offline: {numberOfRequests: whole, isDefault: \
             flag, status: text}, online: JudgeProfile|null, createdAt: time, updatedAt: time, versionCount: whole}",
        ),
        ("Settings", "{_id: id, name: text, description?: text, createdAt: time}"),
        (
            "NewSettings",
            "RubricPatch & {name: text(1..200), description?: text(..2000)|null, numberOfRequests?: whole(1..100)|null, \
             isDefault?: flag|null, vectorSimilarity?: any, jaccardSimilarity?: any, bleuScore?: any, rougeScore?: any, sovereigntyIndex?: any, \
             thresholds?: any, codeScorers?: any}",
        ),
        ("JudgeProfile", "Chosen & {profileId: id}"),
        ("Chosen", "Profile & {scopeMode: 'all'|'selected', agentIds: [text]}"),
        ("ChosenPatch", "ProfilePatch & {scopeMode?: 'all'|'selected', agentIds?: [text]}"),
        (
            "OfflinePatch",
            "{numberOfRequests?: whole(1..100)|null, isDefault?: flag|null, vectorSimilarity?: any, jaccardSimilarity?: any, \
             bleuScore?: any, rougeScore?: any, sovereigntyIndex?: any, thresholds?: any, codeScorers?: any, status?: any}",
        ),
        (
            "JudgePatch",
            "{name?: text(1..200), description?: text(..2000)|null, judge?: RubricPatch|null, offline?: OfflinePatch|null, online?: \
             ChosenPatch|null}",
        ),
        (
            "RubricPatch",
            "{acceptanceCriteria?: text(..20000)|null, rejectionCriteria?: text(..20000)|null, evaluationCriteria?: \
             text(..20000)|null, judgePrompt?: text(..20000)|null, judgeModel?: text(..200)|null, toolContext?: \
             'none'|'simple'|'detailed'|null, requiresExpected?: flag|null, output?: 'rating'|'pass_fail'|'choice'|null, \
             choiceScores?: {*: number(0..1)}|null}",
        ),
    ],
};

pub(super) const CUSTOM: Resource = Resource {
    name: "Custom evaluators",
    docs: &[
        Doc::new("GET /agent-monitoring/custom-evaluators", "List the custom evaluators, newest first")
            .note(MASKS)
            .asks(PAGE)
            .gives(&[(200, "Next & {evaluators: [Evaluator]}")]),
        Doc::new(
            "POST /agent-monitoring/custom-evaluators",
            "Make a custom evaluator: code, an address, or a built-in one",
        )
        .note(
            "With `enabled` it watches traffic on its own: each sampled trace is scored, and what it flags, or scores below \
             `alertBelow`, raises a signal. Members of a group need not be enabled.",
        )
        .takes("EvaluatorPatch")
        .gives(&[(201, "{evaluator: Evaluator}")]),
        Doc::new("POST /agent-monitoring/custom-evaluators/dry-run", "Try a custom evaluator out on made-up traffic")
            .note("It answers 200 whatever comes of it, and whatever the body is; `ok` says whether the evaluator answered.")
            .takes("EvaluatorPatch|any")
            .gives(&[(200, "DryRun")]),
        Doc::new("GET /agent-monitoring/custom-evaluators/{id}", "Read a custom evaluator")
            .note(MASKS)
            .gives(&[(200, "{evaluator: Evaluator}")])
            .fails(&[404]),
        Doc::new("PUT /agent-monitoring/custom-evaluators/{id}", "Edit a custom evaluator; its kind stays")
            .takes("EvaluatorPatch")
            .gives(&[(200, "{evaluator: Evaluator}")])
            .fails(&[404, 409]),
        Doc::new("DELETE /agent-monitoring/custom-evaluators/{id}", "Delete a custom evaluator")
            .gives(&[(204, "")])
            .fails(&[404]),
        Doc::new(
            "GET /agent-monitoring/custom-evaluators/{id}/events",
            "List what it reported lately, the latest first",
        )
        .asks("window?: '24h'|'7d'|'30d', limit?: whole(1..1000), cursor?: text")
        .gives(&[(200, "Next & {events: [EvaluatorEvent]}")])
        .fails(&[404]),
        Doc::new(
            "GET /agent-monitoring/custom-evaluators/{id}/versions",
            "List its versions, deleted or not, newest first",
        )
        .note(MASKS)
        .asks(PAGE)
        .gives(&[(200, "Versions")])
        .fails(&[404]),
    ],
    shapes: &[
        (
            "Evaluator",
            "{_id: id, name: text, url: text, sampleRate: number(0..1), scopeMode: text, agentIds: [text], enabled: flag, \
             invertMatch: flag, severity: Severity, kind: 'code'|'external'|'builtIn', language?: \
             'javascript'|'typescript'|'python', script?: text, alertBelow?: number(0..1), key?: text, from?: time, createdAt: \
             time, updatedAt: time, versionCount: whole}",
        ),
        (
            "EvaluatorPatch",
            "{name?: text(1..200)|null, kind?: 'code'|'external'|'builtIn'|null, language?: \
             'javascript'|'typescript'|'python'|null, script?: text(1..100000)|null, alertBelow?: number(0..1)|null, url?: \
             text(..2000)|null, invertMatch?: flag|null, key?: text|null, from?: text|whole|null, severity?: Severity|null, \
             enabled?: flag|null, sampleRate?: number(0..1)|null, scopeMode?: 'all'|'selected'|null, agentIds?: \
             [text(..512)](..1000)|null}",
        ),
        (
            "DryRun",
            "{ok: flag, error?: text, latencyMs?: number, response?: {matches: any, score?: number, reason?: text}}",
        ),
        (
            "EvaluatorEvent",
            "{id: id, sessionId: id|null, traceId: id, groupId: id|null, groupName: text|null, version: whole|null, outcome: text, \
             score: number(0..1)|null, matched: flag|null, reason: text|null, detail: text, justification: text|null, lastTurnAt: time, createdAt: time}",
        ),
    ],
};

pub(super) const GROUPS: Resource = Resource {
    name: "Scorer groups",
    docs: &[
        Doc::new("GET /agent-monitoring/scorer-groups", "List the scorer groups, newest first")
            .asks(PAGE)
            .gives(&[(200, "Next & {scorerGroups: [Group]}")]),
        Doc::new("POST /agent-monitoring/scorer-groups", "Make a scorer group")
            .takes("NewGroup")
            .gives(&[(201, "{scorerGroup: Group}")])
            .tagged(),
        Doc::new("GET /agent-monitoring/scorer-groups/{id}", "Read a scorer group")
            .gives(&[(200, "{scorerGroup: Group}")])
            .fails(&[404])
            .tagged(),
        Doc::new(
            "PUT /agent-monitoring/scorer-groups/{id}",
            "Edit a scorer group: what is absent stays, null detaches online",
        )
        .takes("GroupPatch")
        .gives(&[(200, "{scorerGroup: Group}")])
        .fails(&[404, 409])
        .tagged(),
        Doc::new("DELETE /agent-monitoring/scorer-groups/{id}", "Delete a scorer group; its verdicts stay")
            .gives(&[(200, "{ok: flag}")])
            .fails(&[404])
            .tagged(),
        Doc::new(
            "POST /agent-monitoring/scorer-groups/{id}/pause",
            "Let a scorer group rest; what is due for it stays due",
        )
        .takes("{reason?: text(1..500)|null}?")
        .gives(&[(200, "{groupId: id, paused: flag, reason: text}")])
        .fails(&[404]),
        Doc::new("POST /agent-monitoring/scorer-groups/{id}/resume", "Let a paused scorer group go on")
            .gives(&[(200, "{groupId: id, paused: flag, wasPaused: flag}")])
            .fails(&[404]),
        Doc::new("GET /agent-monitoring/scorer-groups/{id}/ratings", "A scorer group's ratings over time")
            .asks("window?: '24h'|'7d'|'30d'")
            .gives(&[(200, "Ratings")])
            .fails(&[404]),
        Doc::new(
            "GET /agent-monitoring/scorer-groups/{id}/sample-preview",
            "How many and which sessions a rate would pick",
        )
        .asks("rate?: number(0..1), from?: text, to?: text, limit?: whole(1..1000)")
        .gives(&[(200, "{groupId: id, from: time, to: time, preview: object}")])
        .fails(&[404]),
        Doc::new(
            "POST /agent-monitoring/scorer-groups/{id}/recompose",
            "Apply the present recipe to stored outcomes; no judge is asked",
        )
        .takes("{from?: text|null, to?: text|null, dryRun?: flag|null, signals?: flag|null, scorecardId?: text|null}?")
        .gives(&[(200, "Recomposed")])
        .fails(&[404]),
    ],
    shapes: &[
        ("MemberKind", "'judge'|'pattern'|'custom'"),
        ("Category", "'accuracy'|'experience'|'diagnostic'"),
        ("Aggregation", "'weighted_average'|'average'|'minimum'|'maximum'|'pass_rate'"),
        ("OutputType", "'pass_fail'|'score'|'choices'"),
        (
            "Member",
            "{kind: MemberKind, refId: text, weight: number(0..1000), gate: flag, passThreshold?: number(0..1), version?: whole, \
             category?: Category}",
        ),
        (
            "NewMember",
            "{kind: MemberKind, refId: text(1..200), weight?: number(0..1000)|null, gate?: flag|null, passThreshold?: \
             number(0..1)|null, version?: whole(1..)|null, category?: Category|null}",
        ),
        (
            "Profile",
            "{enabled: flag, sampleRate: number(0..1), alertThreshold: number(0..10)|null, severity: Severity, scope: \
             'trace'|'session', idleSeconds: whole(0..86400), minTurns: whole(2..)}",
        ),
        (
            "ProfilePatch",
            "{enabled?: flag, sampleRate?: number(0..1), alertThreshold?: number(0..10)|null, severity?: Severity, scope?: \
             'trace'|'session', idleSeconds?: whole(0..86400), minTurns?: whole(2..)}",
        ),
        (
            "Group",
            "{_id: id, name: text, description?: text, members: [Member], aggregation?: Aggregation, passThreshold?: \
             number(0..1), outputType?: OutputType, scorecardId?: text, cheapGatesFirst?: flag, online: Profile|null, createdAt: time, updatedAt: time, \
             version: whole}",
        ),
        (
            "NewGroup",
            "GroupPatch & {name: text(1..200), members: [NewMember](1..20), online?: ProfilePatch & {enabled: flag, sampleRate: \
             number(0..1), alertThreshold: number(0..10)|null, severity: Severity}|null}",
        ),
        (
            "GroupPatch",
            "{name?: text(1..200), description?: text(..2000)|null, members?: [NewMember](1..20), aggregation?: \
             Aggregation|null, passThreshold?: number(0..1)|null, outputType?: OutputType|null, scorecardId?: id|null, cheapGatesFirst?: flag|null, online?: \
             ProfilePatch|null}",
        ),
        ("Spread", "{samples: whole, mean: number|null, median: number|null, min: number|null, max: number|null}"),
        ("Side", "Spread & {bands: {*: whole}}"),
        (
            "Recomposed",
            "{groupVersion: whole, dryRun: flag, sessions: whole, recomposed: whole, unchanged: whole, needRescore: whole, before: \
             Side, after: Side, ratingChanges: whole, bandChanges: [{from: text|null, to: text|null, sessions: whole}]}",
        ),
    ],
};

pub(super) const SCORECARDS: Resource = Resource {
    name: "Scorecards",
    docs: &[
        Doc::new("GET /agent-monitoring/scorecards", "List the scorecards: the built-in one, then the newest first")
            .asks(PAGE)
            .gives(&[(200, "Next & {scorecards: [Scorecard]}")]),
        Doc::new("POST /agent-monitoring/scorecards", "Make a scorecard")
            .takes("ScorecardPatch & {name: text(1..256)}")
            .gives(&[(201, "{scorecard: Scorecard}")]),
        Doc::new("GET /agent-monitoring/scorecards/{id}", "Read a scorecard")
            .gives(&[(200, "{scorecard: Scorecard}")])
            .fails(&[404]),
        Doc::new(
            "PUT /agent-monitoring/scorecards/{id}",
            "Edit a scorecard; verdicts keep the copy they were scored with",
        )
        .takes("ScorecardPatch")
        .gives(&[(200, "{scorecard: Scorecard}")])
        .fails(&[404, 409]),
        Doc::new(
            "DELETE /agent-monitoring/scorecards/{id}",
            "Delete a scorecard; its groups go on with the built-in one",
        )
        .gives(&[(200, "{ok: flag, movedToDefault: [{_id: id, name: text}]}")])
        .fails(&[404, 409]),
        Doc::new(
            "POST /agent-monitoring/scorecards/{id}/duplicate",
            "Copy a scorecard, with a patch applied where one is sent",
        )
        .takes("ScorecardPatch?")
        .gives(&[(201, "{scorecard: Scorecard}")])
        .fails(&[404]),
    ],
    shapes: &[
        ("CantTell", "'leave_out'|'pass'|'fail'"),
        ("JudgeWeight", "{refId: text, weight: number(0..10), knockout?: number}"),
        ("Band", "{label: text(1..100), minimum: number}"),
        (
            "Scorecard",
            "{_id: id, builtIn: flag, name: text, outOf: number, accuracy: number(0..1), experience: number(0..1), judgeWeights: \
             [JudgeWeight], unlistedWeight: number(0..10), cantTell: CantTell, bands: [Band], createdAt: time|null, updatedAt: \
             time|null}",
        ),
        (
            "ScorecardPatch",
            "{name?: text(1..256), outOf?: number(1..1000), accuracy?: number(0..1), experience?: number(0..1), judgeWeights?: \
             [{refId: text(1..200), weight?: number(0..10), knockout?: number|null}](..50), unlistedWeight?: number(0..10), \
             cantTell?: CantTell, bands?: [Band](1..10)}",
        ),
    ],
};
