//! The command line: its commands and their options. `--help` is written here.
//!
//! Over 450 lines, a third of them tests: the options of one command are found beside those of the others.

#![allow(clippy::doc_markdown, reason = "the texts here are printed as they stand, where backticks would be noise")]

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use super::bench::{
    BenchApiArgs, BenchEmptySweepArgs, BenchEvalArgs, BenchIngestArgs, BenchStartArgs, BenchSweepArgs,
};
pub use super::delivery_args::{
    DeliveriesCommand, DeliveriesListArgs, ReceiverTestArgs, ReceiversCommand, ReceiversListArgs, RedeliverArgs,
};
pub use super::eval::EvalArgs;
use super::exit;
pub use super::keys::KeyCommand;
pub use super::pause::{PauseArgs, ResumeArgs};
pub use super::preview::PreviewArgs;
pub use super::release::ReleaseArgs;
pub use super::resweep::ResweepArgs;
use super::window::WindowArgs;
use crate::domain::ids::{GroupId, SessionId};
pub use crate::store::DEFAULT_PROJECT;

/// What was asked for on the command line.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(
    name = "afterword",
    version,
    about = "Judges conversations with AI agents once they have gone quiet",
    long_about = "Judges conversations with AI agents once they have gone quiet: reads their traces, scores each conversation \
                  with scorer groups, and tells people what went wrong.\n\nNew here? `afterword demo` shows it all in a few \
                  seconds, without a network. Then `afterword serve`.",
    after_help = exit::help(),
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub struct Args {
    /// The configuration file [default: the one that AFTERWORD_CONFIG names, else ./config.toml where there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Serve the API and judge quiet conversations, until stopped
    ///
    /// The first start makes the database, a project named Default and its API key, which is printed once (or taken from
    /// AFTERWORD_API_KEY). Where server.listen lets other machines in, a key must exist before: `afterword key create`. Stop it with Ctrl-C or SIGTERM: what is under way is finished; a second signal ends it at once.
    Serve,
    /// Judge quiet conversations without serving the API, as one of several workers
    Work,
    /// Read conversations from files
    ///
    /// Understands OTLP JSON, JSON lines of OTLP batches, and JSON lines of chats ({"session_id", "messages": [...]}), each
    /// also as .gz. Importing a file twice changes nothing.
    Import(ImportArgs),
    /// Make one pass over all projects: plan what is due and judge it
    Sweep(SweepArgs),
    /// Judge sessions again, in spite of verdicts that are there
    ///
    /// Orders it and carries it out, behind live work; when interrupted, any worker goes on with it. Earlier verdicts stay.
    Resweep(ResweepArgs),
    /// Grade an agent's answers to a dataset, and gate a release by them
    ///
    /// By the recipe that grades live conversations. An interrupted run goes on with --resume, and nothing is judged twice.
    Eval(Box<EvalArgs>),
    /// Let a scorer group rest: what is due for it stays due
    Pause(PauseArgs),
    /// Let a paused scorer group go on
    Resume(ResumeArgs),
    /// Let a quarantined session go on: it is judged again, and may grow by the limits once more
    Release(ReleaseArgs),
    /// Tell why a session has the verdicts it has, or none
    Explain(ExplainArgs),
    /// Tell whether a group's sampling keeps a session, and why
    ///
    /// Needs no database: the answer is the same on every machine and in every release.
    Sample(SampleArgs),
    /// Compose a verdict from opinions in a file, by the code that composes live ones
    ///
    /// Needs no database. The file holds {"members": [{"name", "kind", "weight", "gate", "passThreshold"?, "category"?,
    /// "outcome": {"goodness": 0-1} | {"failed": reason} | {"declined": reason}}], "aggregation"?, "passThreshold"?,
    /// "scorecard"?}.
    Compose(ComposeArgs),
    /// Apply a group's present recipe to past verdicts, without asking a judge
    ///
    /// Where the recipe changes anything, a further verdict marked as recomposed is appended; nothing is taken away.
    Recompose(RecomposeArgs),
    /// Print a group's figures over a period, with bars
    ///
    /// Without --from the period is the 30 days before its end.
    Summary(SummaryArgs),
    /// List what receivers were sent and are owed, or send it once more
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// List the receivers of a project, or try one out
    #[command(subcommand)]
    Receivers(ReceiversCommand),
    /// Bring the database to this version and exit
    Migrate,
    /// Check the configuration and print what is in effect, without secrets
    CheckConfig,
    /// Print the OpenAPI document of the API
    ///
    /// Needs no database. A running server shows it at /openapi.json, and as a page at /docs.
    Openapi,
    /// Manage API keys
    #[command(subcommand, visible_alias = "keys")]
    Key(KeyCommand),
    /// Show it all on bundled conversations: no network, no key, no server
    ///
    /// A judge that the configuration names is asked too, once for each conversation.
    Demo(DemoArgs),
    /// Measure this machine with made-up data
    #[command(subcommand)]
    Bench(BenchCommand),
}

