//! `GET /agent-monitoring/rail/stream`: a project's verdicts as server-sent events, as they are recorded.
//!
//! Each reader reads the rail at its own pace, by the number it saw last: nobody pushes, so that a slow reader costs the sweep
//! nothing. Between the store and the connection lie a few frames; where they are not taken in time the reader is dropped.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::Api;
use super::auth::Holder;
use super::error::ApiError;
use super::request::Asked;
use super::wire::number;
use crate::clock::stopwatch;
use crate::domain::group::MemberKind;
use crate::domain::ids::{ProjectId, SessionId, TraceId};
use crate::domain::signal::scored_key;
use crate::store::{KeyRow, RailEntry, StoreError};

/// How readers of the rail are served.
#[derive(Debug, Clone, Copy)]
pub struct StreamSettings {
    /// How often a reader is sent a sign of life.
    pub heartbeat: Duration,
    /// How long a reader may take nothing before it is dropped.
    pub patience: Duration,
}

/// How often a reader looks for news.
const LOOK: Duration = Duration::from_millis(250);
/// How many verdicts are read at once, and how many frames may wait for a reader.
const PAGE: usize = 100;
const WAITING: usize = 16;
/// After so long a stream ends and its reader resumes, by whichever process has room.
const LONGEST: Duration = Duration::from_mins(15);

/// A verdict as the stream tells it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    number: i64,
    verdict_id: String,
    /// `None` where a single trace was judged by itself: then that is told.
    session_id: Option<SessionId>,
    trace_id: Option<TraceId>,
    kind: String,
    label: String,
    group_id: String,
    agent_id: Option<String>,
    agent_name: Option<String>,
    rating: Option<Value>,
    justification: String,
    gated_by: Option<String>,
    pass: Option<bool>,
    scorecard_score: Option<Value>,
    band: Option<String>,
    coverage: Value,
    incomplete: bool,
    recomposed: bool,
    interim: bool,
    revision: i64,
    round: i64,
    sequence: i64,
    turns: i64,
    last_turn_at: String,
    created_at: String,
}

impl From<RailEntry> for Told {
    fn from(entry: RailEntry) -> Self {
        let verdict = entry.verdict;
        let label = verdict.label();
        let (score, band) = verdict.scored.map(|scored| (number(scored.score), scored.band)).unzip();
        Self {
            number: entry.number,
            verdict_id: verdict.id.into(),
            session_id: entry.session.as_session(),
            trace_id: entry.session.as_trace(),
            kind: scored_key(verdict.group.as_str(), verdict.judge_model.as_deref()),
            label,
            group_id: verdict.group.into(),
            agent_id: verdict.agent_id,
            agent_name: verdict.agent_name,
            rating: verdict.rating.map(number),
            justification: verdict.justification,
            gated_by: verdict.gated_by,
            pass: verdict.pass,
            scorecard_score: score,
            band,
            coverage: number(verdict.coverage),
            incomplete: verdict.incomplete,
            recomposed: verdict.recomposed,
            interim: verdict.interim,
            revision: verdict.read.revision,
            round: verdict.read.round,
            sequence: verdict.sequence,
            turns: verdict.turns,
            last_turn_at: verdict.last_turn_at.iso(),
            created_at: verdict.created_at.iso(),
        }
    }
}

/// Which verdicts a reader wants; empty text is any.
struct Filter {
    agent: String,
    group: String,
    below: Option<f64>,
}

impl Filter {
    fn wants(&self, entry: &RailEntry) -> bool {
        let verdict = &entry.verdict;
        let watches = verdict.owner.as_ref().is_some_and(|owner| owner.kind != MemberKind::Judge);
        let agents = [verdict.agent_id.as_deref(), verdict.agent_name.as_deref()];
        // What patterns and custom scorers find by themselves are signals, not ratings.
        !watches
            && (self.agent.is_empty() || agents.contains(&Some(self.agent.as_str())))
            && (self.group.is_empty() || verdict.group.as_str() == self.group)
            && self.below.is_none_or(|below| verdict.rating.is_some_and(|rating| rating < below))
    }
}

/// Where a reader goes on: after the id that it saw last, else from now on.
async fn start(api: &Api, project: &ProjectId, headers: &HeaderMap, asked: &Asked) -> Result<i64, ApiError> {
    // What is no text is no id either: to begin elsewhere would leave verdicts out without a word.
    let header = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?").trim()).filter(|id| !id.is_empty());
    let query = asked.word("after")?;
    let head = api.store.rail_head(project).await?;
    let Some(text) = header.or((!query.is_empty()).then_some(query.as_str())) else { return Ok(head) };
    let after = text.parse().ok().filter(|after| (0..=head).contains(after));
    after.ok_or_else(|| {
        ApiError::bad_request(format!(
            "Last-Event-ID, or after, must be the id of an event of this stream, 0 (everything) to {head}"
        ))
    })
}

