//! The script: the bundled conversations, and the scorers they are judged with.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::domain::group::{GroupSpec, MemberKind};
use crate::domain::ids::ProjectId;
use crate::domain::judge::JudgeSpec;
use crate::domain::pattern::PatternSpec;
use crate::domain::time::Timestamp;
use crate::store::{SavedGroup, ScorerDraft, Store};

const CONVERSATIONS: &str = include_str!("conversations.jsonl");
const SCORERS: &str = include_str!("scorers.json");

/// When a conversation plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has long gone quiet.
    Idle,
    /// It spoke just now.
    Active,
    /// It goes quiet, is judged, and then goes on.
    Grows,
}

/// One bundled conversation.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) stage: Stage,
    /// The chat line as it is imported first.
    pub(super) beginning: Value,
    /// The same with what is said later.
    pub(super) whole: Value,
}

/// All that the demo plays.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) conversations: Vec<Talk>,
    scorers: Value,
}

impl Script {
    pub(super) fn bundled() -> anyhow::Result<Self> {
        let conversations =
            CONVERSATIONS.lines().filter(|line| !line.is_empty()).map(talk).collect::<Result<_, _>>()?;
        Ok(Self { conversations, scorers: serde_json::from_str(SCORERS)? })
    }

    /// Saves the patterns, the judge where one is configured, and the group.
    pub(super) async fn save_catalogue(
        &self,
        store: &Store,
        project: &ProjectId,
        has_judge: bool,
        now: Timestamp,
    ) -> anyhow::Result<SavedGroup> {
        let mut ids: BTreeMap<String, String> = BTreeMap::new();
        for pattern in self.scorers["patterns"].as_array().context("scorers.json lists patterns")? {
            let spec = PatternSpec::create(pattern)?;
            let draft =
                ScorerDraft { kind: MemberKind::Pattern, name: spec.name.clone(), spec: serde_json::to_string(&spec)? };
            ids.insert(key(pattern)?, store.create_scorer(project, &draft, now).await?.id.to_string());
        }
        let mut group = self.scorers["group"].clone();
        let members = group["members"].as_array_mut().context("scorers.json lists the group's members")?;
        if has_judge {
            let judge = &self.scorers["judge"];
            let spec = JudgeSpec::create(judge)?;
            let draft =
                ScorerDraft { kind: MemberKind::Judge, name: spec.name.clone(), spec: serde_json::to_string(&spec)? };
            ids.insert(key(judge)?, store.create_scorer(project, &draft, now).await?.id.to_string());
            members.push(judge["member"].clone());
        }
        for member in members {
            let name = member["refId"].as_str().context("a member has a refId")?;
            let id = ids.get(name).with_context(|| format!("scorers.json has no scorer \"{name}\""))?;
            member["refId"] = json!(id);
        }
        Ok(store.create_group(project, &GroupSpec::create(&group)?, now, now).await?)
    }
}

fn key(scorer: &Value) -> anyhow::Result<String> {
    scorer["id"].as_str().map(str::to_owned).context("a scorer in scorers.json has an id")
}

fn talk(line: &str) -> anyhow::Result<Talk> {
    let beginning: Value = serde_json::from_str(line)?;
    let stage = match beginning["demo"]["stage"].as_str() {
        Some("idle") => Stage::Idle,
        Some("active") => Stage::Active,
        Some("grows") => Stage::Grows,
        other => anyhow::bail!("a conversation of stage {other:?}"),
    };
    let mut whole = beginning.clone();
    if let (Some(messages), Some(more)) = (whole["messages"].as_array_mut(), beginning["demo"]["more"].as_array()) {
        messages.extend(more.iter().cloned());
    }
    Ok(Talk { stage, beginning, whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_script_holds_what_the_demo_promises() {
        let script = Script::bundled().expect("a script");
        let of = |stage| script.conversations.iter().filter(|talk| talk.stage == stage).count();
        assert!(script.conversations.len() >= 24);
        assert!(of(Stage::Active) >= 1 && of(Stage::Grows) >= 1);
        for talk in &script.conversations {
            assert!(!crate::ingest::chat::spans(&talk.whole).expect("spans").is_empty());
        }
    }
}
