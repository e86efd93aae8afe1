//! Runs of a dataset: what is ordered, and the copy of recipe, scorers and scorecard by which all its rows are graded.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::compose::{Recipe, Scorecard};
use crate::domain::group::{GroupSpec, Member, MemberKind};
use crate::domain::ids::{GroupId, check_id};
use crate::domain::problems::Problems;

/// What the grader of a run is called that nobody named.
pub const PRIMARY: &str = "Primary scorer";

/// The most judges beside the first.
const MOST_ADDITIONAL: usize = 4;

/// A run as it is ordered on the wire.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOrder {
    /// The dataset.
    pub dataset: String,
    /// The group that grades; it wins over judges.
    pub group: Option<GroupId>,
    /// The judge that grades.
    pub judge: Option<String>,
    /// Judges that say something beside it, without the first, each once.
    pub additional: Vec<String>,
    /// The scorecard in place of the group's own.
    pub scorecard: Option<String>,
    /// The named subset of cases.
    pub split: Option<String>,
    /// What is evaluated, as the sender tells it.
    pub subject: Map<String, Value>,
    /// Where the run comes from.
    pub source: String,
}

impl RunOrder {
    /// Reads an order.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn read(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let body = problems.object(body);
        let mut text = |key: &str| match body.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if check_id(text).is_ok() => Some(text.clone()),
            Some(Value::String(text)) if text.is_empty() => None,
            Some(_) => {
                problems.add(format!("{key} must be text of at most 512 bytes"));
                None
            }
        };
        let dataset = text("datasetId");
        let (group, judge) = (text("scorerGroupId"), text("evaluationSettingsId"));
        let (scorecard, split, source) = (text("scorecardId"), text("split"), text("runSource"));
        problems.unless(dataset.is_some(), || "datasetId is required".to_owned());
        let additional = read_additional(body.get("additionalScorerIds"), judge.as_deref(), &mut problems);
        let group = group.map(GroupId::trusted);
        // A group is the whole grading, not a layer on judges.
        let (judge, additional) = if group.is_some() { (None, Vec::new()) } else { (judge, additional) };
        problems.unless(judge.is_some() || additional.is_empty(), || {
            "additionalScorerIds need a scorer that they are additional to: name one in evaluationSettingsId".to_owned()
        });
        problems.into_result(Self {
            dataset: dataset.unwrap_or_default(),
            group,
            judge,
            additional,
            scorecard,
            split,
            subject: body.get("evaluationSubject").and_then(Value::as_object).cloned().unwrap_or_default(),
            source: source.unwrap_or_else(|| "api".to_owned()),
        })
    }
}

fn read_additional(given: Option<&Value>, first: Option<&str>, problems: &mut Problems) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    match given {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => {
            for item in items {
                match item.as_str().filter(|id| check_id(id).is_ok()) {
                    Some(id) if first == Some(id) || ids.iter().any(|known| known == id) => {}
                    Some(id) => ids.push(id.to_owned()),
                    None => problems.add("additionalScorerIds must be a list of ids"),
                }
            }
        }
        Some(_) => problems.add("additionalScorerIds must be a list of ids"),
    }
    problems.unless(ids.len() <= MOST_ADDITIONAL, || {
        format!("additionalScorerIds must be at most {MOST_ADDITIONAL} beside the first scorer")
    });
    ids
}

/// A scorer as it was when the run was ordered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorerCopy {
    /// What kind of scorer.
    pub kind: MemberKind,
    /// Its id.
    pub ref_id: String,
    /// Its name.
    pub name: String,
    /// The version.
    pub version: i64,
    /// What people chose of it, as the JSON of its kind's spec.
    pub spec: String,
    /// Whether it had been deleted by then.
    #[serde(default)]
    pub deleted: bool,
}

/// The group that grades a run, and the version of its recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupCopy {
    /// The group.
    pub id: GroupId,
    /// The version of its recipe.
    pub version: i64,
}

