//! Scripts that mean harm: each ends at most its own worker, fails with a reason in time, and harms no neighbour.

use std::time::Duration;

use afterword::domain::outcome::Outcome;
use afterword::scorers::code::{CodeInput, CodeScorers, CodeSettings, Language};
use serde_json::json;

use super::{GOOD, PATIENCE, failure, input, is_heard, may_be_late, run, score, scorers, settings, short, until_heard};
use Language::{JavaScript, Python, TypeScript};

/// Scripts, each with what its failure says (one of the texts).
const HOSTILE: &[(Language, &str, &[&str])] = &[
    // Endless loops.
    (JavaScript, "const handler = () => { for (;;); }", &["ran longer than"]),
    (JavaScript, "for (;;); function handler() {}", &["ran longer than"]),
    (
        JavaScript,
        "const handler = () => { try { for (;;); } catch { return 1 } finally { for (;;); } }",
        &["ran longer than"],
    ),
    (JavaScript, "const handler = async () => { for (;;) await null }", &["ran longer than"]),
    (JavaScript, "const handler = () => ({ get score() { for (;;); } })", &["ran longer than"]),
    (JavaScript, "const handler = () => ({ score: 1, toJSON() { for (;;); } })", &["ran longer than"]),
    (JavaScript, "const handler = () => { throw { toJSON() { for (;;); } } }", &["ran longer than"]),
    (JavaScript, "const handler = () => /^(a|a)*$/.test('a'.repeat(40) + 'b')", &["ran longer than"]),
    (TypeScript, "const handler = (): number => { while (true) {} }", &["ran longer than"]),
    (Python, "def handler(*a):\n    while True:\n        pass\n", &["ran longer than"]),
    (Python, "while True:\n    pass\n", &["ran longer than"]),
    (Python, "async def handler(*a):\n    while True:\n        pass\n", &["ran longer than"]),
    (
        Python,
        "def handler(*a):\n    while True:\n        try:\n            while True:\n                pass\n        except BaseException:\n            pass\n",
        &["ran longer than"],
    ),
    (Python, "def handler(*a):\n    return sum(range(10 ** 18))\n", &["ran longer than"]),
    // Endless single operations, which the interpreter does not interrupt.
    (
        JavaScript,
        "const handler = () => { const s = 'a'.repeat(2e7), t = 'a'.repeat(1e6) + 'b'; for (let i = 0; i < 200; i++) s.indexOf(t); return 1 }",
        &["ran longer than"],
    ),
    (
        JavaScript,
        "const handler = () => { let n = 3n; for (let i = 0; i < 40; i++) n = n * n; return 1 }",
        &["BigInt is too large", "ran longer than", "memory"],
    ),
    (
        Python,
        "def handler(*a):\n    s = 'a' * 20000000\n    t = 'a' * 1000000 + 'b'\n    for i in range(100000):\n        s.find(t)\n    return 1\n",
        &["ran longer than"],
    ),
    (Python, "def handler(*a):\n    return 7 ** (10 ** 9)\n", &["ran longer than", "out of memory"]),
    // Allocation bombs.
    (
        JavaScript,
        "const handler = () => { const a = []; for (;;) a.push(new Array(1e5).fill(1)) }",
        &["ran longer than", "memory"],
    ),
    (JavaScript, "const handler = () => { let s = 'x'; for (;;) s += s }", &["memory", "string", "ran longer than"]),
    (JavaScript, "const handler = () => new ArrayBuffer(2 ** 33)", &["memory", "array buffer", "ran longer than"]),
    (
        JavaScript,
        "const a = []; for (;;) try { for (;;) a.push('x'.repeat(1e6) + a.length) } catch {} ; function handler() {}",
        &["ran longer than", "memory"],
    ),
    (
        Python,
        "def handler(*a):\n    x = []\n    while True:\n        x.append('x' * 1000000 + str(len(x)))\n",
        &["out of memory", "ran longer than"],
    ),
    (
        Python,
        "def handler(*a):\n    x = [1]\n    while True:\n        x = x + x\n",
        &["out of memory", "ran longer than"],
    ),
    (Python, "def handler(*a):\n    return 'x' * (10 ** 12)\n", &["out of memory", "ran longer than"]),
    (
        JavaScript,
        "const handler = () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); return 1 }",
        &["handler threw"],
    ),
    // Deep recursion, at work and in the compiler.
    (JavaScript, "function handler() { return handler() + 1 }", &["stack", "recurs", "ran longer than"]),
    (
        JavaScript,
        "const handler = () => { let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return JSON.stringify(a).length }",
        &["stack", "recurs", "ran longer than"],
    ),
    (Python, "def handler(*a):\n    return handler(*a)\n", &["RecursionError"]),
    (
        Python,
        "def handler(*a):\n    x = []\n    for i in range(1000000):\n        x = [x]\n    return x\n",
        &["returned [[[", "ran longer"],
    ),
    // Files, sockets, programs, the environment.
    (JavaScript, "const handler = () => process.env.PATH.length", &["process is not defined"]),
    (JavaScript, "const handler = () => require('fs').readFileSync('/etc/passwd')", &["require is not defined"]),
    (JavaScript, "const handler = () => std.open('/etc/passwd', 'r')", &["std is not defined"]),
    (JavaScript, "const handler = async () => (await import('os')).exec(['sh'])", &["handler threw"]),
    (JavaScript, "const handler = () => fetch('http://127.0.0.1/')", &["fetch is not defined"]),
    (JavaScript, "const handler = () => new Worker('x')", &["Worker is not defined"]),
    (Python, "import os\ndef handler(*a):\n    return len(os.environ['PATH'])\n", &["no way to the operating system"]),
    (Python, "import os\ndef handler(*a):\n    return os.getenv('PATH') and 1\n", &["no way to the operating system"]),
    (Python, "def handler(*a):\n    return len(open('/etc/passwd').read())\n", &["no way to the operating system"]),
    (
        Python,
        "from pathlib import Path\ndef handler(*a):\n    return len(Path('/etc/passwd').read_text())\n",
        &["no way to the operating system"],
    ),
    (Python, "import socket\ndef handler(*a):\n    return 1\n", &["ModuleNotFoundError"]),
    (Python, "import subprocess\ndef handler(*a):\n    return 1\n", &["ModuleNotFoundError"]),
    (Python, "import ctypes\ndef handler(*a):\n    return 1\n", &["ModuleNotFoundError"]),
    (Python, "import os\ndef handler(*a):\n    return os.system('sh')\n", &["Error"]),
    (Python, "def handler(*a):\n    return __import__('os').fork()\n", &["Error"]),
    // Results that are none.
    (JavaScript, "const handler = () => 1e308", &["1e308, which is not within 0 and 1"]),
    (JavaScript, "const handler = () => NaN", &["NaN, which is not within"]),
    (JavaScript, "const handler = () => -0.1", &["-0.1, which is not within"]),
    (JavaScript, "const handler = () => '0.9'", &["returned \"0.9\""]),
    (JavaScript, "const handler = () => ({})", &["returned {}"]),
    (JavaScript, "const handler = () => { const a = { score: 1 }; a.a = a; return a }", &["circular"]),
    (JavaScript, "const handler = () => { const a = []; a[0] = a; return a }", &["circular"]),
    (JavaScript, "const handler = () => 'x'.repeat(10 << 20)", &["bytes in all"]),
    (JavaScript, "const handler = () => ({ score: 1, reason: 'x'.repeat(10 << 20) })", &["bytes; at most"]),
    (JavaScript, "const handler = () => 1n", &["BigInt"]),
    (JavaScript, "const handler = () => handler", &["function"]),
    (JavaScript, "const other = () => 1", &["defines no function handler"]),
    (JavaScript, "const handler = () => { throw { toString: null } }", &["handler threw {\"toString\":null}"]),
    (JavaScript, "const handler = () => { throw null }", &["handler threw null"]),
    (JavaScript, "const handler = () => { throw new Error('x'.repeat(10 << 20)) }", &["bytes in all"]),
    (JavaScript, "const handler = () => new Proxy({}, { get() { throw 1 } })", &["returned proxy"]),
    (JavaScript, "Object.prototype.score = 7; const handler = () => ({})", &["a score of 7"]),
    (Python, "def handler(*a):\n    return 1e308\n", &["1e308, which is not within 0 and 1"]),
    (Python, "def handler(*a):\n    return float('nan')\n", &["NaN, which is not within"]),
    (Python, "def handler(*a):\n    return {'score': float('inf')}\n", &["a score of inf"]),
    (Python, "def handler(*a):\n    return -0.1\n", &["-0.1, which is not within"]),
    (Python, "def handler(*a):\n    return '0.9'\n", &["returned '0.9'"]),
    (Python, "def handler(*a):\n    return {}\n", &["returned {}"]),
    (Python, "def handler(*a):\n    x = {'score': 1}\n    x['x'] = x\n    return x\n", &["itself"]),
    (Python, "def handler(*a):\n    return 'x' * (10 << 20)\n", &["bytes in all"]),
    (Python, "def handler(*a):\n    return {'score': 1, 'reason': 'x' * (10 << 20)}\n", &["bytes; at most"]),
    (Python, "def other(*a):\n    return 1\n", &["defines no handler"]),
    (Python, "def handler(*a):\n    raise Exception({'a': 1})\n", &["exceptions can only be"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hostile_script_fails_with_a_reason_while_its_sibling_goes_on() {
    let (patient, hasty) = (scorers(), CodeScorers::new(short()));
    let input = input();
    let mut wrong = Vec::new();
    for (language, script, said) in HOSTILE {
        let is_endless = may_be_late(said);
        let scorers = if is_endless { &hasty } else { &patient };
        let hostile = scorers.run(*language, script, &input);
        let sibling = scorers.run(JavaScript, GOOD, &input);
        let both = tokio::time::timeout(PATIENCE, async { tokio::join!(hostile, sibling) }).await;
        let (hostile, sibling) = both.unwrap_or_else(|_| panic!("nothing ends {script}"));
        println!("beside {script}");
        if !is_heard(&sibling, is_endless) {
            until_heard(scorers).await;
        }
        let reason = hostile.outcome.reason().unwrap_or("a score").to_owned();
        println!(
            "{:10} {:70} {reason}",
            language.as_str(),
            script.replace('\n', "⏎").chars().take(70).collect::<String>()
        );
        let is_failure = matches!(hostile.outcome, Outcome::Failed { .. } if !hostile.outcome.is_transient());
        if !is_failure || !said.iter().any(|text| reason.contains(text)) || reason.len() > 1_500 {
            wrong.push(format!("{script}\n    {:?}", hostile.outcome));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_scripts_are_refused_or_survived_when_they_are_saved() {
    let scorers = CodeScorers::new(short());
    let deep =
        |open: &str, close: &str| format!("const handler = () => {}1{}", open.repeat(60_000), close.repeat(60_000));
    for (language, script) in [
        (JavaScript, "for (;;); function handler() {}".to_owned()),
        (Python, "while True:\n    pass\n".to_owned()),
        (JavaScript, deep("(", ")")),
        (TypeScript, deep("[", "]")),
        (JavaScript, deep("-", "")),
        (Python, format!("x = {}1{}\ndef handler(*a):\n    return 1\n", "(".repeat(60_000), ")".repeat(60_000))),
        (Python, format!("x = {}1\ndef handler(*a):\n    return 1\n", "not ".repeat(30_000))),
    ] {
        let checked = tokio::time::timeout(PATIENCE, scorers.check(language, &script)).await.unwrap();
        println!("{:10} {:40} {checked:?}", language.as_str(), &script[..40.min(script.len())]);
        let after = scorers.check(JavaScript, GOOD).await;
        let is_late = after.as_ref().is_err_and(|why| why.contains("ran longer than"));
        assert!(is_late || after.is_ok(), "after a {} script: {after:?}", language.as_str());
        if is_late {
            until_heard(&scorers).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_no_interpreter_stops_is_ended_with_its_process_in_time() {
    // Only the process's own limit is to be reached.
    let limits = CodeSettings { workers: 1, soft_limit: Duration::from_millis(3_900), ..short() };
    let scorers = CodeScorers::new(limits);
    let script = HOSTILE.iter().find(|(_, script, _)| script.contains("indexOf")).unwrap().1;
    until_heard(&scorers).await;
    let watch = afterword::clock::stopwatch();
    let reason = failure(&run(&scorers, JavaScript, script).await);
    let took = watch.elapsed();
    assert!(reason.contains("its process was ended"), "{reason}");
    assert!(took >= Duration::from_millis(3_900) && took < PATIENCE, "{took:?}");
    until_heard(&scorers).await;
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[tokio::test]
async fn a_conversation_beyond_all_bounds_fails_without_a_worker() {
    let scorers = scorers();
    let huge = CodeInput { output: json!("x".repeat(17 << 20)), ..input() };
    let reason = failure(&scorers.run(JavaScript, GOOD, &huge).await);
    assert!(reason.contains("too large"), "{reason}");
    let large = CodeInput { output: json!("x".repeat(10 << 20)), ..input() };
    assert!(near(score(&scorers.run(JavaScript, GOOD, &large).await), 1.0));
    let python = "def handler(i, o, e, m, t):\n    return len(o) == 10 << 20\n";
    assert!(near(score(&scorers.run(Python, python, &large).await), 1.0));
}

#[tokio::test]
async fn where_no_worker_can_start_the_failure_is_for_now() {
    for program in ["/nowhere/afterword", "/bin/false"] {
        let scorers = CodeScorers::new(CodeSettings::of(program));
        let outcome = run(&scorers, JavaScript, GOOD).await.outcome;
        assert!(outcome.is_transient(), "{program}: {outcome:?}");
        assert!(scorers.check(JavaScript, GOOD).await.unwrap_err().contains("no worker process"), "{program}");
    }
}

#[tokio::test]
async fn workers_are_replaced_after_their_share_of_calls() {
    let scorers = CodeScorers::new(CodeSettings { workers: 1, recycle_after: 2, ..settings() });
    for _ in 0..7 {
        assert!(near(score(&run(&scorers, JavaScript, GOOD).await), 1.0));
    }
}