/// Options of `import`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ImportArgs {
    /// The files; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The project to import into; it is made where it does not exist
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Print what became of each file as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `sweep`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct SweepArgs {
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `explain`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ExplainArgs {
    /// The session's id
    #[arg(value_parser = SessionId::parse)]
    pub session: SessionId,
    /// Only this scorer group, by id or by name
    #[arg(long, value_name = "G")]
    pub group: Option<String>,
    /// The project the session belongs to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `sample`.
#[derive(Debug, Clone, PartialEq, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SampleArgs {
    /// Count and list the stored sessions that a rate would pick
    #[command(subcommand)]
    pub stored: Option<SampleCommand>,
    /// The session's id (at trace scope the trace's id)
    #[arg(required = true, value_parser = SessionId::parse)]
    pub session: Option<SessionId>,
    /// The scorer group's id
    #[arg(required = true, value_parser = GroupId::parse)]
    pub group: Option<GroupId>,
    /// The group's sample rate, 0 to 1: says whether it keeps the session
    #[arg(long, value_name = "R", value_parser = rate, allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `sample` can do beside a single draw.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum SampleCommand {
    /// Count and list the stored sessions of a period that a rate would pick; writes nothing
    ///
    /// Without --from the period is the 30 days before its end.
    Preview(PreviewArgs),
}

/// Options of `compose`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ComposeArgs {
    /// The file; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print the verdict as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `recompose`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct RecomposeArgs {
    /// The scorer group, by id or by name
    #[arg(long, value_name = "G")]
    pub group: String,
    /// Which sessions.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Only report what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Use this scorecard in place of the group's own
    #[arg(long, value_name = "ID")]
    pub scorecard: Option<String>,
    /// Raise a signal for each session that falls below the alert threshold by it
    #[arg(long)]
    pub signals: bool,
    /// The project
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `summary`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct SummaryArgs {
    /// The scorer group, by id or by name
    #[arg(long, value_name = "G")]
    pub group: String,
    /// Which sessions.
    #[command(flatten)]
    pub window: WindowArgs,
    /// The project
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `demo`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct DemoArgs {
    /// Keep the demo's database in this file, to look at it through the API; it must not exist yet
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
}

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum BenchCommand {
    /// A sweep over many quiet sessions, from plan to recorded verdict
    Sweep(BenchSweepArgs),
    /// A sweep that finds nothing to do among many stored sessions
    EmptySweep(BenchEmptySweepArgs),
    /// Scorers by themselves: patterns, and scripts through worker processes
    Scorers(BenchScorersArgs),
    /// A sweep whose sessions a judge is asked about, at an endpoint that answers after a while
    Judge(BenchJudgeArgs),
    /// A dataset run whose rows a judge is asked about, at an endpoint that answers after a while
    Eval(BenchEvalArgs),
    /// Spans over HTTP: batches beside raw inserts of the same rows, and one a request
    Ingest(BenchIngestArgs),
    /// Reads of the API while a sweep runs flat out
    Api(BenchApiArgs),
    /// From the start of the process until it is ready
    Start(BenchStartArgs),
}

/// Options of `bench scorers`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchScorersArgs {
    /// How often the pattern reads the conversation
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub evaluations: u64,
    /// How often each script is called
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub calls: u64,
    /// How many worker processes run scripts
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = workers)]
    pub workers: usize,
    /// What is common to all measurements.
    #[command(flatten)]
    pub common: BenchArgs,
}

