//! Import files: OTLP/JSON or chats, a document or a value a line, plain or gzip. Read line by line, in bounded memory.
//!
//! A file whose first line is complete holds a value a line; each line stands for itself, so a bad one costs no other. A file
//! whose first line ends in the middle of a structure is one pretty-printed document, or several one after another.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Decoded, Refusal, chat, otlp, text};

/// The longest line taken, in bytes.
const LINE_LIMIT: usize = 64 * 1024 * 1024;

/// The longest pretty-printed document taken, in bytes: it has to be held as a whole.
const DOCUMENT_LIMIT: usize = 256 * 1024 * 1024;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What one line or document gave.
#[derive(Debug)]
pub struct Piece {
    /// The line it began on, from 1.
    pub line: u64,
    /// The spans, or why the line could not be read at all. Reading goes on after it.
    pub result: Result<Decoded, String>,
    /// How many bytes of the file have been read so far; of a gzip file, compressed ones.
    pub bytes_read: u64,
}

/// Opens an import file and gives its pieces in order, reading as they are asked for.
///
/// # Errors
/// Where the file can't be opened or its first bytes can't be read. What fails later is a piece of its own.
pub fn read(path: &Path) -> io::Result<impl Iterator<Item = Piece> + Send + use<>> {
    pieces(File::open(path)?, LINE_LIMIT, DOCUMENT_LIMIT)
}

fn pieces<R: Read + Send + 'static>(source: R, line_limit: usize, document_limit: usize) -> io::Result<Pieces> {
    let count = Arc::new(AtomicU64::new(0));
    let mut source = BufReader::with_capacity(64 * 1024, Counting { inner: source, count: Arc::clone(&count) });
    let is_gzip = source.fill_buf()?.starts_with(&GZIP_MAGIC);
    let reader: Box<dyn BufRead + Send> = if is_gzip {
        Box::new(BufReader::with_capacity(64 * 1024, MultiGzDecoder::new(source)))
    } else {
        Box::new(source)
    };
    Ok(Pieces {
        reader,
        count,
        is_gzip,
        line: 0,
        line_limit,
        document_limit,
        queue: VecDeque::new(),
        state: State::Fresh,
    })
}

/// Counts the bytes that pass.
struct Counting<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Nothing was read yet that tells lines from documents.
    Fresh,
    Lines,
    Done,
}

/// The pieces of one file.
struct Pieces {
    reader: Box<dyn BufRead + Send>,
    count: Arc<AtomicU64>,
    is_gzip: bool,
    line: u64,
    line_limit: usize,
    document_limit: usize,
    queue: VecDeque<(u64, Result<Decoded, String>)>,
    state: State,
}

/// How the reading of a line ended.
enum Line {
    Text(Vec<u8>),
    TooLong,
    End,
    /// The text that came before the failure, and the failure.
    Broken(Vec<u8>, io::Error),
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some((line, result)) = self.queue.pop_front() {
                return Some(Piece { line, result, bytes_read: self.count.load(Ordering::Relaxed) });
            }
            if self.state == State::Done {
                return None;
            }
            self.advance();
        }
    }
}

impl Pieces {
    /// Reads the next line, or the rest of the file where it is one document.
    fn advance(&mut self) {
        let read = self.next_line(self.line_limit);
        let (bytes, failure) = match read {
            Line::End => {
                self.state = State::Done;
                return;
            }
            Line::TooLong => {
                let limit = self.line_limit;
                self.push(Err(format!("the line is longer than {limit} bytes and was skipped")));
                self.state = State::Lines;
                return;
            }
            Line::Text(bytes) => (bytes, None),
            Line::Broken(bytes, error) => (bytes, Some(error)),
        };
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_start_matches('\u{feff}').trim();
        if let Some(error) = failure {
            if serde_json::from_str::<&RawValue>(line).is_ok() {
                self.push(decode(line));
            }
            self.fail(&error);
            return;
        }
        if line.is_empty() {
            return;
        }
        if self.state == State::Fresh && opens_a_document(line) {
            self.document(bytes);
        } else {
            self.state = State::Lines;
            self.push(decode(line));
        }
    }

    fn push(&mut self, result: Result<Decoded, String>) {
        self.queue.push_back((self.line, result));
    }

    fn fail(&mut self, error: &io::Error) {
        let reason = if self.is_gzip && error.kind() == io::ErrorKind::UnexpectedEof {
            "the gzip data ends early: the file is cut; what came before this line was read".to_owned()
        } else if self.is_gzip {
            format!("the gzip data is damaged: {error}; what came before this line was read")
        } else {
            format!("the file can't be read any further: {error}")
        };
        self.push(Err(reason));
        self.state = State::Done;
    }

