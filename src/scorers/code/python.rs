//! The Python engine: Monty, an interpreter of a large part of Python without its operating system.

use std::sync::LazyLock;
use std::time::Duration;

use monty::MontyRun;
use monty_types::{CompileOptions, ExcType, MontyException, MontyObject, PrintWriter, ResourceLimits, ResourceTracker};
use regex::Regex;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::frames::{Reply, Terms};
use super::result::{Found, LONGEST_RESULT, Said, shorten};
use crate::clock::stopwatch;

/// The name of a script in its errors.
const NAME: &str = "scorer.py";
/// What handlers are called with, as the script's end finds it.
const GIVEN: [&str; 5] = ["_aw_input", "_aw_output", "_aw_expected", "_aw_metadata", "_aw_spans"];
/// How the interpreter begins to say that it lacks something.
const NOT_YET: &str = "The monty syntax parser does not yet support ";
/// How deep values may be nested.
const DEEPEST: usize = 100;
/// The most characters of an error's text.
const LONGEST_ERROR: usize = 500;

/// What follows a script: it stands behind it, so that lines in errors are the script's own.
const TRACE: &str = "
class _AwTrace:
    def __init__(self, spans):
        self.spans = spans
    def get_spans(self, type=None, name=None):
        return [s for s in self.spans if (type is None or s['type'] == type) and (name is None or s['name'] == name)]
";
const CALL: &str = "handler(_aw_input, _aw_output, _aw_expected, _aw_metadata, _AwTrace(_aw_spans))";
/// What a handler is called with when it is saved: a conversation of nothing.
const EMPTY: &str = r#"{"input": "", "output": "", "expected": null, "metadata": {}, "spans": []}"#;

/// What a refusal of a missing part of Python ends with.
const LACKING: &str = "; docs/CODE-SCORERS.md lists what this Python does not have";

static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^[ \t]*(?P<word>import|from)[ \t]+(?P<module>[A-Za-z_][\w.]*)").expect("a valid expression")
});
static ASYNC_HANDLER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^async[ \t]+def[ \t]+handler\b").expect("a valid expression"));

static HANDLER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^(?:(?:async[ \t]+)?def[ \t]+handler\b|handler[ \t]*[=:])").expect("a valid expression")
});

/// Looks at a script: whether it compiles, runs, has a handler that takes what it is called with, and imports only what there is.
pub(super) fn check(script: &str, terms: &Terms) -> Reply {
    look_at(script, terms).map_or_else(Reply::Refused, |()| Reply::Usable)
}

fn look_at(script: &str, terms: &Terms) -> Result<(), String> {
    // By itself first, so that what is left open at its end is told, rather than closed by what follows.
    compile(script.to_owned()).map_err(|error| refusal(&error))?;
    lacking_import(script, terms)?;
    let watch = stopwatch();
    let compiled = compile(format!("{script}\nhandler\n")).map_err(|error| refusal(&error))?;
    let own_name = match execute(&compiled, Vec::new(), terms).map_err(|error| why(&error, script, terms))? {
        MontyObject::Function { name, .. } => name,
        MontyObject::Repr(text) if text.starts_with("<function") => {
            text.split('\'').nth(1).unwrap_or("handler").to_owned()
        }
        other => return Err(format!("handler is no function but {}", shorten(&other.py_repr(), LONGEST_ERROR))),
    };
    let left = terms.soft_limit().saturating_sub(watch.elapsed());
    takes_its_arguments(script, &own_name, left)
}

/// Refuses a handler that can't be called as handlers are. The interpreter tells what a function takes only by calling it:
/// whatever else comes of that call does not count.
fn takes_its_arguments(script: &str, own_name: &str, within: Duration) -> Result<(), String> {
    let given = RawValue::from_string(EMPTY.to_owned()).map_err(|error| error.to_string()).and_then(|it| given(&it))?;
    let code = format!("{script}\n{TRACE}\n{CALL}\n");
    let Err(error) = compile(code).and_then(|compiled| execute_within(&compiled, given, within)) else { return Ok(()) };
    let (ExcType::TypeError, [frame], Some(why)) = (error.exc_type(), error.traceback(), error.message()) else {
        return Ok(());
    };
    // A call that never began is told with the function's name and one frame: where it is defined, or where it is called,
    // behind the script. So is one that the handler makes itself, of another function.
    if !why.starts_with(&format!("{own_name}()")) {
        return Ok(());
    }
    let own = usize::try_from(frame.start.line).ok().filter(|line| *line <= script.lines().count());
    let defined = || Some(script[..HANDLER.find_iter(script).last()?.start()].matches('\n').count() + 1);
    let line = own.or_else(defined).map(|line| format!(" (line {line})")).unwrap_or_default();
    Err(format!("{}{line}", super::wrong_arguments(&shorten(why, LONGEST_ERROR))))
}

