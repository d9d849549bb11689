"""One TOML file and the environment: what is refused, with which words, and that secrets stay secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from ledger.embedded import Cluster
from ledger.errors import Misconfigured
from ledger.records import Policy, Role
from ledger.settings import Settings, load
from ledger.settings.tables import Tables
from ledger.settings.toml_lines import line_of

GOOD = """
[sources.agentmail]
kind = "agentmail"
secrets = ["hook", "hook-before"]
ignored_types = ["message.opened"]

[sources.shop]
kind = "generic"
namespace = "acme"
secrets = ["shop"]
signature_header = "X-Signature"
key_path = "data.id"
success_status = 202

[providers.agentmail]
kind = "agentmail"
key = "api"
base_url = "http://127.0.0.1:{sandbox_port}/v0"
window_s = 86400

[providers.inboxili]
kind = "inboxili"
key = "api"
account = "billing"

[actions.receipt]
provider = "inboxili"
policy = "resend"
cost = "low"

[worker]
handlers = "shop.handlers"
lease_s = 15

[console]
people = [{ name = "Ada", role = "admin" }]
"""

Written = Callable[[str], Path]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Writes the configuration of a home of its own, and returns the file."""
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))

    def write(text: str) -> Path:
        file = tmp_path / "nottwice.toml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def good(written: Written) -> Settings:
    written(GOOD)
    return load()


def test_what_is_left_out_follows_from_the_tables_name(good: Settings) -> None:
    assert (good.sources["agentmail"].namespace, good.sources["shop"].namespace) == ("agentmail", "acme")
    assert (good.providers["agentmail"].account, good.providers["inboxili"].account) == (
        "agentmail",
        "billing",
    )


def test_a_key_lives_as_long_as_its_kind_is_known_for(written: Written) -> None:
    written(
        "".join(f'[providers.{kind}]\nkind = "{kind}"\nkey = "k"\n' for kind in ("agentmail", "inboxili"))
    )
    found = load().providers
    assert (found["agentmail"].window_s, found["inboxili"].window_s) == (86_400.0, None)


def test_values_have_their_types(good: Settings) -> None:
    assert good.sources["agentmail"].secrets == ("hook", "hook-before")
    assert good.worker.lease_s == 15.0
    assert good.console.people[0].role is Role.ADMIN
    assert good.actions["receipt"].policy is Policy.RESEND


def test_a_kinds_rules_join_action_and_provider(good: Settings) -> None:
    rules = good.rules("receipt")
    assert (rules.provider, rules.account, rules.key_window_s) == ("inboxili", "billing", None)
    assert (rules.policy, rules.cost) == (Policy.RESEND, "low")


def test_a_kind_without_a_table_needs_a_clear_provider(good: Settings, written: Written) -> None:
    with pytest.raises(Misconfigured, match=r"no \[actions\.answer\], and 2 providers"):
        good.rules("answer")
    written('[providers.only]\nkind = "inboxili"\nkey = "api"')
    assert (load().rules("answer").provider, load().rules("answer").policy) == ("only", Policy.REVIEW)


def test_a_slip_of_the_pen_never_costs_a_kind_its_approval(good: Settings, written: Written) -> None:
    """With one provider, an unknown kind goes out by the defaults; one that is nearly a configured one must not."""
    written(
        '[providers.only]\nkind = "inboxili"\nkey = "api"\n[actions.refund]\nprovider = "only"\napproval = true'
    )
    with pytest.raises(Misconfigured, match=r"no \[actions\.refnud\]; did you mean refund\?"):
        load().rules("refnud")
    assert load().rules("welcome").approval is False and load().rules("refund").approval is True


