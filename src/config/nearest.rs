//! The nearest right name to a mistyped one.

/// The name that was probably meant, where one is near enough. How words are joined and whether they are in capitals counts little: that
/// is what is mistyped most.
pub(super) fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let squeezed = |text: &str| -> Vec<char> {
        text.chars().filter(|char| char.is_alphanumeric()).map(|char| char.to_ascii_lowercase()).collect()
    };
    let wanted = squeezed(given);
    let (off, _, name) = names
        .map(|name| (distance(&wanted, &squeezed(name)), name.len().abs_diff(given.len()), name))
        .min_by_key(|(off, length, _)| (*off, *length))?;
    (off <= 2 && off * 2 < wanted.len()).then_some(name)
}

/// How many characters must be put in, taken out, replaced or swapped with their neighbour to make one text of the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, own) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(own != other);
            let mut off = replaced.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *own == to[column - 1] && from[row - 1] == *other {
                off = off.min(before[column - 1] + 1);
            }
            next.push(off);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_finds_the_name_that_was_meant_and_nonsense_finds_none() {
        let names = ["sweep", "resweep", "server", "log"];
        for (given, meant) in [
            ("swep", Some("sweep")),
            ("sweeps", Some("sweep")),
            ("sever", Some("server")),
            ("sevrer", Some("server")),
            ("SERVER", Some("server")),
            ("re-sweep", Some("resweep")),
            ("lo", None),
            ("lgo", Some("log")),
            ("judge", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, names.into_iter()), meant, "{given}");
        }
    }

    #[test]
    fn a_distance_counts_what_must_be_changed() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for (from, to, off) in [("", "", 0), ("", "ab", 2), ("ab", "ba", 1), ("lease", "lese", 1), ("abc", "xyz", 3)] {
            assert_eq!(distance(&chars(from), &chars(to)), off, "{from} {to}");
            assert_eq!(distance(&chars(to), &chars(from)), off, "{to} {from}");
        }
    }
}
