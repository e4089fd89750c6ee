"""Finding axes by name, for the rules that take `axis a`."""

from presk.diagnostics.suggest import closest
from presk.prims.surface import At, Refused
from presk.types.type import Shape, Type


def axis_place(shape: Shape, name: str, at: At, whole: Type) -> int:
    """The place, among the explicit axes, of the axis of that name; E2008 if there is none."""
    for place, axis in enumerate(shape.axes):
        if axis.name == name:
            return place
    names = [axis.name for axis in shape.axes if axis.name is not None]
    notes = (
        (f"its named axes are {', '.join(f'`{other}`' for other in names)}",)
        if names
        else ("none of its axes has a name",)
    )
    near = closest(name, names)
    raise Refused(
        "E2008",
        f"`{whole}` has no axis `{name}`",
        at=at,
        text="no axis of this name",
        notes=notes,
        mend=f"did you mean `{near}`?" if near is not None else None,
    )
