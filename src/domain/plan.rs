//! Planning: which groups want to judge a session now, and when to look again.

use std::collections::BTreeMap;

use super::conversation::Agent;
use super::group::{GroupSpec, Scope};
use super::ids::{GroupId, SessionId};
use super::sample;
use super::time::{Micros, Timestamp};

/// The most that ingest waits before the planner looks at a session, and the margin that a pass by hand looks ahead.
pub const LONGEST_MARGIN: Micros = Micros::seconds(60);

/// How long to wait for what may still come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long a turn whose root has not arrived keeps its session from being quiet.
    pub root_grace: Micros,
    /// How long after its last new content a trace is judged by itself.
    pub trace_settle: Micros,
}

/// What planning needs to know of a group that scores live traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveGroup {
    /// The group.
    pub id: GroupId,
    /// Whether it judges sessions, or each trace by itself.
    pub scope: Scope,
    /// The share of sessions, or of traces, that it judges, 0..=1.
    pub sample_rate: f64,
    /// How long a session must have been quiet. Of no meaning for traces.
    pub idle: Micros,
    /// The fewest turns of a session that it judges. Of no meaning for traces.
    pub min_turns: i64,
    /// The agents that it selects, by id or name; all where `None`.
    pub agents: Option<Vec<String>>,
}

impl LiveGroup {
    /// The group as planning sees it; `None` where it does not score live traffic.
    pub fn of(id: GroupId, spec: &GroupSpec) -> Option<Self> {
        let online = spec.online.as_ref().filter(|online| online.enabled)?;
        Some(Self {
            id,
            scope: online.scope,
            sample_rate: online.sample_rate,
            idle: Micros::seconds(online.idle_seconds),
            min_turns: online.min_turns,
            agents: online.agents.clone(),
        })
    }

    /// Whether it judges what that agent did. Planning does not ask, since a conversation names its agent only once it is read.
    pub fn selects(&self, agent: Option<&Agent>) -> bool {
        self.agents.as_ref().is_none_or(|selected| {
            agent.is_some_and(|agent| selected.iter().any(|it| *it == agent.id || *it == agent.name))
        })
    }
}

/// What planning needs to know of a session, or of a trace that is judged by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The session, or the trace in its place.
    pub session: SessionId,
    /// Its content version.
    pub revision: i64,
    /// When its last new content arrived.
    pub last_arrival_at: Timestamp,
    /// Turns led by a root.
    pub turns: i64,
    /// Turns whose root has not arrived.
    pub rootless: i64,
    /// The last arrival in a turn whose root has not arrived.
    pub rootless_at: Option<Timestamp>,
    /// When its spans were pruned, if they ever were: what is there now is the rest of a conversation.
    pub pruned_at: Option<Timestamp>,
}

/// How old a session is, by this server's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Age {
    /// When its first span arrived.
    pub began_at: Timestamp,
    /// When each group judged it last.
    pub judged_at: BTreeMap<GroupId, Timestamp>,
}

impl Age {
    /// Whether a session that is still going on is judged by a group all the same: it has been for so long, since it began or
    /// since that group judged it last. A zero length is never.
    pub fn is_due(&self, group: &GroupId, now: Timestamp, max_age: Micros) -> bool {
        let since = self.judged_at.get(group).map_or(self.began_at, |judged| self.began_at.max(*judged));
        max_age > Micros::ZERO && now - since >= max_age
    }
}

/// Why a group does not judge a session now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NotNow {
    /// Its spans were pruned: what arrived since is not the whole conversation, and never will be.
    Pruned,
    /// The group judges sessions and this is a trace, or the other way round.
    OtherScope,
    /// Fewer turns than the group judges.
    TooFewTurns,
    /// The stable hash leaves it out at the group's rate.
    SampledOut,
    /// Not quiet long enough yet; holds the moment from which it will have been, if nothing new arrives.
    Active(Timestamp),
}

