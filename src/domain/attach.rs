//! Attaching: which trace and which session a span belongs to. The answer depends on the spans alone, never on the order in
//! which they arrived.

use std::collections::{BTreeMap, HashSet};

use super::ids::{SessionId, SpanId, TraceId};
use super::lineage;
use super::time::Timestamp;

/// What decides a span's session.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The span.
    pub span_id: &'a SpanId,
    /// Its parent, known or not.
    pub parent_id: Option<&'a SpanId>,
    /// The session id it carries itself.
    pub tag: Option<&'a SessionId>,
    /// When it says it began.
    pub started_at: Option<Timestamp>,
    /// Whether it belongs to a dataset run.
    pub eval_run: bool,
}

/// The session of every span of one trace, in the order given: its own id; else its nearest ancestor's; else that of the
/// earliest tagged span (start, span id) of the trace. A trace that holds a span of a dataset run joins no session.
pub fn sessions<'a>(links: &[Link<'a>]) -> Vec<Option<&'a SessionId>> {
    if links.iter().any(|link| link.eval_run) {
        return vec![None; links.len()];
    }
    // A start that no clock can vouch for sorts last: its arrival must not decide.
    let earliest = links
        .iter()
        .filter_map(|link| link.tag.map(|tag| (link.started_at.map_or(i64::MAX, Timestamp::micros), link.span_id, tag)))
        .min_by_key(|(start, span_id, _)| (*start, *span_id))
        .map(|(_, _, tag)| tag);
    let Some(earliest) = earliest else {
        return vec![None; links.len()];
    };
    let parents = lineage::parents(links.iter().map(|link| (link.span_id, link.parent_id)));
    let own = |n: usize| links[n].tag.map(Some).or(parents[n].is_none().then_some(None));
    let nearest = lineage::follow(&parents, own, Option::clone, &None);
    nearest.into_iter().map(|tag| Some(tag.unwrap_or(earliest))).collect()
}

