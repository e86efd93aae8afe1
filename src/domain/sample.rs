//! Sampling: whether a session is judged by a group. A pure function, the same on every machine and release.

use std::hash::Hasher;

use serde::Serialize;
use siphasher::sip::SipHasher24;

use super::ids::SessionId;

/// The SipHash key. Changing it would redraw every sample, so it never changes.
const KEY: &[u8; 16] = b"afterword/sample";

/// A draw for one (subject, group) pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// SipHash-2-4 of the subject's id, one zero byte and the group's id.
    pub hash: u64,
    /// The hash's upper 53 bits on 0..1 (1 excluded).
    pub unit: f64,
}

/// Draws for a subject (a session id; at trace scope a trace id) and a group.
pub fn draw(subject: &str, group: &str) -> Draw {
    let mut hasher = SipHasher24::new_with_key(KEY);
    hasher.write(subject.as_bytes());
    hasher.write(&[0]);
    hasher.write(group.as_bytes());
    let hash = hasher.finish();
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let unit = (hash >> 11) as f64 * 2f64.powi(-53);
    Draw { hash, unit }
}

impl Draw {
    /// Whether a rate of 0..=1 keeps this draw: 0 keeps nothing, 1 everything, and a higher rate only adds.
    pub fn kept_at(self, rate: f64) -> bool {
        self.unit < rate
    }
}

/// A session that a rate would keep.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The session.
    pub session_id: SessionId,
    /// Its draw on 0..1.
    pub unit: f64,
}

/// What a rate would pick of some sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The rate, 0-1.
    pub rate: f64,
    /// Sessions that have turns enough.
    pub eligible: i64,
    /// How many of them the rate keeps.
    pub kept: i64,
    /// The first of those, by their ids.
    pub sessions: Vec<Kept>,
}

impl Preview {
    /// Of no session yet.
    pub const fn at(rate: f64) -> Self {
        Self { rate, eligible: 0, kept: 0, sessions: Vec::new() }
    }

    /// Considers a session that has turns enough; of those kept the first `most` are listed.
    pub fn consider(&mut self, session: SessionId, group: &str, most: usize) {
        self.eligible += 1;
        let draw = draw(session.as_str(), group);
        if draw.kept_at(self.rate) {
            self.kept += 1;
            if self.sessions.len() < most {
                self.sessions.push(Kept { session_id: session, unit: draw.unit });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The published vectors, written out here so that they hold without any file beside the project.
    const VECTORS: [(&str, &str, u64, f64); 7] = [
        ("sess-1", "grp-1", 0x768d_b0ef_7d75_1ecf, 0.463_099_535_435_919_64),
        ("sess-2", "grp-1", 0xb044_4d48_0f23_e120, 0.688_542_203_991_473_9),
        ("sess-1", "grp-2", 0x3604_b559_b732_349c, 0.211_009_344_485_497_46),
        ("a", "b", 0x0397_938d_5765_e80e, 0.014_031_621_939_828_32),
        ("会話-42", "groupe-é", 0xb699_4201_568f_ccbe, 0.713_276_028_944_675_7),
        ("conversation/2026-11-01T00:00:00Z/7f3a", "support-quality", 0x1056_1d52_272f_bc30, 0.063_814_003_521_826_09),
        ("0", "0", 0x1f05_3aad_eef9_0bd3, 0.121_173_541_511_755_3),
    ];

    #[test]
    fn the_published_vectors_hold() {
        for (session, group, hash, unit) in VECTORS {
            assert_eq!(draw(session, group), Draw { hash, unit }, "{session} {group}");
        }
        let long = draw(&"s".repeat(300), "g");
        assert_eq!(long.hash, 0x4f53_6db7_5f28_ec7d);
    }

    proptest! {
        #[test]
        fn zero_keeps_nothing_one_everything_and_more_only_adds(
            session in ".*", group in ".*", low in 0.0..=1.0f64, more in 0.0..=1.0f64,
        ) {
            let draw = draw(&session, &group);
            prop_assert!(!draw.kept_at(0.0));
            prop_assert!(draw.kept_at(1.0));
            let high = (low + more).min(1.0);
            prop_assert!(!draw.kept_at(low) || draw.kept_at(high));
        }
    }

    #[test]
    fn a_tenth_is_about_a_tenth() {
        let kept = (0..100_000).filter(|n| draw(&format!("session-{n}"), "group").kept_at(0.1)).count();
        assert!((9_700..10_300).contains(&kept), "{kept}");
    }

    #[test]
    fn a_preview_counts_what_a_rate_keeps_and_lists_the_first() {
        let mut preview = Preview::at(0.5);
        for session in ["sess-1", "sess-2", "x"] {
            preview.consider(SessionId::trusted(session), "grp-1", 1);
        }
        let by_hand = ["sess-1", "sess-2", "x"].iter().filter(|it| draw(it, "grp-1").kept_at(0.5)).count();
        assert_eq!((preview.eligible, preview.kept), (3, i64::try_from(by_hand).unwrap()));
        assert_eq!(preview.sessions, [Kept { session_id: SessionId::trusted("sess-1"), unit: VECTORS[0].3 }]);
    }
}
