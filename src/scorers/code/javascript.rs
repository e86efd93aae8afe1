//! The JavaScript engine: a fresh QuickJS for each call, with nothing in it but the language.

use std::cell::Cell;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::{CatchResultExt as _, CaughtError, Context, Ctx, Function, Module, Object, Runtime, Type, Value};
use serde_json::Map;
use serde_json::value::RawValue;

use super::frames::{Reply, Terms};
use super::result::{Found, LONGEST_RESULT, Said, shorten};
use super::typescript::{self, Source};
use crate::clock::{Stopwatch, stopwatch};

/// Native stack that one call may use, in bytes.
const STACK: usize = 4 << 20;
/// Of the memory that a script may use, the share in hundredths that the engine gives out itself. The rest is for what is copied
/// in and out, so that a script that asks for too much is told so, rather than ended with its process.
const SHARE: u64 = 80;
/// The name of a script in its errors.
const NAME: &str = "scorer";
/// The most characters of an error's text.
const LONGEST_ERROR: usize = 500;

/// Wraps spans into what handlers get as `trace`.
const TRACE: &str = "(spans) => ({ spans, getSpans(filter = {}) {
  const { type, name } = typeof filter === 'string' ? { type: filter } : filter ?? {};
  return spans.filter((span) => (type == null || span.type === type) && (name == null || span.name === name));
} })";
/// Finds the handler of a script; in a module it is left where this can be found from outside.
const HANDLER: &str = "typeof handler === 'undefined' ? undefined : handler";
const LEFT: &str = "__afterword_handler";

/// Looks at a script: whether it compiles, runs, and has a handler.
pub(super) fn check(script: &str, is_typescript: bool, terms: &Terms) -> Reply {
    let source = match typescript::read(script, is_typescript) {
        Ok(source) => source,
        Err(error) => return Reply::Refused(error),
    };
    match Call::within(terms).with(|ctx, call| call.handler(ctx, &source).map(drop)) {
        Ok(()) => Reply::Usable,
        Err(error) => Reply::Refused(error),
    }
}

/// Calls a script's handler.
pub(super) fn run(script: &str, is_typescript: bool, input: &RawValue, terms: &Terms) -> Reply {
    let result = typescript::read(script, is_typescript).and_then(|source| {
        Call::within(terms).with(|ctx, call| {
            let handler = call.handler(ctx, &source)?;
            let arguments = arguments(ctx, input).catch(ctx).map_err(|error| call.why(&error))?;
            let returned: Value = handler.call_arg(arguments).catch(ctx).map_err(|error| call.thrown(&error))?;
            let returned = call.settled(ctx, returned)?;
            call.said(ctx, &returned)
        })
    });
    result.map_or_else(Reply::Failed, Reply::Returned)
}

fn arguments<'js>(ctx: &Ctx<'js>, input: &RawValue) -> rquickjs::Result<Args<'js>> {
    let given: Object = ctx.json_parse(input.get())?.get()?;
    let trace: Function = ctx.eval(TRACE)?;
    let trace: Value = trace.call((given.get::<_, Value>("spans")?,))?;
    let mut arguments = Args::new(ctx.clone(), 5);
    for name in ["input", "output", "expected", "metadata"] {
        arguments.push_arg(given.get::<_, Value>(name)?)?;
    }
    arguments.push_arg(trace)?;
    Ok(arguments)
}

/// One call's limits, and which of them was reached.
struct Call {
    terms: Terms,
    watch: Stopwatch,
    is_late: Rc<Cell<bool>>,
}

impl Call {
    fn within(terms: &Terms) -> Self {
        Self { terms: terms.clone(), watch: stopwatch(), is_late: Rc::default() }
    }

