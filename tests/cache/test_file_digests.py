"""The stat shortcut: it saves reading settled files and never hides a change."""

import os

from presk.cache.digest import value_digest
from presk.cache.file_digests import SETTLED_NS, FileDigests


class Counting(FileDigests):
    """Counts how often a file is read."""

    def __init__(self, clock):
        super().__init__(clock)
        self.read_count = 0

    def read(self, path):
        self.read_count += 1
        return super().read(path)


def make(path, data, later=SETTLED_NS + 1):
    """A file, and a clock that stands so long after its last change."""
    path.write_bytes(data)
    status = path.stat()
    return Counting(lambda: max(status.st_mtime_ns, status.st_ctime_ns) + later)


def test_a_settled_file_is_hashed_once(tmp_path):
    path = tmp_path / "f"
    digests = make(path, b"one")
    assert [digests.digest(str(path)) for _ in range(3)] == [value_digest(b"one")] * 3
    assert digests.read_count == 1


def test_a_file_that_may_have_changed_in_the_same_tick_is_hashed_again(tmp_path):
    path = tmp_path / "f"
    digests = make(path, b"one", later=SETTLED_NS)
    digests.digest(str(path))
    digests.digest(str(path))
    assert digests.read_count == 2


def test_a_racy_edit_is_seen(tmp_path):
    """Same size, same times, same inode, other bytes: the shortcut cannot know, so it must not be taken."""
    path = tmp_path / "f"
    digests = make(path, b"one", later=0)
    before = path.stat()
    assert digests.digest(str(path)) == value_digest(b"one")
    with path.open("r+b") as file:
        file.write(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digests.digest(str(path)) == value_digest(b"two")


def test_an_edit_that_restores_the_time_of_change_is_seen(tmp_path):
    """As `cp -p` and `touch -r` do: the inode's own time differs."""
    path = tmp_path / "f"
    digests = make(path, b"one")
    before = path.stat()
    assert digests.digest(str(path)) == value_digest(b"one")
    os.utime(path, ns=(1, 1))
    with path.open("r+b") as file:
        file.write(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digests.digest(str(path)) == value_digest(b"two")


def test_a_file_that_is_replaced_or_vanishes_is_seen(tmp_path):
    path = tmp_path / "f"
    digests = make(path, b"one")
    assert digests.digest(str(path)) == value_digest(b"one")
    (tmp_path / "g").write_bytes(b"two")
    os.replace(tmp_path / "g", path)
    assert digests.digest(str(path)) == value_digest(b"two")
    path.unlink()
    assert digests.digest(str(path)) is None
    path.write_bytes(b"one")
    assert digests.digest(str(path)) == value_digest(b"one")


def test_a_clock_behind_the_file_system_never_settles(tmp_path):
    path = tmp_path / "f"
    digests = make(path, b"one", later=-(10**12))
    digests.digest(str(path))
    digests.digest(str(path))
    assert digests.read_count == 2
