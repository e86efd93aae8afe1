//! Members of a group on the wire: read with every problem told at once, each naming its member.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compose::Category;
use super::compose::by_hand::threshold;
use super::group::{MemberKind, whole};
use super::problems::Problems;

/// A member: a scorer by reference, and how it counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// What kind of scorer.
    pub kind: MemberKind,
    /// The scorer's id.
    pub ref_id: String,
    /// How much it counts, 0-1000.
    pub weight: f64,
    /// Whether it must pass.
    pub gate: bool,
    /// From which goodness on it passes, 0-1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_threshold: Option<f64>,
    /// The version it is bound to; the newest where `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Where a scorecard counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
}

impl Member {
    /// A member of weight 1 that is no gate and says nothing else.
    pub fn plain(kind: MemberKind, ref_id: impl Into<String>) -> Self {
        Self {
            kind,
            ref_id: ref_id.into(),
            weight: 1.0,
            gate: false,
            pass_threshold: None,
            version: None,
            category: None,
        }
    }

    /// Whether this is the same scorer at the same version.
    pub fn is_same_scorer(&self, other: &Self) -> bool {
        (self.kind, &self.ref_id, self.version) == (other.kind, &other.ref_id, other.version)
    }

    /// How people find it in the list: `members[2] (judge "id")`.
    pub(crate) fn place(&self, index: usize) -> String {
        format!("members[{index}] ({} \"{}\")", self.kind.as_str(), self.ref_id)
    }
}

/// What a scorer answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputType {
    /// Yes or no.
    PassFail,
    /// A number.
    Score,
    /// One of several labels.
    Choices,
}

impl OutputType {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PassFail => "pass_fail",
            Self::Score => "score",
            Self::Choices => "choices",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::PassFail, Self::Score, Self::Choices].into_iter().find(|output| output.as_str() == name)
    }
}

/// The members that a body lists.
pub(super) fn read_members(value: Option<&Value>, problems: &mut Problems) -> Vec<Member> {
    let Some(items) = value.and_then(Value::as_array) else {
        problems.add("members must be a list of 1-20 scorers");
        return Vec::new();
    };
    problems.unless((1..=20).contains(&items.len()), || {
        let first_left_over = items.get(20).and_then(|item| item.get("refId")).and_then(Value::as_str);
        let which = first_left_over.map_or_else(String::new, |id| format!(" (members[20] is \"{id}\")"));
        format!("members must list 1-20 scorers, not {}{which}", items.len())
    });
    let mut members: Vec<Member> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(member) = read_member(index, item, problems) else { continue };
        problems.unless(!members.iter().any(|other| other.is_same_scorer(&member)), || {
            let version = member.version.map_or_else(|| "its newest version".to_owned(), |it| format!("version {it}"));
            format!("{}: the same scorer is listed twice at {version}", member.place(index))
        });
        members.push(member);
    }
    members
}

