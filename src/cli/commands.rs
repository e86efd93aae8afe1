//! The commands: each opens what it needs, does its work, and says how it ended.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::args::{Args, Command, EvalArgs, KeyCommand, ResweepArgs, SampleArgs, SampleCommand, SweepArgs};
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use super::{
    ExitCode, bench, check_config, compose, deliveries, demo, eval, explain, fail, import, keys, pause, preview, print,
    release, reports, resweep, sample, serve,
};
use crate::app::App;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{self, Config, DatabaseUrl, Sources};
use crate::store::StoreError;
use crate::worker::{OrderError, PassReport, RunError, Worker};
use crate::{lifecycle, telemetry};

/// Does what the command line asks for.
pub fn run(args: &Args) -> ExitCode {
    let sources = Sources::of_process(args.config.as_deref());
    let now = SystemClock::default().now();
    match &args.command {
        Command::Sample(asked) if asked.stored.is_none() => return print(&sample::answer(asked, Style::of_stdout())),
        Command::Compose(asked) => {
            return match compose::answer(asked, Style::of_stdout()) {
                Ok(answer) => print(&answer),
                Err(problem) => fail(ExitCode::Failed, &problem),
            };
        }
        Command::Openapi => {
            return match openapi() {
                Ok(answer) => print(&answer),
                Err(problem) => fail(ExitCode::Failed, &problem),
            };
        }
        Command::CheckConfig => {
            return match check_config::answer(&sources, now) {
                Ok(answer) => print(&answer),
                Err(error) => fail(ExitCode::Config, &error),
            };
        }
        _ => {}
    }
    let config = match config::load(&sources, now) {
        Ok(loaded) => loaded.config,
        Err(error) => return fail(ExitCode::Config, &error),
    };
    if let Err(error) = telemetry::init(&config.log.level, config.log.format, Style::of_stderr().colour) {
        return fail(ExitCode::Config, &error);
    }
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(run_with(&args.command, config));
            // What a thread still reads, from a pipe that nobody closes, is of no use any more.
            runtime.shutdown_background();
            code
        }
        Err(error) => fail(ExitCode::Failed, &format!("the runtime can't start: {error}")),
    }
}

