//! The document's part on datasets, and what agents made of them.

use super::doc::{Doc, PAGE, Resource};

pub(super) const RUNS: Resource = Resource {
    name: "Datasets and runs",
    docs: &[
        Doc::new("GET /custom-agent-evaluations/datasets", "List the datasets, newest first")
            .asks(PAGE)
            .gives(&[(200, "Next & {datasets: [Dataset]}")]),
        Doc::new("POST /custom-agent-evaluations/datasets", "Make a dataset")
            .note("Other fields are kept as they were sent. Similarities and code scorers are kept, and not computed.")
            .takes("NewDataset")
            .gives(&[(201, "Dataset")]),
        Doc::new("GET /custom-agent-evaluations/datasets/{id}", "Read a dataset").gives(&[(200, "Dataset")]).fails(&[404]),
        Doc::new("DELETE /custom-agent-evaluations/datasets/{id}", "Delete a dataset; its runs stay").gives(&[(204, "")]).fails(&[404]),
        Doc::new("GET /custom-agent-evaluations/runs", "List the runs, newest first, without their rows")
            .asks("datasetId?: id, limit?: whole(1..200), cursor?: text")
            .gives(&[(200, "Next & {runs: [Run]}")]),
        Doc::new("POST /custom-agent-evaluations/runs", "Order a run of a dataset")
            .takes("NewRun")
            .gives(&[(
                201,
                "{runId: id, datasetId: id, datasetVersionId: text, status: text, smokeTestVariants: null, limits: {maxBatchSize: \
                 whole}}",
            )])
            .fails(&[404]),
        Doc::new("GET /custom-agent-evaluations/runs/{id}", "Read a run with its rows").gives(&[(200, "RunDetail")]).fails(&[404]),
        Doc::new("GET /custom-agent-evaluations/runs/{id}/missing-results", "The keys of settled rows, and the rows to be sent again")
            .gives(&[(
                200,
                "{missing: [{idempotencyKey: text, caseId: text, questionIndex: whole, runNumber: whole, reason: text|null}], \
                 submittedKeys: [text]}",
            )])
            .fails(&[404]),
        Doc::new("POST /custom-agent-evaluations/runs/{id}/results", "Hand in a batch of rows; they are judged before it answers")
            .note("A row that is not of the form NewRow is refused by itself, and told in `refused`.")
            .takes("{batchId: text(1..), results: [NewRow|any](1..50)}")
            .gives(&[(
                200,
                "{runId: id, batchId: text, accepted: whole, duplicates: whole, failedValidation: whole, refused: [{index: whole, \
                 problem: text}], status: text, scoredResults: [object], liveStatistics: LiveStatistics}",
            )])
            .fails(&[404, 409]),
        Doc::new("POST /custom-agent-evaluations/runs/{id}/finalize", "End a run; once more changes nothing")
            .takes("{status?: 'completed'|'failed'}?")
            .gives(&[(200, "{runId: id, status: text, liveStatistics: LiveStatistics}")])
            .fails(&[404]),
        Doc::new("POST /ingest/traces/{id}/evaluate", "Grade what a stored trace said by a dataset, in a run of that one row")
            .note("The agent is not asked again. With question_index it is compared with that case of the dataset, without with none.")
            .takes("{datasetId: id, question_index?: whole(0..)|null}")
            .gives(&[(200, "{run_id: id, trace_id: id, rating: number(0..10)|null, justification: text|null, status: 'completed'}")])
            .fails(&[404, 503]),
        Doc::new("POST /custom-agent-evaluations/runs/{id}/rescore", "Grade the rows of a past run anew, as another run")
            .takes("{scorerGroupId?: id|null, scorecardId?: id|null, dryRun?: flag|null}?")
            .gives(&[(200, "{dryRun: flag, report: object}"), (201, "{report: object, run: RunDetail}")])
            .fails(&[404, 409]),
        Doc::new("GET /custom-agent-evaluations/runs/{id}/gate", "Whether a run is good enough; recorded where that is asked for")
            .asks("failUnder?: number(0..10), noRegression?: 'true'|'false', tolerance?: number(0..10), maxUnscored?: whole(0..), \
                   scorer?: text, record?: 'true'|'false', caller?: text")
            .gives(&[(200, "GateAnswer")])
            .fails(&[404, 409]),
        Doc::new("GET /evaluate/ci/gates", "List the gates that were recorded, newest first")
            .asks("limit?: whole(1..200), cursor?: text")
            .gives(&[(200, "Next & {gates: [GateAnswer & {_id: id, caller: text|null, createdAt: time}]}")]),
    ],
    shapes: &[
        (
            "Dataset",
            "{_id: id, name: text, versionId: text, status: text, numberOfRequests: whole, questions?: [object], createdAt: time, \
             updatedAt: time}",
        ),
        (
            "NewDataset",
            "{name: text(1..200), description?: text|null, numberOfRequests?: whole(1..100)|null, questions: \
             [NewQuestion](..10000), acceptanceCriteria?: text(..20000)|null, rejectionCriteria?: text(..20000)|null, \
             evaluationCriteria?: text(..20000)|null, judgePrompt?: text(..20000)|null, judgeModel?: text(..200)|null, \
             vectorSimilarity?: any, jaccardSimilarity?: any, bleuScore?: any, rougeScore?: any, sovereigntyIndex?: any, \
             codeScorers?: any}",
        ),
        ("NewQuestion", "{main_question: NewCase, follow_up_questions?: [NewCase]|null}"),
        (
            "NewCase",
            "{query: text(1..), expectedResults?: text|null, judgeGuideline?: text|null, splits?: [text]|null, \
             expectedCapabilities?: any, expectedKnowledgeBase?: any, expectedDelegations?: any, expectedTrajectory?: any, \
             expectedRetrievalContext?: any, smokeTest?: any}",
        ),
        (
            "NewRow",
            "{questionIndex: whole(0..1000000), runNumber?: whole(1..1000000), caseId?: text|null, idempotencyKey?: \
             text(..512)|null, input?: any, output?: any, error?: any, traceId?: text|null, timings?: {latencyMs?: whole|null, \
             inputTokens?: whole|null, outputTokens?: whole|null}|null, isSmokeTestVariant?: flag|null, metadata?: object|null, \
             retrievalContext?: any, observableTrace?: any}",
        ),
        (
            "NewRun",
            "{datasetId: id, scorerGroupId?: text|null, evaluationSettingsId?: text|null, additionalScorerIds?: [id]|null, \
             scorecardId?: text|null, split?: text|null, runSource?: text|null, evaluationSubject?: object|null}",
        ),
        (
            "LiveStatistics",
            "{averageRating: number|null, minRating: number|null, maxRating: number|null, ratedCount: whole, skippedCount: whole, \
             failedCount: whole}",
        ),
        (
            "Run",
            "{_id: id, runId: id, datasetId: id, datasetName: text|null, datasetVersionId: text, status: text, scorerGroupId: \
             text|null, scorerGroupName: text|null, scorerGroupVersion: whole|null, evaluationSettingsId: text|null, \
             additionalScorerIds: [text]|null, scorecard: text, split: text|null, evaluationSubject: object, runSource: text, \
             rescoredFrom: text|null, resultCount: whole, averageRating: number|null, liveStatistics: LiveStatistics, createdAt: \
             time, endedAt: time|null}",
        ),
        (
            "RunDetail",
            "Run & {scorerBreakdown: [{scorerId: text|null, name: text, primary: flag, averageRating: number|null, scored: whole, \
             unscored: whole}], caseStatistics: [any], results: [object]}",
        ),
        (
            "GateAnswer",
            "{runId: id, datasetId: id, averageRating: number|null, resultCount: whole, scored: whole, unscored: whole, failed: \
             whole, missingCases: whole, baselineRunId: text|null, baselineAverage: number|null, checks: [{check: text, passed: \
             flag, threshold: number|null, actual: number|null, detail: text}], passed: flag}",
        ),
    ],
};
