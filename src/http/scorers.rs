//! What the routes of every kind of scorer share: saving, reading, editing and deleting specs in the catalogue.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Api;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::Asked;
use crate::domain::address::masked;
use crate::domain::group::MemberKind;
use crate::domain::ids::{ProjectId, ScorerId};
use crate::domain::own::{Owner, Watching};
use crate::domain::scorer::Scorer;
use crate::domain::time::Timestamp;
use crate::store::{Place, Profile, ScorerDraft, ScorerHistory, WantedProfile};

/// A kind of scorer, and what its routes say where there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// The kind.
    pub(super) member: MemberKind,
    missing: &'static str,
}

impl Kind {
    /// Patterns.
    pub(super) const PATTERN: Self = Self { member: MemberKind::Pattern, missing: "Pattern not found" };
    /// Judges.
    pub(super) const JUDGE: Self = Self { member: MemberKind::Judge, missing: "Judge scorer not found" };
    /// Custom scorers: code, external and built-in ones.
    pub(super) const CUSTOM: Self = Self { member: MemberKind::Custom, missing: "Custom evaluator not found" };

    pub(super) fn not_found(self) -> ApiError {
        ApiError::not_found(self.missing)
    }
}

/// How often an edit that others got ahead of is made again on what they left.
pub(super) const EDIT_TRIES: usize = 5;

/// What an edit is answered with that others got ahead of each time.
pub(super) fn outrun() -> ApiError {
    ApiError::conflict("Others edited this at the same moment, again and again; read it and send the change again")
}

/// What people chose of a stored scorer.
pub(super) fn spec<S: DeserializeOwned>(scorer: &Scorer) -> Result<S, ApiError> {
    serde_json::from_str(&scorer.spec).map_err(|error| {
        tracing::error!(scorer = %scorer.id, version = scorer.version, %error, "a stored scorer can't be read");
        ApiError::internal(format!("Scorer {} can't be read back; the server's log says why", scorer.id))
    })
}

pub(super) fn draft(kind: Kind, name: &str, spec: &impl Serialize) -> Result<ScorerDraft, ApiError> {
    let spec = serde_json::to_string(spec).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(ScorerDraft { kind: kind.member, name: name.to_owned(), spec })
}

/// Its place in lists.
pub(super) fn place(scorer: &Scorer) -> Place {
    Place { at: scorer.created_at, id: scorer.id.to_string() }
}

/// The scorer as whoever a group of one may belong to.
pub(super) fn owner(scorer: &Scorer) -> Owner {
    Owner { kind: scorer.kind, id: scorer.id.clone() }
}

/// The one of that id.
pub(super) async fn read(api: &Api, project: &ProjectId, kind: Kind, id: &str) -> Result<Scorer, ApiError> {
    api.store.scorer(project, kind.member, id).await?.ok_or_else(|| kind.not_found())
}

/// A scorer that may watch on its own, as it is stored.
pub(super) struct Watched<S> {
    pub(super) scorer: Scorer,
    profile: Option<Profile>,
    /// What people chose; it is enabled where it does watch.
    pub(super) spec: S,
}

impl<S: DeserializeOwned + Watching> Watched<S> {
    pub(super) fn new(scorer: Scorer, profile: Option<Profile>) -> Result<Self, ApiError> {
        let is_live = profile.as_ref().is_some_and(Profile::is_live);
        let spec = spec::<S>(&scorer)?.turned(is_live);
        Ok(Self { scorer, profile, spec })
    }
}

/// Saves a new one that watches on its own, or does not.
pub(super) async fn create_watching<S: DeserializeOwned + Serialize + Watching>(
    api: &Api,
    project: &ProjectId,
    kind: Kind,
    spec: &S,
) -> Result<Watched<S>, ApiError> {
    let (draft, wanted) = (draft(kind, spec.name(), spec)?, wanted(spec, None));
    let now = api.clock.now();
    let saved = api.store.create_live_scorer(project, &draft, wanted.as_ref(), now, now).await?;
    Watched::new(saved.0, saved.1)
}

/// The one of that id.
pub(super) async fn read_watching<S: DeserializeOwned + Watching>(
    api: &Api,
    project: &ProjectId,
    kind: Kind,
    id: &str,
) -> Result<Watched<S>, ApiError> {
    let scorer = read(api, project, kind, id).await?;
    let profile = api.store.profile_of(project, &owner(&scorer)).await?;
    Watched::new(scorer, profile)
}

