//! What ordinary scripts return, and what is refused when a script is saved.

use std::time::Duration;

use afterword::domain::outcome::Outcome;
use afterword::scorers::code::{CodeInput, CodeScorers, CodeSettings, Language};
use serde_json::json;

use super::{extra, failure, input, run, score, scorers, settings};
use Language::{JavaScript, Python, TypeScript};

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[tokio::test]
async fn handlers_return_numbers_booleans_and_objects() {
    let scorers = scorers();
    for (language, script, expected) in [
        (JavaScript, "function handler() { return 0.25 }", 0.25),
        (JavaScript, "const handler = (input, output) => /tomorrow/.test(output)", 1.0),
        (JavaScript, "export default function (input) { return input.includes('lawyer') }", 0.0),
        (JavaScript, "export const handler = () => 1", 1.0),
        (JavaScript, "const handler = (text: string): number => text.length > 3 ? 1 : 0", 1.0),
        (JavaScript, "handler = () => ({ score: true })", 1.0),
        (TypeScript, "enum G { No, Yes }\nexport function handler(a: string, b: string): G { return G.Yes }", 1.0),
        (TypeScript, "async function handler(a: unknown): Promise<{score: number}> { return {score: 0.5} }", 0.5),
        (JavaScript, "async function handler() { await null; await Promise.resolve(); return 0.75 }", 0.75),
        (JavaScript, "const x = await Promise.resolve(0.5); export const handler = async () => x", 0.5),
        (Python, "def handler(input, output, expected, metadata, trace):\n    return 0.25\n", 0.25),
        (Python, "import re\ndef handler(i, o, e, m, t):\n    return bool(re.search(r'tomorrow', o))\n", 1.0),
        (Python, "def handler(i, o, e, m, t):\n    return {'score': 1, 'words': len(o.split())}\n", 1.0),
        (Python, "handler = lambda *a: 0\n", 0.0),
        (
            Python,
            "import asyncio\nasync def half():\n    return 0.5\nasync def handler(i, o, e, m, t):\n    return await half()\n",
            0.5,
        ),
    ] {
        assert_eq!(scorers.check(language, script).await, Ok(()), "{script}");
        let outcome = run(&scorers, language, script).await;
        assert!(near(score(&outcome), expected), "{script}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_script_may_give_a_reason_and_more_or_decline() {
    let scorers = scorers();
    for (language, script) in [
        (JavaScript, "const handler = () => ({ score: 0.5, reason: 'half', words: [1, 'ü'] })"),
        (Python, "def handler(*a):\n    return {'score': 0.5, 'reason': 'half', 'words': (1, 'ü')}\n"),
    ] {
        let outcome = run(&scorers, language, script).await;
        assert!(near(score(&outcome), 0.5));
        assert_eq!(outcome.reason.as_deref(), Some("half"));
        assert_eq!(extra(&outcome), json!({"words": [1, "ü"]}));
    }
    for (language, script, reason) in [
        (JavaScript, "const handler = () => null", "the script declined"),
        (JavaScript, "const handler = () => ({ score: null, reason: 'no order' })", "no order"),
        (Python, "def handler(*a):\n    pass\n", "the script declined"),
        (Python, "def handler(*a):\n    return {'score': None, 'reason': 'no order'}\n", "no order"),
    ] {
        let outcome = run(&scorers, language, script).await.outcome;
        assert_eq!(outcome, Outcome::Declined { reason: reason.into() }, "{script}");
    }
}

#[tokio::test]
async fn a_handler_sees_the_conversation_the_metadata_and_the_spans() {
    let scorers = scorers();
    let javascript = "function handler(input, output, expected, metadata, trace) {
        const all = trace.getSpans(), tools = trace.getSpans({ type: 'tool' });
        return all.length === 3 && trace.spans.length === 3 && tools.map((s) => s.name).join() === 'lookup,notify'
            && trace.getSpans('agent').length === 1 && trace.getSpans({ name: 'notify' })[0].parent_span_id === 'a'
            && tools[0].input.order === 12 && tools[0].latency_ms === 12.5 && tools[0].error === null
            && metadata.channel === 'mail' && expected === null && input.includes('kůň 🐎') && output.startsWith('Let');
    }";
    let python = "def handler(input, output, expected, metadata, trace):
    tools = trace.get_spans(type='tool')
    return (len(trace.get_spans()) == 3 and len(trace.spans) == 3 and [s['name'] for s in tools] == ['lookup', 'notify']
        and len(trace.get_spans('agent')) == 1 and trace.get_spans(name='notify')[0]['parent_span_id'] == 'a'
        and tools[0]['input']['order'] == 12 and tools[0]['latency_ms'] == 12.5 and tools[0]['error'] is None
        and metadata['channel'] == 'mail' and expected is None and 'kůň 🐎' in input and output.startswith('Let'))
";
    for (language, script) in [(JavaScript, javascript), (Python, python)] {
        let outcome = run(&scorers, language, script).await;
        assert!(near(score(&outcome), 1.0), "{outcome:?}");
    }
    let row = CodeInput { expected: Some(json!({"answer": [1, 2]})), spans: Vec::new(), ..input() };
    let script = "const handler = (i, o, e, m, t) => e.answer.length === 2 && t.getSpans().length === 0";
    assert!(near(score(&scorers.run(JavaScript, script, &row).await), 1.0));
}

#[tokio::test]
async fn each_call_begins_afresh() {
    let scorers = scorers();
    let javascript =
        "globalThis.count = (globalThis.count ?? 0) + 1; Array.prototype.seen ??= 0; Array.prototype.seen++;
        const handler = () => count === 1 && [].seen === 1";
    let python = "seen = []\ndef handler(*a):\n    seen.append(1)\n    return len(seen) == 1\n";
    for _ in 0..5 {
        assert!(near(score(&run(&scorers, JavaScript, javascript).await), 1.0));
        assert!(near(score(&run(&scorers, Python, python).await), 1.0));
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_script_is_told_with_its_line_before_it_is_saved() {
    let scorers = scorers();
    for (language, script, said) in [
        (JavaScript, "function handler() {\n  return 1 +;\n}", "(line 2)"),
        (JavaScript, "const a = 1", "defines no function handler"),
        (JavaScript, "const handler = 5", "defines no function handler"),
        (JavaScript, "\n\nnull.x\nfunction handler() {}", "(line 3)"),
        (JavaScript, "import fs from 'fs'\nexport const handler = () => 1", "fs"),
        (JavaScript, "const handler = require('x')", "require is not defined"),
        (TypeScript, "function handler(a: string {\n return 1 }", "(line 1)"),
        (Python, "def handler(a):\n    return (1\n", "line"),
        (Python, "x = 1\n", "defines no handler"),
        (Python, "handler = 3\n", "no function"),
        (Python, "def handler(*a):\n    match a:\n        case _:\n            return 1\n", "(line 2)"),
        (Python, "def handler(*a):\n    x = 1\n    yield x\n", "(line 3)"),
        (
            Python,
            "def handler(*a):\n    class A(object):\n        pass\n    return 1\n",
            "does not have class inheritance",
        ),
        (Python, "import statistics\ndef handler(*a):\n    return 1\n", "'statistics' (line 1)"),
        (
            Python,
            "def handler(*a):\n    'import x'\n    from numpy.linalg import norm\n    return 1\n",
            "'numpy.linalg' (line 3)",
        ),
        (Python, "x = '''\ndef handler(*a):\n    return 1\n", "line"),
        (Python, "def handler(*a):\n    return 1\nx = 1 / 0\n", "(line 3)"),
    ] {
        let refusal = scorers.check(language, script).await.unwrap_err();
        assert!(refusal.contains(said), "{script}: {refusal}");
    }
    let long = format!("const handler = () => 1 //{}", "x".repeat(300_000));
    assert!(scorers.check(JavaScript, &long).await.unwrap_err().contains("bytes"));
}

/// Handlers in Python, each with whether it can be called with five arguments and, where it can't, with its line.
pub const SIGNATURES: &[(&str, Option<&str>)] = &[
    ("def handler(input, output, expected, metadata, trace):\n    return 1\n", None),
    ("def handler(i, o, e, m, t, more=1):\n    return 1\n", None),
    ("def handler(i, *rest):\n    return 1\n", None),
    ("def handler(i, o=None, *rest, key=1, **names):\n    return 1\n", None),
    ("def handler(i, o, e, m, t):\n    raise TypeError('its own')\n", None),
    ("def handler(i, o, e, m, t):\n    return len(5)\n", None),
    ("def other(a):\n    return 1\ndef handler(*a):\n    return other()\n", None),
    ("async def handler(i, o, e, m, t):\n    return 1\n", None),
    ("handler = lambda *a: 1\n", None),
    ("def handler():\n    return 1\n", Some("(line 1)")),
    ("\n\ndef handler(a, b):\n    return 1\n", Some("(line 3)")),
    ("def handler(i, o, e, m):\n    return 1\n", Some("(line 1)")),
    ("x = 1\ndef handler(i, o, e, m, t, six):\n    return 1\n", Some("(line 2)")),
    ("def handler(i, o, e, m, *, trace):\n    return 1\n", Some("(line 1)")),
    ("def handler(i, o, e, m, t, *, key):\n    return 1\n", Some("(line 1)")),
    ("async def handler(a):\n    return 1\n", Some("(line 1)")),
    ("x = 1\nhandler = lambda a: 1\n", Some("(line 2)")),
    ("def rate(a):\n    return 1\nhandler = rate\n", Some("(line 1)")),
];

#[tokio::test]
async fn a_handler_that_does_not_take_its_five_arguments_is_refused_when_it_is_saved() {
    let scorers = scorers();
    for (script, wrong) in SIGNATURES {
        signature_is_told(&scorers, script, *wrong).await;
    }
    for fewer in ["function handler() { return 1 }", "const handler = (input, output) => 1"] {
        assert_eq!(scorers.check(JavaScript, fewer).await, Ok(()), "{fewer}: JavaScript drops what is not named");
    }
}

/// Checking calls it, and its limit ends the call: short here, since it is reached.
#[tokio::test]
async fn a_handler_that_never_ends_takes_its_five_arguments_all_the_same() {
    let scorers = CodeScorers::new(CodeSettings { soft_limit: Duration::from_secs(2), ..settings() });
    signature_is_told(&scorers, "def handler(*a):\n    while True:\n        pass\n", None).await;
}

pub async fn signature_is_told(scorers: &CodeScorers, script: &str, wrong: Option<&str>) {
    let checked = scorers.check(Python, script).await;
    match wrong {
        None => assert_eq!(checked, Ok(()), "{script}"),
        Some(line) => {
            let refusal = checked.expect_err(script);
            let names = "the five arguments input, output, expected, metadata and trace";
            assert!(refusal.contains(names) && refusal.ends_with(line), "{script}: {refusal}");
        }
    }
}

#[tokio::test]
async fn an_import_that_is_only_text_is_no_import() {
    let scorers = scorers();
    let script = "import re\nHELP = \"\"\"\nimport numpy\nfrom x import y\n\"\"\"\ndef handler(*a):\n    # import z\n    return 1\n";
    assert_eq!(scorers.check(Python, script).await, Ok(()));
}

#[tokio::test]
async fn a_failure_says_what_happened_and_in_which_line() {
    let scorers = scorers();
    for (language, script, said) in [
        (
            JavaScript,
            "function handler(input) {\n  return input.nope.x\n}",
            "TypeError: cannot read property 'x' of undefined (line 2)",
        ),
        (
            JavaScript,
            "const handler = () => { throw new RangeError('too far') }",
            "handler threw RangeError: too far (line 1)",
        ),
        (JavaScript, "const handler = async () => { throw 'late' }", "handler threw \"late\""),
        (JavaScript, "const handler = () => { throw { code: 5 } }", "handler threw {\"code\":5}"),
        (JavaScript, "const handler = () => new Promise(() => {})", "nothing can settle"),
        (JavaScript, "const handler = () => undefined", "undefined"),
        (Python, "def handler(*a):\n    x = {}\n    return x['k']\n", "handler raised KeyError: k (line 3)"),
        (Python, "def handler(*a):\n    raise ValueError('no')\n", "handler raised ValueError: no (line 2)"),
        (Python, "def handler(a, b):\n    return 1\n", "TypeError"),
    ] {
        let reason = failure(&run(&scorers, language, script).await);
        assert!(reason.contains(said), "{script}: {reason}");
    }
}
