//! What must hold, in plain maps: which conversation a session is at each revision, who owes a verdict on it, and what that
//! verdict says. Written from the rules as people read them; it shares types with the code it checks, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use crate::domain::group::GroupSpec;
use crate::domain::time::{Micros, Timestamp};

/// A span on its way: `root` of its trace, or the one child it may have. Both name their session, unless the child doesn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) session: u64,
    pub(super) turn: u64,
    pub(super) child: bool,
    pub(super) tagged: bool,
    pub(super) version: u64,
}

impl Piece {
    /// The word that stands in what it says. Sessions may say the same: then their questions are one question.
    pub(super) fn word(self) -> u64 {
        self.turn * 100 + self.version * 2 + u64::from(self.child)
    }

    pub(super) fn is_bad(self) -> bool {
        (self.turn + self.version).is_multiple_of(4)
    }

    /// The same span whatever it says.
    fn key(self) -> (u64, u64, bool) {
        (self.session, self.turn, self.child)
    }
}

/// What members can read of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// The spans that lead its turns, in time order.
    pub(super) heads: Vec<Piece>,
    /// The spans of the last turn.
    pub(super) anchor: Vec<Piece>,
}

impl Content {
    pub(super) fn words(&self) -> Vec<u64> {
        self.heads.iter().map(|head| head.word()).collect()
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Session {
    pub(super) last_arrival: i64,
    /// When the first of its spans arrived.
    pub(super) began: Option<Timestamp>,
    /// What it was at each revision, from 1.
    pub(super) history: Vec<Content>,
    /// Whether spans of it were pruned: it is the rest of a conversation from then on.
    pub(super) pruned: bool,
    /// The last arrival in each turn that has no root.
    rootless: BTreeMap<u64, i64>,
}

impl Session {
    pub(super) fn revision(&self) -> i64 {
        i64::try_from(self.history.len()).expect("few revisions")
    }

    pub(super) fn content(&self) -> Content {
        self.history.last().cloned().unwrap_or_default()
    }

    pub(super) fn content_at(&self, revision: i64) -> &Content {
        &self.history[usize::try_from(revision - 1).expect("revisions begin at 1")]
    }

    /// Its spans are gone.
    pub(super) fn forget_turns(&mut self) {
        self.rootless.clear();
    }

    /// Whether it has been quiet for as long as the group and the grace for turns without a root want.
    pub(super) fn is_quiet(&self, idle: i64, grace: Micros, now: Timestamp) -> bool {
        let now = now.micros();
        let grown = self.rootless.values().all(|arrived| arrived + grace.get() <= now);
        self.last_arrival + idle * 1_000_000 <= now && grown
    }
}

/// A scorer group as people last saved it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) spec: GroupSpec,
    pub(super) version: i64,
    pub(super) deleted: bool,
}

impl Group {
    pub(super) fn is_live(&self) -> bool {
        !self.deleted && self.spec.online.as_ref().is_some_and(|online| online.enabled)
    }

    /// Whether it judges a session of that name and content at all.
    pub(super) fn wants(&self, id: &str, name: &str, content: &Content) -> bool {
        self.can_judge(content) && self.spec.online.as_ref().is_some_and(|online| unit(name, id) < online.sample_rate)
    }

    /// Whether it judges sessions of that content, sampled or not.
    pub(super) fn can_judge(&self, content: &Content) -> bool {
        let turns = i64::try_from(content.heads.len()).expect("few turns");
        self.is_live() && self.spec.online.as_ref().is_some_and(|online| turns >= online.min_turns)
    }
}

/// The published sample: SipHash-2-4 over session, a zero byte and group, its upper 53 bits on 0..1.
pub(super) fn unit(session: &str, group: &str) -> f64 {
    let mut hasher = SipHasher24::new_with_key(b"afterword/sample");
    hasher.write(format!("{session}\0{group}").as_bytes());
    let upper = hasher.finish() / 2048;
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let upper = upper as f64;
    upper / 9_007_199_254_740_992.0
}

/// What a judge with that rubric says of those words: a rating, or nothing.
pub(super) fn judged(rubric: u64, words: &[u64]) -> Option<u8> {
    let mixed =
        words.iter().fold(rubric, |sum, word| sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(word + 1));
    let drawn = (mixed >> 33) % 12;
    u8::try_from(drawn).ok().filter(|drawn| *drawn < 11)
}

/// One member's share of a rating: its goodness where it has one, its weight, and whether it must pass.
pub(super) type Share = (Option<f64>, f64, bool);

/// The rating on 0-10 that section 3 of the rules gives.
pub(super) fn rating(shares: &[Share]) -> Option<f64> {
    if gate_failed(shares) {
        return Some(0.0);
    }
    if shares.iter().any(|(goodness, _, gate)| *gate && goodness.is_none()) {
        return None;
    }
    let counted: Vec<(f64, f64)> = shares
        .iter()
        .filter(|it| it.1 > 0.0)
        .filter_map(|(goodness, weight, _)| Some(((*goodness)?, *weight)))
        .collect();
    let weights: f64 = counted.iter().map(|(_, weight)| weight).sum();
    let mean = counted.iter().map(|(goodness, weight)| goodness * weight).sum::<f64>() / weights;
    (!counted.is_empty()).then(|| ((mean * 100.0 * 1e6).round() / 1e6 + 0.5).floor() / 10.0)
}

pub(super) fn gate_failed(shares: &[Share]) -> bool {
    shares.iter().any(|(goodness, _, gate)| *gate && goodness.is_some_and(|goodness| goodness < 0.5))
}

/// A verdict as it stands in history.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) rating: Option<f64>,
    pub(super) incomplete: bool,
    pub(super) interim: bool,
    pub(super) group_version: i64,
    pub(super) created_at: Timestamp,
    /// The whole row and its members, to be compared.
    pub(super) text: String,
}

