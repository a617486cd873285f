//! Attribute macros of `styx-sdk`: what they accept and what they expand to.
//!
//! Users reach them through `styx_sdk`, which documents them in context.

mod names;
mod operator;
mod schema;

use proc_macro::TokenStream;

/// Turns the public functions of an `impl` block into the functions of an operator.
///
/// ```ignore
/// struct Stock;
///
/// #[operator(name = "stock", key_prefix = "warehouse")]
/// impl Stock {
///     /// Takes from the stock.
///     pub fn take(ctx: &mut Context, quantity: u32) -> Result<u64> { … }
///
///     #[function(read_only)]
///     pub fn get(ctx: &Context) -> Result<Option<Item>> { … }
/// }
/// ```
///
/// `name` defaults to the type's name in `snake_case`. Each `pub fn` takes the
/// context first, `&mut Context` or `&Context`, then owned parameters; trailing
/// parameters of type `Option` may be left out by the caller. It returns a value or
/// a `Result` whose error converts into `Abort`. `#[function(read_only)]` declares
/// that it neither writes nor calls a function that does; `#[function(name = "…")]`
/// names it differently. Documentation comments go into the app's OpenAPI page.
/// Private functions are left alone.
///
/// `state = Item` says of what type the values of all entities are, which has a [`Schema`](derive@Schema): a deployment is
/// compared with entities that there are. `migrate = from_v1` names a function from an earlier type to a `Result` of it:
/// reading an entity that is not an `Item` runs it, and writes what it returns unless the function only reads.
#[proc_macro_attribute]
pub fn operator(arguments: TokenStream, item: TokenStream) -> TokenStream {
    operator::expand(arguments.into(), item.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Derives the JSON Schema of a type from its fields and its serde attributes.
///
/// Understands `rename`, `rename_all`, `rename_all_fields`, `default`, `skip`,
/// `flatten`, `transparent`, `tag`, `content` and `untagged`. A field whose type has
/// no schema is described as anything.
#[proc_macro_derive(Schema, attributes(serde))]
pub fn schema(item: TokenStream) -> TokenStream {
    schema::expand(item.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}
