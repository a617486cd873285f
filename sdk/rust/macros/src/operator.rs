//! `#[operator]`: an `impl` block becomes an `Operator`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, ImplItem, ImplItemFn, ItemImpl, LitStr, Pat, Result, ReturnType, Token, Type, Visibility, parse_quote,
};

use crate::names;

pub fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut block: ItemImpl = syn::parse2(item).map_err(|error| {
        Error::new(error.span(), "#[operator] goes before an `impl` block, as in `impl Stock { … }`")
    })?;
    if let Some((_, path, _)) = &block.trait_ {
        return Err(Error::new(path.span(), "#[operator] goes before a plain `impl` block, not one of a trait"));
    }
    if !block.generics.params.is_empty() {
        return Err(Error::new(block.generics.span(), "an operator cannot be generic"));
    }
    let options = Options::parse(arguments, &block)?;

    let mut functions = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(item) = item
            && let Some(function) = Function::parse(item)?
        {
            functions.push(function);
        }
    }
    if functions.is_empty() {
        return Err(Error::new(
            block.self_ty.span(),
            "this operator has no function: a function is a `pub fn` that takes `ctx: &mut Context` first",
        ));
    }
    for (index, function) in functions.iter().enumerate() {
        if functions[..index].iter().any(|other| other.name == function.name) {
            return Err(Error::new(function.span, format!("the operator already has a function {:?}", function.name)));
        }
    }

    let Options { name, key_prefix, state, migrate } = options;
    let key_prefix = match key_prefix {
        Some(prefix) => quote!(::core::option::Option::Some(#prefix)),
        None => quote!(::core::option::Option::None),
    };
    let doc = names::documentation(&block.attrs);
    let operator = &block.self_ty;
    let described = functions.iter().map(Function::describe).chain(describe_state(state.as_ref(), migrate.is_some()));
    let read_only = functions.iter().filter(|function| function.read_only).map(|function| &function.name);
    let migration = state.zip(migrate).map(|(state, migrate)| {
        let run =
            quote_spanned!(migrate.span()=> |value| ::styx_sdk::__private::migrated::<_, #state, _>(value, #migrate));
        quote! {
            let reads = [#(#read_only),*];
            let migration = ::styx_sdk::__private::Migration { run: #run, writes: !reads.contains(&function) };
            if function == ::styx_sdk::__private::MIGRATE {
                return ::styx_sdk::__private::migrate_own(context, migration);
            }
            ::styx_sdk::__private::set_migration(context, migration);
        }
    });
    let arms = functions.iter().map(Function::arm);
    Ok(quote! {
        #block

        impl ::styx_sdk::Operator for #operator {
            const NAME: &'static str = #name;

            fn describe() -> ::styx_sdk::OperatorDescription {
                #[allow(unused_imports)]
                use ::styx_sdk::__private::{WriteAny as _, WriteSchema as _};
                ::styx_sdk::OperatorDescription {
                    name: #name,
                    key_prefix: #key_prefix,
                    doc: #doc,
                    functions: ::std::vec![#(#described),*],
                }
            }

            fn invoke(
                function: &str,
                context: &mut ::styx_sdk::Context,
                arguments: &[u8],
            ) -> ::styx_sdk::Result<::std::vec::Vec<u8>> {
                #migration
                match function {
                    #(#arms)*
                    _ => ::core::result::Result::Err(::styx_sdk::__private::unknown_function(#name, function)),
                }
            }
        }
    })
}

/// What stands in the parentheses of `#[operator(…)]`.
struct Options {
    name: String,
    key_prefix: Option<String>,
    /// The type of the operator's values.
    state: Option<Type>,
    /// What makes such of earlier ones.
    migrate: Option<syn::Path>,
}

impl Options {
    fn parse(arguments: TokenStream, block: &ItemImpl) -> Result<Self> {
        let mut name: Option<LitStr> = None;
        let mut key_prefix: Option<LitStr> = None;
        let mut state: Option<Type> = None;
        let mut migrate: Option<syn::Path> = None;
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("name") {
                name = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("key_prefix") {
                key_prefix = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("state") {
                state = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("migrate") {
                migrate = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error(
                    "#[operator] takes `name = \"…\"`, `key_prefix = \"…\"`, `state = Type` and `migrate = function`",
                ));
            }
            Ok(())
        });
        syn::parse::Parser::parse2(parser, arguments)?;

        let (name, span) = match name {
            Some(literal) => (literal.value(), literal.span()),
            None => (names::snake_case(&type_name(&block.self_ty)?), block.self_ty.span()),
        };
        check_name("an operator", &name, span)?;
        if let Some(literal) = &key_prefix
            && literal.value().is_empty()
        {
            return Err(Error::new(
                literal.span(),
                "a key prefix is the name of what comes before the first `:` of a key, such as \"warehouse\"",
            ));
        }
        if let (None, Some(migrate)) = (&state, &migrate) {
            return Err(Error::new(migrate.span(), "a migration leads to a type: add `state = Type`"));
        }
        Ok(Self { name, key_prefix: key_prefix.map(|literal| literal.value()), state, migrate })
    }
}

/// What the contract has among an operator's functions of its values, though nobody calls it by that.
fn describe_state(state: Option<&Type>, migrates: bool) -> impl Iterator<Item = TokenStream> + use<> {
    let entry = |name: &str, read_only: bool, returns: TokenStream| {
        quote!(::styx_sdk::FunctionDescription {
            name: #name,
            parameters: ::std::vec![],
            returns: #returns,
            read_only: #read_only,
            doc: "",
        })
    };
    let schema = state.map(|state| quote_spanned!(state.span()=> ::styx_sdk::Schemas::of::<#state>()));
    let state = schema.map(|schema| entry("styx.state", true, schema));
    let boolean = quote!(::std::string::String::from("{\"type\":\"boolean\"}"));
    let migration = migrates.then(|| entry("styx.migrate", false, boolean));
    state.into_iter().chain(migration)
}

fn type_name(operator: &Type) -> Result<String> {
    match operator {
        Type::Path(path) if path.qself.is_none() => {
            Ok(path.path.segments.last().expect("a path has a segment").ident.to_string())
        }
        other => Err(Error::new(other.span(), "an operator is a type of its own: declare `struct Stock;`")),
    }
}

/// The rule of the contract with the host, kept at compile time.
fn check_name(what: &str, name: &str, span: Span) -> Result<()> {
    let mut letters = name.chars();
    let valid = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-')
        && name.len() <= 64;
    if valid {
        return Ok(());
    }
    Err(Error::new(
        span,
        format!("{name:?} cannot name {what}: a letter, then letters, digits, `_` and `-`, at most 64"),
    ))
}

/// A function of the operator.
struct Function {
    span: Span,
    identifier: syn::Ident,
    name: String,
    read_only: bool,
    doc: String,
    parameters: Vec<(String, Type)>,
    /// What the caller gets; the error type of a `Result` is left out.
    returns: Type,
    fallible: bool,
}

impl Function {
    /// `None` for a private helper. Removes `#[function]` from the item.
    fn parse(item: &mut ImplItemFn) -> Result<Option<Self>> {
        let mut declared = None;
        let mut remaining = Vec::new();
        for attribute in std::mem::take(&mut item.attrs) {
            if attribute.path().is_ident("function") {
                declared = Some(attribute);
            } else {
                remaining.push(attribute);
            }
        }
        item.attrs = remaining;
        if !matches!(item.vis, Visibility::Public(_)) {
            return match declared {
                Some(attribute) => Err(Error::new(attribute.span(), "a function of an operator is `pub fn`")),
                None => Ok(None),
            };
        }

        let signature = &item.sig;
        let mut name = None;
        let mut read_only = false;
        if let Some(attribute) = &declared
            && !matches!(attribute.meta, syn::Meta::Path(_))
        {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("read_only") {
                    read_only = true;
                } else if meta.path.is_ident("name") {
                    name = Some(meta.value()?.parse::<LitStr>()?);
                } else {
                    return Err(meta.error("#[function] takes `read_only` and `name = \"…\"`"));
                }
                Ok(())
            })?;
        }
        if let Some(token) = &signature.asyncness {
            return Err(Error::new(
                token.span(),
                "functions are not async: `ctx.call` waits without blocking a thread",
            ));
        }
        if !signature.generics.params.is_empty() {
            return Err(Error::new(signature.generics.span(), "a function of an operator cannot be generic"));
        }
        let mutable = context_mutability(signature)?;
        if read_only && mutable {
            let context = signature.inputs.first().expect("checked above");
            return Err(Error::new(context.span(), "a read-only function cannot write: take `ctx: &Context`"));
        }
        let (name, span) = match name {
            Some(literal) => (literal.value(), literal.span()),
            None => (signature.ident.to_string().trim_start_matches("r#").to_owned(), signature.ident.span()),
        };
        check_name("a function", &name, span)?;
        let (returns, fallible) = returned(&signature.output);
        Ok(Some(Self {
            span,
            identifier: signature.ident.clone(),
            name,
            read_only,
            doc: names::documentation(&item.attrs),
            parameters: parameters(&signature.inputs)?,
            returns,
            fallible,
        }))
    }

    fn describe(&self) -> TokenStream {
        let Self { name, read_only, doc, returns, .. } = self;
        let parameters = self.parameters.iter().map(|(name, kind)| {
            let schema = schema_of(kind);
            quote!(::styx_sdk::ParameterDescription {
                name: #name,
                schema: #schema,
                required: ::styx_sdk::__private::is_required::<#kind>(),
            })
        });
        let schema = schema_of(returns);
        quote!(::styx_sdk::FunctionDescription {
            name: #name,
            parameters: ::std::vec![#(#parameters),*],
            returns: #schema,
            read_only: #read_only,
            doc: #doc,
        })
    }

    fn arm(&self) -> TokenStream {
        let Self { name, identifier, .. } = self;
        let names = self.parameters.iter().map(|(name, _)| name);
        let kinds = self.parameters.iter().map(|(_, kind)| kind);
        let bindings: Vec<_> =
            (0..self.parameters.len()).map(|index| quote::format_ident!("argument_{index}")).collect();
        let call = quote_spanned!(self.returns.span()=> Self::#identifier(context #(, #bindings)*));
        let result = if self.fallible { quote!(#call?) } else { call };
        quote! {
            #name => {
                let (#(#bindings,)*) = ::styx_sdk::__private::decode::<(#(#kinds,)*)>(arguments, &[#(#names),*])?;
                ::styx_sdk::__private::reply(&#result)
            }
        }
    }
}

fn schema_of(kind: &Type) -> TokenStream {
    quote!({
        let mut schemas = ::styx_sdk::Schemas::default();
        (&::styx_sdk::__private::Probe::<#kind>(::core::marker::PhantomData)).write_schema(&mut schemas);
        schemas.finish()
    })
}

/// Checks the first parameter; true for `&mut Context`.
fn context_mutability(signature: &syn::Signature) -> Result<bool> {
    let help = "a function of an operator takes `ctx: &mut Context` (or `ctx: &Context`) first; make a helper private";
    match signature.inputs.first() {
        Some(FnArg::Typed(first)) => match &*first.ty {
            Type::Reference(reference) if is_named(&reference.elem, "Context") => Ok(reference.mutability.is_some()),
            other => Err(Error::new(other.span(), help)),
        },
        Some(FnArg::Receiver(receiver)) => Err(Error::new(
            receiver.span(),
            "an entity's state is in `ctx.state`, not in `self`: take `ctx: &mut Context` first",
        )),
        None => Err(Error::new(signature.ident.span(), help)),
    }
}

fn parameters(inputs: &Punctuated<FnArg, Token![,]>) -> Result<Vec<(String, Type)>> {
    if inputs.len() > 13 {
        return Err(Error::new(
            inputs.span(),
            "a function takes at most 12 parameters after the context; put some into a struct",
        ));
    }
    let typed = inputs.iter().skip(1).filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    typed
        .map(|typed| {
            let name = match &*typed.pat {
                Pat::Ident(pattern) => pattern.ident.to_string(),
                other => return Err(Error::new(other.span(), "a parameter needs a name, by which callers pass it")),
            };
            match &*typed.ty {
                Type::Reference(reference) if is_named(&reference.elem, "str") => {
                    Err(Error::new(reference.span(), "parameters are owned: take `String`"))
                }
                Type::Reference(reference) => {
                    Err(Error::new(reference.span(), "parameters are owned: drop the `&` (`Vec<T>` for a slice)"))
                }
                Type::ImplTrait(other) => Err(Error::new(other.span(), "a parameter has one type, known to callers")),
                kind => Ok((name.trim_start_matches("r#").trim_start_matches('_').to_owned(), kind.clone())),
            }
        })
        .collect()
}

fn is_named(kind: &Type, name: &str) -> bool {
    matches!(kind, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == name))
}

/// The type of the result, and whether it comes in a `Result`.
fn returned(output: &ReturnType) -> (Type, bool) {
    let ReturnType::Type(_, kind) = output else { return (parse_quote!(()), false) };
    if let Type::Path(path) = &**kind
        && let Some(last) = path.path.segments.last()
        && last.ident == "Result"
    {
        let success = match &last.arguments {
            syn::PathArguments::AngleBracketed(arguments) => {
                arguments.args.iter().find_map(|argument| match argument {
                    syn::GenericArgument::Type(kind) => Some(kind.clone()),
                    _ => None,
                })
            }
            _ => None,
        };
        return (success.unwrap_or_else(|| parse_quote!(())), true);
    }
    ((**kind).clone(), false)
}

#[cfg(test)]
mod tests;
