//! `import`: conversations from files into the store.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::args::ImportArgs;
use super::progress::{Progress, Unit};
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use crate::app::App;
use crate::clock::Clock as _;
use crate::domain::ids::ProjectId;
use crate::domain::merge::Fate;
use crate::domain::plan;
use crate::domain::span::Span;
use crate::domain::time::Micros;
use crate::ingest::file::{self, Piece};
use crate::ingest::roster::Roster;
use crate::store::{Arrival, StoreError};

/// How many refusals are printed for one file; the rest is counted.
const SHOWN_REFUSALS: usize = 20;

/// How many spans one transaction takes.
const BATCH: usize = 1_000;

/// What was read from one file, and what became of it.
#[derive(Debug, Default)]
struct Imported {
    roster: Roster,
    /// Lines or documents read.
    pieces: u64,
    /// Spans read.
    spans: u64,
    /// Spans that were not known before.
    stored: u64,
    /// Spans that were known with other content, which this one replaced.
    changed: u64,
    /// Spans that were known already.
    resent: u64,
    /// Spans that claimed a time outside 1970-2261; they are stored with the time of arrival.
    adjusted_times: u64,
    /// Log records that tell nothing of a conversation.
    passed_over: u64,
    /// What was refused, with line numbers.
    refused: Vec<String>,
}

/// Why an import stopped.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file can't be read.
    #[error("{0} can't be read: {1}. What was imported from the files before it stays")]
    File(String, std::io::Error),
    /// The store failed; what was imported before stays, and importing again goes on.
    #[error(
        "the import stopped: {0}. What was imported so far stays; importing the same files again changes nothing else"
    )]
    Store(#[from] StoreError),
    /// A signal said stop.
    #[error(
        "the import was stopped by a signal. What was imported so far stays; importing the same files again goes on with the rest"
    )]
    Stopped,
}

const STANDARD_INPUT: &str = "standard input";

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// How an import ended.
#[derive(Debug)]
pub struct Ended {
    /// What to print: a row for each file that was read, and what was refused.
    pub summary: String,
    /// Whether anything was refused.
    pub is_refused: bool,
    /// Why it stopped before the end.
    pub stopped: Option<ImportError>,
}

/// Imports files into a project, one after the other, with progress on standard error. Stops at the first file that can't be
/// read and where the store fails; what was imported until then is told all the same.
pub async fn run(app: &App, args: &ImportArgs, style: Style, cancel: &CancellationToken) -> Ended {
    let mut files = Vec::new();
    let stopped = import_all(app, args, &mut files, cancel).await.err();
    let is_refused = files.iter().any(|(_, imported)| !imported.refused.is_empty());
    let summary = if args.json { as_json(&files) } else { as_table(&files, style) };
    Ended { summary, is_refused, stopped }
}

fn as_json(files: &[(String, Imported)]) -> String {
    let shown: Vec<Value> = files
        .iter()
        .map(|(name, imported)| {
            json!({
                "file": name, "lines": imported.pieces, "spans": imported.spans, "new": imported.stored,
                "changed": imported.changed, "known": imported.resent, "refused": imported.refused,
                "badTimes": imported.adjusted_times, "passedOver": imported.passed_over,
            })
        })
        .collect();
    format!("{}\n", json!({"files": shown}))
}

fn as_table(files: &[(String, Imported)], style: Style) -> String {
    let mut table = Table::new([
        Column::text("file"),
        Column::number("lines"),
        Column::number("spans"),
        Column::number("new"),
        Column::number("changed"),
        Column::number("known"),
        Column::number("refused"),
        Column::number("bad times"),
    ]);
    let (mut refusals, mut notes) = (String::new(), String::new());
    for (name, imported) in files {
        let counts = [
            imported.pieces,
            imported.spans,
            imported.stored,
            imported.changed,
            imported.resent,
            imported.refused.len() as u64,
            imported.adjusted_times,
        ];
        table.row(std::iter::once(Cell::from(name.as_str())).chain(counts.map(|n| Cell::from(n.to_string()))));
        for refusal in imported.refused.iter().take(SHOWN_REFUSALS) {
            // Writing to a String can't fail.
            let _ = writeln!(refusals, "refused: {name}: {refusal}");
        }
        if imported.passed_over > 0 {
            let n = imported.passed_over;
            let _ = writeln!(notes, "{name}: log records that tell nothing of a conversation were passed over: {n}");
        }
        if imported.refused.len() > SHOWN_REFUSALS {
            let _ = writeln!(refusals, "refused: {name}: and {} more", imported.refused.len() - SHOWN_REFUSALS);
        }
    }
    let table = if files.is_empty() { String::new() } else { table.render(style) };
    table + &refusals + &notes
}

