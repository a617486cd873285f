//! `#[derive(Schema)]`: the JSON Schema of what serde makes of a type.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Fields, LitStr, Result, Type, parse_quote};

use crate::names;

pub fn expand(item: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::styx_sdk::Schema));
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let name = &input.ident;
    let container = Serde::parse(&input.attrs)?;
    let mut pieces = Pieces::default();
    match &input.data {
        Data::Struct(data) => fields(&mut pieces, &data.fields, &container, &[])?,
        Data::Enum(data) => variants(&mut pieces, data, &container)?,
        Data::Union(data) => return Err(Error::new(data.union_token.span, "a union has no JSON form")),
    }
    let statements = pieces.finish();
    Ok(quote! {
        impl #impl_generics ::styx_sdk::Schema for #name #type_generics #where_clause {
            fn write(out: &mut ::styx_sdk::Schemas) {
                #[allow(unused_imports)]
                use ::styx_sdk::__private::{WriteAny as _, WriteSchema as _};
                out.named(::core::any::type_name::<Self>(), |out| { #statements });
            }
        }
    })
}

/// The statements that write a schema: runs of fixed text, and types in between.
#[derive(Default)]
struct Pieces {
    statements: TokenStream,
    text: String,
}

impl Pieces {
    fn text(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.statements.extend(quote!(out.text(#text);));
        }
    }

    fn kind(&mut self, kind: &Type) -> &mut Self {
        self.flush();
        self.statements.extend(quote! {
            (&::styx_sdk::__private::Probe::<#kind>(::core::marker::PhantomData)).write_schema(out);
        });
        self
    }

    fn finish(mut self) -> TokenStream {
        self.flush();
        self.statements
    }
}

/// A property that an enum's tag adds to a variant: its name and its only value.
type Tag = (String, String);

fn fields(pieces: &mut Pieces, fields: &Fields, container: &Serde, tags: &[Tag]) -> Result<()> {
    match fields {
        Fields::Unit if tags.is_empty() => {
            pieces.text(r#"{"type":"null"}"#);
        }
        Fields::Unnamed(unnamed) if unnamed.unnamed.len() == 1 && tags.is_empty() => {
            pieces.kind(&unnamed.unnamed[0].ty);
        }
        Fields::Unnamed(unnamed) if tags.is_empty() => {
            pieces.text(r#"{"type":"array","prefixItems":["#);
            for (index, field) in unnamed.unnamed.iter().enumerate() {
                pieces.text(if index == 0 { "" } else { "," }).kind(&field.ty);
            }
            let count = unnamed.unnamed.len();
            pieces.text(&format!(r#"],"minItems":{count},"maxItems":{count}}}"#));
        }
        // What is inside is merged with the tag; nothing certain can be said of it.
        Fields::Unnamed(_) => object(pieces, tags, &[], true),
        Fields::Unit => object(pieces, tags, &[], false),
        Fields::Named(named) => {
            let mut properties = Vec::new();
            let mut open = false;
            for field in &named.named {
                let serde = Serde::parse(&field.attrs)?;
                if serde.skip {
                    continue;
                }
                if serde.flatten {
                    open = true;
                    continue;
                }
                let identifier = field.ident.as_ref().expect("a named field").to_string();
                let name = serde.name(identifier.trim_start_matches("r#"), container.rename_all.as_ref())?;
                if container.transparent {
                    pieces.kind(&field.ty);
                    return Ok(());
                }
                let optional = serde.default || container.default || is_option(&field.ty);
                properties.push(Property {
                    name,
                    kind: &field.ty,
                    required: !optional,
                    doc: names::documentation(&field.attrs),
                });
            }
            object(pieces, tags, &properties, open || !container.deny_unknown);
        }
    }
    Ok(())
}

struct Property<'a> {
    name: String,
    kind: &'a Type,
    required: bool,
    doc: String,
}

fn object(pieces: &mut Pieces, tags: &[Tag], properties: &[Property<'_>], open: bool) {
    pieces.text(r#"{"type":"object","properties":{"#);
    let mut comma = "";
    for (name, value) in tags {
        pieces.text(&format!(r#"{comma}{}:{{"const":{}}}"#, names::json(name), names::json(value)));
        comma = ",";
    }
    for property in properties {
        pieces.text(&format!("{comma}{}:", names::json(&property.name)));
        comma = ",";
        if property.doc.is_empty() {
            pieces.kind(property.kind);
        } else {
            // A description must not get in the way of the type's own.
            pieces
                .text(&format!(r#"{{"description":{},"allOf":["#, names::json(&property.doc)))
                .kind(property.kind)
                .text("]}");
        }
    }
    let names = tags.iter().map(|(name, _)| name);
    let required = names.chain(properties.iter().filter(|property| property.required).map(|property| &property.name));
    let required: Vec<String> = required.map(|name| names::json(name)).collect();
    pieces.text(&format!(r#"}},"required":[{}]"#, required.join(",")));
    pieces.text(if open { "}" } else { r#","additionalProperties":false}"# });
}

fn variants(pieces: &mut Pieces, data: &syn::DataEnum, container: &Serde) -> Result<()> {
    let mut kept = Vec::new();
    for variant in &data.variants {
        let serde = Serde::parse(&variant.attrs)?;
        if !serde.skip {
            let name = serde.name(&variant.ident.to_string(), container.rename_all.as_ref())?;
            kept.push((variant, serde, name));
        }
    }
    let plain = kept.iter().all(|(variant, ..)| matches!(variant.fields, Fields::Unit));
    if plain && container.tag.is_none() && !container.untagged {
        let names: Vec<String> = kept.iter().map(|(.., name)| names::json(name)).collect();
        pieces.text(&format!(r#"{{"type":"string","enum":[{}]}}"#, names.join(",")));
        return Ok(());
    }
    pieces.text(r#"{"anyOf":["#);
    for (index, (variant, serde, name)) in kept.iter().enumerate() {
        pieces.text(if index == 0 { "" } else { "," });
        let within = Serde {
            rename_all: serde.rename_all.clone().or_else(|| container.rename_all_fields.clone()),
            deny_unknown: container.deny_unknown,
            ..Serde::default()
        };
        match (&container.tag, &container.content) {
            _ if container.untagged => fields(pieces, &variant.fields, &within, &[])?,
            (Some(tag), None) => fields(pieces, &variant.fields, &within, &[(tag.clone(), name.clone())])?,
            (Some(tag), Some(content)) => {
                let (tag, name) = (names::json(tag), names::json(name));
                pieces.text(&format!(r#"{{"type":"object","properties":{{{tag}:{{"const":{name}}}"#));
                if matches!(variant.fields, Fields::Unit) {
                    pieces.text(&format!(r#"}},"required":[{tag}]}}"#));
                } else {
                    let content = names::json(content);
                    pieces.text(&format!(",{content}:"));
                    fields(pieces, &variant.fields, &within, &[])?;
                    pieces.text(&format!(r#"}},"required":[{tag},{content}]}}"#));
                }
            }
            (None, _) if matches!(variant.fields, Fields::Unit) => {
                pieces.text(&format!(r#"{{"const":{}}}"#, names::json(name)));
            }
            (None, _) => {
                let name = names::json(name);
                pieces.text(&format!(r#"{{"type":"object","properties":{{{name}:"#));
                fields(pieces, &variant.fields, &within, &[])?;
                pieces.text(&format!(r#"}},"required":[{name}],"additionalProperties":false}}"#));
            }
        }
    }
    pieces.text("]}");
    Ok(())
}

fn is_option(kind: &Type) -> bool {
    matches!(kind, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == "Option"))
}

/// The serde attributes that change the JSON form.
#[derive(Default)]
struct Serde {
    rename: Option<String>,
    rename_all: Option<LitStr>,
    rename_all_fields: Option<LitStr>,
    tag: Option<String>,
    content: Option<String>,
    default: bool,
    deny_unknown: bool,
    flatten: bool,
    skip: bool,
    transparent: bool,
    untagged: bool,
}

impl Serde {
    fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut serde = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                // `name`, `name = "…"`, or `name(…)`, whose inside is not looked at.
                let mut value: Option<LitStr> = None;
                if meta.input.peek(syn::Token![=]) {
                    value = Some(meta.value()?.parse()?);
                } else if meta.input.peek(syn::token::Paren) {
                    let inside;
                    syn::parenthesized!(inside in meta.input);
                    inside.parse::<TokenStream>()?;
                }
                let text = value.as_ref().map(LitStr::value);
                match name.as_str() {
                    "rename" => serde.rename = text,
                    "rename_all" => serde.rename_all = value,
                    "rename_all_fields" => serde.rename_all_fields = value,
                    "tag" => serde.tag = text,
                    "content" => serde.content = text,
                    "default" => serde.default = true,
                    "deny_unknown_fields" => serde.deny_unknown = true,
                    "flatten" => serde.flatten = true,
                    "skip" | "skip_deserializing" => serde.skip = true,
                    "skip_serializing_if" => serde.default = true,
                    "transparent" => serde.transparent = true,
                    "untagged" => serde.untagged = true,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(serde)
    }

    fn name(&self, identifier: &str, rule: Option<&LitStr>) -> Result<String> {
        match (&self.rename, rule) {
            (Some(name), _) => Ok(name.clone()),
            (None, Some(rule)) => names::rename(&rule.value(), identifier)
                .ok_or_else(|| Error::new(rule.span(), "serde has no such rule")),
            (None, None) => Ok(identifier.to_owned()),
        }
    }
}
