//! Deathstar's movie reviews: one request, seven kinds of entities, each of which adds its field.
//!
//! A frontend passes a review on to those who know about users, movies, texts and ids, all at once;
//! each of them writes its field of `compose_review[request]`. A field is an entity of its own
//! (`r1:rating`), so that branches that run at the same time do not meet; fields of one request live
//! together. Nothing is left of a review of which one part was refused.

use serde_json::value::RawValue;
use styx_sdk::prelude::*;

/// Characters of a review.
const TEXT_MAX: usize = 256;

/// The operator `frontend`.
pub struct Frontend;

#[operator(name = "frontend", key_prefix = "request")]
/// Where reviews come in, by request.
impl Frontend {
    /// Composes a review.
    pub fn compose(ctx: &mut Context, user: String, title: String, rating: u32, text: String) -> Result<()> {
        let request = ctx.key();
        ctx.call_async("unique_id", request, "upload", ())?;
        ctx.call_async("user", &user, "upload", (request,))?;
        ctx.call_async("movie_id", &title, "upload", (request, rating))?;
        ctx.call_async("text", request, "upload", (text,))
    }
}

/// The operator `unique_id`.
pub struct UniqueId;

#[operator(name = "unique_id", key_prefix = "request")]
/// Ids of reviews, by request.
impl UniqueId {
    /// Writes the review's id: a hash of the request, the same in every replay.
    pub fn upload(ctx: &mut Context) -> Result<()> {
        // FNV-1a, 53 bits of it: what every language's JSON can hold.
        let hash = ctx
            .key()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        write(ctx, ctx.key(), "review", hash >> 11)
    }
}

/// The operator `user`.
pub struct User;

#[operator(name = "user")]
/// Those who write reviews, by name.
impl User {
    /// Registers a user.
    pub fn register(ctx: &mut Context, id: u64) -> Result<()> {
        register(ctx, id)
    }

    /// Writes the user's id.
    pub fn upload(ctx: &mut Context, request: String) -> Result<()> {
        write(ctx, &request, "user", registered(ctx, "user")?)
    }
}

/// The operator `movie_id`.
pub struct MovieId;

#[operator(name = "movie_id")]
/// Movies, by title.
impl MovieId {
    /// Registers a movie.
    pub fn register(ctx: &mut Context, id: u64) -> Result<()> {
        register(ctx, id)
    }

    /// Writes the movie's id, and has the rating written.
    pub fn upload(ctx: &mut Context, request: String, rating: u32) -> Result<()> {
        write(ctx, &request, "movie", registered(ctx, "movie")?)?;
        ctx.call_async("rating", ctx.key(), "upload", (&*request, rating))
    }
}

/// The operator `rating`.
pub struct Rating;

#[operator(name = "rating")]
/// Ratings, by title.
impl Rating {
    /// Writes the rating, 0 to 10.
    pub fn upload(ctx: &mut Context, request: String, rating: u32) -> Result<()> {
        ensure!(rating <= 10, "a rating goes from 0 to 10, not {rating}");
        write(ctx, &request, "rating", rating.into())
    }
}

/// The operator `text`.
pub struct Text;

#[operator(name = "text", key_prefix = "request")]
/// What reviews say, by request.
impl Text {
    /// Writes the text.
    pub fn upload(ctx: &mut Context, text: String) -> Result<()> {
        let length = text.chars().count();
        ensure!(length <= TEXT_MAX, "a review has up to {TEXT_MAX} characters, not {length}");
        ctx.call_async("compose_review", &format!("{}:text", ctx.key()), "write", (text,))
    }
}

/// The operator `compose_review`.
pub struct ComposeReview;

/// Fields of a review, in the order of their keys.
const FIELDS: [&str; 5] = ["movie", "rating", "review", "text", "user"];

#[operator(name = "compose_review", key_prefix = "request")]
/// Reviews, by `request:field`.
impl ComposeReview {
    /// Writes the field.
    #[allow(clippy::boxed_local)] // JSON text has no size of its own
    pub fn write(ctx: &mut Context, value: Box<RawValue>) {
        ctx.state.put_raw(value.get().as_bytes());
    }

