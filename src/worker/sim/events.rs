//! What happens in a simulated world: arrivals, sweeps, deaths, the passing of time and a clock set back, and at last rest.

use std::sync::Arc;

use super::model::Piece;
use super::world::{Done, Kind, PROCESSES, Task, Trouble, World};
use super::{checks, edits, mail, orders, script};
use crate::clock::Clock as _;
use crate::domain::time::Micros;
use crate::store::{Arrival, Claimed, SessionEnd};
use crate::test_support::steps::{At, Stop};

/// How long a session is leased.
const LEASE: Micros = Micros::seconds(300);
const CALM: Trouble = Trouble { database: 0, judge: 0, receiver: 0 };

impl World<'_> {
    fn tasks_of(&self, process: usize) -> Vec<u64> {
        self.tasks.iter().filter(|(_, task)| task.process == process).map(|(id, _)| *id).collect()
    }

    /// A process dies: whatever it was doing is dropped where it stands.
    fn crash(&mut self, process: usize) {
        self.tell(|| format!("process {process} dies"));
        let dead = self.tasks_of(process);
        let cut = |stop: &&Stop| matches!(stop.at, At::Ask { .. }) && dead.contains(&stop.task);
        self.tally.calls_cut += self.sim.stops().iter().filter(cut).count() as u64;
        for stop in self.sim.stops().iter().filter(|stop| dead.contains(&stop.task)) {
            if let At::Post { id, .. } = &stop.at
                && self.dice.below(2) == 0
            {
                mail::arrived(self, stop.task, id);
            }
        }
        for id in self.tasks_of(process) {
            let task = self.tasks.remove(&id).expect("it is there");
            // The client of a dead server does not know, and sends again.
            if let Kind::Send(pieces, _) = &task.kind {
                self.unsent.push(pieces.clone());
            }
            drop(task);
        }
        self.sim.abandoned();
        self.processes[process] = self.process();
    }

    /// A process stops in order: what it holds is given back.
    async fn stop(&mut self, process: usize) {
        let mut claims: Vec<Claimed> = Vec::new();
        for id in self.tasks_of(process) {
            if matches!(self.tasks[&id].kind, Kind::Assess(..)) {
                let Some(Task { kind: Kind::Assess(claim, _), .. }) = self.tasks.remove(&id) else { continue };
                claims.push(claim);
            }
        }
        self.sim.abandoned();
        std::mem::take(&mut self.processes[process].cancel).cancel();
        self.tell(|| format!("process {process} stops and gives back {}", claims.len()));
        let (store, now) = (self.processes[process].recorder.store.clone(), self.clock.now());
        self.start(process, Kind::Other, async move { Done::Other(store.release(&claims, now).await) }).await;
    }

    async fn send(&mut self, pieces: Vec<Piece>) {
        let process = self.some_process();
        let (store, now) = (self.processes[process].recorder.store.clone(), self.clock.now());
        let arrival = Arrival {
            project: self.project.clone(),
            spans: pieces.iter().map(|piece| script::span(*piece)).collect(),
            margin: Micros::seconds([0, 30, 60][script::below(&self.dice, 3)]),
            trace_settle: Micros::seconds(2),
        };
        self.tell(|| format!("sends {pieces:?}"));
        let send = async move { Done::Sent(store.ingest(&[arrival], now).await.map(|_| ())) };
        self.start(process, Kind::Send(pieces, now), send).await;
    }

    async fn plan(&mut self, process: usize) {
        let worker = Arc::clone(&self.processes[process].worker);
        let ahead = Micros::seconds([0, 60][script::below(&self.dice, 2)]);
        self.start(process, Kind::Plan, async move { Done::Planned(worker.plan(None, ahead).await.map(|_| ())) }).await;
    }

    async fn claim(&mut self, process: usize, expired: bool) {
        let (store, now) = (self.processes[process].recorder.store.clone(), self.clock.now());
        let (limit, caps) = (1 + script::below(&self.dice, 3), self.caps);
        let claim = async move {
            let until = now + LEASE;
            Done::Claimed(if expired {
                store.claim_expired(None, "sim", now, until).await.map(|claim| claim.into_iter().collect())
            } else {
                store.claim(None, "sim", limit, now, until, caps).await
            })
        };
        let waiting = orders::waiting(self, now).await;
        self.start(process, Kind::Claim(now, waiting), claim).await;
    }

    async fn record(&mut self, process: usize) {
        let ends = std::mem::take(&mut self.processes[process].ends);
        if !ends.is_empty() {
            let recorder = Arc::clone(&self.processes[process].recorder);
            let handed_in: Vec<SessionEnd> = ends.iter().map(|(end, _)| end.clone()).collect();
            let record = async move { Done::Recorded(recorder.record(handed_in).await) };
            self.start(process, Kind::Record(ends), record).await;
        }
    }

    async fn renew(&mut self, process: usize) {
        let held = self.tasks_of(process).into_iter().filter_map(|id| match &self.tasks[&id].kind {
            Kind::Assess(claim, _) => Some(claim.clone()),
            _ => None,
        });
        let claims: Vec<Claimed> = held.collect();
        let (store, until) = (self.processes[process].recorder.store.clone(), self.clock.now() + LEASE);
        let renew = async move { Done::Other(store.renew(&claims, until).await.map(|_| ())) };
        self.start(process, Kind::Other, renew).await;
    }

    fn pass_time(&mut self, by: Micros) {
        self.clock.advance(by);
        self.latest = self.latest.max(self.clock.now());
    }

    /// The clock is set right.
    fn set_clock_back(&mut self) {
        let by = Micros::seconds([1, 5, 30][script::below(&self.dice, 3)]);
        self.tell(|| format!("the clock is set back by {by:?}"));
        self.set_back = Micros::new(self.set_back.get() + by.get());
        self.clock.advance(Micros::new(-by.get()));
    }

    /// A session goes on and on. Groups that want it judge it all the same, where that was chosen.
    async fn chatter(&mut self) {
        const STEP: Micros = Micros::seconds(100);
        if self.max_session_age == Micros::ZERO || self.has_budget {
            return;
        }
        self.rest().await;
        let trouble = std::mem::replace(&mut self.trouble, CALM);
        let session = self.dice.below(script::SESSIONS);
        self.tell(|| format!("s{session} goes on and on"));
        // Until it is old enough, and then for as long as an alarm may take to ring.
        for _ in 0..18 {
            self.chats += 1;
            self.pass_time(STEP);
            self.send(vec![script::chat(session, self.chats)]).await;
            self.finish().await;
            self.plan(0).await;
            self.finish().await;
            self.claim(0, false).await;
            self.claim(1, false).await;
            self.finish().await;
        }
        checks::is_judged_meanwhile(self, session);
        self.trouble = trouble;
    }

    fn some_process(&self) -> usize {
        script::below(&self.dice, PROCESSES)
    }

    /// One thing happens.
    pub(super) async fn event(&mut self) {
        let stops = self.sim.stops();
        let process = self.some_process();
        match self.dice.below(if self.post.is_owed() { 129 } else { 117 }) {
            0..=66 if !stops.is_empty() => {
                let stop = &stops[script::below(&self.dice, stops.len())];
                // Judges are slow.
                if !matches!(stop.at, At::Ask { .. }) || self.dice.below(3) == 0 {
                    self.go(stop).await;
                }
            }
            0..=71 if self.tasks.len() < 10 => {
                let pieces = if self.unsent.is_empty() || self.dice.below(2) == 0 {
                    script::pieces(&self.dice)
                } else {
                    self.unsent.remove(0)
                };
                self.send(pieces).await;
            }
            72..=76 => self.plan(process).await,
            77..=83 => self.claim(process, self.dice.below(4) == 0).await,
            84..=87 => self.record(process).await,
            88..=92 => {
                self.pass_time(Micros::seconds([1, 10, 45, 130, 700, 4000][script::below(&self.dice, 6)]));
            }
            93 => {
                // Death comes while a judge thinks or a receiver is told more often than not.
                let asks = stops.iter().rfind(|stop| matches!(stop.at, At::Ask { .. } | At::Post { .. }));
                self.crash(asks.map_or(process, |stop| self.tasks[&stop.task].process));
            }
            94 if self.dice.below(2) == 0 => self.stop(process).await,
            94 => self.renew(process).await,
            95..=97 => edits::edit(self).await,
            98 if self.dice.below(2) == 0 => self.rest().await,
            103 | 104 => self.order_resweep().await,
            105..=109 => self.step_resweeps(process).await,
            110 | 111 => self.act().await,
            113 | 114 => self.prune(process).await,
            115 => self.set_clock_back(),
            116 if self.dice.below(4) == 0 => self.chatter().await,
            100 | 101 | 116..=121 => self.change_receivers().await,
            102 | 122.. => self.deliver(process).await,
            _ => {}
        }
    }

    /// Nothing new comes, and soon nothing goes wrong any more: all that is owed must be paid, and all be quiet.
    pub(super) async fn rest(&mut self) {
        self.tell(|| "everything comes to rest".to_owned());
        let trouble = std::mem::replace(&mut self.trouble, CALM);
        while !self.unsent.is_empty() {
            let pieces = self.unsent.remove(0);
            self.send(pieces).await;
            self.finish().await;
        }
        self.finish().await;
        let troubled = self.dice.below(5);
        for round in 0.. {
            assert!(round < 200, "does not come to rest");
            self.trouble = if round < troubled { Trouble { database: 0, ..trouble } } else { CALM };
            self.pass_time(Micros::seconds(if self.has_budget { 20_000 } else { 3000 }));
            self.plan(0).await;
            self.finish().await;
            self.claim(0, false).await;
            self.claim(1, true).await;
            self.deliver(2).await;
            self.finish().await;
            self.resume_resweeps().await;
            self.step_resweeps(2).await;
            self.finish().await;
            if checks::is_at_rest(self).await {
                break;
            }
        }
        checks::all_is_paid(self).await;
        self.trouble = trouble;
    }

    /// Lets every task come to its end.
    async fn finish(&mut self) {
        loop {
            while let Some(stop) = self.sim.stops().first().cloned() {
                self.go(&stop).await;
            }
            assert!(self.tasks.is_empty(), "a task waits for nobody");
            for process in 0..PROCESSES {
                self.record(process).await;
            }
            if self.tasks.is_empty() {
                return;
            }
        }
    }
}
