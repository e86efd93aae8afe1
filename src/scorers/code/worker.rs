//! The worker process: limits itself, then answers one request after another until its pool closes.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use super::frames::{self, Reply, Request, Terms};
use super::{Language, has_engine, sandbox};

/// Works until the pool closes its end.
pub(super) fn work(terms: &str) -> ExitCode {
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    let ready = serde_json::from_str::<Terms>(terms).map_err(|error| error.to_string()).and_then(|terms| {
        if let Some(python) = &terms.cpython {
            super::cpython::become_python(python, &terms)?;
        }
        prepare(&terms)?;
        Ok(terms)
    });
    let ended = match ready {
        Err(reason) => frames::write(&mut to, &Reply::Refused(reason)),
        Ok(terms) => frames::write(&mut to, &Reply::Ready).and_then(|()| answer(&mut from, &mut to, &terms)),
    };
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Gives up all that computing does not take. What engines set up once, they set up before.
fn prepare(terms: &Terms) -> Result<(), String> {
    sandbox::drop_privileges()?;
    warm_up(terms)?;
    sandbox::limit(terms.memory, 3)?;
    sandbox::seal()
}

fn warm_up(terms: &Terms) -> Result<(), String> {
    let scripts = [
        (
            Language::JavaScript,
            "async function handler(text) { return /a+/u.test(text + new Date()) && Math.random() < 1 }",
        ),
        (Language::TypeScript, "function handler(text: string): number { return text.length / 8 }"),
        (Language::Python, "import re\n\ndef handler(a, b, c, d, trace):\n    return bool(re.search('a+', a))\n"),
    ];
    let input = serde_json::json!({"input": "a", "output": "b", "expected": null, "metadata": null, "spans": []});
    for (language, script) in scripts.into_iter().filter(|(language, _)| has_engine(*language)) {
        let input = serde_json::value::to_raw_value(&input).map_err(|error| error.to_string())?;
        let request = Request { language, script: script.to_owned(), input: Some(input) };
        match perform(&request, terms) {
            Reply::Returned(_) => {}
            other => return Err(format!("its {} engine does not work: {other:?}", language.as_str())),
        }
    }
    Ok(())
}

fn answer(from: &mut impl Read, to: &mut impl Write, terms: &Terms) -> io::Result<()> {
    while let Some(request) = frames::read::<Request>(from)? {
        let limited = sandbox::limit_processor_time(terms.cpu_seconds);
        let reply = limited.map_or_else(Reply::Failed, |()| perform(&request, terms));
        frames::write(to, &reply)?;
    }
    Ok(())
}

#[cfg_attr(not(any(feature = "python", feature = "javascript")), allow(unused_variables, reason = "engines use it"))]
fn perform(request: &Request, terms: &Terms) -> Reply {
    match request.language {
        #[cfg(feature = "python")]
        Language::Python => match &request.input {
            None => super::python::check(&request.script, terms),
            Some(input) => super::python::run(&request.script, input, terms),
        },
        #[cfg(feature = "javascript")]
        Language::JavaScript | Language::TypeScript => {
            let is_typescript = request.language == Language::TypeScript;
            match &request.input {
                None => super::javascript::check(&request.script, is_typescript, terms),
                Some(input) => super::javascript::run(&request.script, is_typescript, input, terms),
            }
        }
        #[cfg(not(all(feature = "python", feature = "javascript")))]
        other => Reply::Refused(super::lacking(other)),
    }
}
