"""Text from outside reaches four sinks only. Every other call to Streamlit is read here, and whatever it shows must be
our own: a constant, a number, or a sentence of a function that is ours all the way down.

The rule is an allow-list, so a new way to show something is a failure until somebody looks at it. A parameter of
type `str` that a function shows makes that function a sink itself: its callers are held to the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
FILES = sorted((HOUSE / "dashboard").rglob("*.py"))

# What shows text as text. `html` takes only what components.py has escaped; held by the last test.
PLAIN = {"text", "code", "dataframe", "html", "plotly_chart"}
SHOWS = {
    *(
        "title",
        "header",
        "subheader",
        "markdown",
        "caption",
        "info",
        "warning",
        "error",
        "success",
        "toast",
        "write",
    ),
    *(
        "radio",
        "button",
        "pills",
        "segmented_control",
        "metric",
        "expander",
        "text_input",
        "link_button",
        "page_link",
    ),
    *(
        "form_submit_button",
        "dialog",
        "Page",
        "checkbox",
        "selectbox",
        "popover",
        "badge",
        "status",
        "table",
        "tabs",
    ),
    *(
        "text_area",
        "number_input",
        "multiselect",
        "download_button",
        "date_input",
        "progress",
        "exception",
        "json",
        "latex",
        "menu_button",
        "toggle",
        "datetime_input",
    ),
}
QUIET = {  # draw nothing, or take no text
    *(
        "set_page_config",
        "stop",
        "rerun",
        "fragment",
        "columns",
        "container",
        "grid",
        "space",
        "form",
        "navigation",
        "empty",
    ),
    *("App", "switch_page", "get_option", "cache_resource", "TextColumn", "MultiselectColumn"),
}
UNSHOWN = {  # of a call that shows: what a person never reads
    *(
        "key",
        "icon",
        "type",
        "width",
        "height",
        "on_click",
        "on_change",
        "args",
        "index",
        "default",
        "max_chars",
        "url",
    ),
    *(
        "icon_position",
        "selection_mode",
        "label_visibility",
        "delta_color",
        "delta_arrow",
        "border",
        "anchor",
        "required",
    ),
    *("expanded", "url_path", "visibility", "options", "position", "query_params"),
    *("data", "mime", "format", "on_dismiss", "step"),
}
NAMES = {"named", "provider", "what", "harmless", "odd_letters"}  # nothing that Markdown reads is left
CARRIES = {"TryAgain"}  # results that carry a sentence of ours to where it is shown
NUMBERS = {"abs", "len", "range", "sum", "min", "max", "round", "int", "span", "clock", "clock_s", "many"}
NUMBER_TYPES = {
    "int",
    "float",
    "bool",
    "date",
    "datetime",
    "timedelta",
    "Decision",
    "Role",
    "Segment",
    "State",
    "Mode",
    "Thing",
}
# Attributes of records that are numbers, times or one of our own words.
OURS = {
    *(
        "value",
        "sentence",
        "id",
        "version",
        "n",
        "done",
        "now",
        "at",
        "tried_at",
        "label",
        "code_",
        "predecessor",
        "successor",
    ),
    *(
        "for_people",
        "quarantined",
        "pending",
        "unhandled",
        "processing",
        "failed",
        "expired_leases",
        "workers",
        "proposed",
        "approved",
    ),
    *(
        "sending",
        "needs_review",
        "silent",
        "oldest_review_s",
        "oldest_pending_s",
        "oldest_claim_s",
        "last_sign_s",
        "stuck",
    ),
    *(
        "delivered_today",
        "no_word_today",
        "bounced_today",
        "refused_today",
        "new",
        "duplicates",
        "minutes",
    ),
    *(
        "uncertain",
        "to_approve",
        "second_person",
        "decided_today",
        "contradicted",
        "audit_id",
        "age_s",
        "attempts",
    ),
    *(
        "refresh_s",
        "lease_s",
        "decided_wait_s",
        "due_at",
        "choosing_since",
        "key_until",
        "evidence_until",
        "state",
    ),
    *("over", "skipped", "working", "waiting", "mark", "called", "action_id"),
    *("transaction_s", "bytes", "hour"),
    *("row_count", "can_go_back", "event_id", "day", "about_sends", "conflicts", "quarantine"),
    *("configured_at", "heading", "backdated", "sequence", "looked_to", "since", "until", "entity_id"),
    *("sweep_s", "attempt"),
}


def name_of(node: ast.AST) -> str:
    """`st.markdown` is `markdown`; `left.metric` is `metric`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@cache  # the trees of the dashboard are read by every test here
