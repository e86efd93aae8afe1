"""Walks the official Python client through a running server: one line per check, an end with a message at the first that fails.

    BASE_URL=http://127.0.0.1:4700/api/v1 API_KEY=... python walk.py

The server must have `sweep.schedule = "off"`, since the walk sweeps by hand and counts verdicts, and a judge that rates
everything JUDGE_RATING (a whole number, 8 where unset; what dataset runs come to is told for 8), but by a rubric that holds
DATE_RULE: what does not say "tomorrow" gets 3. Exit codes: 0 all checks hold, 1 one does not, 2 a setting is missing.
"""

import os
import sys
import time
import uuid

from agentx import AgentX
from agentx.exceptions import AgentXAuthError, AgentXError


def setting(name):
    value = os.environ.get(name)
    if not value:
        print(f"{name} is not set: the walk needs BASE_URL (with /api/v1) and API_KEY", file=sys.stderr)
        sys.exit(2)
    return value


def check(what, holds, found=None):
    """Prints the check; ends the walk where it does not hold, telling what was found instead."""
    if not holds:
        print(f"FAILED  {what}\n        found: {found!r}", file=sys.stderr)
        sys.exit(1)
    print(f"ok      {what}", flush=True)


def refused(call, status):
    """Makes a call that must fail. Returns the error when its HTTP status is the expected one, else what happened instead."""
    try:
        answered = call()
    except AgentXError as error:
        return (getattr(error, "status_code", None) == status, error)
    return (False, answered)


RUN = uuid.uuid4().hex[:8]
BASE_URL = setting("BASE_URL")
API_KEY = setting("API_KEY")
# Of a judge (weight 1) and a failure pattern that matches (goodness 0, weight 1).
EXPECTED_RATING = float(os.environ.get("JUDGE_RATING", "8")) / 2

# A rubric that the judge follows.
DATE_RULE = "The answer says on which day the money arrives."

client = AgentX(api_key=API_KEY, base_url=BASE_URL)
groups = client.monitor.scorer_groups
sessions = client.monitor.sessions


def say(agent, session, question, answer, tool=None):
    """One turn of a conversation, stored before this returns. Returns the id of its trace."""
    with client.tracer.trace(agent, input={"q": question}, session_id=session, sync=True) as span:
        if tool:
            with client.tracer.trace_tool_call(tool, input={"question": question}) as call:
                call.output = "found"
        span.output = answer
    return span.trace_id


def roots(session):
    return [span for span in sessions.spans(session) if not span.get("parentSpanId")]


def counted(group_id, window="24h"):
    return sum(point["count"] for point in groups.ratings(group_id, window=window)["points"])


def connect():
    check("ping reaches the server and the key is accepted", client.ping()["ok"])
    try:
        AgentX(api_key="not-a-key", base_url=BASE_URL).ping()
    except AgentXAuthError as error:
        check("ping with a wrong key is refused as such", True, error)
    else:
        check("ping with a wrong key is refused as such", False, "it was accepted")


def publish_scorers():
    judge = client.monitor.judge_scorers.builder(
        f"Resolution {RUN}",
        acceptance_criteria="The customer's request is settled by the end of the conversation.",
        rejection_criteria="The customer has to ask again or leaves without an answer.",
    ).publish()
    check("a judge scorer is published", judge.id and judge.name == f"Resolution {RUN}", judge)
    criteria = judge.judge.get("acceptanceCriteria")
    check("its rubric comes back as sent", criteria and criteria.startswith("The customer's request"), judge)

    pattern = client.monitor.patterns.builder(
        f"Apology {RUN}", include_terms=["apologize", "so sorry"], severity="high", polarity="failure"
    ).publish()
    check("a pattern is published", pattern.id and pattern.name == f"Apology {RUN}", pattern)
    check("its terms come back as conditions", [row["value"] for row in pattern.conditions] == ["apologize", "so sorry"], pattern)
    check("the pattern can be read back", client.monitor.patterns.get(pattern.id).key == pattern.key)
    check("the pattern is listed", pattern.id in [listed.id for listed in client.monitor.patterns.list()])
    return judge, pattern


