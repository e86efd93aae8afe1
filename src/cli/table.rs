//! Tables in plain text, lined up by what characters occupy on the screen and fitted to its width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::terminal::Style;

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    title: String,
    right: bool,
    gives_way: bool,
}

impl Column {
    /// Text, kept whole.
    pub fn text(title: &str) -> Self {
        Self { title: title.to_owned(), right: false, gives_way: false }
    }

    /// Text that is shortened where the terminal is too narrow.
    pub fn long_text(title: &str) -> Self {
        Self { gives_way: true, ..Self::text(title) }
    }

    /// Numbers, lined up on the right.
    pub fn number(title: &str) -> Self {
        Self { right: true, ..Self::text(title) }
    }
}

/// What a cell's colour says, where there is colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// Went well.
    Good,
    /// Wants a look.
    Doubtful,
    /// Went wrong.
    Bad,
    /// Less important.
    Faint,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\u{1b}[32m",
            Self::Doubtful => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Faint => "\u{1b}[2m",
        }
    }
}

const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";
const GAP: usize = 2;
/// What a column that gives way keeps at least.
const NARROWEST: usize = 8;

/// One cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    pub fn toned(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: clean(text.as_ref()), tone }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// A table. Rows may be shorter than the columns; what is longer is left out.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows. Its titles are not shown where all are empty.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        cells.resize(self.columns.len(), Cell::default());
        self.rows.push(cells);
    }

    /// The table as text: one line a row, each ended, without spaces at its end.
    pub fn render(&self, style: Style) -> String {
        let widths = self.widths(style.width);
        let mut text = String::new();
        if self.columns.iter().any(|column| !column.title.is_empty()) {
            let titles = self.columns.iter().map(|column| (column.title.as_str(), BOLD));
            self.line(&mut text, titles, &widths, style.colour);
        }
        for row in &self.rows {
            let cells = row.iter().map(|cell| (cell.text.as_str(), cell.tone.code()));
            self.line(&mut text, cells, &widths, style.colour);
        }
        text
    }

    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.title.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        let Some(limit) = limit else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > limit {
            let widest = (0..widths.len())
                .filter(|&place| {
                    let column = &self.columns[place];
                    column.gives_way && widths[place] > NARROWEST.max(column.title.width())
                })
                .max_by_key(|&place| widths[place]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
        }
        widths
    }

    fn line<'a>(
        &self,
        text: &mut String,
        cells: impl Iterator<Item = (&'a str, &'static str)>,
        widths: &[usize],
        colour: bool,
    ) {
        let mut owed = 0;
        for ((column, &width), (content, code)) in self.columns.iter().zip(widths).zip(cells) {
            let content = shorten(content, width);
            let padding = width.saturating_sub(content.width());
            if content.is_empty() {
                owed += width;
            } else {
                owed += if column.right { padding } else { 0 };
                text.extend(std::iter::repeat_n(' ', owed));
                owed = if column.right { 0 } else { padding };
                let is_coloured = colour && !code.is_empty();
                text.push_str(if is_coloured { code } else { "" });
                text.push_str(&content);
                text.push_str(if is_coloured { RESET } else { "" });
            }
            owed += GAP;
        }
        text.push('\n');
    }
}

/// `text` in at most `width` columns: where it is longer it is cut between two characters and ends with an ellipsis.
pub fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let mut cut = 0;
    for (place, _) in text.char_indices() {
        let before = text[..place].width();
        if before > room {
            break;
        }
        // Between two characters is where the next one takes more room: marks, joiners and what they join take none.
        let after = place + text[place..].chars().next().map_or(0, char::len_utf8);
        if text[..after].width() > before {
            cut = place;
        }
    }
    format!("{}…", &text[..cut])
}

/// `text` on one line and without what would steer the terminal: control characters, and marks that reverse the direction of
/// writing.
fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for char in text.trim().chars() {
        match char {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            '\u{2028}' | '\u{2029}' => clean.push(' '),
            _ if char.width().is_none() => {
                if !clean.ends_with(' ') {
                    clean.push(' ');
                }
            }
            _ => clean.push(char),
        }
    }
    clean.truncate(clean.trim_end().len());
    clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

    use super::*;

    /// Letters and their marks in one character, so that what is expected can stand in this file.
    fn composed(text: &str) -> String {
        text.nfc().collect()
    }

    fn example() -> Table {
        let mut table = Table::new([Column::text("session"), Column::number("turns"), Column::long_text("why")]);
        table.row(["会話-42".into(), "12".into(), "the agent apologised twice and never booked".into()]);
        table.row(["cafe\u{301}".into(), "3".into(), Cell::toned("fine", Tone::Good)]);
        table.row(["👩‍👩‍👧 family".into(), "1,234".into(), "".into()]);
        table
    }

    #[test]
    fn columns_line_up_by_what_characters_occupy() {
        insta::assert_snapshot!(composed(&example().render(Style::PLAIN)), @r"
        session    turns  why
        会話-42       12  the agent apologised twice and never booked
        café           3  fine
        👩‍👩‍👧 family  1,234
        ");
    }

    #[test]
    fn a_narrow_terminal_shortens_long_text_alone() {
        insta::assert_snapshot!(composed(&example().render(Style { width: Some(32), colour: false })), @r"
        session    turns  why
        会話-42       12  the agent apo…
        café           3  fine
        👩‍👩‍👧 family  1,234
        ");
        let narrowest = example().render(Style { width: Some(5), colour: false });
        assert!(narrowest.contains("the age…"), "{narrowest}");
    }

    #[test]
    fn colour_changes_no_widths() {
        let coloured = example().render(Style { width: None, colour: true });
        assert!(coloured.contains("\u{1b}[32mfine\u{1b}[0m"), "{coloured:?}");
        assert_eq!(console::strip_ansi_codes(&coloured), example().render(Style::PLAIN));
    }

    #[test]
    fn a_table_without_titles_has_no_head() {
        let mut table = Table::new([Column::text(""), Column::text("")]);
        table.row(["hash".into(), "768d".into()]);
        table.row(["unit".into(), "0.4".into()]);
        assert_eq!(table.render(Style::PLAIN), "hash  768d\nunit  0.4\n");
    }

    #[test]
    fn text_can_neither_break_a_line_nor_steer_the_terminal() {
        assert_eq!(clean(" a\r\n\tb\u{1b}[31mred\u{202e}x\u{7f}\0 "), "a b [31mredx");
    }

    #[test]
    fn text_is_cut_between_characters() {
        for (text, width, short) in [
            ("booked", 6, "booked"),
            ("booked!", 6, "booke…"),
            ("会話会話", 6, "会話…"),
            ("会話会話", 7, "会話会…"),
            ("cafe\u{301}s", 4, "caf…"),
            ("cafe\u{301}s!", 5, "cafe\u{301}…"),
            ("👩‍👩‍👧👩‍👩‍👧", 3, "👩‍👩‍👧…"),
            ("👍🏽👍🏽", 3, "👍🏽…"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ] {
            assert_eq!(shorten(text, width), short, "{text} in {width}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shortened_fits(text in ".{0,40}", width in 0usize..30) {
            prop_assert!(shorten(&clean(&text), width).width() <= width);
        }
    }
}
