//! `key`: API keys made, listed, rotated and revoked by whoever runs this server.

#![allow(
    clippy::doc_markdown,
    reason = "the texts of options are printed as they stand, where backticks would be noise"
)]

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::args::{DEFAULT_PROJECT, name};
use super::named;
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use crate::app::App;
use crate::clock::Clock as _;
use crate::config::length;
use crate::domain::access::{KeyState, LONGEST_OVERLAP, Scopes};
use crate::domain::ids::ProjectId;
use crate::domain::time::{Micros, Timestamp};
use crate::store::{Key, KeyDraft, KeyRow};

/// What to do with API keys.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum KeyCommand {
    /// Make an API key and print it, once
    Create(KeyCreateArgs),
    /// List a project's keys, those that are over too
    List(KeyListArgs),
    /// Make a key in the place of another, and print it, once
    Rotate(KeyRotateArgs),
    /// Take a key back: from this moment it opens nothing
    Revoke(KeyRevokeArgs),
}

/// Options of `key create`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct KeyCreateArgs {
    /// The project the key belongs to; it is made where it does not exist
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// What the key is called in lists
    #[arg(long, value_name = "NAME", default_value = "key", value_parser = name)]
    pub name: String,
    /// What it may do: any of ingest, read, manage, operate, with commas between
    #[arg(long, value_name = "LIST", default_value = "ingest,read,manage,operate", value_parser = scopes)]
    pub scopes: Scopes,
    /// After how long it ends, such as 12h or 90d; without this it does not
    #[arg(long, value_name = "LENGTH", value_parser = span)]
    pub expires_in: Option<Micros>,
    /// How many requests a minute it may make; without this server.requests_per_minute says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub requests_per_minute: Option<u32>,
}

/// Options of `key list`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct KeyListArgs {
    /// The project the keys belong to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `key rotate`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct KeyRotateArgs {
    /// The key's id, or what it begins with
    pub key: String,
    /// The project the key belongs to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// How long the old key goes on beside the new one, such as 1h, at most 7d; without this it ends at once
    #[arg(long, value_name = "LENGTH", value_parser = overlap)]
    pub overlap: Option<Micros>,
}

/// Options of `key revoke`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct KeyRevokeArgs {
    /// The key's id, or what it begins with
    pub key: String,
    /// The project the key belongs to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
}

fn scopes(text: &str) -> Result<Scopes, String> {
    Scopes::read(text).ok_or_else(|| "must be any of ingest, read, manage, operate, with commas between".to_owned())
}

fn span(text: &str) -> Result<Micros, String> {
    let length = length::parse(text).filter(|length| *length > Micros::ZERO && *length <= LONGEST);
    length.ok_or_else(|| "a whole number and ms, s, m, h or d, such as 12h or 90d; at most 36500d".to_owned())
}

fn overlap(text: &str) -> Result<Micros, String> {
    let length = length::parse(text).filter(|length| *length > Micros::ZERO && *length <= LONGEST_OVERLAP);
    length.ok_or_else(|| {
        let days = LONGEST_OVERLAP.get() / 86_400_000_000;
        format!("a whole number and ms, s, m, h or d, such as 1h; at most {days}d: until then whoever holds the old key has the new one")
    })
}

/// The longest life of a key: a hundred years.
const LONGEST: Micros = Micros::seconds(36_500 * 86_400);

/// Does what is asked for, and says what came of it.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn run(app: &App, command: &KeyCommand, style: Style) -> anyhow::Result<String> {
    match command {
        KeyCommand::Create(args) => create(app, args).await,
        KeyCommand::List(args) => list(app, args, style).await,
        KeyCommand::Rotate(args) => rotate(app, args).await,
        KeyCommand::Revoke(args) => revoke(app, args).await,
    }
}

async fn create(app: &App, args: &KeyCreateArgs) -> anyhow::Result<String> {
    let now = app.clock.now();
    let project = app.store.project_named(&args.project, now).await?;
    let draft = KeyDraft {
        name: args.name.clone(),
        scopes: args.scopes,
        expires_at: args.expires_in.map(|length| now + length),
        requests_per_minute: args.requests_per_minute,
    };
    let key = app.store.draw_key(&project.id, &draft, now).await?;
    Ok(shown_once(&key, &project.name))
}