def own(node: ast.AST) -> tuple[ast.AST, ...]:
    """What stands in a function, without the insides of functions and classes within."""
    found, waiting = [], list(ast.iter_child_nodes(node))
    while waiting:
        one = waiting.pop()
        found.append(one)
        if not isinstance(one, ast.FunctionDef | ast.ClassDef):
            waiting += ast.iter_child_nodes(one)
    return tuple(found)


@dataclass
class Function:
    """One function of the dashboard: its assignments, parameters and returns, without those of functions inside."""

    name: str
    file: Path
    node: ast.FunctionDef | ast.Module
    outer: Function | None
    assigned: dict[str, list[ast.expr]] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, str]:
        if isinstance(self.node, ast.Module):
            return {}
        return {
            a.arg: ast.unparse(a.annotation) if a.annotation else ""
            for a in (*self.node.args.args, *self.node.args.kwonlyargs)
        }

    def own(self) -> tuple[ast.AST, ...]:
        return own(self.node)


@dataclass
class Reading:
    """The dashboard as read: what is shown that may not be, and why."""

    sources: dict[Path, str]
    functions: dict[str, list[Function]] = field(default_factory=dict)
    derived: set[tuple[str, str]] = field(default_factory=set)  # function and parameter that it shows
    found: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for file, source in self.sources.items():
            self._collect(parsed(source), "<module>", file, None)

    def _collect(
        self, node: ast.FunctionDef | ast.Module, name: str, file: Path, outer: Function | None
    ) -> None:
        function = Function(name, file, node, outer)
        self.functions.setdefault(name, []).append(function)
        for inner in function.own():
            for target, value in assignments(inner):
                function.assigned.setdefault(target, []).append(value)
            if isinstance(inner, ast.FunctionDef):
                self._collect(inner, inner.name, file, function)
            elif isinstance(inner, ast.ClassDef):
                for method in inner.body:
                    if isinstance(method, ast.FunctionDef):
                        self._collect(method, method.name, file, function)

    def check(self) -> list[str]:
        """Once for what Streamlit is given, then again while functions turn out to be sinks."""
        while True:
            known, self.found = set(self.derived), []
            for function in (f for many in self.functions.values() for f in many):
                for node in function.own():
                    if isinstance(node, ast.Call):
                        self._call(node, function)
            if self.derived == known:
                return self.found

    def _call(self, call: ast.Call, function: Function) -> None:
        name, streamlit = (
            name_of(call.func),
            isinstance(call.func, ast.Attribute) and name_of(call.func.value) == "st",
        )
        if streamlit and name not in PLAIN | SHOWS | QUIET:
            self.found.append(f"{function.file.name}:{call.lineno} st.{name} is not known here")
        method = isinstance(call.func, ast.Attribute) and name_of(call.func.value) != "LOG"
        if name in CARRIES or (name in SHOWS and method):
            texts = call.args[1:] if name in {"Page", "page_link"} else call.args
            shown = [*texts, *(k.value for k in call.keywords if k.arg not in UNSHOWN)]
            if name == "link_button":
                shown = [*call.args[:1]]
            for value in shown:
                self._must_be_ours(value, function, call)
        for target in self.functions.get(name, []):
            for place, parameter in enumerate(target.parameters):
                if (name, parameter) in self.derived:
                    given = [k.value for k in call.keywords if k.arg == parameter] or call.args[
                        place : place + 1
                    ]
                    for value in given:
                        self._must_be_ours(value, function, call)

    def _must_be_ours(self, value: ast.expr, function: Function, call: ast.Call) -> None:
        if not self.ours(value, function, frozenset()):
            self.found.append(f"{function.file.name}:{call.lineno} shows {ast.unparse(value)!r}")

    def ours(self, node: ast.expr | None, inside: Function, seen: frozenset[str]) -> bool:
        """Whether every word this can become is our own."""
        every = lambda nodes: all(self.ours(n, inside, seen) for n in nodes)  # noqa: E731
        match node:
            case None | ast.Constant() | ast.Compare() | ast.Lambda(body=ast.Constant()):
                return True
            case (
                ast.JoinedStr(values=parts)
                | ast.List(elts=parts)
                | ast.Tuple(elts=parts)
                | ast.Set(elts=parts)
            ):
                return every(parts)
            case ast.FormattedValue(value=value) | ast.Starred(value=value) | ast.Subscript(value=value):
                return self.ours(value, inside, seen)
            case ast.Lambda(body=body):
                return self.ours(body, inside, seen)
            case ast.UnaryOp(operand=value):
                return self.ours(value, inside, seen)
            case ast.BinOp(left=left, right=right):
                return every([left, right])
            case ast.BoolOp(values=values):
                return every(values)
            case ast.IfExp(body=body, orelse=orelse):
                return every([body, orelse])
            case ast.Dict(values=values):
                return every(values)
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt):
                return self.ours(elt, inside, seen)
            case ast.Attribute(attr=attr):
                return attr in OURS or self._constant(attr)
            case ast.Call():
                return self._call_is_ours(node, inside, seen)
            case ast.Name(id=name):
                return self._name_is_ours(name, inside, seen)
            case _:
                return False

    def _call_is_ours(self, call: ast.Call, inside: Function, seen: frozenset[str]) -> bool:
        name = name_of(call.func)
        if name in NAMES | NUMBERS or name == "list":
            return name != "list" or all(self.ours(a, inside, seen) for a in call.args)
        if name in {"join", "lower", "items", "values", "get"} and isinstance(call.func, ast.Attribute):
            first = [] if name == "get" else call.args
            return all(self.ours(n, inside, seen) for n in [call.func.value, *first])
        if name in {"timestamp", "total_seconds", "count", "index", "date", "getattr"}:
            return name != "getattr" or name_of(call.args[0]) in {"sizes"}
        return (
            bool(self.functions.get(name))
            and name not in seen
            and all(self._returns_ours(f, seen | {name}) for f in self.functions[name])
        )

    def _returns_ours(self, function: Function, seen: frozenset[str]) -> bool:
        returns = [n for n in function.own() if isinstance(n, ast.Return)]
        return bool(returns) and all(self.ours(r.value, function, seen) for r in returns)

    def _name_is_ours(self, name: str, inside: Function, seen: frozenset[str]) -> bool:
        here = f"{inside.name}.{name}"
        if here in seen:
            return True
        if name in inside.assigned:
            return all(self.ours(value, inside, seen | {here}) for value in inside.assigned[name])
        if name in inside.parameters:
            kind = inside.parameters[name]
            if kind.split(" | ")[0] in NUMBER_TYPES or kind.startswith("tuple[int"):
                return True
            if kind == "str" and not inside.outer:
                return False
            self.derived.add((inside.name, name))
            return kind in {"str", "str | None"}
        if inside.outer is not None:
            return self._name_is_ours(name, inside.outer, seen)
        return self._constant(name)

    def _constant(self, name: str) -> bool:
        """A module's constant, whose every word stands in the source."""
        modules = [f for f in self.functions["<module>"] if name in f.assigned]
        given = all(self.ours(v, f, frozenset({name})) for f in modules for v in f.assigned[name])
        return name.isupper() and given  # a constant of the ledger has its words in the ledger's source


def assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and what they are given; a loop's name is given what it walks."""
    if (
        isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr)
        and node.value is not None
    ):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from pairs(target, node.value)
    elif isinstance(node, ast.For | ast.comprehension):
        yield from pairs(node.target, node.iter)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from pairs(node.optional_vars, node.context_expr)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
        yield from pairs(node.func.value, node.args[0])


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Starred):
        yield from pairs(target.value, value)
    elif isinstance(target, ast.Tuple):
        given = [value] * len(target.elts)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            given = value.elts
        elif isinstance(value, ast.Call) and name_of(value.func) == "zip":
            given = value.args[: len(target.elts)]
        for part, one in zip(target.elts, given, strict=True):
            yield from pairs(part, one)


def reading(extra: str = "") -> Reading:
    sources = {file: file.read_text() for file in FILES}
    return Reading(sources | ({Path("extra.py"): extra} if extra else {}))


def read(extra: str = "") -> list[str]:
    return reading(extra).check()


# ── Plain text: nothing in it that turns a line round unseen ──────────────────────────────────────────

# Of `readable`, which follows the same rule; of the configuration; of the ledger.
VISIBLE = {
    "read.text",
    "who.email",
    "source",
    "settings.receiver_port",
    "str(error)",
    "check.broken.words",
    "entry.hash.hex()",
}


