//! `afterword compose`: the verdict that opinions in a file compose to, by the code that composes live ones.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::args::ComposeArgs;
use super::table::{Cell, Column, Table, Tone};
use super::terminal::Style;
use crate::domain::compose::by_hand::ByHand;

/// The verdict: a table, or one line of JSON.
///
/// # Errors
/// Why the file can't be read, or everything that is wrong with it.
pub fn answer(args: &ComposeArgs, style: Style) -> Result<String, String> {
    let text = read(&args.file)?;
    let name = match args.file.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => args.file.display().to_string(),
    };
    let document: Value = serde_json::from_str(&text).map_err(|error| format!("{name} is not JSON: {error}"))?;
    let by_hand = ByHand::read(&document).map_err(|problems| format!("{name}: {problems}"))?;
    let verdict = by_hand.verdict();
    Ok(if args.json { format!("{verdict}\n") } else { table(&verdict, &by_hand, style) })
}

fn read(path: &Path) -> Result<String, String> {
    if path == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        return read.map(|_| text).map_err(|error| format!("standard input can't be read: {error}"));
    }
    std::fs::read_to_string(path).map_err(|error| format!("{} can't be read: {error}", path.display()))
}

fn table(verdict: &Value, by_hand: &ByHand, style: Style) -> String {
    let number = |key: &str, digits: usize| verdict[key].as_f64().map(|number| format!("{number:.digits$}"));
    let word = |key: &str| verdict[key].as_str().map(str::to_owned);
    let mut facts = Table::new([Column::text(""), Column::text("")]);
    let mut fact = |name: &str, value: Option<String>| {
        facts.row([Cell::from(name), value.unwrap_or_else(|| "none".to_owned()).into()]);
    };
    fact("rating", number("rating", 1).map(|rating| format!("{rating}/10")));
    fact("unrounded", number("mean", 6));
    fact("pass", verdict["pass"].as_bool().map(|pass| if pass { "yes" } else { "no" }.to_owned()));
    fact("gated by", word("gatedBy"));
    let scorecard = &by_hand.recipe.scorecard;
    let score = number("scorecardScore", 1).map(|score| format!("{score} of {}", scorecard.out_of));
    fact("scorecard", score.zip(word("band")).map(|(score, band)| format!("{score}: {band}")));
    fact("coverage", number("coverage", 2));
    fact("because", word("justification"));
    let mut members = Table::new([
        Column::text("member"),
        Column::number("weight"),
        Column::text("gate"),
        Column::text("passes"),
        Column::long_text("said"),
    ]);
    for (opinion, grade) in by_hand.opinions.iter().zip(by_hand.grades()) {
        use crate::domain::compose::Grade;
        let (grade, tone) = match grade {
            Some(Grade::Pass) => ("yes", Tone::Good),
            Some(Grade::Fail) => ("no", Tone::Bad),
            Some(Grade::CantTell) => ("can't tell", Tone::Doubtful),
            None => ("not graded", Tone::Faint),
        };
        members.row([
            Cell::from(opinion.name.as_str()),
            opinion.weight.to_string().into(),
            if opinion.gate { "must pass" } else { "" }.into(),
            Cell::toned(grade, tone),
            opinion.detail.as_str().into(),
        ]);
    }
    format!("{}\n{}", facts.render(style), members.render(style))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(document: &str, json: bool) -> (tempfile::TempDir, ComposeArgs) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("panel.json");
        std::fs::write(&file, document).unwrap();
        (folder, ComposeArgs { file, json })
    }

    const PANEL: &str = r#"{"members": [
        {"name": "Quality", "kind": "judge", "weight": 2, "outcome": {"goodness": 0.9}},
        {"name": "Tone", "kind": "judge", "outcome": {"declined": "too short"}},
        {"name": "Apology", "kind": "pattern", "weight": 0, "gate": true, "outcome": {"goodness": 1}}
    ], "passThreshold": 0.8}"#;

    #[test]
    fn people_get_the_verdict_and_what_each_member_said() {
        let (_folder, args) = args(PANEL, false);
        insta::assert_snapshot!(answer(&args, Style::PLAIN).unwrap(), @r"
        rating     9.0/10
        unrounded  0.900000
        pass       yes
        gated by   none
        scorecard  100.0 of 100: Good
        coverage   0.67
        because    Weighted blend: Quality 9/10 ×2.

        member   weight  gate       passes      said
        Quality       2             yes         9/10
        Tone          1             can't tell  no score (too short)
        Apology       0  must pass  yes         no match
        ");
    }

    #[test]
    fn machines_get_json_with_null_where_there_is_no_score() {
        let (_folder, args) = args(&PANEL.replace("\"goodness\": 1", "\"failed\": \"outage\""), true);
        let verdict: Value = serde_json::from_str(&answer(&args, Style::PLAIN).unwrap()).unwrap();
        assert_eq!((&verdict["rating"], &verdict["pass"]), (&Value::Null, &Value::Null));
        assert_eq!(verdict["justification"], "No score: must-pass member \"Apology\" could not score (outage).");
    }

    #[test]
    fn what_is_wrong_with_the_file_is_told() {
        let (_folder, broken) = args("{", false);
        assert!(answer(&broken, Style::PLAIN).unwrap_err().contains("is not JSON"));
        let (_folder, empty) = args(r#"{"members": []}"#, false);
        assert!(answer(&empty, Style::PLAIN).unwrap_err().contains("members must list 1-20 members"));
        let missing = ComposeArgs { file: "no-such-file.json".into(), json: false };
        assert!(answer(&missing, Style::PLAIN).unwrap_err().contains("can't be read"));
    }
}
