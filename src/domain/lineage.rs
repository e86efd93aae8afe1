//! Lineage: what follows for each span from the spans above it, found in one pass however deep they nest.

use std::collections::HashMap;

use super::ids::SpanId;

/// Where each span's parent stands among them; `None` where it has none, or one that is not among them.
pub(super) fn parents<'a>(spans: impl Iterator<Item = (&'a SpanId, Option<&'a SpanId>)> + Clone) -> Vec<Option<usize>> {
    let places: HashMap<&SpanId, usize> = spans.clone().enumerate().map(|(n, (id, _))| (id, n)).collect();
    spans.map(|(_, parent)| places.get(parent?).copied()).collect()
}

/// What follows for each: what `own` says of it by itself, else what `below` makes of what follows for its parent. Where
/// neither can be told, since the parents run in a circle, it is `circle`. `own` must answer for what has no parent.
pub(super) fn follow<T: Clone>(
    parents: &[Option<usize>],
    own: impl Fn(usize) -> Option<T>,
    below: impl Fn(&T) -> T,
    circle: &T,
) -> Vec<T> {
    let mut found: Vec<Option<T>> = vec![None; parents.len()];
    let mut on_path = vec![false; parents.len()];
    let mut path = Vec::new();
    for start in 0..parents.len() {
        let mut here = start;
        let mut last = loop {
            if let Some(told) = &found[here] {
                break below(told);
            }
            if on_path[here] {
                break circle.clone();
            }
            if let Some(told) = own(here) {
                found[here] = Some(told.clone());
                break below(&told);
            }
            on_path[here] = true;
            path.push(here);
            match parents[here] {
                Some(parent) => here = parent,
                None => break circle.clone(),
            }
        };
        while let Some(n) = path.pop() {
            on_path[n] = false;
            let next = below(&last);
            found[n] = Some(last);
            last = next;
        }
    }
    found.into_iter().map(|told| told.unwrap_or_else(|| circle.clone())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_chain_of_any_length_is_followed_in_one_pass() {
        let parents: Vec<Option<usize>> = (0..300_000).map(|n| (n < 299_999).then_some(n + 1)).collect();
        let depth = follow(&parents, |n| parents[n].is_none().then_some(1), |above| above + 1, &0);
        assert_eq!((depth[299_999], depth[0]), (1, 300_000));
    }

    proptest! {
        /// The same as walking up from each by itself.
        #[test]
        fn each_gets_what_walking_up_by_itself_finds(parents in proptest::collection::vec(proptest::option::of(0..12_usize), 12), tagged in 0..4096_u16) {
            let own = |n: usize| (tagged & (1 << n) != 0).then_some(Some(n)).or((parents[n].is_none()).then_some(None));
            let found = follow(&parents, own, Option::clone, &None);
            for (start, found) in found.into_iter().enumerate() {
                let mut here = start;
                let mut steps = 0;
                let walked = loop {
                    if let Some(told) = own(here) {
                        break told;
                    }
                    steps += 1;
                    match parents[here].filter(|_| steps <= parents.len()) {
                        Some(parent) => here = parent,
                        None => break None,
                    }
                };
                prop_assert_eq!(found, walked);
            }
        }
    }
}
