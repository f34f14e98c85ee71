"""The configuration: what it reads, and how it refuses."""

import math
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.config import Config, Fetch, Site, Table, as_toml, load
from crawler.ports import UserError
from crawler.templates import TEMPLATES, template

CONFIGS = sorted((Path(__file__).parent.parent / "configs").glob("*.toml"))


def refusal(*overrides: str, path: Path | None = None) -> str:
    with pytest.raises(UserError) as caught:
        load(path, overrides)
    return str(caught.value)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "crawl.toml"


def test_all_defaults() -> None:
    assert load() == Config()
    assert Config().politeness.delay_s == 1.0
    assert Config().robots.obey
    assert not Config().fetch.allow_private_addresses


def test_defaults_are_values_that_are_allowed() -> None:
    """Nothing checks a default, so that ranks start faster."""
    for table in dict(Config()).values():
        if isinstance(table, Table):
            again = type(table)(**dict(table))
            assert again == table
            assert list(map(type, dict(again).values())) == list(map(type, dict(table).values()))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_examples_load(path: Path, written: Path) -> None:
    config = load(path)
    assert config != Config()
    written.write_text(as_toml(config, commented=True))
    assert load(written) == config


def test_all_examples_are_templates() -> None:
    assert {path.stem: path.read_text() for path in CONFIGS} == {
        name: template(name) for name in TEMPLATES
    }


@pytest.mark.parametrize(
    ("text", "most"), [("unlimited", math.inf), ('"unlimited"', math.inf), ("0", 0), ("7", 7)]
)
def test_limits_of_hops(text: str, most: float) -> None:
    assert load(None, [f"scope.max_hops={text}"]).scope.most_hops == most


@pytest.mark.parametrize("text", ["-1", "1.5", "true", "many", "inf", "[0]"])
def test_wrong_limits_of_hops(text: str) -> None:
    said = refusal(f"scope.max_hops={text}")
    assert said.startswith("configuration: scope.max_hops = ")
    assert said.endswith(': must be a whole number from 0, or "unlimited"')


def test_paths_in_a_file_begin_at_its_folder(written: Path) -> None:
    written.write_text(
        '[session]\nseeds_file = "seeds.txt"\nprevious = "../first"\ndirectory = "second"\n'
        '[fetch]\nca_files = ["a.pem", "/etc/b.pem"]\nnetrc_file = ""\n'
    )
    folder = written.parent
    config = load(written, ["assignment.part_vector=web.parts"])
    assert config.session.seeds_file == str(folder / "seeds.txt")
    assert config.session.previous == str(folder / "../first")
    assert config.session.directory == "second"  # what is written begins where the user is
    assert config.fetch.ca_files == (str(folder / "a.pem"), "/etc/b.pem")
    assert config.fetch.netrc_file == ""
    assert config.assignment.part_vector == "web.parts"


@pytest.mark.parametrize("value", ["3", "[1]", "{ a = 1 }"])
def test_wrong_paths_are_refused_as_before(value: str, written: Path) -> None:
    written.write_text(f"[session]\nseeds_file = {value}\n")
    assert "session.seeds_file" in refusal(path=written)


@pytest.mark.parametrize("commented", [False, True])
def test_as_toml_comes_back(commented: bool, written: Path) -> None:
    written.write_text(as_toml(Config(), commented=commented))
    assert load(written) == Config()


CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")


@given(
    seeds=st.lists(st.text(CHARACTERS), max_size=3),
    hosts=st.dictionaries(st.text(CHARACTERS), st.text("ab.:\\\"'#=")),
    delay=st.floats(0, 1e9),
)
def test_any_values_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    seeds: list[str],
    hosts: dict[str, str],
    delay: float,
) -> None:
    written = tmp_path_factory.getbasetemp() / "any.toml"
    values = {
        "session": {"seeds": seeds},
        "dns": {"hosts": hosts},
        "politeness": {"delay_s": delay},
    }
    config = load(values=values)
    written.write_text(as_toml(config), "utf-8")
    assert load(written) == config


def test_later_words_win(written: Path) -> None:
    written.write_text('[session]\nmax_pages = 1\nseeds = ["http://a.example/"]\n')
    config = load(
        written,
        ["session.max_pages=2", "fetch.concurrency=7"],
        {"session": {"max_pages": 3}},
    )
    assert config.session.max_pages == 3
    assert config.session.seeds == ("http://a.example/",)
    assert config.fetch.concurrency == 7


