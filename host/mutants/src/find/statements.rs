//! Statements that can be left out.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Stmt};

use super::expressions::{attributes, name_of_call};
use super::{Finder, operators, range};
use crate::schema::{Form, Operator};
use crate::source::is_product;

impl Finder<'_> {
    pub(super) fn statement(&mut self, statement: &Stmt) {
        if let Stmt::Expr(expression, semicolon) = statement {
            if !is_product(attributes(expression)) || self.is_for_people(expression) {
                return;
            }
            if is_jump(expression) {
                self.skip(statement, Operator::Jump);
            } else if semicolon.is_some() && is_removable(expression) {
                self.skip(statement, Operator::Removal);
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn skip(&mut self, statement: &impl Spanned, operator: Operator) {
        let range = range(statement);
        let change = format!("removed: `{}`", self.shown(&range));
        self.single(Form::Skip, range, operator, change);
    }

    /// The last call of a function without a result, where no semicolon tells that its value is not used.
    pub(super) fn last_of_unit(&mut self, body: &Block) {
        if let Some(last @ Stmt::Expr(expression, None)) = body.stmts.last()
            && is_removable(expression)
            && !self.is_for_people(expression)
        {
            self.skip(last, Operator::Removal);
        }
    }

    /// What must not come to its end: the `else` of a `let`.
    pub(super) fn diverging(&mut self, expression: &Expr) {
        let Expr::Block(block) = expression else { return self.visit_expr(expression) };
        let Some((last, before)) = block.block.stmts.split_last() else { return };
        before.iter().for_each(|statement| self.visit_stmt(statement));
        visit::visit_stmt(self, last);
    }

    /// Whether a statement tells people something, and nothing else.
    fn is_for_people(&self, expression: &Expr) -> bool {
        let Expr::MethodCall(call) = expression else { return false };
        let shown = |argument: &str| argument.contains("Diagnostic::") || argument.starts_with("Action::Logs");
        call.method == "log" || call.args.iter().any(|argument| shown(self.text(&range(argument))))
    }
}

fn is_jump(expression: &Expr) -> bool {
    matches!(expression, Expr::Return(_) | Expr::Continue(_) | Expr::Break(_))
}

/// Whether an expression is there for what it does, not for its value.
pub(super) fn is_removable(expression: &Expr) -> bool {
    match expression {
        Expr::Assign(_) => true,
        Expr::Binary(binary) => operators::is_assignment(&binary.op),
        Expr::Try(inner) => is_removable(&inner.expr),
        Expr::Call(_) | Expr::MethodCall(_) => {
            name_of_call(expression).is_none_or(|name| !operators::is_about_memory(&name) && !is_constructor(&name))
        }
        _ => false,
    }
}

/// Whether a call only makes a value, judged by its name.
fn is_constructor(name: &str) -> bool {
    name == "new" || name == "default" || name.starts_with(char::is_uppercase)
}