fn read_member(index: usize, item: &Value, problems: &mut Problems) -> Option<Member> {
    let ref_id = item.get("refId").and_then(Value::as_str).unwrap_or_default();
    let of = if ref_id.is_empty() { String::new() } else { format!(" (\"{ref_id}\")") };
    let kind_name = item.get("kind").and_then(Value::as_str).unwrap_or_default();
    let kind = MemberKind::from_name(kind_name);
    problems.unless(kind.is_some(), || {
        let is_group = ["group", "scorer-group", "scorer_group", "scorerGroup"].contains(&kind_name);
        let why = if is_group { ": a group can't be a member of a group; list its scorers instead" } else { "" };
        format!("members[{index}].kind must be judge, pattern or custom{of}{why}")
    });
    problems.unless((1..=200).contains(&ref_id.chars().count()) && !ref_id.contains('\0'), || {
        format!("members[{index}].refId must be 1-200 characters")
    });
    let weight = match item.get("weight") {
        None | Some(Value::Null) => Some(1.0),
        Some(value) => value.as_f64().filter(|weight| (0.0..=1000.0).contains(weight)),
    };
    problems.unless(weight.is_some(), || format!("members[{index}].weight must be a number between 0 and 1000{of}"));
    let mut found = Problems::none();
    let pass_threshold = threshold(item.get("passThreshold"), "passThreshold", &mut found);
    problems.unless(found.is_empty(), || format!("members[{index}].{found}{of}"));
    let version = match item.get("version") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let version = whole(value).filter(|version| *version >= 1);
            problems
                .unless(version.is_some(), || format!("members[{index}].version must be a whole number from 1{of}"));
            version
        }
    };
    let category = match item.get("category") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let category = value.as_str().and_then(Category::from_name);
            problems.unless(category.is_some(), || {
                format!("members[{index}].category must be accuracy, experience or diagnostic{of}")
            });
            category
        }
    };
    let gate = item.get("gate") == Some(&Value::Bool(true));
    Some(Member { weight: weight?, gate, pass_threshold, version, category, ..Member::plain(kind?, ref_id) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(members: &Value) -> Result<Vec<Member>, String> {
        let mut problems = Problems::none();
        let members = read_members(Some(members), &mut problems);
        problems.into_result(members).map_err(|problems| problems.to_string())
    }

    #[test]
    fn everything_about_a_member_is_read_and_what_is_absent_stays_absent() {
        let given = json!({"kind": "judge", "refId": "j", "weight": 0.5, "gate": true, "passThreshold": 0.8, "version": 3.0,
                           "category": "experience"});
        let full = Member {
            weight: 0.5,
            gate: true,
            pass_threshold: Some(0.8),
            version: Some(3),
            category: Some(Category::Experience),
            ..Member::plain(MemberKind::Judge, "j")
        };
        assert_eq!(read(&json!([given])), Ok(vec![full]));
        let plain = Member::plain(MemberKind::Pattern, "p");
        assert_eq!(read(&json!([{"kind": "pattern", "refId": "p"}])), Ok(vec![plain.clone()]));
        assert_eq!(json!(plain), json!({"kind": "pattern", "refId": "p", "weight": 1.0, "gate": false}));
        let stored: Member = serde_json::from_value(json!(plain)).expect("a member as stored before");
        assert_eq!(stored, plain);
    }

    #[test]
    fn what_is_wrong_with_a_member_names_it() {
        for (member, text) in [
            (
                json!({"kind": "judge", "refId": "j", "weight": 1000.5}),
                "members[0].weight must be a number between 0 and 1000 (\"j\")",
            ),
            (
                json!({"kind": "judge", "refId": "j", "weight": -1}),
                "members[0].weight must be a number between 0 and 1000 (\"j\")",
            ),
            (
                json!({"kind": "judge", "refId": "j", "passThreshold": 1.1}),
                "members[0].passThreshold must be a number between 0 and 1 (\"j\")",
            ),
            (
                json!({"kind": "judge", "refId": "j", "version": 0}),
                "members[0].version must be a whole number from 1 (\"j\")",
            ),
            (
                json!({"kind": "judge", "refId": "j", "category": "x"}),
                "members[0].category must be accuracy, experience or diagnostic (\"j\")",
            ),
            (
                json!({"kind": "group", "refId": "g"}),
                "members[0].kind must be judge, pattern or custom (\"g\"): a group can't be a member of a group; list its scorers instead",
            ),
        ] {
            assert_eq!(read(&json!([member])).expect_err("a problem"), text);
        }
    }

    #[test]
    fn the_same_scorer_twice_with_the_same_version_is_refused() {
        let judge = |version: Value| json!({"kind": "judge", "refId": "j", "version": version});
        let twice = read(&json!([judge(Value::Null), judge(Value::Null)])).expect_err("a problem");
        assert_eq!(twice, "members[1] (judge \"j\"): the same scorer is listed twice at its newest version");
        let pinned = read(&json!([judge(json!(2)), judge(json!(1)), judge(json!(2))])).expect_err("a problem");
        assert_eq!(pinned, "members[2] (judge \"j\"): the same scorer is listed twice at version 2");
        assert!(read(&json!([judge(json!(2)), judge(json!(1)), judge(Value::Null)])).is_ok());
        assert!(read(&json!([judge(Value::Null), {"kind": "pattern", "refId": "j"}])).is_ok());
    }

    #[test]
    fn more_than_twenty_members_are_refused_and_the_first_left_over_is_named() {
        let members: Vec<Value> = (0..21).map(|n| json!({"kind": "judge", "refId": format!("j{n}")})).collect();
        let text = read(&json!(members)).expect_err("a problem");
        assert_eq!(text, "members must list 1-20 scorers, not 21 (members[20] is \"j20\")");
    }
}
