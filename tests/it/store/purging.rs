//! Purging: of a project that was deleted long enough ago nothing is left, in whichever table, and nothing of another is touched.

use std::collections::BTreeMap;

use afterword::domain::delivery::Next;
use afterword::domain::event::Event;
use afterword::domain::ids::ProjectId;
use afterword::domain::receiver::ReceiverSpec;
use afterword::domain::time::Micros;
use afterword::store::{Purged, Settled, Settlement};
use serde_json::json;

use super::contract;
use super::ctx::Ctx;
use super::raw::Raw;

const DAY: Micros = Micros::seconds(86_400);
/// How many rows each table gets of each project.
const ROWS: i64 = 5;

/// Every table that holds rows of projects, with its columns and their types, beside the projects' own.
async fn tables(raw: &mut Raw) -> BTreeMap<String, Vec<(String, String)>> {
    let rest = match raw {
        Raw::Lite(_) => {
            "FROM (SELECT m.name AS of_table, p.name AS of_column, p.type AS of_type FROM sqlite_master m, pragma_table_info(m.name) p
                WHERE m.type = 'table') AS columns"
        }
        Raw::Pg(_) => {
            "FROM (SELECT table_name AS of_table, column_name AS of_column, data_type AS of_type
                FROM information_schema.columns WHERE table_schema = 'public') AS columns"
        }
    };
    let mut tables: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in raw.texts(&["of_table", "of_column", "of_type"], rest).await {
        let [table, column, kind] = row.try_into().unwrap();
        tables.entry(table.unwrap()).or_default().push((column.unwrap(), kind.unwrap().to_lowercase()));
    }
    tables.retain(|table, columns| table != "projects" && columns.iter().any(|(column, _)| column == "project_id"));
    tables
}

/// Puts rows of a project into every table.
async fn fill(raw: &mut Raw, project: &ProjectId) {
    for (table, columns) in tables(raw).await {
        for n in 0..ROWS {
            let value = |(column, kind): &(String, String)| match kind.as_str() {
                _ if column == "project_id" => format!("'{project}'"),
                "text" => format!("'{project}-{n}'"),
                "boolean" => "true".to_owned(),
                "bytea" => "'\\x00'".to_owned(),
                "blob" => "x'00'".to_owned(),
                _ => n.to_string(),
            };
            let names: Vec<&str> = columns.iter().map(|(column, _)| column.as_str()).collect();
            let values: Vec<String> = columns.iter().map(value).collect();
            let (names, values) = (names.join(", "), values.join(", "));
            raw.run(&format!("INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT DO NOTHING")).await;
        }
    }
}

/// How many rows of a project each table holds, tables without one left out.
async fn held(raw: &mut Raw, project: &ProjectId) -> BTreeMap<String, i64> {
    let mut held = BTreeMap::new();
    for table in tables(raw).await.into_keys() {
        let rows = raw.number("COUNT(*)", &format!("FROM {table} WHERE project_id = '{project}'")).await;
        if rows > 0 {
            held.insert(table, rows);
        }
    }
    held
}

async fn everything_of_a_deleted_project_goes_and_nothing_of_another(ctx: Ctx) {
    let (doomed, _) = ctx.store.create_project(&ctx.project, "doomed", None, ctx.now()).await.unwrap().unwrap();
    let other = ctx.tenant("other").await;
    let mut raw = ctx.raw().await;
    let count = tables(&mut raw).await.len();
    for project in [&doomed.id, &other.project] {
        fill(&mut raw, project).await;
        assert_eq!(held(&mut raw, project).await.len(), count, "every table is filled");
    }
    let (before, before_other) = (held(&mut raw, &doomed.id).await, held(&mut raw, &other.project).await);
    assert!(ctx.store.delete_project(&ctx.project, doomed.id.as_str(), ctx.now()).await.unwrap());

    let now = ctx.now();
    assert_eq!(ctx.store.purge_projects(now, 2).await.unwrap(), Purged::default(), "it was not deleted before now");
    let mut purged = Purged::default();
    loop {
        // In batches of two, so that no table goes at once.
        let step = ctx.store.purge_projects(now + DAY, 2).await.unwrap();
        if step == Purged::default() {
            break;
        }
        assert!(step.rows <= 2 * u64::try_from(count).unwrap() + 1);
        (purged.projects, purged.rows) = (purged.projects + step.projects, purged.rows + step.rows);
    }
    let rows: i64 = before.values().sum();
    assert_eq!(purged, Purged { projects: 1, rows: u64::try_from(rows).unwrap() + 1 });
    assert_eq!(held(&mut raw, &doomed.id).await, BTreeMap::new());
    assert_eq!(raw.number("COUNT(*)", &format!("FROM projects WHERE project_id = '{}'", doomed.id)).await, 0);
    assert_eq!(held(&mut raw, &other.project).await, before_other);
}

async fn a_deleted_project_sends_nothing_any_more(ctx: Ctx) {
    let (doomed, _) = ctx.store.create_project(&ctx.project, "doomed", None, ctx.now()).await.unwrap().unwrap();
    let spec = ReceiverSpec::create(&json!({"name": "hook", "url": "https://example.com"})).unwrap();
    for project in [&doomed.id, &ctx.project] {
        ctx.store.create_receiver(project, &spec, ctx.now()).await.unwrap();
        ctx.store.announce(project, &Event::test("x"), ctx.now()).await.unwrap();
    }
    let lease = ctx.now() + Micros::seconds(20);
    let held = ctx.store.claim_receivers(10, ctx.now(), lease).await.unwrap();
    assert_eq!(held.len(), 2);
    let under_way = held.iter().find(|it| it.project == doomed.id).unwrap();
    let owed = ctx.store.owed(under_way, 10).await.unwrap();
    assert!(ctx.store.delete_project(&ctx.project, doomed.id.as_str(), ctx.now()).await.unwrap());
    let taken = Settlement { next: Next::Delivered, status: Some(200), error: None, lease_until: lease };
    let settled = ctx.store.settle(under_way, &owed[0], taken, ctx.now()).await.unwrap();
    assert_eq!(settled, Settled::LeaseLost, "what follows is not sent");
    ctx.store.announce(&doomed.id, &Event { dedupe_key: "k".to_owned(), ..Event::test("x") }, ctx.now()).await.unwrap();
    ctx.clock.advance(Micros::seconds(60));
    let held = ctx.store.claim_receivers(10, ctx.now(), ctx.now() + Micros::seconds(20)).await.unwrap();
    assert_eq!(held.iter().map(|it| &it.project).collect::<Vec<_>>(), [&ctx.project]);
    assert_eq!(ctx.raw().await.number("MIN(receivers)", "FROM rails").await, 0, "nor is it owed anything new");
}

contract! {
    everything_of_a_deleted_project_goes_and_nothing_of_another,
    a_deleted_project_sends_nothing_any_more,
}