/// `GET /agent-monitoring/rail/stream?agent&group&below&after`, resumed by `Last-Event-ID`.
pub(super) async fn follow(
    State(api): State<Arc<Api>>,
    holder: Holder,
    asked: Asked,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let KeyRow { id: key, project, .. } = holder.key;
    let filter = Filter { agent: asked.word("agent")?, group: asked.word("group")?, below: asked.rating("below")? };
    let place = Arc::clone(&api.streams).try_acquire_owned().map_err(|_| {
        ApiError::unavailable("As many readers follow the rail as server.max_streams allows; try again later", 5)
    })?;
    let seen = start(&api, &project, &headers, &asked).await?;
    let (frames, taken) = mpsc::channel(WAITING);
    tokio::spawn(Reader { api, project, key, filter, seen, frames, _place: place }.run());
    let stream = futures::stream::unfold(taken, async |mut taken: mpsc::Receiver<Bytes>| {
        let frame = taken.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), taken))
    });
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that gather an answer before they hand it on would hold the events back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// One reader of a rail.
struct Reader {
    api: Arc<Api>,
    project: ProjectId,
    /// The key that opened it.
    key: String,
    filter: Filter,
    /// The number of the last verdict that was looked at.
    seen: i64,
    frames: mpsc::Sender<Bytes>,
    _place: OwnedSemaphorePermit,
}

/// The reader is gone, or too slow, or its key opens nothing any more.
struct Gone;

impl Reader {
    async fn run(mut self) {
        let stop = self.api.stop.clone();
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = self.read() => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a reader of the rail was let go; it resumes by its id");
        }
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let heartbeat = self.api.settings.stream.heartbeat;
        let since = stopwatch();
        let mut quiet = stopwatch();
        // The id comes at once, so that a reader who is cut off before the first verdict resumes where it began.
        if self.hand(format!("retry: 1000\nid: {}\n\n", self.seen)).await.is_err() {
            return Ok(());
        }
        while since.elapsed() < LONGEST {
            if quiet.elapsed() >= heartbeat {
                if !self.may_go_on().await? {
                    return Ok(());
                }
                // With the id: a reader whose filter lets nothing through resumes behind what it has no use for.
                if self.hand(format!(": still here\nid: {}\n\n", self.seen)).await.is_err() {
                    return Ok(());
                }
                quiet = stopwatch();
            }
            let head = self.api.store.rail_head(&self.project).await?;
            if head > self.seen {
                match self.page(head).await? {
                    Ok(0) => {}
                    Ok(_) => quiet = stopwatch(),
                    Err(Gone) => return Ok(()),
                }
                continue;
            }
            tokio::select! {
                () = self.frames.closed() => return Ok(()),
                () = tokio::time::sleep(LOOK.min(heartbeat)) => {}
            }
        }
        Ok(())
    }

    /// Hands on what came after the last verdict looked at, up to a page; `head` is the newest there is. Answers how many of
    /// them the reader wanted.
    async fn page(&mut self, head: i64) -> Result<Result<usize, Gone>, StoreError> {
        if !self.may_go_on().await? {
            return Ok(Err(Gone));
        }
        let mut wanted = 0;
        let page = self.api.store.rail_after(&self.project, self.seen, PAGE).await?;
        if page.is_empty() {
            // What lay between was deleted since.
            self.seen = head;
        }
        for entry in page {
            self.seen = entry.number;
            if self.filter.wants(&entry) {
                wanted += 1;
                // Texts and numbers always make JSON.
                let data = serde_json::to_string(&Told::from(entry)).unwrap_or_default();
                if let Err(gone) = self.hand(format!("id: {}\nevent: verdict\ndata: {data}\n\n", self.seen)).await {
                    return Ok(Err(gone));
                }
            }
        }
        Ok(Ok(wanted))
    }

    /// Whether the key still opens something: it is asked before anything is told, as it is at each request.
    async fn may_go_on(&self) -> Result<bool, StoreError> {
        self.api.store.is_live_key(&self.project, &self.key, self.api.clock.now()).await
    }

    async fn hand(&self, frame: String) -> Result<(), Gone> {
        match tokio::time::timeout(self.api.settings.stream.patience, self.frames.send(frame.into())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}