    /// Works in a fresh engine.
    fn with<T>(&self, work: impl FnOnce(&Ctx<'_>, &Self) -> Result<T, String>) -> Result<T, String> {
        let broken = |error: rquickjs::Error| format!("the interpreter can't start: {error}");
        let runtime = Runtime::new().map_err(broken)?;
        runtime.set_memory_limit(usize::try_from(self.terms.memory / 100 * SHARE).unwrap_or(usize::MAX));
        runtime.set_max_stack_size(STACK);
        let (watch, most, is_late) = (self.watch, self.terms.soft_limit(), Rc::clone(&self.is_late));
        runtime.set_interrupt_handler(Some(Box::new(move || {
            is_late.set(is_late.get() || watch.elapsed() > most);
            is_late.get()
        })));
        let context = Context::full(&runtime).map_err(broken)?;
        context.with(|ctx| work(&ctx, self))
    }

    /// Runs a script's top level and finds its handler.
    fn handler<'js>(&self, ctx: &Ctx<'js>, source: &Source) -> Result<Function<'js>, String> {
        let found = if source.is_module { self.load(ctx, source)? } else { self.eval(ctx, source)? };
        if let Some(handler) = found.into_function() {
            return Ok(handler);
        }
        Err("the script defines no function handler(input, output, expected, metadata, trace)".to_owned())
    }

    fn eval<'js>(&self, ctx: &Ctx<'js>, source: &Source) -> Result<Value<'js>, String> {
        let mut options = EvalOptions::default();
        options.strict = false;
        options.filename = Some(NAME.to_owned());
        ctx.eval_with_options::<(), _>(source.code.as_str(), options).catch(ctx).map_err(|error| self.why(&error))?;
        ctx.eval(HANDLER).catch(ctx).map_err(|error| self.why(&error))
    }

    fn load<'js>(&self, ctx: &Ctx<'js>, source: &Source) -> Result<Value<'js>, String> {
        let code = format!("{}\n;globalThis.{LEFT} = {HANDLER};", source.code);
        let load = || {
            let (module, loaded) = Module::declare(ctx.clone(), NAME, code)?.eval()?;
            Ok((module, loaded))
        };
        let (module, loaded) = load().catch(ctx).map_err(|error| self.why(&error))?;
        self.settled(ctx, loaded.into_value())?;
        let left: Value = ctx.globals().get(LEFT).catch(ctx).map_err(|error| self.why(&error))?;
        if !left.is_undefined() {
            return Ok(left);
        }
        module.namespace().and_then(|names| names.get("default")).catch(ctx).map_err(|error| self.why(&error))
    }

    /// What a promise comes to, driven to its end; any other value as it is.
    fn settled<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<Value<'js>, String> {
        let Some(promise) = value.as_promise().cloned() else { return Ok(value) };
        loop {
            if let Some(result) = promise.result::<Value>() {
                return result.catch(ctx).map_err(|error| self.thrown(&error));
            }
            let has_worked = ctx.execute_pending_job();
            if self.is_late.get() || self.watch.elapsed() > self.terms.soft_limit() {
                return Err(self.too_late());
            }
            if !has_worked {
                return Err(
                    "handler returned a promise that nothing can settle: there are no timers and no network here"
                        .to_owned(),
                );
            }
        }
    }

    /// What a returned value says.
    fn said<'js>(&self, ctx: &Ctx<'js>, value: &Value<'js>) -> Result<Said, String> {
        let Some(object) = value.as_object().filter(|_| value.type_of() == Type::Object) else {
            return Said::of(self.found(ctx, value), None);
        };
        let score: Value = object.get("score").catch(ctx).map_err(|error| self.thrown(&error))?;
        if score.is_undefined() {
            return Said::of(self.found(ctx, value), None);
        }
        let found = self.found(ctx, &score);
        let text = self.json(ctx, value).map_err(|why| format!("handler returned an object that is no JSON: {why}"))?;
        if text.len() > LONGEST_RESULT {
            return Err(format!("handler returned {} bytes; at most {LONGEST_RESULT} are taken", text.len()));
        }
        let fields: Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
        Said::of(found, Some(fields))
    }

    fn found<'js>(&self, ctx: &Ctx<'js>, value: &Value<'js>) -> Found {
        match value.type_of() {
            Type::Null => Found::Nothing,
            Type::Bool => Found::Boolean(value.as_bool().unwrap_or_default()),
            Type::Int | Type::Float => Found::Number(value.as_number().unwrap_or(f64::NAN)),
            Type::String | Type::Array | Type::Object => {
                Found::Other(self.json(ctx, value).unwrap_or_else(|why| format!("something that is no JSON ({why})")))
            }
            Type::BigInt => Found::Other("a BigInt".to_owned()),
            other => Found::Other(other.as_str().to_owned()),
        }
    }

    fn json<'js>(&self, ctx: &Ctx<'js>, value: &Value<'js>) -> Result<String, String> {
        let text = ctx.json_stringify(value.clone()).catch(ctx).map_err(|error| self.why(&error))?;
        let text = text.map(|text| text.to_string()).transpose().catch(ctx).map_err(|error| self.why(&error))?;
        Ok(text.unwrap_or_else(|| "undefined".to_owned()))
    }

    fn thrown(&self, error: &CaughtError<'_>) -> String {
        let why = self.why(error);
        if self.is_late.get() || is_out_of_memory(error) { why } else { format!("handler threw {why}") }
    }

    /// What went wrong, in words, with its line where that is known.
    fn why(&self, error: &CaughtError<'_>) -> String {
        if is_out_of_memory(error) {
            return super::out_of_memory(self.terms.memory);
        }
        let why = match error {
            CaughtError::Exception(exception) => {
                let message = exception.message().unwrap_or_default();
                let name: Option<String> = exception.as_object().get("name").ok();
                let stack = exception.stack().unwrap_or_default();
                let line = stack.split(&format!("{NAME}:")).nth(1).map(digits).filter(|line| !line.is_empty());
                let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
                format!("{}: {}{line}", name.as_deref().unwrap_or("Error"), shorten(&message, LONGEST_ERROR))
            }
            CaughtError::Value(value) => {
                let text =
                    value.ctx().json_stringify(value.clone()).ok().flatten().and_then(|text| text.to_string().ok());
                shorten(&text.unwrap_or_else(|| value.type_of().as_str().to_owned()), LONGEST_ERROR)
            }
            CaughtError::Error(error) => shorten(&error.to_string(), LONGEST_ERROR),
        };
        // Looked at last, for what was thrown may have taken its time to be written down.
        if self.is_late.get() { self.too_late() } else { why }
    }

    fn too_late(&self) -> String {
        super::too_late(self.terms.soft_limit())
    }
}

fn is_out_of_memory(error: &CaughtError<'_>) -> bool {
    matches!(error, CaughtError::Exception(exception) if exception.message().as_deref() == Some("out of memory"))
}

fn digits(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_digit).count()]
}
