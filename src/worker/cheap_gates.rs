//! Cheap gates first: groups that want it so ask no model once a must-pass member that needs none has failed.

use super::Worker;
use super::panel::{Answers, Panel, Seat, Wanted};
use super::reading::Reading;
use crate::domain::compose::{self, Opinion};
use crate::domain::outcome::Outcome;
use crate::domain::verdict::MemberReport;
use crate::store::{Claimed, StoreError};

impl Panel {
    /// The first member that could not answer for the time being, although it was asked.
    pub(super) fn kept_waiting<'a>(&self, members: &'a [MemberReport]) -> Option<&'a MemberReport> {
        let is_spared = |seat: &Seat| self.spared_by.is_some() && !seat.questions().is_empty();
        let asked = self.seats.iter().zip(members).filter(|(seat, _)| !is_spared(seat)).map(|(_, member)| member);
        asked.into_iter().find(|member| member.outcome.is_transient())
    }

    /// A report that says so where its member was spared.
    pub(super) fn spare(&self, seat: &Seat, report: MemberReport) -> MemberReport {
        match &self.spared_by {
            Some(gate) if report.outcome.is_transient() && !seat.questions().is_empty() => {
                let reason = format!("not asked, since must-pass member \"{gate}\" had failed");
                let detail = format!("no score ({reason})");
                MemberReport { outcome: Outcome::failed_for_now(reason), detail, ..report }
            }
            _ => report,
        }
    }
}

impl Worker {
    /// What comes of all that panels around one conversation want: first what was wanted at once, then what waits for gates that
    /// need no model, as far as none of them failed.
    ///
    /// # Errors
    /// [`StoreError`] where kept answers or history can't be read or new answers kept.
    pub(super) async fn ask_in_turn(
        &self,
        claim: &Claimed,
        reading: &Reading,
        wanted: Wanted,
        panels: Vec<&mut Panel>,
    ) -> Result<Answers, StoreError> {
        let mut later = Wanted::of(wanted.purpose);
        let mut answers = self.ask(claim, reading, wanted).await?;
        for panel in panels.into_iter().filter(|panel| !panel.later.is_empty()) {
            let questions = std::mem::take(&mut panel.later);
            let members = self.reports(panel, reading, &answers);
            let opinions: Vec<Opinion> = members.iter().map(MemberReport::opinion).collect();
            panel.spared_by = compose::failing_gate(&opinions).map(|gate| gate.name.clone());
            if panel.spared_by.is_some() {
                continue;
            }
            for (key, question) in questions {
                match later.questions.get_mut(&key) {
                    Some(asked) => asked.join(question),
                    None => drop(later.questions.insert(key, question)),
                }
            }
        }
        // What another group had asked at once is known by now.
        later.questions.retain(|key, _| !answers.judgements.contains_key(key));
        if !later.questions.is_empty() {
            answers.judgements.extend(self.ask(claim, reading, later).await?.judgements);
        }
        Ok(answers)
    }
}
