//! What a pool and its workers say to each other: JSON, each message behind its length in four bytes, least significant first.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Language;

/// The most bytes of one request: script and conversation.
pub(super) const LONGEST_REQUEST: usize = 16 << 20;
/// The most bytes of one reply. A worker shortens what its script says to far less.
pub(super) const LONGEST_REPLY: usize = 512 << 10;

/// How a worker is to limit itself, handed over as its second argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Terms {
    /// How long one call may run before its engine stops it, in milliseconds.
    pub soft_ms: u64,
    /// How much processor time one call may take before the kernel ends the process, in seconds.
    pub cpu_seconds: u64,
    /// What a script may use beyond what the process uses by itself, in bytes.
    pub memory: u64,
    /// The Python to become; without it the engines that are built in are used.
    pub cpython: Option<PathBuf>,
}

impl Terms {
    pub(super) fn soft_limit(&self) -> Duration {
        Duration::from_millis(self.soft_ms)
    }
}

/// One piece of work.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub language: Language,
    pub script: String,
    /// What the handler is called with, see [`super::CodeInput`]. Without it the script is only looked at.
    pub input: Option<Box<RawValue>>,
}

/// What a worker says. The first reply of a process is [`Reply::Ready`] or [`Reply::Refused`]; then one follows each request.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The process has limited itself and waits for work.
    Ready,
    /// The process can't limit itself, or the script can't be used, and why.
    Refused(String),
    /// The script that was looked at can be used.
    Usable,
    /// What the handler returned.
    Returned(super::result::Said),
    /// What the handler returned, not yet known to be a result: its score, and the other fields of its object.
    Found(super::result::Found, Option<Map<String, Value>>),
    /// Why it returned nothing.
    Failed(String),
}

/// Reads one message; `None` where the other side has closed.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST_REQUEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is longer than any may be"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Writes one message.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(message)?)?;
    to.flush()
}

/// One message as its bytes, length included.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_and_the_end_is_told_from_a_broken_one() {
        let input = RawValue::from_string("{\"input\":\"žluťoučký\"}".to_owned()).unwrap();
        let request = Request { language: Language::Python, script: "x = '😀'".into(), input: Some(input) };
        let mut bytes = encode(&request).unwrap();
        let mut both = bytes.clone();
        both.extend(encode(&Reply::Usable).unwrap());
        let mut reader = both.as_slice();
        let back: Request = read(&mut reader).unwrap().unwrap();
        assert_eq!((back.language, back.script.as_str()), (Language::Python, "x = '😀'"));
        assert_eq!(back.input.unwrap().get(), "{\"input\":\"žluťoučký\"}");
        assert_eq!(read::<Reply>(&mut reader).unwrap(), Some(Reply::Usable));
        assert_eq!(read::<Reply>(&mut reader).unwrap(), None);
        bytes.pop();
        assert!(read::<Request>(&mut bytes.as_slice()).is_err());
        assert!(read::<Request>(&mut [0xff; 8].as_slice()).is_err(), "a length beyond all bounds");
    }
}