def unseen(extra: str = "") -> list[str]:
    """What `st.text` and `st.code` are given that neither is ours nor went through `shown`."""
    house = reading(extra)
    return [
        f"{function.file.name}:{call.lineno} {ast.unparse(call.args[0])}"
        for function in (f for many in house.functions.values() for f in many)
        for call in function.own()
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("st.text", "st.code")
        if not _is_visible(call.args[0]) and not house.ours(call.args[0], function, frozenset())
    ]


def _is_visible(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="shown")):
            return True
        case ast.Call(func=ast.Attribute(attr="join"), args=[ast.GeneratorExp(elt=one)]):
            return _is_visible(one)
        case ast.JoinedStr(values=parts):
            return all(_is_visible(part) for part in parts)
        case ast.FormattedValue(value=value):
            return _is_visible(value)
    return isinstance(node, ast.Constant) or ast.unparse(node) in VISIBLE


def test_plain_text_from_outside_has_what_nobody_sees_made_visible() -> None:
    assert unseen() == []


@pytest.mark.parametrize("line", ["st.text(send.subject)", "st.code('\\n'.join(a for a in send.recipients))"])
def test_plain_text_that_is_not_made_visible_is_noticed(line: str) -> None:
    assert len(unseen(f"def show(send):\n    {line}\n")) == 1


def test_only_our_own_words_reach_what_reads_markdown() -> None:
    assert read() == []


@pytest.mark.parametrize(
    "line",
    [
        "st.markdown(send.subject)",
        "st.markdown(f'To {send.recipients[0]}')",
        "st.button(row.about)",
        "label = event.type\n    st.expander(label)",
        "st.metric('n', send.about)",
        "st.toast('Sent to ' + ', '.join(send.recipients))",
        "grid.metric('n', error.message)",
        "st.json(send.head)",
        "components.age_caption(1.0, send.subject)",
        "st.Page(page, title=person.name)",
    ],
)
def test_a_word_from_outside_is_noticed(line: str) -> None:
    assert read(f"def show(send, row, event, grid, error, page, person):\n    {line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "st.markdown(f'{named(person.name)} · {many(send.pending, chr)}')",
        "st.text(send.subject)",
        "st.code(send.about)",
    ],
)
def test_what_is_safe_passes(line: str) -> None:
    assert not read(f"def show(send, person):\n    {line}\n")


def test_html_is_made_in_one_file_only() -> None:
    users = {file.name for file in FILES if "st.html(" in file.read_text()}
    assert users == {"components.py"}
