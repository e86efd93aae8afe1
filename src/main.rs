//! The `afterword` command.

use afterword::cli::{self, Command, ExitCode};
use afterword::clock::{Clock, SystemClock};
use afterword::config::Sources;

fn main() -> std::process::ExitCode {
    let args = cli::parse();
    let code = match &args.command {
        Command::Sample(asked) => cli::print(&cli::sample::answer(asked, cli::terminal::Style::of_stdout())),
        Command::CheckConfig => {
            let sources = Sources::of_process(args.config.as_deref());
            match cli::check_config::answer(&sources, SystemClock::default().now()) {
                Ok(answer) => cli::print(&answer),
                Err(error) => cli::fail(ExitCode::Config, &error),
            }
        }
        Command::Bench(asked) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            match runtime.block_on(cli::bench::run(asked, cli::terminal::Style::of_stdout())) {
                Ok(answer) => cli::print(&answer),
                Err(error) => cli::fail(ExitCode::Failed, &format!("{error:#}")),
            }
        }
        _ => cli::fail(ExitCode::Failed, &"this build holds the commands `sample` and `check-config` alone"),
    };
    code.into()
}
