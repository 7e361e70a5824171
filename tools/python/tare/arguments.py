# SPDX-License-Identifier: Apache-2.0
"""What calls ask of their arguments: types, as annotated, and by `layout=` the axes of arrays with heads."""
import functools
import operator
import os

LAYOUTS = {"thd": "[tokens, heads, width]", "htd": "[heads, tokens, width]",
           "bthd": "[batch, tokens, heads, width]", "bhtd": "[batch, heads, tokens, width]"}
OF_ONE = "thd", "htd"  # sequence


def _whole(value):
    try:
        return abs(operator.index(value)) < 2**31  # an int of C++
    except TypeError:
        return False


def _flag(value):
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool" and not value.shape  # numpy.bool_


def _number(value):
    try:
        return not isinstance(value, str) and float(value) is not None
    except (TypeError, ValueError, OverflowError):
        return False


KINDS = {int: ("a whole number below 2^31", _whole), float: ("a number", _number), bool: ("True or False", _flag),
         str: ("text", None), type(None): ("None", None), os.PathLike: ("a path", None), dict: ("a dict", None)}


def _check(name, value, kinds):
    asked = [KINDS.get(kind, (f"a tare.{kind.__name__}", None)) for kind in kinds]
    if any(isinstance(value, kind) if test is None else test(value)
           for kind, (_, test) in zip(kinds, asked, strict=True)):
        return
    kind = type(value)
    got = "None" if value is None else repr(value) if isinstance(value, int) else kind.__name__
    got = got if kind.__module__ == "builtins" else f"{kind.__module__}.{got}"
    raise ValueError(f"{name}: got {got}, expected {' or '.join(text for text, _ in asked)}")


def checked[F](function: F) -> F:  # which type checkers see as it was
    """The function; it raises ValueError for arguments of other types than its annotations."""
    return _checked(function)


def _checked(function):
    names = function.__code__.co_varnames
    asked = {name: getattr(hint, "__args__", (hint,)) for name, hint in function.__annotations__.items()
             if name != "return"}

    @functools.wraps(function)
    def call(*arguments, **named):
        for name, value in (*zip(names, arguments), *named.items()):
            if name in asked:
                _check(name, value, asked[name])
        return function(*arguments, **named)

    return call


def layout_named(layout, of, layouts=tuple(LAYOUTS)):
    """The layout's letters as above: "BTHC", as files may have them, are those of "bthd"."""
    letters = layout.lower().replace("c", "d") if isinstance(layout, str) else layout
    if letters in layouts:
        return letters
    got = "none" if layout is None else repr(layout)
    more = "" if letters not in LAYOUTS else ": a cache takes one sequence; try a Cache for each"
    raise ValueError(f"layout: got {got} for {of}, expected one of {' '.join(layouts)}"
                     + (more or f"; try layout='thd' for {LAYOUTS['thd']}"))


def plain(x, name):
    """x, without gradients, and in float32 if it is bfloat16 of ml_dtypes, which has neither DLPack nor buffers."""
    if x is None:
        raise ValueError(f"{name}: got None, expected an array")
    x = x.detach() if hasattr(x, "detach") else x  # a PyTorch tensor
    return x.astype("float32") if str(getattr(x, "dtype", "")) == "bfloat16" else x


def arranged(x, name, layout, layouts=tuple(LAYOUTS)):
    """A view of x: [tokens, heads, width], with a batch before."""
    shape = list(getattr(x, "shape", ()))
    if len(shape) == 2:
        raise ValueError(f"{name}: got shape {shape}, expected {LAYOUTS[layout]} by layout='{layout}'; try "
                         "x[None] with layout='htd' for one head")
    if hasattr(x, "ndim") and len(shape) != len(layout):
        others = " or ".join(f"layout='{other}' for {LAYOUTS[other]}" for other in layouts if len(other) == len(shape))
        one = "one sequence, x[0]" if len(shape) == 4 else "an array of 3 dimensions"
        raise ValueError(f"{name}: got shape {shape}, expected {LAYOUTS[layout]} by layout='{layout}'; try "
                         + (others or one + (", or 4 with a batch" if len(layouts) > 2 else "")))
    if layout == "thd" or layout == "bthd" and hasattr(x, "ndim"):
        return x
    if not hasattr(x, "transpose"):
        raise ValueError(f"{name}: got {type(x).__name__}, expected a numpy array or a PyTorch tensor by "
                         f"layout='{layout}'; try numpy.asarray(x)")
    order = [layout.index(axis) for axis in "bthd" if axis in layout]
    return x.permute(order) if hasattr(x, "permute") else x.transpose(order)
