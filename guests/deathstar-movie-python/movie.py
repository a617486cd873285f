"""Deathstar's movie reviews: one request, seven kinds of entities, each of which adds its field.

A frontend passes a review on to those who know about users, movies, texts and ids, all at once; each
of them writes its field of `compose_review[request]`. A field is an entity of its own (`r1:rating`),
so that branches that run at the same time do not meet; fields of one request live together. Nothing
is left of a review of which one part was refused. The Rust guest of the same workload has the same
names and gives the same replies.
"""

from typing import Any

from styx import Context, Operator

frontend = Operator("frontend", key_prefix="request", doc="Where reviews come in, by request.")
unique_id = Operator("unique_id", key_prefix="request", doc="Ids of reviews, by request.")
user = Operator("user", doc="Those who write reviews, by name.")
movie_id = Operator("movie_id", doc="Movies, by title.")
rating = Operator("rating", doc="Ratings, by title.")
text = Operator("text", key_prefix="request", doc="What reviews say, by request.")
compose_review = Operator("compose_review", key_prefix="request", doc="Reviews, by `request:field`.")

#: Characters of a review.
TEXT_MAX = 256
#: Fields of a review, in the order of their keys.
FIELDS = ("movie", "rating", "review", "text", "user")


# Parameters have the names of operators, as callers know them; inside these functions operators are
# called by name.


@frontend.register
def compose(ctx: Context, user: str, title: str, rating: int, text: str) -> None:
    """Composes a review."""
    ctx.call_async("unique_id", ctx.key, "upload")
    ctx.call_async("user", user, "upload", ctx.key)
    ctx.call_async("movie_id", title, "upload", ctx.key, rating)
    ctx.call_async("text", ctx.key, "upload", text)


@unique_id.register(name="upload")
def upload_unique_id(ctx: Context) -> None:
    """Writes the review's id: a hash of the request, the same in every replay."""
    # FNV-1a, 53 bits of it: what every language's JSON can hold.
    value = 0xCBF29CE484222325
    for byte in ctx.key.encode():
        value = (value ^ byte) * 0x00000100000001B3 & 0xFFFFFFFFFFFFFFFF
    _write(ctx, ctx.key, "review", value >> 11)


@user.register(name="register")
def register_user(ctx: Context, id: int) -> None:
    """Registers a user."""
    _register(ctx, id)


@user.register(name="upload")
def upload_user(ctx: Context, request: str) -> None:
    """Writes the user's id."""
    _write(ctx, request, "user", _registered(ctx, "user"))


@movie_id.register(name="register")
def register_movie(ctx: Context, id: int) -> None:
    """Registers a movie."""
    _register(ctx, id)


@movie_id.register(name="upload")
def upload_movie(ctx: Context, request: str, rating: int) -> None:
    """Writes the movie's id, and has the rating written."""
    _write(ctx, request, "movie", _registered(ctx, "movie"))
    ctx.call_async("rating", ctx.key, "upload", request, rating)


@rating.register(name="upload")
def upload_rating(ctx: Context, request: str, rating: int) -> None:
    """Writes the rating, 0 to 10."""
    if not 0 <= rating <= 10:
        raise ValueError(f"a rating goes from 0 to 10, not {rating}")
    _write(ctx, request, "rating", rating)


@text.register(name="upload")
def upload_text(ctx: Context, text: str) -> None:
    """Writes the text."""
    if len(text) > TEXT_MAX:
        raise ValueError(f"a review has up to {TEXT_MAX} characters, not {len(text)}")
    _write(ctx, ctx.key, "text", text)


@compose_review.register
def write(ctx: Context, value: Any) -> None:
    """Writes the field."""
    ctx.state.put(value)


@compose_review.register(read_only=True)
def read(ctx: Context) -> dict | None:
    """The review of the key's request: its fields, or null."""
    prefix = f"{ctx.key}:"
    return {key.removeprefix(prefix): value for key, value in ctx.state.scan(prefix)} or None


@compose_review.register(read_only=True)
def audit(ctx: Context, after: str | None, limit: int) -> list:
    """A page of all reviews: [how often there is each field (movie, rating, review, text, user), sum of the
    ratings, characters of the texts, last key of the page or null].
    """
    page = [*ctx.state.scan(after=after, limit=limit)]
    counts, ratings, characters = dict.fromkeys(FIELDS, 0), 0, 0
    for key, value in page:
        field = key.rpartition(":")[2]
        counts[field] += 1
        if field == "rating":
            ratings += value
        elif field == "text":
            characters += len(value)
    return [[*counts.values()], ratings, characters, page[-1][0] if page and len(page) == limit else None]


def _write(ctx: Context, request: str, field: str, value: Any) -> None:
    """Has a field written."""
    ctx.call_async(compose_review, f"{request}:{field}", write, value)


def _register(ctx: Context, id: int) -> None:
    """Remembers the id of a user or a movie."""
    if ctx.state.get() is not None:
        raise ValueError(f"{ctx.key} is registered already")
    ctx.state.put(id)


def _registered(ctx: Context, what: str) -> int:
    id = ctx.state.get()
    if id is None:
        raise LookupError(f"there is no {what} {ctx.key}")
    return id
