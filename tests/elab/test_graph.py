"""The order of aliases, modules and models, and cycles among them."""

from presk.elab.files import GivenFiles, load
from presk.elab.graph import ordered, uses_of
from presk.elab.names import FileNames, file_names
from tests.elab.support import MAIN, Session, codes, words


def names_of(text: str) -> FileNames:
    loaded = load(Session().engine, GivenFiles({MAIN: text.encode()}), MAIN)
    assert not isinstance(loaded, str)
    return file_names(loaded.files[MAIN])


def order(text: str) -> tuple[tuple[str, ...], list[str]]:
    found = ordered(MAIN, names_of(text).declared)
    return found.names, codes(found.diagnostics)


def test_each_stands_behind_what_it_uses() -> None:
    text = """
model G = stack{2}(M) ∘ N
type A = (B, params M)
module M { param w : C
 use n : N
 fn f(x : Z) -> ℝ = x }
type C = ℝ
type B = C
module N { }
type Z = ℝ
"""
    assert order(text) == (("C", "N", "M", "G", "B", "A", "Z"), [])


def test_a_name_in_a_dimension_is_no_use() -> None:
    assert order("type A = ℝ[A]\nmodule M { param w : ℝ[M]\n use n : N{M} }\nmodule N{D : dim} { }")[1] == []


def test_what_closes_a_cycle_is_reported_and_cut() -> None:
    text = "type A = (ℝ, B)\ntype B = (C, A)\ntype C = (A, B)\ntype D = A\n"
    found = ordered(MAIN, names_of(text).declared)
    assert found.names == ("C", "B", "A", "D")
    assert found.closing == {("C", "A"), ("C", "B"), ("B", "A")}
    assert codes(found.diagnostics) == ["E1018", "E1018", "E1018"]
    first = found.diagnostics[0]
    assert first.primary.place.chunk == "type C"
    assert "`A` → `B` → `C` → `A`" in words(first)
    assert [label.place.chunk for label in first.labels] == ["type A", "type B"]


def test_a_cycle_through_a_module_is_one_of_modules() -> None:
    text = "module M { use a : A }\ntype A = M\nmodel G = stack{2}(G)\n"
    found = ordered(MAIN, names_of(text).declared)
    assert [(one.code, one.primary.place.chunk) for one in found.diagnostics] == [
        ("E2016", "type A"),
        ("E2016", "model G"),
    ]
    assert "contains itself" in found.diagnostics[1].message


def test_the_words_of_a_long_cycle_are_bounded() -> None:
    count = 2_000
    text = "\n".join(f"type A{i} = A{(i + 1) % count}" for i in range(count)) + "\n"
    (one,) = ordered(MAIN, names_of(text).declared).diagnostics
    assert len(one.message) < 300
    assert "`A0`" in one.message
    assert len(one.labels) == 4


def test_uses_have_their_places() -> None:
    declared = names_of("module M { param w : A\n use l : stack{2}(B ∘ m.C{3}) }\n").declared["M"]
    assert [(use.path, use.chunk) for use in uses_of(declared)] == [
        (("A",), "module M/param w"),
        (("stack",), "module M/use l"),
        (("B",), "module M/use l"),
        (("m", "C"), "module M/use l"),
    ]


def test_a_name_stands_once() -> None:
    found = names_of('const A = 1\ndim A\nfn A(x : ℝ) -> ℝ = x\ntype B = ℝ\nimport "x.psk" as B\n')
    assert codes(found.diagnostics) == ["E1012", "E1012", "E1012"]
    assert found.repeated == {"dim A", "fn A", "import B"}
    assert "as a constant" in words(found.diagnostics[0])
    assert sorted(found.declared) == ["A", "B"]


def test_names_of_what_did_not_parse() -> None:
    found = names_of(
        "const A = = 1\nimport 3 as B\nmodule M { param w, v : +\n fn f( }\nmodule N X { param q : ℝ }\nfn (x) = x\nconst A = 2\n"
    )
    assert found.unparsed == {"B", "N"}
    assert sorted(found.declared) == ["A", "M"]
    assert found.members["M"] == ("w", "v", "f")
    assert not found.lost_import
    assert names_of('import "x.psk\n').lost_import
