//! Patterns as members: compiled once per version, read without waiting for anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::report as base_report;
use crate::domain::group::Member;
use crate::domain::ids::ScorerId;
use crate::domain::outcome::Outcome;
use crate::domain::pattern::{Match, Pattern, PatternSpec, Sides};
use crate::domain::scorer::Scorer;
use crate::domain::verdict::MemberReport;

/// How many compiled patterns are kept. A full cache starts afresh: compiling is cheap, a list of what was used last is not.
const MOST: usize = 10_000;

/// Compiled patterns by scorer and version.
#[derive(Debug, Default)]
pub struct PatternCache {
    compiled: Mutex<HashMap<(ScorerId, i64), Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// What was compiled: ids are unique in a project only.
    spec: String,
    pattern: Arc<Pattern>,
}

impl PatternCache {
    /// An empty cache, for the whole process.
    pub fn new() -> Self {
        Self::default()
    }

    /// The compiled pattern of a scorer at its version.
    ///
    /// # Errors
    /// Why the stored spec can't be used.
    pub fn compiled(&self, scorer: &Scorer) -> Result<Arc<Pattern>, String> {
        let key = (scorer.id.clone(), scorer.version);
        let lock = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = lock().get(&key).filter(|entry| entry.spec == scorer.spec) {
            return Ok(Arc::clone(&entry.pattern));
        }
        let spec: PatternSpec = serde_json::from_str(&scorer.spec).map_err(|error| error.to_string())?;
        let pattern = Arc::new(Pattern::compile(&spec)?);
        let mut compiled = lock();
        if compiled.len() >= MOST {
            compiled.clear();
        }
        compiled.insert(key, Entry { spec: scorer.spec.clone(), pattern: Arc::clone(&pattern) });
        Ok(pattern)
    }

    /// What a pattern member makes of a conversation, split by speaker.
    pub fn report(&self, member: &Member, scorer: &Scorer, sides: &Sides<'_>) -> MemberReport {
        match self.compiled(scorer) {
            Ok(pattern) => report(member, scorer, &pattern, &pattern.read(sides)),
            Err(why) => {
                let outcome = Outcome::failed(format!("the pattern can't be used: {why}"));
                base_report(member, Some(scorer), outcome, String::new())
            }
        }
    }
}

/// The report of a pattern member from what its pattern found.
pub fn report(member: &Member, scorer: &Scorer, pattern: &Pattern, found: &Match) -> MemberReport {
    let outcome = Outcome::Scored { goodness: pattern.goodness(found.matched) };
    let justification = found.what.as_ref().map(|quote| match &quote.phrase {
        Some(phrase) => format!("The phrase \"{phrase}\" was found: \"{}\"", quote.excerpt),
        None => format!("The expression was found: \"{}\"", quote.excerpt),
    });
    MemberReport { justification, ..base_report(member, Some(scorer), outcome, found.detail()) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::group::MemberKind;
    use crate::domain::time::Timestamp;

    fn scorer(version: i64, body: &Value) -> Scorer {
        let spec = PatternSpec::create(body).expect("a spec");
        Scorer {
            id: ScorerId::trusted("p1"),
            kind: MemberKind::Pattern,
            name: spec.name.clone(),
            version,
            spec: serde_json::to_string(&spec).expect("JSON"),
            created_at: Timestamp::from_micros(1),
            updated_at: Timestamp::from_micros(1),
        }
    }

    fn member() -> Member {
        Member { weight: 0.0, gate: true, ..Member::plain(MemberKind::Pattern, "p1") }
    }

    #[test]
    fn a_pattern_member_reports_its_goodness_and_what_it_found() {
        let cache = PatternCache::new();
        let apology = scorer(3, &json!({"name": "Apology", "includeTerms": ["sorry"]}));
        let hit = cache.report(&member(), &apology, &Sides { input: "", output: "So SORRY!" });
        assert_eq!(hit.outcome.goodness().map(f64::from), Some(0.0));
        assert_eq!((hit.detail.as_str(), hit.version, hit.name.as_str()), ("matched (\"SORRY\")", Some(3), "Apology"));
        assert_eq!(hit.justification.as_deref(), Some("The phrase \"sorry\" was found: \"SORRY\""));
        let clean = cache.report(&member(), &apology, &Sides { input: "sorry", output: "hello" });
        assert_eq!((clean.outcome.goodness().map(f64::from), clean.detail.as_str()), (Some(1.0), "no match"));
    }

    #[test]
    fn a_version_is_compiled_once_and_another_spec_under_its_id_is_another_pattern() {
        let cache = PatternCache::new();
        let first = scorer(1, &json!({"name": "p", "includeTerms": ["x"]}));
        let compiled = cache.compiled(&first).expect("a pattern");
        assert!(Arc::ptr_eq(&compiled, &cache.compiled(&first).expect("a pattern")));
        let elsewhere = scorer(1, &json!({"name": "p", "includeTerms": ["y"]}));
        assert!(!Arc::ptr_eq(&compiled, &cache.compiled(&elsewhere).expect("a pattern")));
        assert!(!Arc::ptr_eq(&compiled, &cache.compiled(&Scorer { version: 2, ..first }).expect("a pattern")));
    }

    #[test]
    fn a_stored_spec_that_can_not_be_read_fails_the_member_for_good() {
        let broken = Scorer { spec: "{}".into(), ..scorer(1, &json!({"name": "p", "includeTerms": ["x"]})) };
        let report = PatternCache::new().report(&member(), &broken, &Sides { input: "", output: "" });
        assert!(
            matches!(&report.outcome, Outcome::Failed { reason, .. } if reason.starts_with("the pattern can't be used"))
        );
        assert!(!report.outcome.is_transient());
    }
}