/// By what a run's rows are graded, from its first row to its last: a copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grading {
    /// The group; `None` where judges grade by themselves.
    pub group: Option<GroupCopy>,
    /// The members and how they are combined. Of judges by themselves the first has all the weight.
    pub recipe: GroupSpec,
    /// The scorecard.
    pub scorecard: Scorecard,
    /// The members' scorers at their newest version then.
    pub scorers: Vec<ScorerCopy>,
    /// The versions that members are bound to.
    pub pinned: Vec<ScorerCopy>,
    /// Whether the first judge is the dataset's own criteria, which no catalogue holds.
    #[serde(default)]
    pub own_criteria: bool,
}

/// A grader of a run that people can name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// Its scorer's id.
    pub id: String,
    /// Its name.
    pub name: String,
}

impl Grading {
    /// How opinions become a rating.
    pub fn compose_by(&self) -> Recipe {
        self.recipe.recipe(self.scorecard.clone())
    }

    /// What fills the rating column: the group, or the first judge.
    pub fn primary_name(&self) -> String {
        match &self.group {
            Some(_) => format!("{} (group)", self.recipe.name),
            None => self.recipe.name.clone(),
        }
    }

    /// The id of what fills the rating column; `None` where it is the dataset's own criteria.
    pub fn primary_id(&self) -> Option<&str> {
        match &self.group {
            Some(group) => Some(group.id.as_str()),
            None => self.judge_id(),
        }
    }

    /// The judge that grades by itself.
    pub fn judge_id(&self) -> Option<&str> {
        let first = self.recipe.members.first().filter(|_| self.group.is_none() && !self.own_criteria);
        first.map(|member| member.ref_id.as_str())
    }

    /// The places of the members whose verdicts stand beside the rating: the judges of a group, the additional ones of a judge.
    pub fn beside(&self) -> Vec<usize> {
        let judges = self.recipe.members.iter().enumerate().filter(|(_, member)| member.kind == MemberKind::Judge);
        judges.map(|(place, _)| place).skip(usize::from(self.group.is_none())).collect()
    }

    /// The places of the members that are no judges.
    pub fn deterministic(&self) -> Vec<usize> {
        let others = self.recipe.members.iter().enumerate().filter(|(_, member)| member.kind != MemberKind::Judge);
        others.map(|(place, _)| place).collect()
    }

    /// The grader that is meant by an id or a name: `None` is what fills the rating column, else a judge beside it, by its
    /// place among the members.
    ///
    /// # Errors
    /// Why there is none, or no single one.
    pub fn named(&self, asked: &str) -> Result<Option<(usize, Chosen)>, String> {
        let is_primary =
            [self.primary_id().unwrap_or_default(), &self.primary_name(), &self.recipe.name].contains(&asked);
        if is_primary {
            return Ok(None);
        }
        let chosen = |place: usize| {
            let member = &self.recipe.members[place];
            (place, Chosen { id: member.ref_id.clone(), name: self.name_of(member) })
        };
        let judges: Vec<(usize, Chosen)> = self.beside().into_iter().map(chosen).collect();
        let mut meant: Vec<&(usize, Chosen)> = judges.iter().filter(|(_, it)| it.id == asked).collect();
        if meant.is_empty() {
            meant = judges.iter().filter(|(_, it)| it.name == asked).collect();
        }
        match meant.as_slice() {
            [one] => Ok(Some((*one).clone())),
            [] => {
                let is_other = |place: usize| {
                    let (_, it) = chosen(place);
                    it.id == asked || it.name == asked
                };
                if self.deterministic().into_iter().any(is_other) {
                    return Err(format!(
                        "scorer \"{asked}\" is no judge; only the run's grader and its judges can be gated"
                    ));
                }
                let mut known = vec![self.primary_name()];
                known.extend(judges.iter().map(|(_, it)| it.name.clone()));
                Err(format!("this run has no scorer \"{asked}\"; it has: {}", known.join(", ")))
            }
            several => {
                let ids: Vec<&str> = several.iter().map(|(_, it)| it.id.as_str()).collect();
                Err(format!(
                    "several scorers of this run are called \"{asked}\"; name one by its id: {}",
                    ids.join(", ")
                ))
            }
        }
    }

    /// The name of a member's scorer.
    pub fn name_of(&self, member: &Member) -> String {
        let of = |copy: &&ScorerCopy| copy.ref_id == member.ref_id && copy.kind == member.kind;
        self.scorers.iter().find(of).map_or_else(|| member.ref_id.clone(), |copy| copy.name.clone())
    }
}