/// Session, group, revision, round, sequence.
pub(super) type RowKey = (String, String, i64, i64, i64);

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) sessions: BTreeMap<String, Session>,
    pub(super) groups: BTreeMap<String, Group>,
    /// The rubric that each judge has now.
    pub(super) rubrics: BTreeMap<String, u64>,
    /// Questions whose answer is kept, each with the order that had it asked afresh, and at which step it came to be.
    pub(super) kept: BTreeMap<(String, Option<String>), u64>,
    /// Every question that was ever asked.
    pub(super) asked: BTreeSet<String>,
    pub(super) verdicts: BTreeMap<RowKey, Row>,
    /// The rubrics of the judges that each verdict was made with.
    pub(super) made_with: BTreeMap<RowKey, BTreeMap<String, u64>>,
    /// Who holds each session.
    pub(super) leases: BTreeMap<String, String>,
    /// How often each group must have raised its signal.
    pub(super) alerts: BTreeMap<String, i64>,
    /// Since when a pair waits for members that can't answer.
    pub(super) waiting: BTreeMap<(String, String), Timestamp>,
    spans: BTreeMap<(u64, u64, bool), Piece>,
    /// When each span that is there arrived as it is.
    pub(super) arrived: BTreeMap<(u64, u64, bool), Timestamp>,
    /// Questions whose answers were kept and pruned.
    pub(super) forgotten: BTreeSet<String>,
    /// Until when each lease lasts.
    pub(super) held_until: BTreeMap<String, Timestamp>,
}

impl Model {
    /// Spans were stored, all at one moment.
    pub(super) fn arrive(&mut self, pieces: &[Piece], now: Timestamp) {
        let mut touched: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for piece in pieces {
            let known = self.spans.get(&piece.key());
            if known.is_none_or(|known| known.version < piece.version) {
                self.spans.insert(piece.key(), *piece);
                self.arrived.insert(piece.key(), now);
                touched.entry(piece.session).or_default().push(piece.turn);
            }
        }
        for (session, turns) in touched {
            let content = self.content(session);
            let joined = turns.iter().any(|turn| content.heads.iter().any(|head| head.turn == *turn));
            if !joined {
                continue;
            }
            // A span that was there before it belonged to the session counts as well.
            let first = self.arrived.iter().filter(|(key, _)| key.0 == session && self.belongs(**key));
            let first = first.map(|(_, at)| *at).min();
            let grown = self.sessions.entry(name(session)).or_default();
            grown.began = grown.began.into_iter().chain(first).min();
            grown.history.push(content.clone());
            grown.last_arrival = grown.last_arrival.max(now.micros());
            for turn in turns {
                grown.rootless.insert(turn, now.micros());
            }
            grown.rootless.retain(|turn, _| content.heads.iter().any(|head| head.turn == *turn && head.child));
        }
    }

    /// Whether a span belongs to a session.
    pub(super) fn belongs(&self, key: (u64, u64, bool)) -> bool {
        let rooted = self.spans.contains_key(&(key.0, key.1, false));
        self.spans.get(&key).is_some_and(|piece| piece.tagged || rooted)
    }

    /// A span was pruned.
    pub(super) fn forget(&mut self, key: (u64, u64, bool)) {
        self.spans.remove(&key);
        self.arrived.remove(&key);
    }

    /// A child without a session of its own belongs nowhere until its root is there.
    fn content(&self, session: u64) -> Content {
        let mut turns: BTreeMap<u64, Vec<Piece>> = BTreeMap::new();
        for piece in self.spans.values().filter(|piece| piece.session == session) {
            let rooted = self.spans.contains_key(&(session, piece.turn, false));
            if piece.tagged || rooted {
                turns.entry(piece.turn).or_default().push(*piece);
            }
        }
        let heads = turns.values().map(|spans| spans[0]).collect();
        Content { heads, anchor: turns.into_values().next_back().unwrap_or_default() }
    }

    /// Whether an answer to a question is kept, whoever asked it.
    pub(super) fn is_kept(&self, question: &str) -> bool {
        self.kept.keys().any(|(kept, _)| kept == question)
    }

    /// The last verdict of a pair.
    pub(super) fn last(&self, session: &str, group: &str) -> Option<(&RowKey, &Row)> {
        self.verdicts.iter().rfind(|(key, _)| key.0 == session && key.1 == group)
    }
}

pub(super) fn name(session: u64) -> String {
    format!("s{session}")
}