def manage_group(judge, pattern):
    members = [
        {"kind": "judge", "refId": judge.id, "weight": 1, "gate": False},
        {"kind": "pattern", "refId": pattern.id, "weight": 1, "gate": False},
    ]
    stranger = [{"kind": "pattern", "refId": "no-such-scorer", "weight": 1, "gate": False}]
    holds, found = refused(lambda: groups.create(f"Stranger {RUN}", stranger), 400)
    check("a group with an unknown member is a 400", holds, found)

    group = groups.create(f"Support quality {RUN}", members, description="What the walk rates by.")
    check("a group without live scoring is created", group.id and group.online is None, group)
    kept = [{key: member.get(key) for key in ("kind", "refId", "weight", "gate")} for member in group.members]
    check("its members come back as sent", kept == members, group)
    holds, found = refused(lambda: groups.update(group.id, online={"sampleRate": 0.5}), 400)
    check("a partial live profile where none is stored is a 400 that says what is missing", holds and "alertThreshold" in str(found), found)

    profile = {
        "enabled": True, "sampleRate": 1.0, "alertThreshold": 5, "severity": "high", "scope": "session", "idleSeconds": 0,
    }
    group = groups.update(group.id, online=profile)
    check("live scoring of whole sessions is turned on", group.online and group.online.get("scope") == "session", group)
    group = groups.update(group.id, name=f"Support {RUN}", online={"alertThreshold": 6})
    check("an update changes the name", group.name == f"Support {RUN}", group)
    merged = {key: group.online.get(key) for key in profile}
    check("a partial live profile is merged over the stored one", merged == {**profile, "alertThreshold": 6}, group)
    check("what an update leaves out stays", group.get("description") == "What the walk rates by.", group)
    check("the group reads back as the update answered", groups.get(group.id) == group, groups.get(group.id))
    check("the group is listed", group.id in [listed.id for listed in groups.list()])
    return group


def converse():
    """Two conversations of two turns each, by different agents so that each raises its own signal, and one of a single turn."""
    talked = {f"walk-refund-{RUN}": f"support-agent-{RUN}", f"walk-booking-{RUN}": f"booking-agent-{RUN}"}
    for session, agent in talked.items():
        traces = [
            say(agent, session, "Where is my money?", "I apologize for the delay, let me look.", tool="lookup_payment"),
            say(agent, session, "And?", "It left on Monday and should reach you tomorrow."),
        ]
        check(f"two turns of {session} are stored, each with its own trace id", all(traces) and len(set(traces)) == 2, traces)
        asked = [span.get("input") for span in roots(session)]
        check("its root spans are listed oldest first", asked == [{"q": "Where is my money?"}, {"q": "And?"}], asked)
        children = [span for span in sessions.spans(session) if span.get("parentSpanId")]
        check("its tool call is a child of the first", [child["name"] for child in children] == ["lookup_payment"], children)
    lone = f"walk-lone-{RUN}"
    say(f"support-agent-{RUN}", lone, "Are you open on Sunday?", "Yes, from ten to four.")
    check("an unknown session has no spans and is no error", sessions.spans(f"nobody-{RUN}") == [])
    return talked, lone


def sweep_once(group, talked, lone):
    for session in talked:
        check(f"{session} has no verdict before the sweep", sessions.scores(session) == [], sessions.scores(session))
    check("no rating is counted before the sweep", counted(group.id) == 0, groups.ratings(group.id, window="24h"))

    swept = sessions.run_sweep()
    check("the sweep judges both conversations", swept.get("judged") == len(talked), swept)
    for session in talked:
        scores = sessions.scores(session)
        check(f"{session} has one verdict after the sweep", len(scores) == 1, scores)
        score = scores[0]
        check("it is this group's", score["kind"] == f"scorer-group:{group.id}" and score["sessionId"] == session, score)
        check(f"its rating is {EXPECTED_RATING}", score["rating"] == EXPECTED_RATING, score)
        check("its justification tells the blend", score["justification"].startswith("Weighted blend: "), score)
    check("a conversation of one turn is not judged", sessions.scores(lone) == [], sessions.scores(lone))

    swept = sessions.run_sweep()
    check("a second sweep judges nothing", swept.get("judged") == 0, swept)
    for session in talked:
        check(f"it adds no verdict to {session}", len(sessions.scores(session)) == 1, sessions.scores(session))


