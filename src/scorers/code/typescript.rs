//! TypeScript without its types: parsed, checked for syntax, and printed as JavaScript.

use std::path::Path;

use oxc_allocator::Allocator;
use oxc_codegen::Codegen;
use oxc_diagnostics::Diagnostics;
use oxc_parser::Parser;
use oxc_semantic::SemanticBuilder;
use oxc_span::SourceType;
use oxc_transformer::{TransformOptions, Transformer};

/// A script that the engine can run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Source {
    /// JavaScript.
    pub code: String,
    /// Whether it imports or exports, and so is a module.
    pub is_module: bool,
}

/// Reads a script. JavaScript stays as it is; what is only TypeScript loses its types.
///
/// # Errors
/// What is wrong with it and in which line. What is neither is told as the syntax error that its own language gives.
pub(super) fn read(script: &str, is_typescript: bool) -> Result<Source, String> {
    if is_typescript {
        return strip(script);
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, script, SourceType::unambiguous()).parse();
    match first(&parsed.diagnostics, script) {
        None => Ok(Source { code: script.to_owned(), is_module: parsed.module_record.has_module_syntax }),
        Some(error) => strip(script).map_err(|_| error),
    }
}

fn strip(script: &str) -> Result<Source, String> {
    let allocator = Allocator::default();
    let kind = SourceType::ts().with_unambiguous(true);
    let parsed = Parser::new(&allocator, script, kind).parse();
    if let Some(error) = first(&parsed.diagnostics, script) {
        return Err(error);
    }
    let is_module = parsed.module_record.has_module_syntax;
    let mut program = parsed.program;
    let checked = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    if let Some(error) = first(&checked.diagnostics, script) {
        return Err(error);
    }
    let scoping = checked.semantic.into_scoping();
    let options = TransformOptions::default();
    let stripped =
        Transformer::new(&allocator, Path::new("scorer.ts"), &options).build_with_scoping(scoping, &mut program);
    match first(&stripped.diagnostics, script) {
        Some(error) => Err(error),
        None => Ok(Source { code: Codegen::new().build(&program).code, is_module }),
    }
}

fn first(diagnostics: &Diagnostics, script: &str) -> Option<String> {
    let diagnostic = diagnostics.iter().next()?;
    let at = diagnostic.labels.iter().next().map(oxc_span::LabeledSpan::offset);
    let line = at.and_then(|at| script.get(..usize::try_from(at).ok()?)).map(|before| before.matches('\n').count() + 1);
    let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    Some(format!("SyntaxError: {}{line}", diagnostic.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javascript_stays_as_it_is() {
        let script = "function handler(input) {\n  return input < 3 ? 1 : 0; // ünï\n}\n";
        assert_eq!(read(script, false), Ok(Source { code: script.to_owned(), is_module: false }));
        assert!(read("export default () => 1", false).unwrap().is_module);
    }

    #[test]
    fn types_are_taken_away_whatever_the_script_is_called() {
        let script = "enum Grade { Bad = 0, Good = 1 }\ninterface Result { score: number; reason?: string }\n\
                      const parts = (text: string): string[] => text.split(' ') as string[];\n\
                      function handler(input: string, output: string): Result {\n\
                      \x20 return { score: parts(output)!.length > 2 ? Grade.Good : Grade.Bad };\n}\n";
        for is_typescript in [true, false] {
            let source = read(script, is_typescript).unwrap();
            for gone in ["interface", ": string", " as ", "!."] {
                assert!(!source.code.contains(gone), "{gone} in {}", source.code);
            }
            assert!(source.code.contains("Grade") && !source.is_module, "{}", source.code);
        }
    }

    #[test]
    fn a_syntax_error_is_told_with_its_line() {
        for is_typescript in [true, false] {
            let error = read("function handler() {\n  return 1\n}\n}\n", is_typescript).unwrap_err();
            assert!(error.contains("line 4"), "{error}");
        }
    }
}
