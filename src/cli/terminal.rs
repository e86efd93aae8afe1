//! The terminal: whether there is one, how wide it is, and whether it wants colour.

use std::io::IsTerminal;

use console::Term;

/// How to write for whoever reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// The columns of the terminal; `None` where there is none, and lines may be as long as they are.
    pub width: Option<usize>,
    /// Whether to colour.
    pub colour: bool,
}

impl Style {
    /// For files and pipes: no limit, no colour.
    pub const PLAIN: Self = Self { width: None, colour: false };

    /// For what is written to standard output.
    pub fn of_stdout() -> Self {
        Self::of(&Term::stdout(), std::io::stdout().is_terminal())
    }

    /// For what is written to standard error.
    pub fn of_stderr() -> Self {
        Self::of(&Term::stderr(), std::io::stderr().is_terminal())
    }

    fn of(term: &Term, is_terminal: bool) -> Self {
        if !is_terminal {
            return Self::PLAIN;
        }
        let variable = |name| std::env::var(name).ok();
        Self {
            width: term.size_checked().map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0),
            colour: wants_colour(variable("NO_COLOR").as_deref(), variable("TERM").as_deref()),
        }
    }
}

/// Whether a terminal with these variables wants colour: `NO_COLOR` with anything in it says no.
fn wants_colour(no_color: Option<&str>, term: Option<&str>) -> bool {
    no_color.is_none_or(str::is_empty) && term != Some("dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_dumb_terminals_want_no_colour() {
        assert!(wants_colour(None, Some("xterm")));
        assert!(wants_colour(Some(""), None));
        assert!(!wants_colour(Some("1"), Some("xterm")));
        assert!(!wants_colour(None, Some("dumb")));
    }
}
