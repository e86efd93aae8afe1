//! Exit codes: what the process says to the shell that started it.

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// Everything asked for was done.
    Fine,
    /// It was not done, for a reason that none of the others names.
    Failed,
    /// The command line can't be understood.
    Usage,
    /// The configuration is refused.
    Config,
    /// The database can't be reached or written, or is newer than this program.
    Database,
    /// It was done, but for a part that was refused and is named.
    Partly,
    /// An evaluation was carried out, and its gate failed.
    Gate,
    /// A second signal to stop came before the work under way was finished.
    Interrupted,
}

impl ExitCode {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Fine,
        Self::Failed,
        Self::Usage,
        Self::Config,
        Self::Database,
        Self::Partly,
        Self::Gate,
        Self::Interrupted,
    ];

    /// The number that the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::Database => 4,
            Self::Partly => 5,
            Self::Gate => 6,
            Self::Interrupted => 130,
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Fine => "everything asked for was done",
            Self::Failed => "it was not done; standard error says why",
            Self::Usage => "the command line can't be understood",
            Self::Config => "the configuration is refused; the setting is named",
            Self::Database => "the database can't be reached or written, or is newer than this program",
            Self::Partly => "done, but for a part that was refused and is named (lines of an import, say)",
            Self::Gate => "an evaluation was carried out, and its gate failed",
            Self::Interrupted => "stopped at once by a second signal, with work under way",
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.code())
    }
}

/// The codes and their meanings, for `--help`.
pub(super) fn help() -> String {
    let line = |code: &ExitCode| format!("  {:<4} {}", code.code(), code.meaning());
    format!("Exit codes:\n{}", ExitCode::ALL.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_number_of_its_own_and_stands_in_the_help() {
        let help = help();
        let mut numbers: Vec<u8> = ExitCode::ALL.iter().map(|code| code.code()).collect();
        for code in ExitCode::ALL {
            assert!(help.contains(&format!("\n  {:<4} {}", code.code(), code.meaning())), "{code:?}");
        }
        numbers.dedup();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 130]);
    }
}
