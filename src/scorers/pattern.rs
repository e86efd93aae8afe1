//! Patterns as members: compiled once per version, read without waiting for anything.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::report as base_report;
use crate::domain::conversation::Conversation;
use crate::domain::group::Member;
use crate::domain::ids::ScorerId;
use crate::domain::judge::Judgement;
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::pattern::{Match, Pattern, PatternSpec, Sides};
use crate::domain::scorer::Scorer;
use crate::domain::verdict::{MemberReport, ScorerKind};

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

    /// What a pattern member makes of a conversation. `answers` holds what models said of its semantic conditions, by the
    /// condition's place; what is missing there, and decides, is the report.
    pub fn report(
        &self,
        member: &Member,
        scorer: &Scorer,
        conversation: &Conversation,
        sides: &Sides<'_>,
        answers: &BTreeMap<usize, Judgement>,
    ) -> MemberReport {
        let pattern = match self.compiled(scorer) {
            Ok(pattern) => pattern,
            Err(why) => return unusable(member, scorer, &why),
        };
        let said: BTreeMap<usize, bool> =
            answers.iter().filter_map(|(row, answer)| Some((*row, holds(answer)?))).collect();
        let Some(found) = pattern.read(sides, &said) else {
            let silent = answers.values().find(|answer| holds(answer).is_none());
            let outcome = silent.map_or_else(
                || Outcome::failed_for_now("the model was not asked about a condition"),
                |answer| answer.outcome.clone(),
            );
            return base_report(member, Some(scorer), outcome, String::new());
        };
        let outcome = Outcome::Scored { goodness: pattern.goodness(found.matched) };
        let (justification, evidence) = told(&found, conversation, answers);
        MemberReport {
            justification,
            evidence,
            scorer_kind: if answers.is_empty() { ScorerKind::Rule } else { ScorerKind::Model },
            ..base_report(member, Some(scorer), outcome, found.detail())
        }
    }
}

/// The report of a pattern member whose pattern can't be used.
pub fn unusable(member: &Member, scorer: &Scorer, why: &str) -> MemberReport {
    base_report(member, Some(scorer), Outcome::failed(format!("the pattern can't be used: {why}")), String::new())
}

/// Whether a model found a condition to hold; `None` where it gave no answer.
fn holds(answer: &Judgement) -> Option<bool> {
    answer.outcome.goodness().map(|goodness| goodness == Goodness::GOOD)
}

/// What matched, in words, and the turns it stands in.
fn told(
    found: &Match,
    conversation: &Conversation,
    answers: &BTreeMap<usize, Judgement>,
) -> (Option<String>, Vec<u32>) {
    let Some(quote) = &found.what else { return (None, Vec::new()) };
    let Some(place) = quote.place else {
        let answer = answers.values().find(|answer| holds(answer) == Some(true));
        let said = answer
            .and_then(|answer| answer.justification.as_deref())
            .map_or_else(String::new, |said| format!(": {said}"));
        let turns = answer.map_or_else(Vec::new, |answer| answer.evidence.clone());
        return (Some(format!("The condition \"{}\" holds{said}", quote.excerpt)), turns);
    };
    let what = match &quote.phrase {
        Some(phrase) => format!("The phrase \"{phrase}\" was found"),
        None => "The expression was found".to_owned(),
    };
    let turn = conversation.turn_at(place.speaker, place.offset);
    let whereabouts = turn.map_or_else(String::new, |turn| format!(" in turn {turn}"));
    (Some(format!("{what}{whereabouts}: \"{}\"", quote.excerpt)), turn.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::group::MemberKind;
    use crate::domain::time::Timestamp;
    use crate::domain::transcript::tests::conversation;

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

    fn read(scorer: &Scorer, turns: &[(&str, &str)], answers: &BTreeMap<usize, Judgement>) -> MemberReport {
        let talk = conversation(turns);
        let (input, output) = (talk.user_side(), talk.agent_side());
        let sides = Sides { input: &input, output: &output, trace: None };
        PatternCache::new().report(&member(), scorer, &talk, &sides, answers)
    }

    #[test]
    fn a_pattern_member_reports_its_goodness_and_what_it_found_where() {
        let none = BTreeMap::new();
        let apology = scorer(3, &json!({"name": "Apology", "includeTerms": ["sorry"]}));
        let hit = read(&apology, &[("hi", "hello"), ("well?", "So SORRY!")], &none);
        assert_eq!(hit.outcome.goodness().map(f64::from), Some(0.0));
        assert_eq!((hit.detail.as_str(), hit.version, hit.name.as_str()), ("matched (\"SORRY\")", Some(3), "Apology"));
        assert_eq!(hit.justification.as_deref(), Some("The phrase \"sorry\" was found in turn 2: \"SORRY\""));
        assert_eq!((hit.evidence, hit.scorer_kind), (vec![2], ScorerKind::Rule));
        let clean = read(&apology, &[("sorry", "hello")], &none);
        assert_eq!((clean.outcome.goodness().map(f64::from), clean.detail.as_str()), (Some(1.0), "no match"));
    }

    #[test]
    fn a_semantic_condition_goes_by_what_the_model_said() {
        let dodge = scorer(1, &json!({"name": "Dodge", "semanticPrompt": "the agent dodges"}));
        let said = |outcome: Outcome| {
            let said = Some("It changes the subject.".to_owned());
            BTreeMap::from([(0, Judgement { justification: said, evidence: vec![1], ..Judgement::silent(outcome) })])
        };
        let yes = read(&dodge, &[("q", "a")], &said(Outcome::Scored { goodness: Goodness::GOOD }));
        assert_eq!(
            (yes.outcome.goodness(), yes.detail.as_str()),
            (Some(Goodness::BAD), "matched (\"the agent dodges\")")
        );
        let told = "The condition \"the agent dodges\" holds: It changes the subject.";
        assert_eq!((yes.justification.as_deref(), yes.evidence), (Some(told), vec![1]));
        assert_eq!(yes.scorer_kind, ScorerKind::Model);
        let no = read(&dodge, &[("q", "a")], &said(Outcome::Scored { goodness: Goodness::BAD }));
        assert_eq!((no.outcome.goodness(), no.detail.as_str()), (Some(Goodness::GOOD), "no match"));
        for outcome in [Outcome::failed_for_now("outage"), Outcome::Declined { reason: "can't tell".into() }] {
            assert_eq!(read(&dodge, &[("q", "a")], &said(outcome.clone())).outcome, outcome);
        }
        assert!(read(&dodge, &[("q", "a")], &BTreeMap::new()).outcome.is_transient());
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
        let report = read(&broken, &[], &BTreeMap::new());
        assert!(
            matches!(&report.outcome, Outcome::Failed { reason, .. } if reason.starts_with("the pattern can't be used"))
        );
        assert!(!report.outcome.is_transient());
    }
}
