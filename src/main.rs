//! The `afterword` command.

fn main() -> std::process::ExitCode {
    afterword::cli::commands::run(&afterword::cli::parse()).into()
}
