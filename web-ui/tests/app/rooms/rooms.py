"""The shop's drawers, by rooms: a version whose keys have a prefix."""

from typing import Any

from styx import Context, Operator

drawer = Operator("drawer", key_prefix="room")


@drawer.register
def keep(ctx: Context, value: Any) -> Any:
    """Keeps anything."""
    ctx.state.put(value)
    return value