@pytest.mark.parametrize(
    ("override", "table", "key", "value"),
    [
        ("session.max_pages=10", "session", "max_pages", 10),
        (" session.max_pages = 10 ", "session", "max_pages", 10),
        ("session.directory=/tmp/a=b", "session", "directory", "/tmp/a=b"),
        ('session.directory="with space"', "session", "directory", "with space"),
        ('scope.hosts=["a.example", "b.example"]', "scope", "hosts", ("a.example", "b.example")),
        ('dns.hosts={"a.example" = "::1"}', "dns", "hosts", {"a.example": "::1"}),
        ("robots.obey=false", "robots", "obey", False),
        # durations
        ("session.max_time=3h55m", "session", "max_time", 14_100),
        ("session.max_time=1d", "session", "max_time", 86_400),
        ("session.max_time=90s", "session", "max_time", 90),
        ('session.max_time="1m0.5s"', "session", "max_time", 60.5),
        ("session.max_time=45", "session", "max_time", 45),
        # sizes
        ("fetch.max_bytes=2MiB", "fetch", "max_bytes", 2 << 20),
        ("storage.warc_size=1GB", "storage", "warc_size", 1_000_000_000),
        ("exchange.batch_bytes=512", "exchange", "batch_bytes", 512),
        ("exchange.batch_bytes=1.5 kb", "exchange", "batch_bytes", 1500),
        ("exchange.batch_bytes=3k", "exchange", "batch_bytes", 3000),
        # numbers in other forms
        ("session.max_pages=1e6", "session", "max_pages", 1_000_000),
        ("session.max_pages='20'", "session", "max_pages", 20),
        ("politeness.delay_s='0.5'", "politeness", "delay_s", 0.5),
    ],
)
def test_overrides(override: str, table: str, key: str, value: object) -> None:
    assert getattr(getattr(load(overrides=[override]), table), key) == value


@pytest.mark.parametrize(
    ("override", "words"),
    [
        # unknown names: what is known
        ("fetches.concurrency=1", ["fetches", "unknown", "session", "fetch", "storage"]),
        ("fetch.concurency=1", ["fetch.concurency", "unknown", "concurrency", "timeout_s"]),
        ("fetch.concurency=1", ["did you mean concurrency? the keys of [fetch] are: "]),
        ("fetches.concurrency=1", ["did you mean fetch? the tables are: "]),
        # wrong types
        ("fetch.concurrency=many", ["fetch.concurrency = 'many'", "integer"]),
        ("fetch.concurrency=1.5", ["fetch.concurrency = 1.5", "integer"]),
        ("robots.obey=perhaps", ["robots.obey = 'perhaps'", "boolean"]),
        ("session.seeds=[1]", ["session.seeds.0 = 1", "string"]),
        ("dns.hosts={a = 1}", ["dns.hosts.a = 1", "string"]),
        ("dns.hosts=[]", ["dns.hosts = []", "must be a table"]),
        ("fetch.concurrency=true", ["fetch.concurrency = True", "integer"]),
        ("politeness.delay_s=true", ["politeness.delay_s = True", "number"]),
        ("robots.obey=1", ["robots.obey = 1", "boolean: true or false"]),
        ("storage.warc_size=1.5", ["storage.warc_size = 1.5", "must be a size"]),
        ("storage.warc_size=1 mile", ["storage.warc_size = '1 mile'", "must be a size"]),
        ('sites=["a.example"]', ["[[sites]] 1", "must be a table"]),
        ("sites=[{match = 3}]", ["[[sites]] 1: match = 3", "must be a list"]),
        ('sites=[{match = "a", delay_s = "b"}]', ["[[sites]] 1: delay_s = 'b'", "a number"]),
        ("scope.hosts=a.example", ["scope.hosts = 'a.example'"]),
        # impossible values
        ("fetch.concurrency=0", ["fetch.concurrency = 0", "greater than or equal to 1"]),
        ("exchange.batch_pages=0", ["exchange.batch_pages = 0", "greater than or equal to 1"]),
        ("politeness.delay_s=-1", ["politeness.delay_s = -1", "greater than or equal to 0"]),
        ("politeness.delay_s=nan", ["politeness.delay_s = nan", "must be a finite number"]),
        (f"politeness.delay_s={10**400}", ["must be a finite number"]),
        ("dynamic.servers=[]", ["dynamic.servers = []", "must have at least 1 item"]),
        ("dns.timeout_s=0", ["dns.timeout_s = 0", "greater than 0"]),
        ("storage.warc_size=0", ["storage.warc_size = 0", "greater than 0"]),
        ("storage.warc_size=big", ["storage.warc_size = 'big'"]),
        ("storage.compression=4", ["storage.compression = 4", "less than or equal to 3"]),
        ("session.max_time=soon", ["session.max_time = 'soon'", "3h55m", "90s"]),
        ("session.max_time=-5s", ["session.max_time = '-5s'", "3h55m"]),
        ("session.max_time=\u0661h", ["session.max_time = '\u0661h'", "3h55m"]),
        ("storage.warc_size=\u0661k", ["storage.warc_size = '\u0661k'"]),
        ("robots.agent=", ["robots.agent = ''", "must have at least 1 character"]),
        ("storage.compression=-1", [": must be greater than or equal to 0"]),
        ("robots.agent=7", ["robots.agent = 7: must be a string, in quotes"]),
        ('scope.include=["ok", "("]', ["scope.include.1 = '('", "regular expression"]),
        ('scope.include=["a{4294967296}"]', ["scope.include.0", "regular expression"]),
        (f'scope.exclude=["{"(" * 999}{")" * 999}"]', ["scope.exclude.0", "regular expression"]),
        # more than 64 bits, or than Python reads
        (f"retry.give_up_after={1 << 63}", ["retry.give_up_after", "must be less than 2^63"]),
        (
            f'sites=[{{match = ["a"], connections = {1 << 64}}}]',
            ["[[sites]] 1: connections", "2^63"],
        ),
        (f"fetch.concurrency={'9' * 5000}", ["fetch.concurrency", "must be an integer"]),
        (f"fetch.concurrency={'[' * 5000}", ["fetch.concurrency", "must be an integer"]),
        (r'fetch.netrc_file="a\u0000"', ["fetch.netrc_file", "must have no NUL"]),
        (r'session.directory="\u0000"', ["session.directory", "must have no NUL"]),
        ("session.checkpoint=1s", ["session.checkpoint = 1", "longer", "1 s"]),
        # a choice: all of it
        ("storage.sync=often", ["storage.sync = 'often'", "'record', 'interval' or 'close'"]),
        ("extract.elements=[form]", ["extract.elements = '[form]'"]),
        ('extract.elements=["form"]', ["extract.elements.0 = 'form'", "'a'", "'img'", "'link'"]),
        ('extract.types=["html"]', ["extract.types.0 = 'html'", "image/*", ".zip"]),
        ('normalise.drop_parameters=["a=b"]', ["drop_parameters.0 = 'a=b'", "a parameter"]),
        # one key needs another
        (
            "assignment.scheme=part-vector",
            ["assignment.part_vector = ''", "path of a file", "python -m partition build"],
        ),
        # no override at all
        ("fetch", ["--set fetch", "table.key=value"]),
        ("fetch=1", ["--set fetch=1", "table.key=value"]),
        ("fetch.=1", ["--set fetch.=1", "table.key=value"]),
    ],
)
def test_refusals_name_key_value_and_what_is_allowed(override: str, words: list[str]) -> None:
    message = refusal(override)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_the_first_mistake_is_that_of_the_first_key() -> None:
    said = refusal('session.seeds=["a", 1, 2]', "session.seed=3", "session.seeds_file=4")
    assert said.startswith("configuration: session.seeds.1 = 1: must be a string, in quotes")
    assert said.endswith("(and 3 more)")


