"""What `tests/conftest.py` gives to all tests: golden files, and property tests that repeat."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.conftest import Golden


def test_a_golden_file_is_compared_whole(tmp_path: Path) -> None:
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage" / "shows.txt").write_bytes("θ : ℝ[3]\r\n".encode())
    golden = Golden(tmp_path, update=False)
    golden("stage/shows.txt", "θ : ℝ[3]\r\n")
    with pytest.raises(AssertionError, match=r"differs from tests/golden/stage/shows\.txt"):
        golden("stage/shows.txt", "θ : ℝ[3]\n")


def test_a_missing_golden_file_fails_and_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="is missing"):
        Golden(tmp_path, update=False)("stage/new.txt", "text")
    assert list(tmp_path.iterdir()) == []


def test_an_update_writes_only_what_differs(tmp_path: Path) -> None:
    golden = Golden(tmp_path, update=True)
    golden("stage/new.txt", "text\n")
    path = tmp_path / "stage" / "new.txt"
    before = path.stat().st_mtime_ns
    golden("stage/new.txt", "text\n")
    assert path.stat().st_mtime_ns == before
    golden("stage/new.txt", "other\n")
    assert path.read_text("utf-8") == "other\n"


def test_a_test_that_uses_golden_files_is_marked(request: pytest.FixtureRequest, golden: Golden) -> None:
    assert request.node.get_closest_marker("golden") is not None
    assert isinstance(golden, Golden)


def test_the_profiles_are_there() -> None:
    repeatable, fuzz = settings.get_profile("repeatable"), settings.get_profile("fuzz")
    assert repeatable.derandomize
    assert repeatable.deadline is None
    assert fuzz.max_examples > repeatable.max_examples
    assert not fuzz.derandomize