/// Refuses imports of modules that there are not, wherever they stand: those inside functions would else be found at work only.
fn lacking_import(script: &str, terms: &Terms) -> Result<(), String> {
    for found in IMPORT.captures_iter(script) {
        let (module, word) = (&found["module"], found.name("word").map_or(0, |word| word.start()));
        let probe = compile(format!("import {module}\n")).and_then(|probe| execute(&probe, Vec::new(), terms));
        let Err(error) = probe else { continue };
        // In a text or a comment it is no import: there it can be broken without harm.
        if compile(format!("{}){}", &script[..word], &script[word..])).is_err() {
            let line = script[..word].matches('\n').count() + 1;
            return Err(format!("{} (line {line}){LACKING}", error.summary()));
        }
    }
    Ok(())
}

/// Calls a script's handler.
pub(super) fn run(script: &str, input: &RawValue, terms: &Terms) -> Reply {
    let result = given(input).and_then(|given| {
        let call = if ASYNC_HANDLER.is_match(script) { "await " } else { "" };
        let compiled = compile(format!("{script}\n{TRACE}\n{call}{CALL}\n")).map_err(|error| refusal(&error))?;
        let returned = execute(&compiled, given, terms).map_err(|error| {
            let is_handler = error.traceback().iter().any(|frame| frame.frame_name.as_deref() == Some("handler"));
            format!("{}{}", if is_handler { "handler raised " } else { "" }, why(&error, script, terms))
        })?;
        said(&returned)
    });
    result.map_or_else(Reply::Failed, Reply::Returned)
}

fn compile(code: String) -> Result<MontyRun, MontyException> {
    let names = GIVEN.iter().map(|name| (*name).to_owned()).collect();
    MontyRun::new(code, NAME, names, CompileOptions::default())
}

fn execute(compiled: &MontyRun, given: Vec<MontyObject>, terms: &Terms) -> Result<MontyObject, MontyException> {
    execute_within(compiled, given, terms.soft_limit())
}

fn execute_within(
    compiled: &MontyRun,
    given: Vec<MontyObject>,
    within: Duration,
) -> Result<MontyObject, MontyException> {
    let limits = ResourceLimits::default().max_duration(within);
    let given = if given.is_empty() { vec![MontyObject::None; GIVEN.len()] } else { given };
    compiled.run(given, ResourceTracker::new(limits), PrintWriter::Disabled)
}

fn given(input: &RawValue) -> Result<Vec<MontyObject>, String> {
    let mut given: Map<String, Value> = serde_json::from_str(input.get()).map_err(|error| error.to_string())?;
    let names = ["input", "output", "expected", "metadata", "spans"];
    Ok(names.into_iter().map(|name| object(given.remove(name).unwrap_or_default())).collect())
}

fn object(value: Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => MontyObject::Int(whole),
            (None, float) => MontyObject::Float(float.unwrap_or(f64::NAN)),
        },
        Value::String(text) => MontyObject::String(text),
        Value::Array(items) => MontyObject::List(items.into_iter().map(object).collect()),
        Value::Object(fields) => {
            let pairs = fields.into_iter().map(|(key, value)| (MontyObject::String(key), object(value)));
            MontyObject::dict(pairs.collect::<Vec<_>>())
        }
    }
}

