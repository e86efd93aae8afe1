//! What people decided about actions: followed as spans arrive, change and move, counted once, and listed while it is open.

use std::collections::BTreeMap;

use afterword::domain::custom::Counts;
use afterword::domain::span::{SpanKind, ToolCall};
use afterword::domain::time::Micros;
use serde_json::json;

use super::contract;
use super::ctx::{Ctx, Draft, START, client, otlp, root};

contract!(
    decisions_are_counted_per_tool_since_a_moment_and_outside_of_traces,
    a_call_that_is_a_span_and_stands_in_the_roots_list_counts_once,
    a_decision_that_arrives_later_takes_the_place_of_the_open_question,
    a_childs_actions_follow_it_into_the_trace_of_its_root,
    a_dataset_runs_actions_are_nobodys_decisions,
    another_tenants_decisions_are_not_counted,
    a_signing_secret_is_made_once_and_replaced_on_request,
);

fn call(name: &str, status: &str) -> ToolCall {
    let text = |text: &str| Some(text.to_owned());
    let input = Some(json!({"of": name}));
    ToolCall { name: name.to_owned(), tool_type: text("action"), status: text(status), input, ..ToolCall::default() }
}

fn listing(mut draft: Draft, calls: &[ToolCall]) -> Draft {
    draft.0.body.tool_calls = calls.to_vec();
    draft
}

fn tool(mut draft: Draft, name: &str, status: &str) -> Draft {
    draft.0.kind = SpanKind::Tool;
    name.clone_into(&mut draft.0.name);
    draft.0.body.input = Some(json!({"of": name}));
    draft.0.body.attributes = [("afterword.tool.type", "action"), ("afterword.tool.status", status)]
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .into();
    draft
}

async fn decided(ctx: &Ctx, tools: &[&str]) -> BTreeMap<String, (u64, u64)> {
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    pairs(ctx.store.decisions(&ctx.project, tools, None, Vec::new()).await.unwrap())
}

fn pairs(counts: BTreeMap<String, Counts>) -> BTreeMap<String, (u64, u64)> {
    counts.into_iter().map(|(tool, counts)| (tool, (counts.approved, counts.rejected))).collect()
}

fn expected(rows: &[(&str, u64, u64)]) -> BTreeMap<String, (u64, u64)> {
    rows.iter().map(|(tool, approved, rejected)| ((*tool).to_owned(), (*approved, *rejected))).collect()
}

async fn pending(ctx: &Ctx) -> Vec<String> {
    ctx.store.pending_actions(&ctx.project).await.unwrap().into_iter().map(|action| action.tool).collect()
}

async fn decisions_are_counted_per_tool_since_a_moment_and_outside_of_traces(ctx: Ctx) {
    let statuses = ["executed", "failed", "rejected", "pending_approval", "auto_executed", "made_up"];
    let calls: Vec<ToolCall> = statuses.iter().map(|status| call("purge", status)).collect();
    ctx.ingest(vec![listing(root("s", "t1"), &calls).ran(0, 1)]).await;
    ctx.at_second(100);
    ctx.ingest(vec![listing(root("s", "t2"), &[call("purge", "rejected"), call("mail", "executed")]).ran(90, 95)])
        .await;
    assert_eq!(decided(&ctx, &["purge", "mail", "none"]).await, expected(&[("purge", 2, 2), ("mail", 1, 0)]));
    assert_eq!(decided(&ctx, &["mail"]).await, expected(&[("mail", 1, 0)]));
    let since = |from, outside: &[&str]| {
        let outside = outside.iter().map(|trace| (*trace).to_owned()).collect();
        ctx.store.decisions(&ctx.project, vec!["purge".to_owned()], Some(from), outside)
    };
    let from = START + afterword::domain::time::Micros::seconds(50);
    assert_eq!(pairs(since(from, &[]).await.unwrap()), expected(&[("purge", 0, 1)]));
    assert_eq!(pairs(since(START, &["t2"]).await.unwrap()), expected(&[("purge", 2, 1)]));
    assert_eq!(pairs(since(from, &["t2"]).await.unwrap()), expected(&[]));
    assert_eq!(pending(&ctx).await, ["purge"]);
}

