//! Sites of a file where something can be changed: a walk through its syntax.
//!
//! Left alone is what decides nothing, or cannot be switched while the program runs: constants, patterns, attributes, types;
//! the inside of macros, so assertions too; what people are shown; planted bugs, which `just mutants` switches.

mod asserted;
mod expressions;
mod operators;
mod statements;
#[cfg(test)]
mod tests;

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ReturnType, Signature, Type, Visibility};

use crate::schema::{Alternative, Form, Operator, Schema, Site};
use crate::source::{Source, is_product};

/// Finds all sites of a file.
pub fn find(source: &Source) -> Schema {
    let schema = Schema { text: source.text.clone(), ..Schema::default() };
    let assertions = asserted::assertions(source);
    let mut finder = Finder { source, assertions, schema, path: Vec::new(), function: None };
    finder.visit_file(&source.syntax);
    finder.schema
}

struct Finder<'a> {
    source: &'a Source,
    /// Where they are.
    assertions: Vec<Range<usize>>,
    schema: Schema,
    /// Modules, types and functions around what is visited.
    path: Vec<String>,
    /// The innermost function, by its place in the schema's list.
    function: Option<usize>,
}

impl Finder<'_> {
    fn text(&self, range: &Range<usize>) -> &str {
        &self.schema.text[range.clone()]
    }

    /// Text on one line.
    fn shown(&self, range: &Range<usize>) -> String {
        let line = self.text(range).split_whitespace().collect::<Vec<_>>().join(" ");
        let mut characters = line.chars();
        let start: String = characters.by_ref().take(100).collect();
        if characters.next().is_some() { format!("{start}…") } else { start }
    }

    /// The line of the file on which something is.
    fn line(&self, at: usize) -> &str {
        let text = &self.schema.text;
        let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        text[start..end].trim()
    }

    fn site(&mut self, form: Form, range: Range<usize>, alternatives: Vec<Alternative>) {
        if let Some(function) = self.function {
            self.schema.sites.push(Site { form, range, function, alternatives });
        }
    }

    fn single(&mut self, form: Form, range: Range<usize>, operator: Operator, change: String) {
        self.site(form, range, vec![alternative(operator, change, String::new())]);
    }

    /// A function, unless the compiler may run it, or it is not there to decide.
    fn function(
        &mut self,
        attributes: &[Attribute],
        visibility: &Visibility,
        signature: &Signature,
        body: &syn::Block,
    ) {
        let name = signature.ident.to_string();
        let asserts = name == "invariants"
            || asserted::only_asserts(body)
            || asserted::is_for_assertions(self.source, &self.assertions, visibility, &name);
        let decides = !asserts && name != "log";
        if !is_product(attributes) || signature.constness.is_some() || !decides {
            return;
        }
        self.path.push(name);
        let outer = self.function.replace(self.schema.functions.len());
        self.schema.functions.push(self.path.join("::"));
        self.results(signature, body);
        if matches!(signature.output, ReturnType::Default) {
            self.last_of_unit(body);
        }
        self.visit_block(body);
        self.function = outer;
        self.path.pop();
    }

    /// What a function could return without looking.
    fn results(&mut self, signature: &Signature, body: &syn::Block) {
        let start = body.brace_token.span.open().byte_range().end;
        if body.stmts.is_empty() {
            return;
        }
        let results: &[&str] = match &signature.output {
            ReturnType::Default => &[""],
            ReturnType::Type(_, of) => results(of),
        };
        for result in results {
            let name = &signature.ident;
            let change = if result.is_empty() {
                format!("`{name}` does nothing")
            } else {
                format!("`{name}` returns `{result}`")
            };
            self.site(Form::Enter, start..start, vec![alternative(Operator::Result, change, (*result).to_owned())]);
        }
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.path.push(name);
        visit(self);
        self.path.pop();
    }
}

fn alternative(operator: Operator, change: String, code: String) -> Alternative {
    Alternative { number: 0, operator, change, code }
}

/// Bytes of the file.
fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// Results that a type is known to have.
fn results(of: &Type) -> &'static [&'static str] {
    let Type::Path(path) = of else { return &[] };
    let Some(last) = path.path.segments.last() else { return &[] };
    match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "Option" => &["None"],
        "Result" | "Checked" if is_of_unit(&last.arguments) => &["Ok(())"],
        _ => &[],
    }
}

fn is_of_unit(arguments: &syn::PathArguments) -> bool {
    let syn::PathArguments::AngleBracketed(arguments) = arguments else { return false };
    matches!(arguments.args.first(), Some(syn::GenericArgument::Type(Type::Tuple(tuple))) if tuple.elems.is_empty())
}

/// Whether a trait only shows things to people.
fn is_for_people(implemented: &syn::Path) -> bool {
    let name = implemented.segments.last().map(|segment| segment.ident.to_string());
    matches!(name.as_deref(), Some("Debug" | "Display" | "Error"))
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Fn(function) => self.function(&function.attrs, &function.vis, &function.sig, &function.block),
            syn::Item::Impl(item) if is_product(&item.attrs) => {
                if item.trait_.as_ref().is_some_and(|(path, _)| is_for_people(path)) {
                    return;
                }
                let name = match &*item.self_ty {
                    Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
                    _ => None,
                };
                self.within(name.unwrap_or_else(|| "_".to_owned()), |finder| visit::visit_item_impl(finder, item));
            }
            syn::Item::Trait(item) if is_product(&item.attrs) => {
                self.within(item.ident.to_string(), |finder| visit::visit_item_trait(finder, item));
            }
            syn::Item::Mod(item) if is_product(&item.attrs) => {
                self.within(item.ident.to_string(), |finder| visit::visit_item_mod(finder, item));
            }
            _ => {}
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if let syn::ImplItem::Fn(function) = item {
            self.function(&function.attrs, &function.vis, &function.sig, &function.block);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        if let syn::TraitItem::Fn(function) = item
            && let Some(body) = &function.default
        {
            self.function(&function.attrs, &Visibility::Inherited, &function.sig, body);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        self.statement(statement);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let Some(init) = local.init.as_ref().filter(|_| is_product(&local.attrs)) else { return };
        self.visit_expr(&init.expr);
        if let Some((_, diverging)) = &init.diverge {
            self.diverging(diverging);
        }
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        self.expression(expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if is_product(&arm.attrs) {
            self.arm(arm);
        }
    }

    // Nothing in these is run, or can be switched.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
}