async fn run_with(command: &Command, config: Config) -> ExitCode {
    let style = Style::of_stdout();
    match command {
        Command::Demo(args) => until_signals(Box::pin(demo::run(&config, args, style))).await,
        Command::Bench(asked) => until_signals(Box::pin(bench::run(asked, style))).await,
        Command::Compose(_) | Command::CheckConfig | Command::Openapi => ExitCode::Usage,
        Command::Serve
        | Command::Work
        | Command::Import(_)
        | Command::Sweep(_)
        | Command::Resweep(_)
        | Command::Eval(_)
        | Command::Recompose(_)
        | Command::Summary(_)
        | Command::Explain(_)
        | Command::Deliveries(_)
        | Command::Receivers(_)
        | Command::Sample(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Release(_)
        | Command::Migrate
        | Command::Key(_) => {
            if let Err(problem) = is_there(command, &config.database.url) {
                return fail(ExitCode::Database, &problem);
            }
            let database = config.database.url.to_string();
            match App::open(config).await {
                Ok(app) => {
                    let store = app.store.clone();
                    let code = Box::pin(run_on(command, app, style)).await;
                    store.close().await;
                    code
                }
                // Where the setting itself is at fault, the error has named it.
                Err(error @ StoreError::BadUrl(_)) => fail(ExitCode::Database, &error),
                Err(error) => fail(ExitCode::Database, &format!("{error} (database.url is {database})")),
            }
        }
    }
}

async fn run_on(command: &Command, app: App, style: Style) -> ExitCode {
    match command {
        Command::Serve => Box::pin(with_signals(app, serve::serve)).await,
        Command::Work => Box::pin(with_signals(app, serve::work)).await,
        Command::Import(args) => match cancelled_by_signals() {
            Ok(cancel) => imported(&import::run(&app, args, style, &cancel).await),
            Err(code) => code,
        },
        Command::Sweep(args) => sweep(&app, args, style).await,
        Command::Resweep(args) => Box::pin(judge_again(&app, args, style)).await,
        Command::Eval(args) => Box::pin(evaluate(&app, args, style)).await,
        Command::Recompose(args) => ended(reports::recompose(&app, args, style).await),
        Command::Summary(args) => ended(reports::summary(&app, args, style).await),
        Command::Explain(args) => match app.worker() {
            Ok(worker) => ended(explain::run(&app, &worker, args, style).await),
            Err(error) => fail(ExitCode::Config, &error),
        },
        Command::Deliveries(command) => ended(deliveries::deliveries(&app, command, style).await),
        Command::Receivers(command) => ended(deliveries::receivers(&app, command, style).await),
        Command::Sample(SampleArgs { stored: Some(SampleCommand::Preview(args)), .. }) => match app.worker() {
            Ok(worker) => ended(preview::run(&app, &worker, args, style).await),
            Err(error) => fail(ExitCode::Config, &error),
        },
        Command::Pause(args) => match app.worker() {
            Ok(worker) => ended(pause::pause(&app, &worker, args).await),
            Err(error) => fail(ExitCode::Config, &error),
        },
        Command::Resume(args) => match app.worker() {
            Ok(worker) => ended(pause::resume(&app, &worker, args).await),
            Err(error) => fail(ExitCode::Config, &error),
        },
        Command::Release(args) => ended(release::run(&app, args).await),
        Command::Migrate => migrate(&app).await,
        Command::Key(command) => ended(keys::run(&app, command, style).await),
        Command::Sample(_)
        | Command::Compose(_)
        | Command::CheckConfig
        | Command::Openapi
        | Command::Demo(_)
        | Command::Bench(_) => ExitCode::Usage,
    }
}

fn openapi() -> Result<String, String> {
    let document = crate::http::document()?;
    Ok(format!("{document:#}\n"))
}

fn ended(result: anyhow::Result<String>) -> ExitCode {
    match result {
        Ok(answer) => print(&answer),
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    fail(code_of(error), &format!("{error:#}"))
}

/// Whether it is the database that is at fault, by itself or within what else can go wrong.
fn code_of(error: &anyhow::Error) -> ExitCode {
    let is_of_database = error.chain().any(|cause| {
        cause.is::<StoreError>()
            || matches!(cause.downcast_ref(), Some(OrderError::Store(_)))
            || matches!(cause.downcast_ref(), Some(RunError::Store(_)))
    });
    if is_of_database { ExitCode::Database } else { ExitCode::Failed }
}

/// Does what leaves nothing behind, unless a signal says stop before it is through.
async fn until_signals(work: impl Future<Output = anyhow::Result<String>>) -> ExitCode {
    let cancel = match cancelled_by_signals() {
        Ok(cancel) => cancel,
        Err(code) => return code,
    };
    match cancel.run_until_cancelled(work).await {
        Some(answer) => ended(answer),
        None => fail(ExitCode::Failed, &"stopped by a signal before it was through"),
    }
}

/// Whether a command that only makes sense of what is stored finds a database. SQLite would make an empty file, and answer about that:
/// no session, no group, no key, to somebody who stands in the wrong folder.
fn is_there(command: &Command, url: &DatabaseUrl) -> Result<(), String> {
    let may_make_one = match command {
        Command::Serve
        | Command::Work
        | Command::Import(_)
        | Command::Sweep(_)
        | Command::Eval(_)
        | Command::Migrate => true,
        Command::Key(key) => matches!(key, KeyCommand::Create(_)),
        _ => false,
    };
    let Some(path) = url.expose().strip_prefix("sqlite://").filter(|_| !may_make_one) else { return Ok(()) };
    let file = std::path::absolute(path).unwrap_or_else(|_| path.into());
    if file.try_exists().unwrap_or(true) {
        return Ok(());
    }
    Err(format!(
        "there is no database at {} (database.url is {url}). Check database.url, --config and the working folder; `afterword serve` \
         and `afterword import` make one",
        file.display()
    ))
}

fn stored(result: Result<String, StoreError>) -> ExitCode {
    match result {
        Ok(answer) => print(&answer),
        Err(error) => fail(ExitCode::Database, &error),
    }
}

fn imported(ended: &import::Ended) -> ExitCode {
    let printed = print(&ended.summary);
    match &ended.stopped {
        Some(error @ import::ImportError::Store(_)) => fail(ExitCode::Database, error),
        Some(error @ (import::ImportError::File(..) | import::ImportError::Stopped)) => fail(ExitCode::Failed, error),
        None if ended.is_refused => ExitCode::Partly,
        None => printed,
    }
}

async fn with_signals<F: Future<Output = ExitCode>>(
    app: App,
    work: impl FnOnce(App, CancellationToken) -> F,
) -> ExitCode {
    match cancelled_by_signals() {
        Ok(cancel) => work(app, cancel).await,
        Err(code) => code,
    }
}

/// A worker, and what a signal to stop cancels; where there is none, the code to end with, the reason told.
fn worker_until_signals(app: &App) -> Result<(Arc<Worker>, CancellationToken), ExitCode> {
    let worker = app.worker().map_err(|error| fail(ExitCode::Config, &error))?;
    Ok((worker, cancelled_by_signals()?))
}

fn cancelled_by_signals() -> Result<CancellationToken, ExitCode> {
    lifecycle::stop_on_signals()
        .map_err(|error| fail(ExitCode::Failed, &format!("signals can't be listened to: {error}")))
}

async fn sweep(app: &App, args: &SweepArgs, style: Style) -> ExitCode {
    let (worker, cancel) = match worker_until_signals(app) {
        Ok(both) => both,
        Err(code) => return code,
    };
    let printed = match worker.pass(None, Duration::MAX, &cancel).await {
        Ok(report) if args.json => print(&format!("{}\n", serde_json::json!(report))),
        Ok(report) => print(&pass_table(&report, style)),
        Err(error) => return fail(ExitCode::Database, &error),
    };
    if cancel.is_cancelled() {
        return fail(ExitCode::Failed, &"stopped by a signal; what was not judged stays due");
    }
    printed
}

async fn judge_again(app: &App, args: &ResweepArgs, style: Style) -> ExitCode {
    match worker_until_signals(app) {
        Ok((worker, cancel)) => match resweep::run(app, &worker, args, style, &cancel).await {
            Ok(answer) if cancel.is_cancelled() => {
                print(&answer);
                fail(ExitCode::Failed, &"stopped by a signal before the re-sweep was through")
            }
            other => ended(other),
        },
        Err(code) => code,
    }
}

async fn evaluate(app: &App, args: &EvalArgs, style: Style) -> ExitCode {
    let (worker, cancel) = match worker_until_signals(app) {
        Ok(both) => both,
        Err(code) => return code,
    };
    match eval::run(app, &worker, args, style, &cancel).await {
        Ok(eval::Ended::Passed(answer)) => print(&answer),
        Ok(eval::Ended::Failed(answer)) => {
            print(&answer);
            ExitCode::Gate
        }
        Err(error) => failed(&error),
    }
}

/// What a pass did, for people.
fn pass_table(report: &PassReport, style: Style) -> String {
    let mut table = Table::new([Column::text("this pass"), Column::number("count")]);
    for (what, count) in [
        ("sessions looked at", report.looked_at),
        ("wanted by a group", report.wanted),
        ("verdicts recorded", report.judged),
        ("without a score", report.unrated),
        ("looked at by scorers on their own", report.watched),
        ("unchanged since their verdict", report.unchanged),
        ("put off", report.deferred),
        ("no longer wanted", report.withdrawn),
        ("failed, to be tried again", report.failed),
    ] {
        table.row([Cell::from(what), Cell::from(count.to_string())]);
    }
    table.render(style)
}

async fn migrate(app: &App) -> ExitCode {
    stored(
        app.store.check_statements().await.map(|statements| {
            format!("The database is up to date: all {statements} statements of this version fit it.\n")
        }),
    )
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_database_that_fails_midway_has_its_own_exit_code_wherever_it_is_found_out() {
        let away = || StoreError::NoConnection;
        for error in [
            anyhow::Error::from(away()),
            anyhow::Error::from(away()).context("the first sweep"),
            OrderError::Store(away()).into(),
            Err::<(), _>(OrderError::Store(away())).context("scorer group g").unwrap_err(),
            RunError::Store(away()).into(),
        ] {
            assert_eq!(code_of(&error), ExitCode::Database, "{error:#}");
        }
        for error in [anyhow::anyhow!("there is no project"), OrderError::NoGroup.into(), RunError::NoRun.into()] {
            assert_eq!(code_of(&error), ExitCode::Failed, "{error:#}");
        }
    }
}