fn shown_once(key: &Key, project: &str) -> String {
    let end = key.row.expires_at.map_or_else(String::new, |at| format!(" It ends at {}.", at.iso()));
    format!(
        "{}\n\nThis is the key \"{}\" of project {project}, for: {}. It is shown this once: only its hash is kept.{end}\n",
        key.text.expose_secret(),
        key.row.name,
        key.row.scopes,
    )
}

async fn list(app: &App, args: &KeyListArgs, style: Style) -> anyhow::Result<String> {
    let project = named::project(app, &args.project).await?;
    let now = app.clock.now();
    let keys = app.store.keys(&project).await?;
    if args.json {
        let shown: Vec<_> = keys.iter().map(|key| as_json(key, now)).collect();
        return Ok(format!("{}\n", json!({"keys": shown})));
    }
    if keys.is_empty() {
        return Ok(format!("Project {} does not have any API key.\n", args.project));
    }
    let mut table = Table::new([
        Column::text("id"),
        Column::text("begins with"),
        Column::long_text("name"),
        Column::text("scopes"),
        Column::text("state"),
        Column::text("made"),
    ]);
    for key in keys {
        let cells = [
            key.id.clone(),
            format!("{}…", key.prefix),
            key.name.clone(),
            key.scopes.to_string(),
            state(&key, now),
            key.created_at.iso(),
        ];
        table.row(cells.map(Cell::from));
    }
    Ok(table.render(style))
}

fn state(key: &KeyRow, now: Timestamp) -> String {
    match (key.state(now), key.expires_at) {
        (KeyState::Live, None) => "live".to_owned(),
        (KeyState::Live, Some(at)) => format!("live until {}", at.iso()),
        (KeyState::Expired(at), _) => format!("expired {}", at.iso()),
        (KeyState::Revoked(at), _) => format!("revoked {}", at.iso()),
    }
}

fn as_json(key: &KeyRow, now: Timestamp) -> serde_json::Value {
    json!({
        "_id": key.id, "prefix": key.prefix, "name": key.name, "scopes": key.scopes.names(), "state": state(key, now),
        "createdAt": key.created_at.iso(), "requestsPerMinute": key.requests_per_minute,
    })
}

async fn rotate(app: &App, args: &KeyRotateArgs) -> anyhow::Result<String> {
    let project = named::project(app, &args.project).await?;
    let key = find(app, &project, &args.key).await?;
    let overlap = args.overlap.unwrap_or(Micros::ZERO);
    let fresh = app.store.rotate_key(&project, &key.id, overlap, app.clock.now()).await?;
    let fresh = fresh.with_context(|| format!("the key {} is over already: make another", key.id))?;
    Ok(shown_once(&fresh, &args.project))
}

async fn revoke(app: &App, args: &KeyRevokeArgs) -> anyhow::Result<String> {
    let project = named::project(app, &args.project).await?;
    let key = find(app, &project, &args.key).await?;
    if app.store.revoke_key(&project, &key.id, app.clock.now()).await? {
        Ok(format!("The key {} (\"{}\") of project {} opens nothing any more.\n", key.id, key.name, args.project))
    } else {
        Err(anyhow!("the key {} was revoked before", key.id))
    }
}

/// The key with that id, or the one that begins so.
async fn find(app: &App, project: &ProjectId, asked: &str) -> anyhow::Result<KeyRow> {
    let keys = app.store.keys(project).await?;
    if let Some(found) = keys.iter().find(|key| key.id == asked) {
        return Ok(found.clone());
    }
    let mut begins = keys.into_iter().filter(|key| !key.prefix.is_empty() && key.prefix == asked);
    match (begins.next(), begins.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(anyhow!("several keys begin with {asked}; give the id")),
        (None, _) => Err(anyhow!("there is no such key; `afterword key list` shows their ids")),
    }
}
