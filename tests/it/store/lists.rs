//! Lists: recent sessions with their headlines, the verdicts of a session, ratings over time.

use afterword::domain::assessment::Goal;
use afterword::domain::conversation::{Agent, Conversation};
use afterword::domain::ids::SessionId;
use afterword::domain::time::{Micros, Timestamp};
use afterword::store::{SessionEnd, SessionRow};

use super::contract;
use super::ctx::{Ctx, Draft, START, judged, live, live_with, otlp, rated, root, verdict};

async fn recent(ctx: &Ctx) -> Vec<SessionRow> {
    ctx.store.recent_sessions(&ctx.project, Timestamp::EARLIEST, 100).await.unwrap()
}

fn sid(session: &str) -> SessionId {
    SessionId::trusted(session)
}

async fn sessions_are_listed_most_recent_first_whatever_arrived_last(ctx: Ctx) {
    ctx.at_second(20_000);
    for (session, start) in [("middle", 5000), ("first", 100), ("last", 15_000), ("beside", 5001)] {
        ctx.ingest(vec![root(session, session).ran(start, start + 2).error("x")]).await;
    }
    let names = async |since: i64, limit: usize| -> Vec<String> {
        let since = START + Micros::seconds(since);
        let rows = ctx.store.recent_sessions(&ctx.project, since, limit).await.unwrap();
        rows.iter().map(|row| row.session.to_string()).collect()
    };
    assert_eq!(names(0, 10).await, ["last", "beside", "middle", "first"]);
    assert_eq!(names(0, 2).await, ["last", "beside"]);
    assert_eq!(names(5001, 10).await, ["last", "beside"]);
    assert_eq!(names(15_001, 10).await, [] as [&str; 0]);
    let row = recent(&ctx).await.remove(0);
    assert_eq!((row.turns, row.spans, row.errors, row.latency), (1, 1, 1, Micros::seconds(2)));
    let start = START + Micros::seconds(15_000);
    assert_eq!((row.first_at, row.last_at, row.last_arrival_at), (start, start, ctx.now()));
}

async fn the_headlines_of_a_session_are_the_latest_of_each_group_worst_first(ctx: Ctx) {
    for (name, idle) in [("good", 120), ("bad", 120), ("none", 120)] {
        ctx.group(&live_with(name, "j", |online| online.idle_seconds = idle)).await;
    }
    ctx.session("s", 2).await;
    let sweep = async |ratings: [Option<f64>; 3]| {
        ctx.clock.advance(Micros::seconds(120));
        ctx.plan().await;
        let gathering = ctx.gather().await;
        let mut end = judged(&gathering, &gathering.sessions[0], ctx.now(), 0.0);
        for attempt in &mut end.tries {
            let written = attempt.verdict.as_mut().unwrap();
            let place = ["good", "bad", "none"].iter().position(|name| *name == written.group_name).unwrap();
            written.composition.rating = ratings[place];
        }
        ctx.record(&[end]).await;
    };
    let headlines = async || -> Vec<(String, f64)> {
        let row = recent(&ctx).await.remove(0);
        row.verdicts.into_iter().map(|it| (it.group_name, it.rating)).collect()
    };
    sweep([Some(9.0), Some(3.0), Some(1.0)]).await;
    let named = |name: &str, rating| (name.to_owned(), rating);
    assert_eq!(headlines().await, [named("none", 1.0), named("bad", 3.0), named("good", 9.0)]);
    ctx.ingest(vec![root("s", "more")]).await;
    // A latest verdict without a rating hides the one it superseded.
    sweep([Some(2.0), Some(4.5), None]).await;
    assert_eq!(headlines().await, [named("good", 2.0), named("bad", 4.5)]);
}

async fn the_latest_verdict_is_by_what_was_read_not_by_when_it_was_written(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    let early = ctx.gather().await;
    ctx.at_second(420);
    ctx.ingest(vec![root("s", "more")]).await;
    ctx.at_second(540);
    ctx.plan().await;
    let late = ctx.gather().await;
    ctx.record(&[judged(&late, &late.sessions[0], ctx.now(), 8.0)]).await;
    // A verdict of older content, written later, as a re-sweep of history may.
    let read = &early.groups[&(ctx.project.clone(), group.id.clone())];
    let mut old = rated(&early.sessions[0], read, 0, 1.0);
    old.verdict.as_mut().unwrap().members = Vec::new();
    ctx.ingest(vec![root("s", "yet more")]).await;
    ctx.at_second(700);
    ctx.plan().await;
    let claim = ctx.claim(1).await.remove(0);
    ctx.record(&[SessionEnd { claim, tries: vec![old] }]).await;

    let verdicts = ctx.store.verdicts_of_session(&ctx.project, &sid("s")).await.unwrap();
    let order: Vec<_> = verdicts.iter().map(|it| (it.read.revision, it.rating)).collect();
    assert_eq!(order, [(2, Some(8.0)), (1, Some(1.0))]);
    assert!(verdicts[0].created_at < verdicts[1].created_at);
    assert_eq!(Some(recent(&ctx).await[0].verdicts[0].rating), verdicts[0].rating);
    // Covering an older revision takes nothing back.
    let assessment = ctx.assessment("s", &group.id).await.unwrap();
    assert_eq!((assessment.covered, assessment.wanted.revision), (Goal { revision: 2, round: 0 }, 3));
}