/// Options of `bench judge`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchJudgeArgs {
    /// How many sessions to make up
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sessions: u64,
    /// How many turns each session has
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=1_000))]
    pub turns: u64,
    /// How many judges of different criteria the group has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub judges: u64,
    /// How many sessions hold each conversation: what a judge was asked about it for one serves the others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub alike: u64,
    /// How long the endpoint takes to answer, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub latency_ms: u64,
    /// How many calls are under way at most
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub in_flight: usize,
    /// What is common to all measurements.
    #[command(flatten)]
    pub common: BenchArgs,
}

/// Options of every measurement.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchArgs {
    /// The seed of the made-up data: the same seed gives the same data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err("a rate is a number from 0 (keeps nothing) to 1 (keeps everything)".to_owned()),
    }
}

pub(super) fn workers(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(workers) if (1..=256).contains(&workers) => Ok(workers),
        _ => Err("there are 1 to 256 workers".to_owned()),
    }
}

/// A name as the command line takes it.
pub(super) fn name(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if text.trim() != text || !(1..=200).contains(&length) || text.chars().any(char::is_control) {
        return Err("a name has 1 to 200 characters, no space around it and no control characters".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::super::bench::{BenchPlace, Engine};
    use super::super::keys::{KeyCreateArgs, KeyRotateArgs};
    use super::super::window::When;
    use super::*;
    use crate::domain::access::Scopes;
    use crate::domain::period::Day;
    use crate::domain::time::Micros;

    fn read(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("afterword").chain(line.split(' ')))
    }

    fn command(line: &str) -> Command {
        read(line).unwrap_or_else(|error| panic!("{line}: {error}")).command
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_is_understood() {
        assert_eq!(command("serve"), Command::Serve);
        assert_eq!(command("work"), Command::Work);
        assert_eq!(command("sweep --json"), Command::Sweep(SweepArgs { json: true }));
        assert_eq!(command("migrate"), Command::Migrate);
        assert_eq!(command("check-config"), Command::CheckConfig);
        assert_eq!(command("demo"), Command::Demo(DemoArgs { keep: None }));
        let import = ImportArgs { files: vec!["a.jsonl".into(), "b.gz".into()], project: "Shop".into(), json: false };
        assert_eq!(command("import a.jsonl b.gz --project Shop"), Command::Import(import));
        let list = DeliveriesListArgs {
            receiver: Some("r".into()),
            state: Some("dead".into()),
            limit: 50,
            project: "Default".into(),
            json: false,
        };
        let list = Command::Deliveries(DeliveriesCommand::List(list));
        assert_eq!(command("deliveries list --receiver r --state dead"), list);
        let again = RedeliverArgs { id: None, dead: Some("r".into()), project: "Shop".into() };
        let again = Command::Deliveries(DeliveriesCommand::Redeliver(again));
        assert_eq!(command("deliveries redeliver --dead r --project Shop"), again);
        let test = ReceiverTestArgs { id: "r".into(), project: "Default".into() };
        assert_eq!(command("receivers test r"), Command::Receivers(ReceiversCommand::Test(test)));
        let key = KeyCreateArgs {
            project: "Default".into(),
            name: "ci".into(),
            scopes: Scopes::ALL,
            expires_in: None,
            requests_per_minute: None,
        };
        assert_eq!(command("key create --name ci"), Command::Key(KeyCommand::Create(key)));
        let line = "keys create --scopes read,ingest --expires-in 90d --requests-per-minute 60";
        let Command::Key(KeyCommand::Create(key)) = command(line) else { panic!() };
        assert_eq!((key.scopes.to_string().as_str(), key.requests_per_minute), ("ingest read", Some(60)));
        assert_eq!(key.expires_in, Some(Micros::seconds(90 * 86_400)));
        let rotate = KeyRotateArgs { key: "k".into(), project: "P".into(), overlap: Some(Micros::seconds(60)) };
        assert_eq!(command("key rotate k --project P --overlap 1m"), Command::Key(KeyCommand::Rotate(rotate)));
        let compose = ComposeArgs { file: "p.json".into(), json: true };
        assert_eq!(command("compose p.json --json"), Command::Compose(compose));
        let Command::Recompose(recompose) = command("recompose --group G --from 2026-01-01 --dry-run") else {
            panic!()
        };
        assert_eq!((recompose.group.as_str(), recompose.dry_run, recompose.signals), ("G", true, false));
        let day = |text| Day::parse(text).map(When::Day);
        assert_eq!((recompose.window.from, recompose.window.to), (day("2026-01-01"), None));
        let Command::Summary(summary) = command("summary --group G --to 2026-01-31") else { panic!() };
        assert_eq!((summary.project.as_str(), summary.window.to), ("Default", day("2026-01-31")));
        let release = ReleaseArgs { session: SessionId::trusted("s".to_owned()), project: "Default".into() };
        assert_eq!(command("release s"), Command::Release(release));
        let common = BenchArgs { seed: 1, json: true };
        let place = BenchPlace { engine: Engine::Sqlite, database: None };
        let sweep =
            BenchSweepArgs { sessions: 500, turns: 4, workers: 1, place: place.clone(), common: common.clone() };
        assert_eq!(command("bench sweep --sessions 500 --json"), Command::Bench(BenchCommand::Sweep(sweep)));
        let scorers = BenchScorersArgs { evaluations: 5_000, calls: 10, workers: 2, common: common.clone() };
        assert_eq!(command("bench scorers --calls 10 --json"), Command::Bench(BenchCommand::Scorers(scorers)));
        let empty = BenchEmptySweepArgs { sessions: 1_000_000, passes: 1_000, place, common };
        assert_eq!(command("bench empty-sweep --json"), Command::Bench(BenchCommand::EmptySweep(empty)));
    }

    #[test]
    fn every_command_that_is_about_a_stretch_of_time_takes_it_in_every_form() {
        for command in
            ["summary --group g", "recompose --group g", "sample preview --group g", "resweep --group g --dry-run"]
        {
            for form in ["7d", "2026-01-31", "2026-01-31T09:00:00Z"] {
                let line = format!("{command} --from {form} --to {form}");
                assert!(read(&line).is_ok(), "{line}");
            }
            assert_eq!(read(&format!("{command} --from yesterday")).unwrap_err().exit_code(), 2, "{command}");
        }
    }

    #[test]
    fn the_configuration_file_may_be_named_before_or_after_the_command() {
        for line in ["--config a.toml serve", "serve --config a.toml"] {
            assert_eq!(read(line).unwrap().config, Some(PathBuf::from("a.toml")), "{line}");
        }
    }

    #[test]
    fn a_rate_outside_0_to_1_is_a_usage_error() {
        for rate in ["1.01", "-0.1", "NaN", "inf", "10%", "half"] {
            let error = read(&format!("sample s g --rate {rate}")).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{rate}");
            assert!(error.to_string().contains("from 0"), "{error}");
        }
        for rate in ["0", "1", "0.25", "1e-3"] {
            assert!(read(&format!("sample s g --rate {rate}")).is_ok(), "{rate}");
        }
    }

    #[test]
    fn ids_that_no_session_can_have_and_missing_arguments_are_usage_errors() {
        let long = "x".repeat(513);
        for line in [
            format!("sample {long} g"),
            "sample s".into(),
            "import".into(),
            "bench sweep --turns 1".into(),
            "deliveries redeliver".into(),
            "deliveries redeliver a --dead r".into(),
        ] {
            assert_eq!(read(&line).unwrap_err().exit_code(), 2, "{line}");
        }
        assert_eq!(read("swep").unwrap_err().kind(), ErrorKind::InvalidSubcommand);
    }

    #[test]
    fn the_help_names_every_command_and_exit_code() {
        let help = Args::command().render_long_help().to_string();
        for word in ["serve", "import", "check-config", "bench", "--config <FILE>", "Exit codes:", "130"] {
            assert!(help.contains(word), "{word} is missing in:\n{help}");
        }
    }
}