impl Standing {
    /// Whether `group` judges this session now.
    ///
    /// # Errors
    /// [`NotNow`] says why it does not.
    pub fn eligible(&self, group: &LiveGroup, now: Timestamp, patience: Patience) -> Result<(), NotNow> {
        let is_trace = self.session.is_trace();
        if is_trace != (group.scope == Scope::Trace) {
            return Err(NotNow::OtherScope);
        }
        if self.pruned_at.is_some() {
            return Err(NotNow::Pruned);
        }
        if !is_trace && self.turns + self.rootless < group.min_turns {
            return Err(NotNow::TooFewTurns);
        }
        if !sample::draw(self.session.bare(), group.id.as_str()).kept_at(group.sample_rate) {
            return Err(NotNow::SampledOut);
        }
        let quiet_at = if is_trace {
            self.last_arrival_at + patience.trace_settle
        } else {
            self.quiet_at(group.idle, patience.root_grace)
        };
        if quiet_at > now { Err(NotNow::Active(quiet_at)) } else { Ok(()) }
    }

    /// The moment from which the session counts as quiet. A turn whose root has not arrived may still be going on: it keeps
    /// the session from being quiet until the grace since its last span has passed.
    fn quiet_at(&self, idle: Micros, root_grace: Micros) -> Timestamp {
        let idle_at = self.last_arrival_at + idle;
        match self.rootless_at {
            Some(arrived) if self.rootless > 0 => idle_at.max(arrived + root_grace),
            _ => idle_at,
        }
    }
}

/// What to do about a session whose alarm is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The groups, by index, that want it judged at its present revision.
    pub wanted_by: Vec<usize>,
    /// When to look again; `None` disarms the alarm until new content arrives.
    pub check_at: Option<Timestamp>,
}

/// Decides for every group at once.
pub fn decide(session: &Standing, groups: &[LiveGroup], now: Timestamp, patience: Patience) -> Decision {
    let mut decision = Decision { wanted_by: Vec::new(), check_at: None };
    for (index, group) in groups.iter().enumerate() {
        match session.eligible(group, now, patience) {
            Ok(()) => decision.wanted_by.push(index),
            Err(NotNow::Active(until)) => {
                decision.check_at = Some(decision.check_at.map_or(until, |earlier| earlier.min(until)));
            }
            Err(NotNow::OtherScope | NotNow::Pruned | NotNow::TooFewTurns | NotNow::SampledOut) => {}
        }
    }
    decision
}

/// How long after an arrival the planner should look at the session: the shortest idle time of the project's groups that judge
/// sessions, and at most [`LONGEST_MARGIN`], so that a group enabled meanwhile is not kept waiting.
pub fn margin(groups: &[LiveGroup]) -> Micros {
    let of_sessions = groups.iter().filter(|group| group.scope == Scope::Session);
    of_sessions.map(|group| group.idle).min().map_or(LONGEST_MARGIN, |idle| idle.min(LONGEST_MARGIN))
}

#[cfg(test)]
mod tests {
    use super::super::ids::TraceId;
    use super::*;

    fn group(id: &str, idle: i64, min_turns: i64, sample_rate: f64) -> LiveGroup {
        LiveGroup {
            id: GroupId::trusted(id),
            scope: Scope::Session,
            sample_rate,
            idle: Micros::seconds(idle),
            min_turns,
            agents: None,
        }
    }

