//! The whole of Python, where an operator allows it: as sealed as the rest.

use std::path::PathBuf;

use afterword::scorers::code::{CodeScorers, CodeSettings, Language};

use super::ordinary::{SIGNATURES, signature_is_told};
use super::{GOOD, PATIENCE, extra, failure, input, is_heard, may_be_late, run, score, settings, short, until_heard};
use crate::support::absent;
use Language::{JavaScript, Python};

/// Scorers with the system's Python, where it has one.
fn scorers(limits: CodeSettings) -> Option<CodeScorers> {
    let python =
        ["/usr/local/bin/python3", "/usr/bin/python3"].map(PathBuf::from).into_iter().find(|file| file.is_file());
    if python.is_none() {
        absent("no python3 in /usr/local/bin or /usr/bin");
    }
    Some(CodeScorers::new(CodeSettings { cpython: Some(python?), ..limits }))
}

#[tokio::test]
async fn the_whole_language_and_its_library_are_there() {
    let Some(scorers) = scorers(settings()) else { return };
    let script = "
import statistics, decimal
class Base:
    def mean(self, xs): return statistics.mean(xs)
class Own(Base):
    @property
    def xs(self): return [0.25, 0.75]
def numbers():
    yield from Own().xs
async def handler(input, output, expected, metadata, trace):
    match metadata:
        case {'channel': 'mail'}:
            return {'score': Own().mean(numbers()), 'reason': input[-6:], 'tools': len(trace.get_spans(type='tool'))}
";
    assert_eq!(scorers.check(Python, script).await, Ok(()));
    let outcome = run(&scorers, Python, script).await;
    assert!((score(&outcome) - 0.5).abs() < 1e-9, "{outcome:?}");
    assert_eq!(outcome.reason.as_deref(), Some(" kůň 🐎"));
    assert_eq!(extra(&outcome), serde_json::json!({"tools": 2}));
    assert!((score(&run(&scorers, JavaScript, "const handler = () => true").await) - 1.0).abs() < 1e-9);
}

/// Bodies of handlers, each with what its failure says (one of the texts); without texts it is to score a half.
const HOSTILE: &[(&str, &[&str])] = &[
    ("while True: pass", &["ran longer than"]),
    (
        "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        &["ran longer than"],
    ),
    ("s = 'a' * 20000000; t = 'a' * 1000000 + 'b'\n    for i in range(10 ** 9): s.find(t)", &["ran longer than"]),
    ("return 7 ** (10 ** 9)", &["ran longer than"]),
    ("x = []\n    while True: x.append('x' * 1000000 + str(len(x)))", &["ran out of memory", "ran longer than"]),
    ("return 'x' * (10 ** 12)", &["ran out of memory", "ran longer than"]),
    ("return handler(*a)", &["RecursionError"]),
    ("import os; return len(os.environ['PATH'])", &["KeyError: 'PATH'"]),
    ("return len(open('/etc/hostname').read())", &["PermissionError"]),
    ("open('/tmp/afterword-cpython', 'w')", &["PermissionError"]),
    ("import os; return len(os.listdir('/'))", &["PermissionError"]),
    ("import socket; socket.socket()", &["PermissionError", "ModuleNotFoundError"]),
    ("import os; os.fork()", &["PermissionError"]),
    ("import os; os.execv('/bin/true', ['true'])", &["PermissionError"]),
    ("import os; os.posix_spawn('/bin/true', ['true'], {})", &["PermissionError"]),
    ("import os; os.kill(os.getppid(), 9)", &["PermissionError"]),
    ("import os; os.setuid(0)", &["PermissionError"]),
    ("import ctypes; return ctypes.string_at(1)", &["recursed too deep", "signal"]),
    ("import ctypes; return 0.5 if ctypes.CDLL(None).fork() == -1 else 7", &[]),
    ("import ctypes; return 0.5 if ctypes.CDLL(None).socket(2, 1, 0) == -1 else 7", &[]),
    ("import os; os._exit(0)", &["ended without an answer"]),
    ("import os; os.write(1, b'x' * 100)", &["ended without an answer"]),
    ("import os; os.write(1, b'\\x02\\0\\0\\0{}')", &["ended without an answer"]),
    ("raise SystemExit(3)", &["handler raised SystemExit: 3 (line 2)"]),
    ("return 1e308", &["1e308, which is not within"]),
    ("return 10 ** 400", &["beyond all bounds"]),
    ("return float('nan')", &["NaN, which is not within"]),
    ("return '0.9'", &["returned '0.9'"]),
    ("x = {'score': 1}; x['x'] = x; return x", &["no JSON"]),
    ("return {'score': 1, 'reason': 'x' * (10 << 20)}", &["bytes; at most"]),
    ("return 'x' * (10 << 20)", &["characters in all"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_scripts_find_nothing_and_harm_no_sibling() {
    let Some(scorers) = scorers(settings()) else { return };
    let Some(hasty) = self::scorers(short()) else { return };
    let input = input();
    let mut wrong = Vec::new();
    for (body, said) in HOSTILE {
        let script = format!("def handler(*a):\n    {body}\n");
        let is_endless = may_be_late(said);
        let scorers = if is_endless { &hasty } else { &scorers };
        let hostile = scorers.run(Python, &script, &input);
        let sibling = scorers.run(JavaScript, GOOD, &input);
        let both = tokio::time::timeout(PATIENCE, async { tokio::join!(hostile, sibling) }).await;
        let (hostile, sibling) = both.unwrap();
        println!("beside {body}");
        if !is_heard(&sibling, is_endless) {
            until_heard(scorers).await;
        }
        println!("{:80} {:?}", body.replace('\n', "⏎"), hostile.outcome);
        let goodness = hostile.outcome.goodness().map(afterword::domain::outcome::Goodness::get);
        let is_fine = match said {
            [] => goodness == Some(0.5),
            said => goodness.is_none() && said.iter().any(|text| failure(&hostile).contains(text)),
        };
        if !is_fine {
            wrong.push(format!("{body}\n    {:?}", hostile.outcome));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_handler_that_does_not_take_its_five_arguments_is_refused_when_it_is_saved() {
    let Some(scorers) = scorers(settings()) else { return };
    for (script, wrong) in SIGNATURES {
        signature_is_told(&scorers, script, *wrong).await;
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_script_is_told_with_its_line() {
    let Some(scorers) = scorers(settings()) else { return };
    for (script, said) in [
        ("def handler(*a):\n    return (1\n", "(line 2)"),
        ("x = 1\n", "defines no handler"),
        ("import numpy_of_nowhere\ndef handler(*a): pass\n", "numpy_of_nowhere"),
        ("def handler(*a):\n    return 1\n1 / 0\n", "ZeroDivisionError: division by zero (line 3)"),
    ] {
        let refusal = scorers.check(Python, script).await.unwrap_err();
        assert!(refusal.contains(said), "{script}: {refusal}");
    }
}