def read_ratings(group, talked):
    for window, buckets in (("24h", 24), ("7d", 7)):
        ratings = groups.ratings(group.id, window=window)
        points = ratings["points"]
        check(f"the ratings of {window} have {buckets} points", ratings["window"] == window and len(points) == buckets, ratings)
        check("each conversation is counted once", sum(point["count"] for point in points) == len(talked), ratings)
        rated = [point["averageRating"] for point in points if point["count"]]
        check("their average is the rating", rated == [EXPECTED_RATING] * len(rated), ratings)


def low_signal(group, session):
    """The signal that the group raised over a session, if any."""
    for signal in client.monitor.list_signals(polarity="all"):
        ours = signal.type == "scorer_group_low_session_score" and signal.pattern_key == f"scorer-group:{group.id}"
        if ours and session in signal.summary:
            return signal
    return None


def read_signals(group, talked):
    for session, agent in talked.items():
        signal = low_signal(group, session)
        check(f"a low-score signal names {session}", signal is not None, client.monitor.list_signals(polarity="all"))
        check("it tells agent, severity and one occurrence",
              (signal.agent_id or {}).get("name") == agent and signal.severity == "high" and signal.occurrence_count == 1, signal)
        check("it can be read by its id", client.monitor.signals.get(signal.id).summary == signal.summary)


def grow(group, talked):
    grown, still = talked
    say(talked[grown], grown, "It is still not here!", "I am so sorry, I have traced it now.")
    check("the grown conversation has three root spans", len(roots(grown)) == 3, roots(grown))
    swept = sessions.run_sweep()
    check("the next sweep judges only the grown one", swept.get("judged") == 1, swept)
    scores = sessions.scores(grown)
    check("it has one verdict more, newest first",
          len(scores) == 2 and scores[0]["createdAt"] >= scores[1]["createdAt"] and scores[0]["spanCount"] > scores[1]["spanCount"],
          scores)
    check("the other has none more", len(sessions.scores(still)) == 1, sessions.scores(still))
    check("a sweep after that judges nothing", sessions.run_sweep().get("judged") == 0)
    check("and adds none", len(sessions.scores(grown)) == 2, sessions.scores(grown))
    signal = low_signal(group, grown)
    check("the signal counts the second occurrence", signal is not None and signal.occurrence_count == 2, signal)
    check("the grown conversation still counts once", counted(group.id) == len(talked), groups.ratings(group.id, window="24h"))


def recomputed(row):
    """The rating that the members of a row add up to, each with weight 1."""
    goodness = [verdict["rating"] / 10 for verdict in row.judge_scorer_results]
    goodness += [scorer["score"] for scorer in row.code_scorer_results]
    return round(sum(goodness) / len(goodness) * 100) / 10