def test_the_sandboxs_port_stands_in_addresses(good: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert good.providers["agentmail"].base_url == "http://127.0.0.1:8090/v0"
    monkeypatch.setenv("NOTTWICE_SANDBOX_PORT", "9999")
    assert load().providers["agentmail"].base_url == "http://127.0.0.1:9999/v0"


def test_nothing_can_be_changed_afterwards(good: Settings) -> None:
    with pytest.raises(ValueError, match="frozen"):
        good.worker.lease_s = 1.0  # type: ignore[misc]


SOURCE = '[sources.shop]\nkind = "generic"\nsecrets = ["s"]\nsignature_header = "X"\n'
PROVIDER = '[providers.am]\nkind = "agentmail"\nkey = "k"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[worker]\nslots = 3\nlease = 4\n", "line 3: [worker] lease is not a setting; did you mean lease_s?"),
        ("[wroker]\n", "line 1: wroker is not a setting; did you mean worker?"),
        ('[worker]\nlease_s = "30"\n', "line 2: [worker] lease_s must be a number."),
        ("[worker]\nslots = true\n", "line 2: [worker] slots must be a whole number."),
        ("[worker]\n\n# more\nslots = 1.5\n", "line 4: [worker] slots must be a whole number."),
        ("[worker]\nlease_s = nan\n", "line 2: [worker] lease_s must be a finite number."),
        ("[worker]\nlease_s = -1\n", "line 2: [worker] lease_s must be greater than 0."),
        ("[worker]\nlease_s = 2\nsweep_s = 3\n", "line 3: [worker] sweep_s is longer than lease_s"),
        ("[receiver]\nbody_bytes_max = 18_000_001\n", "line 2: [receiver] body_bytes_max does not fit: a quarter of in_hand_bytes_max"),
        ("[receiver]\nin_hand_bytes_max = 6666666\n", "line 2: [receiver] in_hand_bytes_max does not fit"),
        ("[worker]\npause_s = 1e13\n", "line 2: [worker] pause_s must be less than or equal to 3153600000."),
        ("[worker]\ndecided_wait_s = 3153600001\n", "line 2: [worker] decided_wait_s must be less than or equal to 3153600000."),
        ("[worker]\nlook_waits_s = [1.0, 1e300]\n", "line 2: [worker] look_waits_s (entry 2) must be less than or equal to"),
        ("[worker]\nattempts_max = 2147483648\n", "line 2: [worker] attempts_max must be less than or equal to 2147483647."),
        ("[reprocess]\npace_per_s = 1e18\n", "line 2: [reprocess] pace_per_s must be less than or equal to"),
        ("[reprocess]\nsecond_person_above = 99999999999\n", "line 2: [reprocess] second_person_above must be less than"),
        ("[console]\nrequest_expires_s = 2592001\n", "line 2: [console] request_expires_s must be less than"),
        ("[alerts]\nfailed_max = 99999999999\n", "line 2: [alerts] failed_max must be less than or equal to 2147483647."),
        (PROVIDER + '[actions.a]\nprovider = "am"\nretry_for_s = 1e13\n', "line 6: [actions.a] retry_for_s must be less than"),
        (PROVIDER + '[actions.a]\nprovider = "am"\nevidence_s = 1e13\n', "line 6: [actions.a] evidence_s must be less than"),
        (PROVIDER + '[actions.a]\nprovider = "am"\nrate = "99999999999999999999 per 1 d"\n', "line 6: [actions.a] rate is no rate"),
        ('worker = "w"\n', "line 1: worker must be a table."),
        ('[sources.shop]\nkind = "generic"\n', "line 1: [sources.shop] secrets is missing."),
        ('[sources.shop]\nkind = "generic"\nsecrets = "s"\n', "line 3: [sources.shop] secrets must be a list in [ ]."),
        ('[sources.shop]\nkind = "generic"\nsecrets = []\n', "line 3: [sources.shop] secrets must have at least 1 item."),
        ('[sources.shop]\nkind = "generic"\nsecrets = ["s", 1]\n', "line 3: [sources.shop] secrets (entry 2) must be a text in quotes."),
        (SOURCE + 'namespace = "a\\u0000b"\n', "line 5: [sources.shop] namespace begins or ends with a blank, or has a sign that"),
        (SOURCE + 'ignored_types = [""]\n', "line 5: [sources.shop] ignored_types (entry 1) must have at least 1 character."),
        (SOURCE + "tolerance_s = 0\n", "line 5: [sources.shop] tolerance_s must be greater than 0."),
        (SOURCE + f'type_constant = "{"é" * 101}"\n', "line 5: [sources.shop] type_constant is longer than 200 bytes"),
        (SOURCE + 'type_otherwise = " "\n', "line 5: [sources.shop] type_otherwise begins or ends with a blank"),
        (SOURCE + 'signature_prefix = "v1= "\n', "line 5: [sources.shop] signature_prefix begins or ends with a blank"),
        (SOURCE + 'key_path = "data..id"\n', "line 5: [sources.shop] key_path has an empty part; write names with dots"),
        (SOURCE + 'time_path = ".at"\n', "line 5: [sources.shop] time_path has an empty part"),
        (SOURCE + 'recipient_path = "to..0"\n', "line 5: [sources.shop] recipient_path has an empty part"),
        (SOURCE + 'key_with = ["a", "b."]\n', "line 5: [sources.shop] key_with has an empty part"),
        (SOURCE + 'delivery_header = "X-Delivery:"\n', "line 5: [sources.shop] delivery_header is no name of a header."),
        (SOURCE + 'notices = { opened = "read" }\n',
         "line 5: [sources.shop.notices] opened must be one of sent, delivered, bounced, complained, rejected"),
        (SOURCE + 'provider = "ix"\n', "line 5: [sources.shop] provider names [providers.ix], which is not there; known are: none."),
        ('[sources."a/b"]\nkind = "agentmail"\nsecrets = ["s"]\n', "line 1: [sources] a/b stands in an address"),
        (PROVIDER + '[actions.reply]\nprovider = "ma"\n',
         "line 5: [actions.reply] provider names [providers.ma], which is not there; known are: am."),
        (PROVIDER + "window_s = 100\nmargin_s = 20\n",
         "line 5: [providers.am] margin_s is 20; it must cover timeout_s and a lease, together 60."),
        ("[worker]\ngrace_s = 30\n", "line 2: [worker] grace_s does not fit: [supervisor] stop_within_s is 35 and must cover"),
        ("[supervisor]\nworkers = 1\nstop_within_s = 12\n",
         "line 3: [supervisor] stop_within_s does not fit: [supervisor] stop_within_s is 12 and must cover [worker] grace_s, "
         "[receiver] grace_s and 3 s for the rest, together 33."),
        ('[[console.people]]\nname = "A"\nrole = "admin"\n[[console.people]]\nname = "B"\nrole = "boss"\n',
         "line 6: [console.people.1] role must be one of viewer"),
        ('[console]\npeople = [\n { name = "A", rule = "admin" },\n]\n',
         "line 2: [console.people.0] rule is not a setting; did you mean role?"),
        ("[worker\n", "line 1: this is not TOML"),
        ('[worker]\nhandlers = "a"\nhandlers = "b"\n', "line 3: this is not TOML: Cannot overwrite a value."),
        ('home = "/somewhere"\n', "line 1: home is not a setting"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(written: Written, text: str, sentence: str) -> None:
    file = written(text)
    with pytest.raises(Misconfigured) as refused:
        load()
    assert f"{file}, {sentence}" in str(refused.value)


def test_every_mistake_is_told_at_once(written: Written) -> None:
    written("[worker]\nslot = 3\nlease_s = 0\n[receivr]\n")
    with pytest.raises(Misconfigured) as refused:
        load()
    assert str(refused.value).count("\n") == 2


def test_a_secret_written_into_the_file_is_not_repeated(written: Written) -> None:
    written(
        '[sources.a]\nkind = "agentmail"\nsecrets = "whsec_c2VjcmV0"\n[worker]\nslots = "whsec_c2VjcmV0"\n'
    )
    with pytest.raises(Misconfigured) as refused:
        load()
    assert "whsec_" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__suppress_context__


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_secret_comes_from_the_nearest_place(good: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misconfigured, match="NOTTWICE_SECRET_HOOK_BEFORE"):
        good.secret("hook-before")
    (good.home / "hook-before").write_text("a path\n")
    assert good.secret("hook-before") == "a path"
    (good.home / "secrets").mkdir()
    (good.home / "secrets" / "hook-before").write_text("in the home\n")
    assert good.secret("hook-before") == "in the home"
    monkeypatch.setenv("hook-before", "a variable")
    assert good.secret("hook-before") == "a variable"
    monkeypatch.setenv("NOTTWICE_SECRET_HOOK_BEFORE", " ours\n")  # as a file's, without what was pasted along
    assert good.secret("hook-before") == "ours"


def test_a_rotated_file_is_seen_without_a_restart(good: Settings) -> None:
    (good.home / "hook").write_text("old")
    assert good.secret("hook") == "old"
    (good.home / "hook").write_text("new")
    assert good.secret("hook") == "new"


def test_an_empty_file_is_no_secret(good: Settings) -> None:
    (good.home / "hook").write_text("\n")
    with pytest.raises(Misconfigured, match="is empty"):
        good.secret("hook")


def test_nothing_secret_is_shown(good: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_SECRET_HOOK", "hush")
    monkeypatch.setenv("DATABASE_URL", "postgresql://worker:hush@db/ledger")
    settings = load()
    assert settings.secret("hook") == "hush" and settings.database_url is not None
    assert "hush" not in repr(settings) + str(settings)


# ── the environment ───────────────────────────────────────────────────────────────────────────────────


def test_without_a_file_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    settings = load()
    assert (settings.home, settings.config, settings.sources) == (tmp_path, None, {})
    assert (settings.receiver_port, settings.console_port, settings.sandbox_port) == (8080, 8501, 8090)


def test_a_named_file_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(Misconfigured, match=r"none\.toml cannot be read: No such file"):
        load()


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "8080 "])
def test_a_port_is_a_port(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_RECEIVER_PORT", port)
    with pytest.raises(Misconfigured, match="NOTTWICE_RECEIVER_PORT is"):
        load()


def test_the_handlers_sql_is_a_path_or_in_a_package(written: Written) -> None:
    file = written('[worker]\napp_sql = "tables"')
    assert load().app_sql == file.parent / "tables"
    written('[worker]\napp_sql = "ledger:receiver"')
    assert (load().app_sql or Path()).joinpath("__init__.py").is_file()
    written('[worker]\napp_sql = "no_such_package:sql"')
    with pytest.raises(Misconfigured, match="no_such_package is not installed"):
        _ = load().app_sql


def test_a_database_url_serves_every_login(
    good: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    database = load().open_database("worker", pool_size=1)
    with database.transaction() as tx:
        assert tx.one("SELECT current_user")[0] == "postgres"
    database.close()


def test_without_one_each_process_has_its_own_login(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(cluster.home))
    settings = load()
    assert settings.url("console") == cluster.url("nottwice_console")
    assert settings.url("owner") == cluster.url("postgres")


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────

LINES = """a = 1
[table."with.dot"] # a comment
key = [
  { inner = 1 },
]
dotted.name = 2
[[list]]
x = 1
[[list]]
x = 2
[list.sub]
y = 3
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 1),
        (("table",), 2),
        (("table", "with.dot"), 2),
        (("table", "with.dot", "key"), 3),
        (("table", "with.dot", "key", 0, "inner"), 3),
        (("table", "with.dot", "dotted", "name"), 6),
        (("list", 0, "x"), 8),
        (("list", 1, "x"), 10),
        (("list", 1, "sub", "y"), 12),
        (("table", "missing"), 2),
        (("nowhere",), None),
    ],
)
def test_a_name_is_found_on_its_line(path: tuple[str | int, ...], line: int | None) -> None:
    assert line_of(LINES, path) == line


def _bounds(table: type[BaseModel]) -> Iterator[tuple[str, object]]:
    """Each number that can be written into the file, with what bounds it."""
    for name, field in table.model_fields.items():
        yield from _of_annotation(f"{table.__name__}.{name}", field.annotation, field.metadata)


def _of_annotation(name: str, of: Any, about: Sequence[object]) -> Iterator[tuple[str, object]]:
    if get_origin(of) is Annotated:
        of, *about = get_args(of)
        yield from _of_annotation(name, of, [m for one in about for m in getattr(one, "metadata", [one])])
    elif isinstance(of, type) and issubclass(of, BaseModel):
        yield from _bounds(of)
    elif of in (int, float):
        yield name, next((m.le for m in about if getattr(m, "le", None) is not None), None)
    else:
        for inner in get_args(of):
            yield from _of_annotation(name, inner, about if type(None) in get_args(of) else ())


def test_no_number_of_the_file_is_without_a_bound() -> None:
    """A span beyond the calendar's end, or a count that no column holds, would be found out by the sweep."""
    found = dict(_bounds(Tables))
    assert len(found) > 70
    assert [name for name, bound in found.items() if bound is None] == []