/// What a returned value says.
fn said(value: &MontyObject) -> Result<Said, String> {
    let MontyObject::Dict(pairs) = value else { return Said::of(found(value), None) };
    let is_score = |key: &MontyObject| matches!(key, MontyObject::String(key) if key == "score");
    let Some((_, score)) = pairs.iter().find(|(key, _)| is_score(key)) else {
        return Said::of(Found::Other(value.py_repr()), None);
    };
    let mut room = LONGEST_RESULT;
    let mut fields = Map::new();
    for (key, value) in pairs.iter().filter(|(key, _)| !is_score(key)) {
        fields.insert(name(key), json(value, DEEPEST, &mut room)?);
    }
    Said::of(found(score), Some(fields))
}

#[allow(clippy::cast_precision_loss, reason = "what is beyond 2^53 is no score either way")]
fn found(value: &MontyObject) -> Found {
    match value {
        MontyObject::None => Found::Nothing,
        MontyObject::Bool(value) => Found::Boolean(*value),
        MontyObject::Int(number) => Found::Number(*number as f64),
        MontyObject::Float(number) => Found::Number(*number),
        other => Found::Other(other.py_repr()),
    }
}

fn name(key: &MontyObject) -> String {
    if let MontyObject::String(key) = key { key.clone() } else { key.py_repr() }
}

/// A value as JSON; what JSON has no form for becomes text. `room` is how many bytes it may still take.
fn json(value: &MontyObject, depth: usize, room: &mut usize) -> Result<Value, String> {
    if depth == 0 {
        return Err(format!("handler returned an object nested deeper than {DEEPEST}"));
    }
    let value = match value {
        MontyObject::None => Value::Null,
        MontyObject::Bool(value) => Value::Bool(*value),
        MontyObject::Int(number) => Value::from(*number),
        MontyObject::Float(number) => {
            Number::from_f64(*number).map_or_else(|| number.to_string().into(), Value::Number)
        }
        MontyObject::String(text) => Value::String(text.clone()),
        MontyObject::List(items) | MontyObject::Tuple(items) => {
            Value::Array(items.iter().map(|item| json(item, depth - 1, room)).collect::<Result<_, _>>()?)
        }
        MontyObject::Dict(pairs) => {
            let mut fields = Map::new();
            for (key, value) in pairs {
                fields.insert(name(key), json(value, depth - 1, room)?);
            }
            Value::Object(fields)
        }
        MontyObject::Cycle(..) => return Err("handler returned an object that contains itself".to_owned()),
        other => Value::String(other.py_repr()),
    };
    let bytes = 8 + value.as_str().map_or(0, str::len);
    *room = room
        .checked_sub(bytes)
        .ok_or_else(|| format!("handler returned more than {LONGEST_RESULT} bytes; at most these are taken"))?;
    Ok(value)
}

/// Why a script can't be compiled: a syntax error, or a part of Python that the interpreter does not have.
fn refusal(error: &MontyException) -> String {
    let message = error.message().unwrap_or_default();
    if let (ExcType::NotImplementedError, Some(lacking)) = (error.exc_type(), message.strip_prefix(NOT_YET)) {
        return format!("this Python does not have {lacking}{}{LACKING}", line(error, usize::MAX));
    }
    format!("{}{}", shorten(&error.summary(), LONGEST_ERROR), line(error, usize::MAX))
}

/// Why a script failed, with the line of its own that was reached last.
fn why(error: &MontyException, script: &str, terms: &Terms) -> String {
    let message = error.message().unwrap_or_default();
    match error.exc_type() {
        ExcType::TimeoutError if message.starts_with("time limit exceeded") => super::too_late(terms.soft_limit()),
        ExcType::NameError if message.contains("'handler'") => {
            "the script defines no handler(input, output, expected, metadata, trace)".to_owned()
        }
        ExcType::NotImplementedError if message.starts_with("OS function ") => {
            let function = message.split('\'').nth(1).unwrap_or_default();
            format!("{function} is not there: scripts have no way to the operating system")
        }
        _ => format!("{}{}", shorten(&error.summary(), LONGEST_ERROR), line(error, script.lines().count())),
    }
}

fn line(error: &MontyException, last: usize) -> String {
    let lines = error.traceback().iter().rev().map(|frame| frame.start.line);
    let own = lines.filter_map(|line| usize::try_from(line).ok()).find(|line| *line <= last);
    own.map(|line| format!(" (line {line})")).unwrap_or_default()
}