    /// Reads one line without its line break, up to `limit` bytes.
    fn next_line(&mut self, limit: usize) -> Line {
        let mut line = Vec::new();
        let mut too_long = false;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.line += 1;
                    return Line::Broken(if too_long { Vec::new() } else { line }, error);
                }
            };
            if buffer.is_empty() {
                if line.is_empty() && !too_long {
                    return Line::End;
                }
                break;
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            too_long |= line.len() + part.len() > limit;
            if too_long {
                line = Vec::new();
            } else {
                line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        self.line += 1;
        if too_long { Line::TooLong } else { Line::Text(line) }
    }

    /// Reads the rest of the file as one document, or several, that began on the line just read.
    fn document(&mut self, mut text: Vec<u8>) {
        let first = self.line;
        let mut failure = None;
        loop {
            match self.next_line(self.document_limit) {
                Line::End => break,
                Line::Text(line) if text.len() + line.len() < self.document_limit => {
                    text.push(b'\n');
                    text.extend_from_slice(&line);
                }
                Line::Text(_) | Line::TooLong => {
                    let limit = self.document_limit;
                    let reason = format!("the document is longer than {limit} bytes; write it as one value a line");
                    self.queue.push_back((first, Err(reason)));
                    self.state = State::Done;
                    return;
                }
                Line::Broken(line, error) => {
                    text.push(b'\n');
                    text.extend_from_slice(&line);
                    failure = Some(error);
                    break;
                }
            }
        }
        self.state = State::Done;
        let text = String::from_utf8_lossy(&text);
        self.documents(text.trim_start_matches('\u{feff}'), first, failure.is_some());
        if let Some(error) = failure {
            self.fail(&error);
        }
    }

    fn documents(&mut self, text: &str, first: u64, cut: bool) {
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        let mut began = first;
        let mut counted = 0;
        loop {
            let skipped = text[documents.byte_offset()..].len() - text[documents.byte_offset()..].trim_start().len();
            let offset = documents.byte_offset() + skipped;
            began += text[counted..offset].matches('\n').count() as u64;
            counted = offset;
            match documents.next() {
                None => break,
                Some(Ok(document)) => self.queue.push_back((began, decode(document.get()))),
                Some(Err(error)) => {
                    if !cut {
                        let line = first + (error.line() as u64).saturating_sub(1);
                        self.queue.push_back((line, Err(format!("is no JSON: {error}"))));
                    }
                    break;
                }
            }
        }
    }
}

/// Whether a first line is the beginning of a structure that goes on below. A line that is cut amid a value is a broken line
/// instead.
fn opens_a_document(line: &str) -> bool {
    let incomplete = serde_json::from_str::<&RawValue>(line).is_err_and(|error| error.is_eof());
    incomplete && line.ends_with(['{', '[', ',', ':'])
}

/// The keys that tell what a value is.
#[derive(Deserialize)]
struct Probe<'a> {
    #[serde(borrow, default, rename = "resourceSpans", alias = "resource_spans")]
    spans: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "resourceLogs", alias = "resource_logs")]
    logs: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "resourceMetrics", alias = "resource_metrics")]
    metrics: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
}

/// Decodes one JSON value: a batch, a batch with its arrival around it, a chat, or a list of these.
fn decode(value: &str) -> Result<Decoded, String> {
    if value.trim_start().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(value).map_err(|error| format!("is no JSON: {error}"))?;
        let mut all = Decoded::default();
        for (position, item) in items.iter().enumerate() {
            match decode_object(item.get()) {
                Ok(decoded) => all.append(decoded),
                Err(reason) => all.refused.push(Refusal { place: format!("entry {position}"), reason }),
            }
        }
        return Ok(all);
    }
    decode_object(value)
}

fn decode_object(value: &str) -> Result<Decoded, String> {
    if !value.trim_start().starts_with('{') {
        return match serde_json::from_str::<&RawValue>(value) {
            Ok(_) => Err("is neither an OTLP batch nor a chat: a JSON object is wanted".to_owned()),
            Err(error) => Err(format!("is no JSON: {error}")),
        };
    }
    let probe: Probe<'_> = serde_json::from_str(value).map_err(|error| format!("is no JSON: {error}"))?;
    if probe.spans.is_some() {
        return otlp::json(value.as_bytes()).map_err(|error| error.to_string());
    }
    if probe.messages.is_some() || probe.session_id.is_some() {
        let line = text::parse(value).map_err(|error| format!("is no readable JSON: {error}"))?;
        return Ok(
            chat::decode(&line).unwrap_or_else(|refusal| Decoded { refused: vec![refusal], ..Decoded::default() })
        );
    }
    if probe.logs.is_some() {
        return otlp::json_logs(value.as_bytes()).map_err(|error| error.to_string());
    }
    if let Some(data) = probe.data.filter(|data| data.get().starts_with('{')) {
        return otlp::json(data.get().as_bytes()).map_err(|error| error.to_string());
    }
    if probe.metrics.is_some() {
        return Err("holds metrics; traces, logs and chats can be imported".to_owned());
    }
    Err("is neither an OTLP batch (resourceSpans or resourceLogs) nor a chat (session_id and messages)".to_owned())
}

#[cfg(test)]
mod tests;
