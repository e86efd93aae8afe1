//! The `afterword` command.

fn main() -> std::process::ExitCode {
    // Before anything is set up: a worker process for scripts starts with as little as possible.
    if let Some(ended) = afterword::scorers::code::worker_process(std::env::args_os()) {
        return ended;
    }
    afterword::cli::commands::run(&afterword::cli::parse()).into()
}