    fn session(turns: i64, rootless: i64) -> Standing {
        Standing {
            session: SessionId::trusted("s"),
            revision: 3,
            last_arrival_at: at(1000),
            turns,
            rootless,
            rootless_at: (rootless > 0).then(|| at(1000)),
            pruned_at: None,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(0).plus(Micros::seconds(seconds))
    }

    const GRACE: Patience = Patience { root_grace: Micros::seconds(60), trace_settle: Micros::seconds(2) };

    #[test]
    fn a_trace_is_due_once_it_has_settled_whatever_the_turns_and_only_for_groups_of_its_scope() {
        let of_traces = LiveGroup { scope: Scope::Trace, ..group("traces", 600, 9, 1.0) };
        let groups = [group("sessions", 0, 2, 1.0), of_traces.clone()];
        let trace = Standing { session: SessionId::of_trace(&TraceId::trusted("t")), ..session(1, 0) };
        let early = decide(&trace, &groups, at(1001), GRACE);
        assert_eq!(early, Decision { wanted_by: vec![], check_at: Some(at(1002)) });
        assert_eq!(decide(&trace, &groups, at(1002), GRACE), Decision { wanted_by: vec![1], check_at: None });
        assert_eq!(decide(&session(5, 0), &groups, at(1002), GRACE).wanted_by, [0]);
        assert_eq!(margin(std::slice::from_ref(&of_traces)), LONGEST_MARGIN);
        let kept = |rate| trace.eligible(&LiveGroup { sample_rate: rate, ..of_traces.clone() }, at(1002), GRACE);
        let unit = sample::draw("t", "traces").unit;
        assert_eq!((kept(unit), kept(unit + 1e-9)), (Err(NotNow::SampledOut), Ok(())));
    }

    #[test]
    fn quiet_groups_want_it_and_the_alarm_waits_for_the_earliest_of_the_others() {
        let groups = [group("fast", 30, 2, 1.0), group("slow", 600, 2, 1.0), group("slower", 900, 2, 1.0)];
        let decision = decide(&session(2, 0), &groups, at(1100), GRACE);
        assert_eq!(decision, Decision { wanted_by: vec![0], check_at: Some(at(1600)) });
        let decision = decide(&session(2, 0), &groups, at(1900), GRACE);
        assert_eq!(decision, Decision { wanted_by: vec![0, 1, 2], check_at: None });
    }

    #[test]
    fn quiet_is_reached_exactly_at_the_idle_time() {
        let groups = [group("g", 120, 2, 1.0)];
        assert_eq!(decide(&session(2, 0), &groups, at(1119), GRACE).wanted_by, [] as [usize; 0]);
        assert_eq!(decide(&session(2, 0), &groups, at(1120), GRACE).wanted_by, [0]);
    }

    #[test]
    fn one_turn_or_a_sample_of_nothing_disarms() {
        assert_eq!(decide(&session(1, 0), &[group("g", 0, 2, 1.0)], at(5000), GRACE).check_at, None);
        let none = decide(&session(9, 0), &[group("g", 0, 2, 0.0)], at(1), GRACE);
        assert_eq!(none, Decision { wanted_by: vec![], check_at: None });
    }

    #[test]
    fn a_turn_without_its_root_counts_once_the_grace_has_passed() {
        let groups = [group("g", 0, 2, 1.0)];
        assert_eq!(decide(&session(1, 1), &groups, at(1059), GRACE).check_at, Some(at(1060)));
        assert_eq!(decide(&session(1, 1), &groups, at(1060), GRACE).wanted_by, [0]);
        assert_eq!(decide(&session(3, 1), &groups, at(1001), GRACE).wanted_by, [] as [usize; 0]);
    }

    #[test]
    fn agents_are_selected_by_id_or_name_and_where_none_is_named_nobody_is_selected() {
        let shop = Agent { id: "shop-7".to_owned(), name: "Shop".to_owned() };
        let of = |agents: Option<&[&str]>| LiveGroup {
            agents: agents.map(|agents| agents.iter().map(|&it| it.to_owned()).collect()),
            ..group("g", 0, 2, 1.0)
        };
        let all: &[(Option<&[&str]>, bool, bool)] = &[
            (None, true, true),
            (Some(&[]), false, false),
            (Some(&["other", "shop-7"]), true, false),
            (Some(&["Shop"]), true, false),
            (Some(&["shop"]), false, false),
        ];
        for (agents, named, unnamed) in all {
            let group = of(*agents);
            assert_eq!((group.selects(Some(&shop)), group.selects(None)), (*named, *unnamed), "{agents:?}");
        }
    }

    #[test]
    fn what_never_becomes_quiet_is_judged_whenever_it_went_on_for_so_long() {
        let (g, h) = (GroupId::trusted("g"), GroupId::trusted("h"));
        let age = Age { began_at: at(1000), judged_at: BTreeMap::from([(h.clone(), at(1500))]) };
        let hour = Micros::seconds(3600);
        let due = |group, now| age.is_due(group, at(now), hour);
        assert_eq!([due(&g, 4599), due(&g, 4600), due(&h, 5099), due(&h, 5100)], [false, true, false, true]);
        assert!(!age.is_due(&g, at(1_000_000), Micros::ZERO), "off");
    }

    #[test]
    fn the_margin_is_the_shortest_idle_time_up_to_a_minute() {
        assert_eq!(margin(&[]), Micros::seconds(60));
        assert_eq!(margin(&[group("a", 600, 2, 1.0)]), Micros::seconds(60));
        assert_eq!(margin(&[group("a", 600, 2, 1.0), group("b", 5, 2, 1.0)]), Micros::seconds(5));
    }
}