    /// The review of the key's request: its fields, or null.
    #[function(read_only)]
    pub fn read(ctx: &Context) -> Result<Option<serde_json::Map<String, serde_json::Value>>> {
        let prefix = format!("{}:", ctx.key());
        let fields = ctx.state.scan().prefix(&prefix).entries::<serde_json::Value>()?;
        let fields: serde_json::Map<_, _> =
            fields.into_iter().map(|(key, value)| (key[prefix.len()..].to_owned(), value)).collect();
        Ok((!fields.is_empty()).then_some(fields))
    }

    /// A page of all reviews: [how often there is each field (movie, rating, review, text, user), sum of the
    /// ratings, characters of the texts, last key of the page or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<([u64; 5], u64, usize, Option<String>)> {
        let scan = ctx.state.scan().limit(limit);
        let page = after.as_deref().map_or(scan, |after| scan.after(after)).entries_raw();
        let (mut counts, mut ratings, mut characters) = ([0; 5], 0, 0);
        for (key, value) in &page {
            let field = key.rsplit(':').next().unwrap_or_default();
            let Some(at) = FIELDS.iter().position(|known| *known == field) else { bail!("{key} is no field") };
            counts[at] += 1;
            match field {
                "rating" => ratings += serde_json::from_slice::<u64>(value)?,
                "text" => characters += serde_json::from_slice::<String>(value)?.chars().count(),
                _ => {}
            }
        }
        let last = if page.len() < limit as usize { None } else { page.last().map(|(key, _)| key.clone()) };
        Ok((counts, ratings, characters, last))
    }
}

/// Has a field written.
fn write(ctx: &Context, request: &str, field: &str, value: u64) -> Result<()> {
    ctx.call_async("compose_review", &format!("{request}:{field}"), "write", (value,))
}

/// Remembers the id of a user or a movie.
fn register(ctx: &mut Context, id: u64) -> Result<()> {
    ensure!(ctx.state.get_raw().is_none(), "{} is registered already", ctx.key());
    ctx.state.put_raw(&id.to_le_bytes());
    Ok(())
}

fn registered(ctx: &Context, what: &str) -> Result<u64> {
    match ctx.state.get_raw().map(|bytes| bytes.try_into()) {
        Some(Ok(bytes)) => Ok(u64::from_le_bytes(bytes)),
        _ => bail!("there is no {what} {}", ctx.key()),
    }
}

styx_sdk::export!(ComposeReview, Frontend, MovieId, Rating, Text, UniqueId, User);

#[cfg(test)]
mod tests {
    use super::*;
    use styx_sdk::testing::App;

    #[test]
    fn a_review_is_composed_whole_or_not_at_all() {
        let mut app = App::new()
            .with::<ComposeReview>()
            .with::<Frontend>()
            .with::<MovieId>()
            .with::<Rating>()
            .with::<Text>()
            .with::<UniqueId>()
            .with::<User>();
        let long = format!(r#"["ann","Alien",7,"{}"]"#, "x".repeat(257));
        app.check(&[
            ("user", "ann", "register", "[1]", "null"),
            ("user", "ann", "register", "[2]", "ABORTED: ann is registered already"),
            ("movie_id", "Alien", "register", "[79]", "null"),
            ("frontend", "r1", "compose", r#"["bob","Alien",7,"ok"]"#, "ABORTED: there is no user bob"),
            ("frontend", "r1", "compose", r#"["ann","Aliens",7,"ok"]"#, "ABORTED: there is no movie Aliens"),
            ("frontend", "r1", "compose", r#"["ann","Alien",11,"ok"]"#, "ABORTED: a rating goes from 0 to 10, not 11"),
            ("frontend", "r1", "compose", &long, "ABORTED: a review has up to 256 characters, not 257"),
            ("compose_review", "r1", "read", "[]", "null"),
            ("frontend", "r1", "compose", r#"["ann","Alien",7,"ok"]"#, "null"),
            (
                "compose_review",
                "r1",
                "read",
                "[]",
                r#"{"movie":79,"rating":7,"review":311781892730748,"text":"ok","user":1}"#,
            ),
            ("compose_review", "", "audit", "[null,5]", r#"[[1,1,1,1,1],7,2,"r1:user"]"#),
            ("compose_review", "", "audit", r#"["r1:user",5]"#, "[[0,0,0,0,0],0,0,null]"),
        ]);
    }
}
