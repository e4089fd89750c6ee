"""The identity of LLVM: the digest that the installation recorded, or that of the file."""

import base64
import hashlib

from presk.cache.fingerprint import Fingerprints
from presk.cache.packages import Packages
from presk.kernels.identity import IDENTITIES, LIBRARY, llvm_identity

DATA = b"a library"
DIGEST = hashlib.sha256(DATA).hexdigest()
OTHER = hashlib.sha256(b"another library")


def installed(folder, record):
    """An installation of version 7 with this record."""
    (folder / LIBRARY).parent.mkdir(parents=True)
    (folder / LIBRARY).write_bytes(DATA)
    (folder / "llvmlite-7.dist-info").mkdir()
    if record is not None:
        (folder / "llvmlite-7.dist-info" / "RECORD").write_text(record)


def line(size, kind="sha256"):
    return (
        f"other,sha256=x,1\n{LIBRARY},{kind}={base64.urlsafe_b64encode(OTHER.digest()).decode().rstrip('=')},{size}\n"
    )


def test_the_record_is_believed_about_a_file_of_its_size(tmp_path):
    installed(tmp_path, line(len(DATA)))
    assert llvm_identity([str(tmp_path / "absent"), str(tmp_path)]) == f"7 sha256 {OTHER.hexdigest()}"


def test_a_record_about_another_file_is_not(tmp_path):
    for number, record in enumerate((line(len(DATA) + 1), line(len(DATA), "md5"), "", None)):
        folder = tmp_path / str(number)
        installed(folder, record)
        assert llvm_identity([str(folder)]) == f"7 sha256 {DIGEST}"


def test_without_the_library_it_is_absent(tmp_path):
    assert llvm_identity([str(tmp_path)]) == "absent"


def test_it_is_in_the_fingerprint_of_stages():
    def fingerprint(identity):
        packages = Packages({"llvmlite": lambda: identity})
        return Fingerprints(packages=packages).of("presk.kernels.stage", ("llvmlite",)).digest

    assert fingerprint("7 sha256 0") != fingerprint("7 sha256 1")
    assert Packages(IDENTITIES).identity("llvmlite") == llvm_identity()
    assert " sha256 " in llvm_identity()