/// The trace of every span that carries none, for spans that parent links may join: the id of the top-most span that the
/// links reach, known or not. Spans whose links run in a circle belong to the trace of the circle's smallest id.
///
/// `parents` maps each known span to its parent. The answer holds exactly the known spans.
pub fn traces(parents: &BTreeMap<SpanId, Option<SpanId>>) -> BTreeMap<SpanId, TraceId> {
    let mut found: BTreeMap<&SpanId, &SpanId> = BTreeMap::new();
    for start in parents.keys() {
        let mut path: Vec<&SpanId> = Vec::new();
        let mut on_path: HashSet<&SpanId> = HashSet::new();
        let mut here = start;
        let top = loop {
            if let Some(top) = found.get(here) {
                break *top;
            }
            if !on_path.insert(here) {
                let circle = path.iter().position(|id| *id == here).unwrap_or(0);
                break path[circle..].iter().min().copied().unwrap_or(here);
            }
            path.push(here);
            match parents.get(here) {
                Some(Some(parent)) => here = parent,
                Some(None) | None => break here,
            }
        };
        for id in path {
            found.insert(id, top);
        }
    }
    parents
        .keys()
        .map(|id| (id.clone(), TraceId::trusted(found.get(id).map_or(id.as_str(), |top| top.as_str()))))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (SpanId, Option<SpanId>, Option<SessionId>, Option<Timestamp>);

    struct Row(&'static str, Option<&'static str>, Option<&'static str>, i64);

    fn attached(rows: &[Row]) -> Vec<Option<String>> {
        let owned: Vec<Owned> = rows
            .iter()
            .map(|Row(id, parent, tag, start)| {
                (
                    SpanId::trusted(*id),
                    parent.map(SpanId::trusted),
                    tag.map(SessionId::trusted),
                    Some(Timestamp::from_micros(*start)),
                )
            })
            .collect();
        let links: Vec<Link<'_>> = owned
            .iter()
            .map(|(span_id, parent, tag, started_at)| Link {
                span_id,
                parent_id: parent.as_ref(),
                tag: tag.as_ref(),
                started_at: *started_at,
                eval_run: false,
            })
            .collect();
        sessions(&links).into_iter().map(|session| session.map(ToString::to_string)).collect()
    }

    fn all<const N: usize>(sessions: [&str; N]) -> Vec<Option<String>> {
        sessions.iter().map(|session| Some((*session).to_owned())).collect()
    }

    #[test]
    fn own_id_then_nearest_ancestor_then_earliest_tagged() {
        let rows = [
            Row("root", None, None, 1),
            Row("a", Some("root"), Some("S1"), 5),
            Row("b", Some("root"), Some("S2"), 4),
            Row("a1", Some("a"), None, 6),
            Row("orphan", Some("gone"), None, 2),
        ];
        assert_eq!(attached(&rows), all(["S2", "S1", "S2", "S1", "S2"]));
    }

    #[test]
    fn no_tag_no_session_and_circles_end() {
        assert_eq!(attached(&[Row("a", Some("b"), None, 1), Row("b", Some("a"), None, 2)]), [None, None]);
        assert_eq!(
            attached(&[Row("a", Some("b"), None, 1), Row("b", Some("a"), None, 2), Row("c", None, Some("S"), 3)]),
            all(["S", "S", "S"])
        );
    }

    #[test]
    fn equal_starts_are_settled_by_span_id() {
        let rows = [Row("b", None, Some("B"), 1), Row("a", None, Some("A"), 1), Row("c", None, None, 0)];
        assert_eq!(attached(&rows), all(["B", "A", "A"]));
    }

    #[test]
    fn a_trace_that_nests_without_end_is_attached_in_one_pass() {
        let ids: Vec<SpanId> = (0..100_000).map(|n| SpanId::trusted(format!("s{n:06}"))).collect();
        let session = SessionId::trusted("S");
        let link = |n: usize| Link {
            span_id: &ids[n],
            parent_id: n.checked_sub(1).map(|above| &ids[above]),
            tag: (n == 0).then_some(&session),
            started_at: None,
            eval_run: false,
        };
        let links: Vec<Link<'_>> = (0..ids.len()).map(link).collect();
        assert!(sessions(&links).into_iter().all(|found| found == Some(&session)));
    }

    fn parents(pairs: &[(&str, Option<&str>)]) -> BTreeMap<SpanId, Option<SpanId>> {
        pairs.iter().map(|(id, parent)| (SpanId::trusted(*id), parent.map(SpanId::trusted))).collect()
    }

    #[test]
    fn a_trace_is_what_parent_links_join() {
        let tops = traces(&parents(&[("r", None), ("c", Some("r")), ("d", Some("c")), ("x", Some("gone"))]));
        let of = |id: &str| tops[&SpanId::trusted(id)].to_string();
        assert_eq!((of("r"), of("c"), of("d"), of("x")), ("r".into(), "r".into(), "r".into(), "gone".into()));
    }

    #[test]
    fn circles_and_what_hangs_below_them_share_the_smallest_id() {
        let tops = traces(&parents(&[("b", Some("c")), ("c", Some("b")), ("a", Some("c")), ("s", Some("s"))]));
        let of = |id: &str| tops[&SpanId::trusted(id)].to_string();
        assert_eq!((of("b"), of("c"), of("a"), of("s")), ("b".into(), "b".into(), "b".into(), "s".into()));
    }

    proptest! {
        /// Every span ends in one trace, and linked spans share theirs.
        #[test]
        fn linked_spans_share_a_trace(links in proptest::collection::btree_map(0u8..30, proptest::option::of(0u8..40), 1..30)) {
            let name = |n: u8| SpanId::trusted(format!("s{n:02}"));
            let known: BTreeMap<_, _> = links.iter().map(|(id, parent)| (name(*id), parent.map(name))).collect();
            let tops = traces(&known);
            prop_assert_eq!(tops.len(), known.len());
            for (id, parent) in &known {
                if let Some(parent) = parent {
                    let top = tops.get(parent).map_or(parent.as_str(), TraceId::as_str);
                    prop_assert_eq!(top, tops[id].as_str());
                }
            }
        }
    }
}
