//! Turns: which spans of one trace make a turn of one session. Counting at ingest and reading at judging share this rule.

use std::collections::HashMap;

use super::ids::SpanId;
use super::lineage;
use super::time::Timestamp;

/// What decides the turns of a trace: one span of it that belongs to the session.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// The span.
    pub span_id: &'a SpanId,
    /// Its parent, known or not.
    pub parent_id: Option<&'a SpanId>,
    /// Its place in time.
    pub at: Timestamp,
    /// Whether there is anything in it that members could read.
    pub content: bool,
}

/// One turn: indexes into the nodes given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The root, or where the session owns no root of the trace its top-most spans, which together stand in. Never empty.
    pub heads: Vec<usize>,
    /// All spans of the turn, heads included, in time order.
    pub spans: Vec<usize>,
    /// Whether a root leads it.
    pub rooted: bool,
}

/// The turns that one trace adds to one session, in time order. `nodes` are the trace's spans that belong to the session.
///
/// Every root is a turn. Spans whose ancestors are missing join the earliest root. Where the session owns no root of the
/// trace (it has not arrived, or it belongs to another session), all spans are one turn. A turn without any content is
/// instrumentation noise and left out.
pub fn of_trace(nodes: &[Node<'_>]) -> Vec<Turn> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&n| (nodes[n].at, nodes[n].span_id));
    let parents = lineage::parents(nodes.iter().map(|node| (node.span_id, node.parent_id)));
    let roots: Vec<usize> = order.iter().copied().filter(|&n| nodes[n].parent_id.is_none()).collect();
    let mut turns = if let Some(&first) = roots.first() {
        let mut by_root: HashMap<usize, Vec<usize>> = HashMap::new();
        let tops = lineage::follow(&parents, |n| parents[n].is_none().then_some(Some(n)), Option::clone, &None);
        for &n in &order {
            // In a circle the span itself.
            let top = tops[n].unwrap_or(n);
            let root = if nodes[top].parent_id.is_none() { top } else { first };
            by_root.entry(root).or_default().push(n);
        }
        let turn =
            |&root: &usize| Turn { heads: vec![root], spans: by_root.remove(&root).unwrap_or_default(), rooted: true };
        roots.iter().map(turn).collect()
    } else if order.is_empty() {
        Vec::new()
    } else {
        let mut heads: Vec<usize> = order.iter().copied().filter(|&n| parents[n].is_none()).collect();
        if heads.is_empty() {
            heads.push(order[0]);
        }
        vec![Turn { heads, spans: order, rooted: false }]
    };
    turns.retain(|turn| turn.spans.iter().any(|&n| nodes[n].content));
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(rows: &[(&str, Option<&str>, i64, bool)]) -> Vec<(Vec<usize>, Vec<usize>, bool)> {
        let ids: Vec<(SpanId, Option<SpanId>)> =
            rows.iter().map(|(id, parent, _, _)| (SpanId::trusted(*id), parent.map(SpanId::trusted))).collect();
        let nodes: Vec<Node<'_>> = rows
            .iter()
            .zip(&ids)
            .map(|((_, _, at, content), (span_id, parent_id))| Node {
                span_id,
                parent_id: parent_id.as_ref(),
                at: Timestamp::from_micros(*at),
                content: *content,
            })
            .collect();
        of_trace(&nodes).into_iter().map(|turn| (turn.heads, turn.spans, turn.rooted)).collect()
    }

    #[test]
    fn each_root_is_a_turn_and_orphans_join_the_first() {
        let rows = [
            ("r2", None, 5, true),
            ("r1", None, 1, true),
            ("c2", Some("r2"), 6, true),
            ("lost", Some("gone"), 2, true),
        ];
        assert_eq!(turns(&rows), [(vec![1], vec![1, 3], true), (vec![0], vec![0, 2], true)]);
    }

    #[test]
    fn an_empty_root_counts_with_content_below_and_is_noise_without() {
        assert_eq!(turns(&[("r", None, 1, false), ("c", Some("r"), 2, true)]), [(vec![0], vec![0, 1], true)]);
        assert_eq!(turns(&[("r", None, 1, false), ("c", Some("r"), 2, false)]), []);
        assert_eq!(turns(&[]), []);
    }

    #[test]
    fn without_a_root_the_top_most_spans_stand_in_as_one_turn() {
        let rows = [("b", Some("gone"), 2, true), ("a", Some("gone"), 1, true), ("c", Some("b"), 3, true)];
        assert_eq!(turns(&rows), [(vec![1, 0], vec![1, 0, 2], false)]);
    }

    #[test]
    fn a_circle_is_one_turn() {
        assert_eq!(turns(&[("a", Some("b"), 1, true), ("b", Some("a"), 2, true)]), [(vec![0], vec![0, 1], false)]);
        assert_eq!(turns(&[("s", Some("s"), 1, true)]), [(vec![0], vec![0], false)]);
    }
}
