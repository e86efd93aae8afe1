//! The document's part on judges that score live by themselves, on single traces, and on judging by hand.

use super::doc::{Doc, PAGE, Resource};

pub(super) const LIVE: Resource = Resource {
    name: "Live scoring",
    docs: &[
        Doc::new(
            "GET /monitor/online-evaluators, /agent-monitoring/online-evaluators",
            "List the judges that score live by themselves",
        )
        .asks(PAGE)
        .gives(&[(200, "Next & {evaluators: [OnlineEvaluator]}")]),
        Doc::new(
            "POST /monitor/online-evaluators",
            "Have a judge score live by itself; where it does so, a copy of it does",
        )
        .takes("OnlineEvaluatorPatch & {evaluationSettingsId: text}")
        .gives(&[(201, "{evaluator: OnlineEvaluator}")])
        .fails(&[404]),
        Doc::new("GET /monitor/online-evaluators/{id}", "Read an online evaluator")
            .gives(&[(200, "{evaluator: OnlineEvaluator}")])
            .fails(&[404]),
        Doc::new("PUT /monitor/online-evaluators/{id}", "Edit an online evaluator: what is absent stays as it is")
            .takes("OnlineEvaluatorPatch")
            .gives(&[(200, "{evaluator: OnlineEvaluator}")])
            .fails(&[404, 409]),
        Doc::new(
            "DELETE /monitor/online-evaluators/{id}",
            "Delete an online evaluator; its judge and its verdicts stay",
        )
        .gives(&[(204, "")])
        .fails(&[404]),
        Doc::new(
            "GET /monitor/online-evaluators/{id}/ratings, /agent-monitoring/online-evaluators/{id}/ratings",
            "An online evaluator's ratings over time",
        )
        .asks("window?: '24h'|'7d'|'30d'")
        .gives(&[(200, "Ratings")])
        .fails(&[404]),
        Doc::new(
            "GET /monitor/online-evaluators/{id}/events, /agent-monitoring/online-evaluators/{id}/events",
            "List what an online evaluator rated, the worst first",
        )
        .asks("window?: '24h'|'7d'|'30d', limit?: whole(1..1000), cursor?: text")
        .gives(&[(200, "Next & {window: text, events: [RatedEvent]}")])
        .fails(&[404]),
        Doc::new(
            "GET /monitor/online-evaluators/{id}/calibration, /agent-monitoring/online-evaluators/{id}/calibration",
            "How its verdicts compare with what people found",
        )
        .asks("window?: '24h'|'7d'|'30d'|'rubric'")
        .gives(&[(200, "Calibration")])
        .fails(&[404]),
        Doc::new(
            "GET /agent-monitoring/traces/{id}/evaluations",
            "What was made of a single trace: groups first, then judges",
        )
        .gives(&[(200, "{traceId: id, evaluations: [Evaluation]}")])
        .fails(&[404]),
        Doc::new(
            "POST /agent-monitoring/sessions/{id}/judge/{evaluator}",
            "Have a session judged now by an online evaluator",
        )
        .asks("ifStale?: 'true'|'false'")
        .gives(&[(200, "{skipped: flag}"), (201, "{score: Score}")])
        .fails(&[404, 502]),
        Doc::new(
            "POST /agent-monitoring/sessions/{id}/coherence-check",
            "Have it judged now whether a session holds together",
        )
        .gives(&[(200, "{skipped: flag}"), (201, "{score: Score}")])
        .fails(&[404, 502]),
    ],
    shapes: &[
        ("OnlineEvaluator", "Chosen & {_id: id, name: text, evaluationSettingsId: id, createdAt: time}"),
        ("OnlineEvaluatorPatch", "ChosenPatch & {name?: text(1..200)|null}"),
        ("Ratings", "{window: text, points: [{label: time, ts: whole, averageRating: number|null, count: whole}]}"),
        (
            "RatedEvent",
            "{id: id, traceId: text, sessionId?: id, rating: number(0..10), justification: text, createdAt: time, input: text, \
             output: text}",
        ),
        (
            "Calibration",
            "{window: text, since: time, scored: whole, labeled: whole, agreementRate: number|null, alpha: number|null, alphaBand: \
             any, alphaMinItems: whole, withCorrectedScore: whole, ratingMae: number|null, disagreements: [any]}",
        ),
        (
            "Evaluation",
            "{kind: 'group'|'judge', id: id, name: text, rating: number(0..10)|null, justification: text, blend?: {aggregation: \
             text, mean: number|null, coverage: number(0..1), gatedBy: text|null, pass: flag|null}, members?: [ScoreMember], \
             judgeModel?: text, createdAt: time}",
        ),
    ],
};