async fn a_call_that_is_a_span_and_stands_in_the_roots_list_counts_once(ctx: Ctx) {
    let listed = [call("purge", "rejected"), call("purge", "rejected"), call("mail", "pending_approval")];
    ctx.ingest(vec![
        listing(root("s", "t"), &listed),
        tool(otlp("t", "a").parent("root"), "purge", "rejected"),
        tool(otlp("t", "b").parent("root"), "mail", "pending_approval"),
    ])
    .await;
    assert_eq!(decided(&ctx, &["purge"]).await, expected(&[("purge", 0, 2)]));
    let open = ctx.store.pending_actions(&ctx.project).await.unwrap();
    let details = ctx.store.pending_details(&ctx.project, &open).await.unwrap();
    let shown: Vec<_> =
        details.into_iter().flatten().map(|it| (it.span, it.session.map(String::from), it.input)).collect();
    assert_eq!(shown, [("t-b".to_owned(), Some("s".to_owned()), Some(json!({"of": "mail"})))]);
}

async fn a_decision_that_arrives_later_takes_the_place_of_the_open_question(ctx: Ctx) {
    let proposed = || listing(root("s", "t"), &[call("mail", "executed"), call("purge", "pending_approval")]);
    ctx.ingest(vec![proposed().ran(0, 1)]).await;
    assert_eq!((pending(&ctx).await, decided(&ctx, &["purge"]).await), (vec!["purge".to_owned()], expected(&[])));
    let answered = listing(root("s", "t"), &[call("purge", "rejected")]).ran(0, 9);
    ctx.ingest(vec![answered]).await;
    assert_eq!(pending(&ctx).await, Vec::<String>::new());
    assert_eq!(decided(&ctx, &["purge", "mail"]).await, expected(&[("purge", 0, 1)]));
    ctx.ingest(vec![proposed().ran(0, 1)]).await;
    assert_eq!(pending(&ctx).await, Vec::<String>::new(), "older content changes nothing");
}

async fn a_childs_actions_follow_it_into_the_trace_of_its_root(ctx: Ctx) {
    ctx.ingest(vec![tool(client("child").parent("top"), "purge", "rejected")]).await;
    ctx.ingest(vec![listing(client("top").session("s"), &[call("purge", "rejected")])]).await;
    assert_eq!(decided(&ctx, &["purge"]).await, expected(&[("purge", 0, 1)]), "one trace now, and one call");
    let outside = vec!["top".to_owned()];
    let counts = ctx.store.decisions(&ctx.project, vec!["purge".to_owned()], None, outside).await.unwrap();
    assert_eq!(pairs(counts), expected(&[]));
}

async fn a_dataset_runs_actions_are_nobodys_decisions(ctx: Ctx) {
    ctx.ingest(vec![
        listing(root("s", "t"), &[call("purge", "rejected"), call("purge", "pending_approval")]).eval_run(),
    ])
    .await;
    assert_eq!((pending(&ctx).await, decided(&ctx, &["purge"]).await), (Vec::new(), expected(&[])));
}

async fn another_tenants_decisions_are_not_counted(ctx: Ctx) {
    let other = ctx.tenant("other").await;
    other.ingest(vec![listing(root("s", "t"), &[call("purge", "rejected"), call("purge", "pending_approval")])]).await;
    assert_eq!((pending(&ctx).await, decided(&ctx, &["purge"]).await), (Vec::new(), expected(&[])));
    assert_eq!(decided(&other, &["purge"]).await, expected(&[("purge", 0, 1)]));
}

async fn a_signing_secret_is_made_once_and_replaced_on_request(ctx: Ctx) {
    use secrecy::ExposeSecret as _;
    let all = async |ctx: &Ctx| {
        let secrets = ctx.store.signing_secrets(&ctx.project, ctx.now()).await.unwrap();
        secrets.all().iter().map(|secret| secret.expose_secret().to_owned()).collect::<Vec<_>>()
    };
    let read = async |ctx: &Ctx| all(ctx).await.remove(0);
    let first = read(&ctx).await;
    assert!(first.starts_with("whsec_") && first.len() == 6 + 44, "{first}");
    assert_eq!(read(&ctx).await, first);
    let other = ctx.tenant("other").await;
    assert_ne!(read(&other).await, first);
    let until = ctx.now() + Micros::seconds(60);
    let next = ctx.store.rotate_signing_secret(&ctx.project, ctx.now(), until).await.unwrap();
    let next = next.present.expose_secret().to_owned();
    assert_ne!(next, first);
    assert_eq!(all(&ctx).await, [next.clone(), first]);
    ctx.at_second(60);
    assert_eq!(all(&ctx).await, [next]);
}
