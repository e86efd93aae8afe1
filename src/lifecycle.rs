//! The life of the process: it ends softly on the first signal to stop, and at once on the second.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::ExitCode;

/// Watches for SIGTERM and SIGINT from here on, on the runtime this is called in. The first cancels the token returned:
/// services stop taking work and finish what they hold. The second ends the process at once, with [`ExitCode::Interrupted`]:
/// what was not committed then is taken up again at the next start.
///
/// # Errors
/// Where the operating system refuses the signal handlers.
pub fn stop_on_signals() -> io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let stopping = token.clone();
    tokio::spawn(async move {
        let first = either(&mut term, &mut int).await;
        tracing::info!("{first} received: finishing what is under way; a second signal ends the process at once");
        stopping.cancel();
        let second = either(&mut term, &mut int).await;
        tracing::warn!("{second} received: ending at once");
        std::process::exit(ExitCode::Interrupted.code().into());
    });
    Ok(token)
}

async fn either(term: &mut Signal, int: &mut Signal) -> &'static str {
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_signal_cancels_the_token_and_leaves_the_process_alive() {
        let token = stop_on_signals().unwrap();
        assert!(!token.is_cancelled());
        let kill = format!("kill -TERM {}", std::process::id());
        let sent = std::process::Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
        token.cancelled().await;
    }
}
