"""A table of the configuration, and the mark of keys that no snapshot depends on."""

from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue

# Marks a key whose value can't change what a rank knows. A snapshot stays valid when the value of
# such a key changes, and when the content of a file that such a key names changes.
ASIDE: Final[dict[str, JsonValue]] = {"aside": True}


class Table(BaseModel):
    """A table of the configuration. It is frozen, and refuses keys that it doesn't know."""

    # Pydantic builds validators when they are used. Only rank 0 uses them: the others get the
    # configuration from it.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)