def test_refusals_name_the_file_and_count_the_rest(written: Path) -> None:
    written.write_text("[fetch]\nconcurrency = 0\ntimeout_s = 0\n[storage]\nsink = true\n")
    message = refusal(path=written)
    assert message.startswith(f"{written}: fetch.concurrency = 0: ")
    assert message.endswith("(and 2 more)")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"fetch = 1", ["fetch = 1", "must be a table, [fetch]"]),
        (b"[fetch\n", ["not TOML", "line 1"]),
        (b"[fetch]\nconcurrency = 1\nconcurrency = 2\n", ["not TOML", "line 3"]),
        (b"[session]\ndirectory = '\xff'", ["not TOML"]),
        (b"a = " + b"[" * 5000, ["not TOML"]),
        (b"a = " + b"9" * 5000, ["not TOML"]),
    ],
)
def test_files_that_are_no_configuration(written: Path, content: bytes, words: list[str]) -> None:
    written.write_bytes(content)
    message = refusal("fetch.concurrency=3", path=written)
    assert message.startswith(f"{written}: ")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in refusal(path=tmp_path / "none.toml")
    assert "directory" in refusal(path=tmp_path)


def test_a_table_that_a_script_makes_is_checked() -> None:
    assert Fetch(concurrency=3, max_bytes="1MB").max_bytes == 1_000_000
    with pytest.raises(ValueError, match=r"^concurrency: must be greater than or equal to 1$"):
        Fetch(concurrency=0)
    with pytest.raises(ValueError, match=r"^max_bytes: must be a size, .*; max_byte: unknown key$"):
        Fetch(max_byte=3, max_bytes="much")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"^match: is missing$"):
        Site()  # type: ignore[call-arg]


def test_other_ranks_get_the_same_configuration() -> None:
    config = load(CONFIGS[0], ['sites=[{match = "a.example", headers = {A = "b"}}]'])
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert repr(again) == repr(config)
    assert again.replace(sites=()) != config


def test_loaded_means_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        load().fetch.concurrency = 3  # type: ignore[misc]
