//! `afterword sample`: whether a group's sampling keeps a session, and why.

use serde_json::json;

use super::args::SampleArgs;
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use crate::domain::ids::{GroupId, SessionId};
use crate::domain::sample::{self, Draw};

/// The answer: a table, or one line of JSON `{session, group, hash, unit, rate, kept}` where `hash` is 16 hexadecimal digits
/// and `rate` and `kept` are null where no rate was given.
pub fn answer(args: &SampleArgs, style: Style) -> String {
    // Both are there where no subcommand is: the command line sees to it.
    let session = args.session.as_ref().map_or("", SessionId::as_str);
    let group = args.group.as_ref().map_or("", GroupId::as_str);
    let draw = sample::draw(session, group);
    let hash = format!("{:016x}", draw.hash);
    if args.json {
        let kept = args.rate.map(|rate| draw.kept_at(rate));
        let answer = json!({
            "session": session, "group": group, "hash": hash, "unit": draw.unit, "rate": args.rate, "kept": kept,
        });
        return format!("{answer}\n");
    }
    let mut table = Table::new([Column::text(""), Column::text("")]);
    table.row([Cell::from("session"), session.into()]);
    table.row([Cell::from("group"), group.into()]);
    table.row([Cell::from("hash"), hash.into()]);
    table.row([Cell::from("unit"), draw.unit.to_string().into()]);
    table.row([Cell::from("decision"), decision(draw, args.rate).into()]);
    table.render(style)
}

fn decision(draw: Draw, rate: Option<f64>) -> String {
    match rate {
        Some(rate) if draw.kept_at(rate) => format!("kept at rate {rate}: the unit is below it"),
        Some(rate) => format!("left out at rate {rate}: the unit is not below it"),
        None => format!("kept at every rate above {}", draw.unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(rate: Option<f64>, json: bool) -> SampleArgs {
        let (session, group) = (SessionId::trusted("会話-42"), GroupId::trusted("groupe-é"));
        SampleArgs { stored: None, session: Some(session), group: Some(group), rate, json }
    }

    #[test]
    fn people_get_hash_unit_and_decision() {
        insta::assert_snapshot!(answer(&args(Some(0.8), false), Style::PLAIN), @r"
        session   会話-42
        group     groupe-é
        hash      b6994201568fccbe
        unit      0.7132760289446757
        decision  kept at rate 0.8: the unit is below it
        ");
        assert!(answer(&args(Some(0.7), false), Style::PLAIN).contains("left out at rate 0.7"));
        assert!(answer(&args(None, false), Style::PLAIN).contains("kept at every rate above 0.7132760289446757"));
    }

    #[test]
    fn machines_get_the_published_numbers() {
        let read =
            |rate| -> serde_json::Value { serde_json::from_str(&answer(&args(rate, true), Style::PLAIN)).unwrap() };
        let expected = json!({
            "session": "会話-42", "group": "groupe-é", "hash": "b6994201568fccbe", "unit": 0.713_276_028_944_675_7,
            "rate": 0.5, "kept": false,
        });
        assert_eq!(read(Some(0.5)), expected);
        assert_eq!(read(None)["kept"], serde_json::Value::Null);
    }
}