/// Imports the files of the command line; `files` gets the name of each that could be opened, with what became of it so far.
async fn import_all(
    app: &App,
    args: &ImportArgs,
    files: &mut Vec<(String, Imported)>,
    cancel: &CancellationToken,
) -> Result<(), ImportError> {
    let project = app.store.project_named(&args.project, app.clock.now()).await?.id;
    for path in &args.files {
        let mut imported = Imported::default();
        let ended = import(app, &project, path, &mut imported, cancel).await;
        if ended.is_ok() || imported.pieces > 0 {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            files.push((if is_standard_input(path) { STANDARD_INPUT.to_owned() } else { name }, imported));
        }
        ended?;
    }
    Ok(())
}

/// Imports one file and counts as it goes. Importing it again changes nothing.
async fn import(
    app: &App,
    project: &ProjectId,
    path: &Path,
    imported: &mut Imported,
    cancel: &CancellationToken,
) -> Result<(), ImportError> {
    let (file, name) = if is_standard_input(path) {
        (Path::new("/dev/stdin"), STANDARD_INPUT.to_owned())
    } else {
        (path, path.display().to_string())
    };
    let in_file = |error| ImportError::File(name.clone(), error);
    let size = std::fs::metadata(file).map_err(in_file)?;
    let size = size.is_file().then_some(size.len());
    let pieces = file::read(file).map_err(in_file)?;
    let progress = Progress::start(name.clone(), Unit::Bytes, size);
    // Reading and decoding block; a few pieces ahead keep the writer busy without holding the file in memory.
    let (sender, mut receiver) = mpsc::channel::<Piece>(8);
    tokio::task::spawn_blocking(move || {
        for piece in pieces {
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    });
    let margin = plan::margin(&app.store.live_groups(project).await?);
    let mut waiting: Vec<Span> = Vec::new();
    let mut seen = 0;
    while let Some(piece) = cancel.run_until_cancelled(receiver.recv()).await.flatten() {
        progress.add(piece.bytes_read.saturating_sub(seen));
        seen = seen.max(piece.bytes_read);
        imported.take(piece, &mut waiting);
        if waiting.len() >= BATCH {
            imported.store(app, project, std::mem::take(&mut waiting), margin).await?;
        }
    }
    imported.store(app, project, waiting, margin).await?;
    if cancel.is_cancelled() {
        return Err(ImportError::Stopped);
    }
    progress.finish();
    Ok(())
}

impl Imported {
    fn take(&mut self, piece: Piece, waiting: &mut Vec<Span>) {
        self.pieces += 1;
        match piece.result {
            Ok(decoded) => {
                self.spans += decoded.spans.len() as u64;
                self.adjusted_times += decoded.adjusted_times as u64;
                self.passed_over += decoded.passed_over as u64;
                self.refused.extend(decoded.refused.iter().map(|refusal| format!("line {}: {refusal}", piece.line)));
                waiting.extend(decoded.spans);
            }
            Err(error) => self.refused.push(format!("line {}: {error}", piece.line)),
        }
    }

    async fn store(
        &mut self,
        app: &App,
        project: &ProjectId,
        spans: Vec<Span>,
        margin: Micros,
    ) -> Result<(), StoreError> {
        if spans.is_empty() {
            return Ok(());
        }
        let arrival = Arrival { project: project.clone(), spans, margin, trace_settle: app.config.sweep.trace_settle };
        let now = app.clock.now();
        let receipts = app.store.ingest(std::slice::from_ref(&arrival), now).await?;
        self.roster.note(&app.store, project, &arrival.spans, now).await?;
        let mut dropped = 0;
        for fate in receipts.iter().flat_map(|receipt| &receipt.fates) {
            match fate {
                Fate::New => self.stored += 1,
                Fate::Changed => self.changed += 1,
                Fate::Same | Fate::Older => self.resent += 1,
                Fate::Dropped => dropped += 1,
            }
        }
        if dropped > 0 {
            self.refused.push(format!("{dropped} spans of quarantined sessions were dropped"));
        }
        Ok(())
    }
}