def evaluate(group, judge):
    """A dataset run graded by the group: cases, answers, ratings, resuming, the gate."""
    evaluations = client.evaluations
    builder = evaluations.datasets.builder(f"Refunds {RUN}", description="What the walk asks.")
    builder.add_case("Where is my money?", expected_results="On its way.", judge_guideline="Mind the tone.", splits=["smoke"])
    builder.add_case("Can I have it back?", expected_results="Within 14 days.")
    builder.add_case("Do you break?")
    dataset = builder.publish()
    check("a dataset is published", dataset.id and dataset.name == f"Refunds {RUN}", dataset)
    check("its cases read back as sent",
          [case.main_question.query for case in evaluations.datasets.get(dataset.id).questions]
          == ["Where is my money?", "Can I have it back?", "Do you break?"])
    check("it is listed", dataset.id in [listed.id for listed in evaluations.datasets.list()])
    subject = {"kind": "custom_agent", "display_name": "walk", "runtime": "local"}
    holds, found = refused(lambda: evaluations.run(dataset.id, subject, scorer_group_id="nobody"), 400)
    check("a run by an unknown group is a 400", holds, found)
    holds, found = refused(lambda: evaluations.init_run(dataset.id, evaluation_subject(subject), scorer_id="nobody"), 400)
    check("a run by an unknown scorer is a 400", holds, found)

    asked = []

    def agent(case):
        asked.append(case.query)
        if "break" in case.query:
            raise ValueError("it broke")
        answer = "I apologize for the delay." if "Where" in case.query else "Yes, within two weeks."
        with client.tracer.trace(f"agent-{RUN}", input={"q": case.query}, sync=True) as span:
            span.output = answer
        return {"output": answer, "trace_id": span.trace_id}

    run = evaluations.run(dataset.id, subject, scorer_group_id=group.id)
    run.execute(agent)
    check("its average is known as soon as rows are scored", run.rated_count == 3 and run.failed_count == 1, run.average_rating)
    run.execute(agent)
    check("executing again asks the agent nothing", len(asked) == 3, asked)
    run.finalize()
    rows = run.results()
    check("every case has its row", [row.question_index for row in rows] == [0, 1, 2], rows)
    for row in rows[:2]:
        check("its rating is what its members add up to", row.rating == recomputed(row), row)
        check("its judge said something, and its pattern has a score",
              row.judge_scorer_results[0]["name"] == judge.name and len(row.code_scorer_results) == 1, row)
        check("its trace is the agent's", row.trace_id and row.status == "scored" and row.response, row)
    check("the answer that matches the pattern is rated lower", [row.rating for row in rows[:2]] == [4.0, 9.0], rows)
    check("a case that raised is rated 0 with its error",
          rows[2].rating == 0 and rows[2].status == "failed"
          and rows[2].justification == "Case failed with error: ValueError: it broke", rows[2])
    detail = evaluations.get_run(run.run_id)
    first = detail["scorerBreakdown"][0]
    check("the run is the group's", detail["scorerGroupId"] == group.id and detail["scorerGroupName"] == group.name, detail)
    check("the breakdown begins with the group", first["name"] == f"{group.name} (group)" and first["primary"] is True, detail)
    check("what the agent said in a run joins no session", sessions.run_sweep().get("judged") == 0)
    gate_run(run, judge)
    graded = client.tracer.evaluate_trace(rows[0].trace_id, dataset.id)
    check("a stored trace is graded by the dataset", graded["rating"] is not None and graded["status"] == "completed", graded)
    check("its run is its own", graded["trace_id"] == rows[0].trace_id and graded["run_id"] != run.run_id, graded)
    evaluations.datasets.delete(dataset.id)
    holds, found = refused(lambda: evaluations.datasets.delete(dataset.id), 404)
    check("deleting the dataset again is a 404", holds, found)
    check("its run can still be read", len(evaluations.get_run(run.run_id)["results"]) == 3)
    return run


def evaluation_subject(subject):
    from agentx.evaluations.models import EvaluationSubject

    return EvaluationSubject(**subject)


def gate_run(run, judge):
    before = len(client.evaluations.list_gates())
    gate = run.gate(fail_under=7)
    check("the gate fails below its border", not gate.passed and gate.exit_code == 1 and gate.average_rating == 4.33, gate.raw)
    check("it tells what its average rests on", (gate.raw["scored"], gate.raw["unscored"]) == (3, 0), gate.raw)
    gate = run.gate(fail_under=7, no_regression=True, scorer=judge.name)
    check("a judge can be gated by its name", gate.passed and gate.gated_scorer == {"id": judge.id, "name": judge.name}, gate.raw)
    holds, found = refused(lambda: run.gate(fail_under=7, scorer="Nobody"), 400)
    check("an unknown scorer is a 400", holds, found)
    check("both gates are recorded", len(client.evaluations.list_gates()) == before + 2, client.evaluations.list_gates())
    client.evaluations.gate_run(run.run_id, fail_under=7, record=False)
    check("a gate that is not to be recorded is not", len(client.evaluations.list_gates()) == before + 2)


