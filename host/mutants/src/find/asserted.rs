//! Functions that are there for assertions: to change one that holds changes nothing.

use std::ops::Range;

use syn::visit::{self, Visit};
use syn::{Block, Expr, Macro, Stmt, Visibility};

use super::range;
use crate::source::Source;

/// Whether a function only asserts.
pub fn only_asserts(body: &Block) -> bool {
    let asserting = |statement: &Stmt| matches!(statement, Stmt::Macro(call) if is_assertion(&call.mac));
    let harmless = |statement: &Stmt| match statement {
        Stmt::Local(_) | Stmt::Item(_) => true,
        Stmt::Expr(Expr::ForLoop(repeated), _) => only_asserts(&repeated.body),
        Stmt::Expr(Expr::If(branch), _) => branch.else_branch.is_none() && only_asserts(&branch.then_branch),
        _ => asserting(statement),
    };
    body.stmts.iter().all(harmless) && body.stmts.iter().any(|statement| !matches!(statement, Stmt::Local(_)))
}

/// Whether a private function is called nowhere in its file but in assertions.
pub fn is_for_assertions(source: &Source, assertions: &[Range<usize>], visibility: &Visibility, name: &str) -> bool {
    let (text, call) = (&source.text, format!("{name}("));
    let calls = text.match_indices(&call).map(|(at, _)| at);
    let calls: Vec<usize> = calls.filter(|at| !text[..*at].ends_with("fn ")).collect();
    let asserted = |at: &usize| assertions.iter().any(|assertion| assertion.contains(at));
    matches!(visibility, Visibility::Inherited) && !calls.is_empty() && calls.iter().all(asserted)
}

/// Where the assertions of a file are.
pub fn assertions(source: &Source) -> Vec<Range<usize>> {
    struct Assertions(Vec<Range<usize>>);
    impl<'ast> Visit<'ast> for Assertions {
        fn visit_macro(&mut self, called: &'ast Macro) {
            if is_assertion(called) {
                self.0.push(range(called));
            }
            visit::visit_macro(self, called);
        }
    }
    let mut assertions = Assertions(Vec::new());
    assertions.visit_file(&source.syntax);
    assertions.0
}

fn is_assertion(called: &Macro) -> bool {
    let name = called.path.segments.last().map(|segment| segment.ident.to_string());
    name.is_some_and(|name| name.starts_with("assert") || name.starts_with("debug_assert"))
}