async fn ratings_fall_under_the_last_turns_own_time(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    let other = ctx.group(&live("other")).await;
    ctx.at_second(10_000);
    for (session, start) in [("a", 1000), ("b", 2000)] {
        ctx.ingest(vec![
            root(session, &format!("{session}1")).ran(start - 500, start),
            root(session, &format!("{session}2")).ran(start, start + 1),
        ])
        .await;
    }
    ctx.at_second(10_120);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let ends: Vec<SessionEnd> = gathering
        .sessions
        .iter()
        .map(|it| {
            let mut end = judged(&gathering, it, ctx.now(), 6.0);
            if it.claim.session.as_str() == "b" {
                let group = &gathering.groups[&(ctx.project.clone(), group.id.clone())];
                end.tries.iter_mut().find(|attempt| attempt.group == group.id).unwrap().verdict =
                    Some(verdict(it, group, 0, None));
            }
            end
        })
        .collect();
    ctx.record(&ends).await;
    let second = |second: i64| START + Micros::seconds(second);
    let read = async |from, to| {
        let mut ratings = ctx.store.ratings(&ctx.project, &group.id, second(from), second(to)).await.unwrap();
        ratings.sort_by(|a, b| a.session.cmp(&b.session));
        ratings.into_iter().map(|it| (it.session.to_string(), it.last_turn_at, it.rating)).collect::<Vec<_>>()
    };
    let a = ("a".to_owned(), second(1000), Some(6.0));
    let b = ("b".to_owned(), second(2000), None);
    assert_eq!(read(1000, 2000).await, [a.clone(), b.clone()]);
    assert_eq!(read(1001, 2000).await, [b]);
    assert_eq!(read(0, 1999).await, [a]);
    assert_eq!(ctx.store.ratings(&ctx.project, &other.id, second(0), second(9000)).await.unwrap().len(), 2);
}

fn by(agent: &str, Draft(mut span): Draft) -> Draft {
    span.body.agent_name = Some(agent.to_owned());
    Draft(span)
}

/// The list must name the agent that the verdict names, though it does not read the whole conversation.
async fn the_agent_of_a_session_is_the_one_that_held_its_last_turn(ctx: Ctx) {
    ctx.at_second(1000);
    let cases: Vec<(&str, Vec<Draft>, &str)> = vec![
        ("plain", vec![by("old", root("plain", "p1").ran(1, 2)), by("new", root("plain", "p2").ran(3, 4))], "new"),
        (
            "noise",
            vec![by("real", root("noise", "n1").ran(1, 2)), by("probe", root("noise", "n2").silent().ran(3, 4))],
            "real",
        ),
        (
            "silent root",
            vec![
                by("old", root("silent root", "r1").ran(1, 2)),
                by("new", root("silent root", "r2").silent().ran(3, 6)),
                otlp("r2", "below").parent("root").ran(4, 5),
            ],
            "new",
        ),
        (
            "rootless",
            vec![
                by("lone", otlp("l1", "x").parent("gone").session("rootless").ran(1, 4)),
                by("tool", otlp("l1", "y").parent("x").ran(2, 3)),
            ],
            "lone",
        ),
    ];
    for (session, spans, agent) in cases {
        ctx.ingest(spans).await;
        let row = recent(&ctx).await.into_iter().find(|row| row.session.as_str() == session).unwrap();
        let spans = ctx.store.spans_of_session(&ctx.project, &sid(session)).await.unwrap();
        let spans = spans.into_iter().map(|row| row.stored).collect();
        assert_eq!(row.agent, Conversation::assemble(sid(session), spans).agent, "{session}");
        assert_eq!(row.agent, Some(Agent { id: agent.to_owned(), name: agent.to_owned() }), "{session}");
    }
}

contract!(
    sessions_are_listed_most_recent_first_whatever_arrived_last,
    the_headlines_of_a_session_are_the_latest_of_each_group_worst_first,
    the_latest_verdict_is_by_what_was_read_not_by_when_it_was_written,
    ratings_fall_under_the_last_turns_own_time,
    the_agent_of_a_session_is_the_one_that_held_its_last_turn,
);