def evaluate_by_judges(judge):
    """A run by a judge and its own settings, over one split."""
    evaluations = client.evaluations
    builder = evaluations.datasets.builder(f"Split {RUN}")
    builder.add_case("One?", splits=["smoke"]).add_case("Two?")
    dataset = builder.publish()
    run = evaluations.run(dataset.id, {"kind": "custom_agent"}, scorer_id=judge.id, split="smoke")
    run.execute(lambda case: f"An answer to {case.query}", concurrency=2).finalize()
    detail = evaluations.get_run(run.run_id)
    check("a run by a judge rates with it", [row["rating"] for row in detail["results"]] == [EXPECTED_RATING * 2], detail)
    check("and says which", detail["evaluationSettingsId"] == judge.id and detail["scorerGroupId"] is None, detail)
    check("no case of the split is missing", evaluations.gate_run(run.run_id, fail_under=1, record=False).raw["missingCases"] == 0)
def sweeping_until(found, patience=300):
    """Sweeps until `found` returns something, since single traces are due only once they have settled. Returns that, or None."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        sessions.run_sweep()
        answer = found()
        if answer:
            return answer
        time.sleep(0.5)
    return None


def signal_of(pattern_key):
    """The signal of that key, if any, as the walk-through looks for it."""
    return next((one for one in client.monitor.signals.list(limit=50) if one.pattern_key == pattern_key), None)


def watch_on_its_own(pattern):
    """The pattern was published enabled: it has watched every trace since, whatever groups it is a member of."""
    agent = f"support-agent-{RUN}"

    def raised():
        ours = [one for one in client.monitor.list_signals() if one.pattern_key == pattern.key]
        return next((one for one in ours if (one.agent_id or {}).get("name") == agent and one.occurrence_count == 2), None)

    signal = sweeping_until(raised)
    check("an enabled pattern raises a signal for each trace that it matches", signal is not None, client.monitor.list_signals())
    check("in its own name", signal.type == "custom_pattern_match" and signal.root_cause == pattern.name, signal)
    check("with its severity", (signal.severity, signal.polarity) == ("high", "failure"), signal)


def score_single_traces(judge, pattern):
    members = [{"kind": kind, "refId": ref, "weight": 1, "gate": False} for kind, ref in (("judge", judge.id), ("pattern", pattern.id))]
    group = groups.create(f"Replies {RUN}", members)
    profile = {"enabled": True, "sampleRate": 1.0, "alertThreshold": 6, "severity": "high"}
    group = groups.update(group.id, online=profile)
    check("live scoring is of single traces where no scope is given", group.online.get("scope") == "trace", group)
    trace = say(f"reply-agent-{RUN}", f"walk-single-{RUN}", "Where is my money?", "I apologize, I do not know.")
    signal = sweeping_until(lambda: signal_of(f"scorer-group:{group.id}"))
    check("the next trace raises a low-score signal", signal is not None, client.monitor.signals.list(limit=50))
    expected = f'Scorer group "Replies {RUN}" scored this response {EXPECTED_RATING}/10 (below the 6 threshold): '
    check("its summary tells of the response", signal.type == "scorer_group_low_score" and signal.summary.startswith(expected), signal)
    check("its occurrence names the trace", signal.occurrences[0].trace_id == trace, signal)
    check("the group's ratings count the trace", counted(group.id) == 1, groups.ratings(group.id, window="24h"))
    check("the session has no verdict by it", sessions.scores(f"walk-single-{RUN}") == [], sessions.scores(f"walk-single-{RUN}"))
    groups.delete(group.id)


def judge_traces_alone():
    scorers = client.monitor.judge_scorers
    tone = scorers.builder(f"Dates {RUN}", acceptance_criteria=DATE_RULE, live=True, sample_rate=1.0, alert_threshold=6,
                           severity="high").publish()
    check("a judge with live scoring of its own has a profile", tone.online_profile_id and tone.online["scope"] == "trace", tone)
    agent, session = f"dates-agent-{RUN}", f"walk-dates-{RUN}"
    vague = say(agent, session, "When does it arrive?", "Soon.")
    clear = say(agent, session, "When exactly?", "It arrives tomorrow.")
    events = sweeping_until(lambda: [events for events in [scorers.events(tone.id, window="24h")] if len(events) == 2])
    check("it scores each trace, the worst first", events and [event.trace_id for event in events[0]] == [vague, clear], events)
    ratings = [event.rating for event in events[0]]
    check("by its own criteria", ratings == [3.0, float(os.environ.get("JUDGE_RATING", "8"))], events)
    check("with what was said", (events[0][0].input, events[0][0].output) == ("When does it arrive?", "Soon."), events)
    points = scorers.ratings(tone.id, window="24h")
    check("its ratings count both", sum(point.count for point in points) == 2, points)
    check("there is nothing to calibrate it by yet", scorers.calibration(tone.id)["agreementRate"] is None, scorers.calibration(tone.id))
    signal = signal_of(f"online-eval:{tone.online_profile_id}")
    check("the vague one raised its signal", signal and signal.type == "online_evaluator_low_score" and signal.occurrence_count == 1, signal)
    check("it is no group", tone.online_profile_id not in [listed.id for listed in groups.list()])

    paused = scorers.update(tone.id, online={"enabled": False})
    check("its live scoring is paused", paused.online["enabled"] is False and paused.online["sampleRate"] == 1.0, paused)
    older = client.monitor.get_online_evaluator(tone.online_profile_id)
    check("the older form shows the same profile", older.evaluation_settings_id == tone.id and older.enabled is False, older)
    settings = client.evaluations.settings
    made = settings.builder(f"Settings {RUN}", acceptance_criteria="Clear.").publish()
    check("settings made in the older form are a judge", scorers.get(made.id).name == made.name == settings.get(made.id).name, made)
    check("and are listed", made.id in [listed.id for listed in settings.list()])
    scorers.delete(made.id)
    detached = scorers.update(tone.id, online=None)
    check("its live scoring is detached", detached.online is None, detached)
    scorers.delete(tone.id)


def judge_sessions_alone():
    scorers = client.monitor.judge_scorers
    whole = scorers.builder(f"Whole {RUN}", acceptance_criteria=DATE_RULE, live=True, sample_rate=1.0, scope="session",
                            alert_threshold=6, severity="high", idle_seconds=0).publish()
    profile, session = whole.online_profile_id, f"walk-whole-{RUN}"
    for question in ("Where is it?", "And when?"):
        say(f"whole-agent-{RUN}", session, question, "Soon.")

    def own():
        return [row for row in sessions.scores(session) if row["kind"] == f"online-eval:{profile}"]

    row = sessions.judge(session, profile)
    check("a session is judged on demand", row["kind"] == f"online-eval:{profile}" and row["rating"] == 3, row)
    check("the row names the judge's model", row["judgeModel"] not in ("", "scorer-group"), row)
    check("it is not judged again while it is fresh", sessions.judge(session, profile, if_stale=True) == {"skipped": True})
    sessions.run_sweep()
    check("the sweep takes it as judged", len(own()) == 1, own())
    sessions.judge(session, profile)
    check("asked again it has a second verdict", len(own()) == 2, own())
    say(f"whole-agent-{RUN}", session, "Which day?", "It arrives tomorrow.")
    row = sessions.judge(session, profile, if_stale=True)
    check("a grown session is stale", row.get("rating") == float(os.environ.get("JUDGE_RATING", "8")), row)
    signal = signal_of(f"online-eval:{profile}")
    check("the low verdicts raised a signal", signal and signal.type == "online_evaluator_low_session_score", signal)
    check("that names the session", session in signal.summary, signal)
    checked = sessions.coherence_check(session)
    check("a session is checked for coherence", checked["rating"] is not None and checked["sessionId"] == session, checked)
    for wrong in ((f"nobody-{RUN}", profile), (session, "nobody")):
        holds, found = refused(lambda: sessions.judge(*wrong), 404)
        check("an unknown session or judge is a 404", holds, found)
    scorers.delete(whole.id)
    holds, found = refused(lambda: sessions.judge(session, profile), 404)
    check("with its judge the profile is gone", holds, found)


def look_after_agents():
    name = f"walk-agent-{RUN}"
    agent = client.monitor.agents.create(name)
    check("an agent is made", agent["_id"] and agent["name"] == name, agent)
    check("it is listed first", client.monitor.agents.list()[0]["_id"] == agent["_id"], client.monitor.agents.list())
    check("ensuring it finds it", client.monitor.agents.ensure(name)["_id"] == agent["_id"])
    profile = client.monitor.profile
    check("nobody said how it is watched", profile.get(agent["_id"]) is None, profile.get(agent["_id"]))
    hook = "webhook:https://hooks.example.com/walk"
    saved = profile.update(agent["_id"], channels=[hook], sample_rate=0.5, threshold_overrides={"latencyMs": 5000})
    check("its profile keeps the channels", saved.channels == [hook] and saved.enabled is True, saved)
    saved = profile.update(agent["_id"], enabled=False)
    check("an update leaves the rest", saved.channels == [hook] and saved.sample_rate == 0.5 and not saved.enabled, saved)
    check("it reads back", profile.get(agent["_id"]) == saved, profile.get(agent["_id"]))


def page_through_traces(talked):
    seen, cursor = [], None
    while True:
        page = client.traces.list(limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [row["_id"] for row in page["traces"]]
        cursor = page["nextCursor"]
        if not page["hasNextPage"]:
            break
    expected = {root["_id"] for session in talked for root in roots(session)}
    check("paging through the traces shows each root once", len(seen) == len(set(seen)) and expected <= set(seen), seen)
    check("a trace reads back by its id", client.traces.get(seen[0])["_id"] == seen[0])


def make_projects():
    name = f"Walk {RUN}"
    made = client.projects.create(name)
    check("a project is made and shows its key", made["name"] == name and made["apiKey"], made)
    own = AgentX(api_key=made["apiKey"], base_url=BASE_URL)
    check("its key is good and sees nothing of others", own.ping()["ok"] and own.monitor.agents.list() == [])
    check("it is listed", made["_id"] in [project["_id"] for project in client.projects.list()], client.projects.list())
    client.projects.delete(made["_id"])
    # The errors of this part of the client carry the status in their text alone.
    _, found = refused(lambda: client.projects.delete(made["_id"]), 404)
    check("deleting it again is a 404", "(404)" in str(found), found)
    try:
        own.ping()
    except AgentXAuthError as error:
        check("its key is dead", True, error)
    else:
        check("its key is dead", False, "it was accepted")
    own.close()


def watch_with_scorers(group, pattern):
    """Code scorers that are enabled watch each trace on their own too, and built-in patterns where they are chosen."""
    scorers, agent = client.monitor.scorers, f"watched-agent-{RUN}"

    def raised(pattern_key):
        """The signal of that key about this agent, once there is one."""
        listed = lambda: client.monitor.list_signals(polarity="all", limit=200)
        ours = lambda one: one.pattern_key == pattern_key and (one.agent_id or {}).get("name") == agent
        return sweeping_until(lambda: next((one for one in listed() if ours(one)), None))

    templates = scorers.templates()
    check("the built-in patterns are listed with their rules, all off",
          len(templates) >= 6 and all(one["ruleSpec"] and not one["enabled"] for one in templates), templates)
    keys = ["pii-in-response", "secret-in-response"]
    check("two are enabled", scorers.enable(keys) == keys)
    check("the list says so", [one["key"] for one in scorers.templates() if one["enabled"]] == keys, scorers.templates())
    check("one more keeps them", scorers.enable(["prompt-leak"]) == sorted([*keys, "prompt-leak"]))
    check("one is disabled", scorers.disable(["prompt-leak", "secret-in-response"]) == ["pii-in-response"])
    holds, found = refused(lambda: scorers.enable(["no-such-template"]), 400)
    check("an unknown one is a 400 that names it", holds and "no-such-template" in str(found), found)
    code = scorers.create_code(
        f"Short {RUN}", "def handler(input, output, expected, metadata, trace):\n    return 0.2 if 'Sorry' in output else 1.0\n",
        alert_below=0.5, sample_rate=1.0, severity="low", scope_mode="selected", agent_ids=[agent])

    session = f"walk-watched-{RUN}"
    leak = say(agent, session, "Whom do I ask?", "Write to ada@example.com.")
    say(agent, session, "Anybody else?", "No.")
    sorry = say(agent, session, "And then?", "Sorry, I apologize.")
    signal = raised("pii-in-response")
    check("the built-in pattern raises its signal", signal and signal.polarity == "failure" and signal.severity == "high", signal)
    check("for the one trace that it matches", signal.occurrence_count == 1 and signal.occurrences[0].trace_id == leak, signal)
    signal = raised(pattern.key)
    check("so does the pattern of our own", signal and signal.type == "custom_pattern_match" and signal.root_cause == pattern.name, signal)
    check("for its trace", [one.trace_id for one in signal.occurrences] == [sorry], signal)
    signal = raised(f"custom-eval:{code['_id']}")
    check("and the code scorer, for what lies below its border",
          signal and signal.type == "custom_evaluator_match" and [one.trace_id for one in signal.occurrences] == [sorry], signal)
    events = sweeping_until(lambda: [events for events in [scorers.events(code["_id"])] if len(events) == 3])
    check("its events tell of every trace", events and sorted(event["score"] for event in events[0]) == [0.2, 1, 1], events)
    check("and which matched", [event["traceId"] for event in events[0] if event["matched"]] == [sorry], events)
    counted_signals = [one["totalSignals"] for one in scorers.templates() if one["key"] == "pii-in-response"]
    check("the list counts the signals", counted_signals == [1], counted_signals)
    check("nothing of it is a group", [one.name for one in groups.list() if "Short" in one.name or "Personal" in one.name] == [])
    kinds = {row["kind"] for row in sessions.scores(session)}
    check("none of it rates the session, as the group does", kinds <= {f"scorer-group:{group.id}"}, kinds)
    check("the code scorer is paused", scorers.update(code["_id"], enabled=False)["enabled"] is False)
    check("the last built-in pattern is off", scorers.disable(["pii-in-response"]) == [])
    scorers.delete(code["_id"])


def clean_up(group, judge, pattern):
    paused = groups.update(group.id, online={"enabled": False})
    check("live scoring is paused", paused.online and paused.online.get("enabled") is False, paused)
    detached = groups.update(group.id, online=None)
    check("live scoring is detached", detached.online is None, detached)
    groups.delete(group.id)
    check("the deleted group is not listed", group.id not in [listed.id for listed in groups.list()])
    holds, found = refused(lambda: groups.get(group.id), 404)
    check("reading the deleted group is a 404", holds, found)
    holds, found = refused(lambda: groups.delete(group.id), 404)
    check("deleting it again is a 404", holds, found)
    client.monitor.judge_scorers.delete(judge.id)
    client.monitor.patterns.delete(pattern.id)
    holds, found = refused(lambda: client.monitor.judge_scorers.delete(judge.id), 404)
    check("deleting the judge again is a 404", holds, found)
    holds, found = refused(lambda: client.monitor.patterns.delete(pattern.id), 404)
    check("deleting the pattern again is a 404", holds, found)


def walk():
    connect()
    judge, pattern = publish_scorers()
    group = manage_group(judge, pattern)
    talked, lone = converse()
    sweep_once(group, talked, lone)
    read_ratings(group, talked)
    read_signals(group, talked)
    grow(group, talked)
    evaluate(group, judge)
    evaluate_by_judges(judge)
    watch_on_its_own(pattern)
    score_single_traces(judge, pattern)
    judge_traces_alone()
    judge_sessions_alone()
    watch_with_scorers(group, pattern)
    look_after_agents()
    page_through_traces(talked)
    make_projects()
    clean_up(group, judge, pattern)


try:
    walk()
except AgentXError as error:
    check("the server answers every call of the client", False, error)
client.close()
print("all checks hold")