/// Everything about a run that stays as it was ordered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// By what its rows are graded.
    pub grading: Grading,
    /// The named subset of cases.
    pub split: Option<String>,
    /// What is evaluated.
    pub subject: Map<String, Value>,
    /// Where the run comes from.
    pub source: String,
    /// The run whose rows were graded anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescored_from: Option<String>,
}

/// Where a run comes from that grades one stored trace. It is compared with others of its kind alone.
pub const TRACE_RUN: &str = "trace";

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Rows are taken.
    InProgress,
    /// It is over.
    Completed,
    /// It was given up.
    Failed,
}

impl RunState {
    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::InProgress, Self::Completed, Self::Failed].into_iter().find(|state| state.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grading(group: bool, members: &[(&str, MemberKind, &str)]) -> Grading {
        let copy = |(id, kind, name): &(&str, MemberKind, &str)| ScorerCopy {
            kind: *kind,
            ref_id: (*id).to_owned(),
            name: (*name).to_owned(),
            version: 1,
            spec: "{}".into(),
            deleted: false,
        };
        let list: Vec<Value> = members.iter().map(|(id, kind, _)| json!({"kind": kind, "refId": id})).collect();
        Grading {
            group: group.then(|| GroupCopy { id: GroupId::trusted("g"), version: 3 }),
            recipe: GroupSpec::create(&json!({"name": "Bar", "members": list})).expect("a group"),
            scorecard: Scorecard::default(),
            scorers: members.iter().map(copy).collect(),
            pinned: Vec::new(),
            own_criteria: false,
        }
    }

    const MEMBERS: [(&str, MemberKind, &str); 4] = [
        ("j1", MemberKind::Judge, "Quality"),
        ("p", MemberKind::Pattern, "Apology"),
        ("j2", MemberKind::Judge, "Safety"),
        ("j3", MemberKind::Judge, "Twice"),
    ];

    #[test]
    fn graders_are_named_by_id_or_name_and_unknown_ones_are_refused() {
        let group = grading(true, &MEMBERS);
        let place = |asked: &str| group.named(asked).map(|found| found.map(|(place, _)| place));
        for primary in ["g", "Bar", "Bar (group)"] {
            assert_eq!(place(primary), Ok(None));
        }
        assert_eq!((place("Safety"), place("j1")), (Ok(Some(2)), Ok(Some(0))));
        assert!(place("Apology").expect_err("no judge").contains("is no judge"));
        assert!(place("Nobody").expect_err("unknown").contains("it has: Bar (group), Quality, Safety, Twice"));
        let judges = grading(false, &[MEMBERS[0], MEMBERS[2]]);
        assert_eq!((judges.primary_id(), judges.judge_id(), judges.beside()), (Some("j1"), Some("j1"), vec![1]));
        let mut twice = grading(true, &MEMBERS);
        twice.scorers[0].name = "Safety".into();
        assert!(twice.named("Safety").expect_err("two").contains("j1, j2"));
    }

    #[test]
    fn a_group_wins_over_judges_and_the_first_judge_is_none_of_the_additional_ones() {
        let read = |body: Value| RunOrder::read(&body);
        let order =
            read(json!({"datasetId": "d", "evaluationSettingsId": "a", "additionalScorerIds": ["a", "b", "b"]}));
        let order = order.expect("an order");
        assert_eq!((order.judge.as_deref(), order.additional.as_slice()), (Some("a"), &["b".to_owned()][..]));
        let order = read(
            json!({"datasetId": "d", "evaluationSettingsId": "a", "additionalScorerIds": ["b"], "scorerGroupId": "g"}),
        );
        let order = order.expect("an order");
        assert_eq!((order.group.is_some(), order.judge, order.additional.len()), (true, None, 0));
        let text = |body: Value| read(body).expect_err("problems").to_string();
        assert_eq!(text(json!({})), "datasetId is required");
        assert!(
            text(
                json!({"datasetId": "d", "evaluationSettingsId": "a", "additionalScorerIds": ["b", "c", "d", "e", "f"]})
            )
            .contains("at most 4")
        );
        assert!(
            text(json!({"datasetId": "d", "additionalScorerIds": ["b"]})).contains("name one in evaluationSettingsId")
        );
    }
}
