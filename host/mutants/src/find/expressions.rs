//! Expressions that can be something else.

use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Lit, Pat, UnOp};

use super::statements::is_removable;
use super::{Finder, alternative, operators, range};
use crate::schema::{Form, Operator};
use crate::source::is_product;

impl Finder<'_> {
    pub(super) fn expression(&mut self, expression: &Expr) {
        if !is_product(attributes(expression)) {
            return;
        }
        match expression {
            // Only whoever plants a bug asks for the rest.
            Expr::Binary(_) if polarity_of_planted(expression) == Some(true) => return,
            Expr::Binary(binary) => self.binary(expression, binary),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) && !is_planted(&unary.expr) => self.flip(expression),
            Expr::If(branch) => return self.branch(branch),
            Expr::While(repeated) => self.condition(&repeated.cond),
            Expr::Let(pattern) => {
                let change = format!("never: `{}`", self.shown(&range(pattern)));
                let start = range(pattern).start;
                self.single(Form::Mismatch, start..start, Operator::Pattern, change);
            }
            Expr::MethodCall(call) => {
                self.method(expression, call);
                if operators::is_about_memory(&call.method.to_string()) {
                    return self.visit_expr(&call.receiver);
                }
            }
            Expr::Call(call) => {
                if name_of_call(expression).is_some_and(|name| operators::is_about_memory(&name) || name == "planted") {
                    return;
                }
                call.args.iter().for_each(|argument| self.visit_expr(argument));
                return;
            }
            Expr::Closure(closure) if closure.constness.is_some() => return,
            Expr::Lit(literal) => self.literal(expression, &literal.lit),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    pub(super) fn arm(&mut self, arm: &syn::Arm) {
        if let Pat::Guard(guarded) = &arm.pat {
            if polarity_of_planted(&guarded.guard) == Some(true) {
                return;
            }
            self.condition(&guarded.guard);
            self.visit_expr(&guarded.guard);
        }
        if is_removable(&arm.body) {
            let range = range(&*arm.body);
            let change = format!("removed: `{}`", self.shown(&range));
            self.single(Form::SkipValue, range, Operator::Removal, change);
        }
        self.visit_expr(&arm.body);
    }

    fn branch(&mut self, branch: &syn::ExprIf) {
        let planted = polarity_of_planted(&branch.cond);
        if planted.is_none() {
            self.condition(&branch.cond);
        }
        self.visit_expr(&branch.cond);
        if planted != Some(true) {
            self.visit_block(&branch.then_branch);
        }
        if let Some((_, other)) = &branch.else_branch
            && planted != Some(false)
        {
            self.visit_expr(other);
        }
    }

    fn binary(&mut self, expression: &Expr, binary: &syn::ExprBinary) {
        let logic = operators::is_logic(&binary.op);
        let fixed = logic && (is_planted(&binary.left) || is_planted(&binary.right) || contains_let(expression));
        if !fixed {
            let (left, right) = (range(&*binary.left), range(&*binary.right));
            let from = self.shown(&range(expression));
            let alternatives = operators::of_binary(&binary.op).iter().map(|(operator, other)| {
                let change = format!("`{from}` → `{} {other} {}`", self.shown(&left), self.shown(&right));
                let code = if operators::is_assignment(&binary.op) {
                    format!("{} {other} {}", self.text(&left), self.text(&right))
                } else {
                    format!("({}) {other} ({})", self.text(&left), self.text(&right))
                };
                alternative(*operator, change, code)
            });
            let alternatives: Vec<_> = alternatives.collect();
            if !alternatives.is_empty() {
                self.site(Form::Choose, range(expression), alternatives);
            }
        }
        if logic {
            self.condition(&binary.left);
            self.condition(&binary.right);
        }
    }

    /// What says yes or no, unless its parts are changed anyway.
    fn condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(binary) if operators::is_logic(&binary.op) || operators::is_comparison(&binary.op) => {}
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {}
            Expr::Paren(inner) => self.condition(&inner.expr),
            Expr::Macro(inner) if !inner.mac.path.is_ident("matches") => {}
            Expr::Let(_) | Expr::Lit(_) => {}
            leaf if is_planted(leaf) => {}
            leaf => self.flip(leaf),
        }
    }

    fn flip(&mut self, expression: &Expr) {
        let range = range(expression);
        let shown = self.shown(&range);
        let change = match shown.strip_prefix('!') {
            Some(positive) => format!("`{shown}` → `{positive}`"),
            None => format!("`{shown}` → `!({shown})`"),
        };
        self.single(Form::Flip, range, Operator::Negation, change);
    }

    fn method(&mut self, expression: &Expr, call: &syn::ExprMethodCall) {
        let name = call.method.to_string();
        if let Some((operator, other)) = operators::of_method(&name) {
            let (whole, method) = (range(expression), range(&call.method));
            let code =
                format!("{}{other}{}", self.text(&(whole.start..method.start)), self.text(&(method.end..whole.end)));
            let change = format!("`{name}` → `{other}` in `{}`", self.shown(&whole));
            self.site(Form::Choose, whole, vec![alternative(operator, change, code)]);
        }
        if operators::takes_predicate(&name) {
            for argument in &call.args {
                if let Expr::Closure(closure) = argument
                    && !matches!(&*closure.body, Expr::Block(_))
                {
                    self.condition(&closure.body);
                }
            }
        }
    }

    fn literal(&mut self, expression: &Expr, literal: &Lit) {
        let range = range(expression);
        let (from, to) = match literal {
            Lit::Int(number) => match number.base10_parse::<u64>().ok().and_then(|value| value.checked_add(1)) {
                Some(more) => (number.to_string(), format!("{more}{}", number.suffix())),
                None => return,
            },
            Lit::Bool(truth) => (truth.value.to_string(), (!truth.value).to_string()),
            _ => return,
        };
        let change = format!("`{from}` → `{to}` in `{}`", self.line(range.start));
        self.site(Form::Choose, range, vec![alternative(Operator::Constant, change, to)]);
    }
}

/// Attributes of an expression that can be a statement.
pub(super) fn attributes(expression: &Expr) -> &[Attribute] {
    match expression {
        Expr::Block(block) => &block.attrs,
        Expr::Call(call) => &call.attrs,
        Expr::If(branch) => &branch.attrs,
        Expr::Match(choice) => &choice.attrs,
        Expr::MethodCall(call) => &call.attrs,
        Expr::Assign(assignment) => &assignment.attrs,
        Expr::ForLoop(repeated) => &repeated.attrs,
        _ => &[],
    }
}

/// What a call calls, without the way to it.
pub(super) fn name_of_call(expression: &Expr) -> Option<String> {
    match expression {
        Expr::MethodCall(call) => Some(call.method.to_string()),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a condition has a pattern in it, so that `||` cannot stand there.
fn contains_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => contains_let(&binary.left) || contains_let(&binary.right),
        _ => false,
    }
}

/// Whether an expression is the question if a bug is planted, or its opposite.
fn is_planted(expression: &Expr) -> bool {
    match expression {
        Expr::Unary(unary) => is_planted(&unary.expr),
        _ => name_of_call(expression).is_some_and(|name| name == "planted"),
    }
}

/// What must be planted for a branch to be taken: some bug, or that one is not.
fn polarity_of_planted(condition: &Expr) -> Option<bool> {
    match condition {
        Expr::Unary(unary) if is_planted(&unary.expr) => Some(false),
        Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) => {
            let of_both = [polarity_of_planted(&binary.left), polarity_of_planted(&binary.right)];
            of_both.contains(&Some(true)).then_some(true)
        }
        _ => is_planted(condition).then_some(true),
    }
}
