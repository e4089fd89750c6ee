"""The runner of the benchmarks, on benchmarks that take no time."""

import ast
from pathlib import Path

import pytest

from tests.bench import run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bench_good.py").write_text('def main() -> None:\n    print("figure", 42)\n')
    (tmp_path / "bench_bad.py").write_text('def main() -> None:\n    raise ValueError("no figure")\n')
    (tmp_path / "helper.py").write_text("raise SystemExit(9)\n")
    return tmp_path


def test_benchmarks_are_found_by_name(folder: Path) -> None:
    assert list(run.benchmarks(folder)) == ["bad", "good"]


def test_the_machine_comes_first_and_a_failure_does_not_stop_the_rest(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run.main([], folder) == 1
    out, err = capfd.readouterr()
    assert out.startswith("processor ")
    assert out.index("python ") < out.index("== bad") < out.index("== good") < out.index("figure 42")
    assert "ValueError: no figure" in err
    assert err.endswith("failed: bad\n")


def test_one_can_be_chosen(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run.main(["good"], folder) == 0
    assert "== bad" not in capfd.readouterr().out


def test_an_unknown_name_is_refused_before_anything_runs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run.main(["good", "better"], folder) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "no such benchmark: better; there are: bad, good\n"


def test_facts_are_read_from_their_lines() -> None:
    text = "vendor_id\t: Some\nmodel name\t: A Processor @ 2.0GHz\nmodel name\t: Another\n"
    assert run.field(text, "model name") == "A Processor @ 2.0GHz"
    assert run.field(text, "MemTotal") == ""


def test_every_benchmark_has_a_main() -> None:
    for path in run.benchmarks(run.FOLDER).values():
        body = ast.parse(path.read_text("utf-8")).body
        assert "main" in {node.name for node in body if isinstance(node, ast.FunctionDef)}, path