/// All of `saved`, with what they watch.
pub(super) async fn watching<S: DeserializeOwned + Watching>(
    api: &Api,
    project: &ProjectId,
    kind: Kind,
    saved: Vec<Scorer>,
) -> Result<Vec<Watched<S>>, ApiError> {
    let profiles = api.store.profiles(project, kind.member).await?.into_iter();
    let mut profiles: BTreeMap<ScorerId, Profile> = profiles.map(|it| (it.owner.id.clone(), it)).collect();
    let watched = |scorer: Scorer| {
        let profile = profiles.remove(&scorer.id);
        Watched::new(scorer, profile)
    };
    saved.into_iter().map(watched).collect()
}

/// Saves an edit of `stored` as its next version, and what it watches with it. `None`: somebody else was faster.
pub(super) async fn save_watching<S: DeserializeOwned + Serialize + Watching>(
    api: &Api,
    project: &ProjectId,
    kind: Kind,
    stored: &Watched<S>,
    spec: &S,
) -> Result<Option<Watched<S>>, ApiError> {
    let draft = draft(kind, spec.name(), spec)?;
    let wanted = wanted(spec, stored.profile.as_ref());
    let (from, now) = ((&stored.scorer, stored.profile.as_ref()), api.clock.now());
    let saved = api.store.update_live_scorer(project, from, Some(&draft), wanted.as_ref(), now, now).await?;
    saved.map(|(scorer, profile)| Watched::new(scorer, profile)).transpose()
}

/// The profile that a spec asks for. One that was there stays when it is turned off, so that turning it on again samples the
/// same traces.
fn wanted(spec: &impl Watching, stored: Option<&Profile>) -> Option<WantedProfile> {
    let online = spec.profile();
    (online.enabled || stored.is_some()).then(|| WantedProfile { name: spec.name().to_owned(), online })
}

/// Every version of a scorer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the list is called so on the wire")]
pub(super) struct Versions {
    versions: Vec<VersionShown>,
    /// When the scorer was deleted.
    deleted_at: Option<String>,
    #[serde(flatten)]
    next: Next,
}

impl Versions {
    /// The same for who may not change the addresses that external scorers are asked at.
    pub(super) fn with_masked_addresses(mut self) -> Self {
        for version in &mut self.versions {
            if let Some(Value::String(url)) = version.spec.get_mut("url") {
                *url = masked(url);
            }
        }
        self
    }
}

/// One version.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionShown {
    version: i64,
    created_at: String,
    name: Value,
    /// Everything about it that people chose.
    spec: Value,
}

/// Every version of the one of that id, newest first, deleted or not. What everybody has under that key has one.
pub(super) async fn versions(
    api: &Api,
    project: &ProjectId,
    kind: Kind,
    id: &str,
    asked: &Asked,
) -> Result<Json<Versions>, ApiError> {
    let built_in = || {
        let scorer = Scorer::built_in(kind.member, id)?;
        Some(ScorerHistory { versions: vec![scorer], deleted_at: None })
    };
    let stored = api.store.scorer_history(project, kind.member, id).await?;
    let history = stored.or_else(built_in).ok_or_else(|| kind.not_found())?;
    let shown = |scorer: &Scorer| {
        let spec: Value = self::spec(scorer)?;
        let name = spec.get("name").cloned().unwrap_or_else(|| scorer.name.clone().into());
        Ok(VersionShown { version: scorer.version, created_at: scorer.updated_at.iso(), name, spec })
    };
    let (versions, next) = page::of(history.versions, asked, |scorer| Reverse(scorer.version))?;
    Ok(Json(Versions {
        versions: versions.iter().map(shown).collect::<Result<_, ApiError>>()?,
        deleted_at: history.deleted_at.map(Timestamp::iso),
        next,
    }))
}

/// Deletes the one of that id.
pub(super) async fn remove(api: &Api, project: &ProjectId, kind: Kind, id: &str) -> Result<StatusCode, ApiError> {
    let there_was = api.store.delete_scorer(project, kind.member, id, api.clock.now()).await?;
    if there_was { Ok(StatusCode::NO_CONTENT) } else { Err(kind.not_found()) }
}
