"""Every generated program checks without a word, however it is written; one with an error is reported for that error alone."""

from hypothesis import given, settings

from presk.check import check_program
from presk.diagnostics.value import Severity
from presk.elab.files import GivenFiles
from presk.syntax.fmt import Formatted, format_source
from tests.incremental.desk import computed
from tests.programs.entries import MAIN, Generated
from tests.programs.faults import IllTyped
from tests.programs.running import checked, core, encoded, engine
from tests.programs.strategies import examples, ill_typed, programs


@settings(examples(30))
@given(programs())
def test_a_program_checks_and_checking_it_again_computes_nothing(program: Generated) -> None:
    own = engine()
    found, _ = checked(program.files, own)
    assert found.diagnostics == ()
    with own.request() as log:
        again = check_program(own, GivenFiles(encoded(program.files)), MAIN, MAIN)
    assert not isinstance(again, str) and again[0].diagnostics == ()
    assert computed(log) == {}


@settings(examples(60))
@given(ill_typed())
def test_one_error_is_reported_as_what_it_is(program: IllTyped) -> None:
    found, _ = checked(program.files)
    errors = [one for one in found.diagnostics if one.severity is Severity.ERROR]
    assert {one.code for one in errors} == {program.code}
    texts = [text for name in program.files if (text := found.sources.text(name)) is not None]
    wrong = range(texts[0].find(program.wrong), texts[0].find(program.wrong) + len(program.wrong))
    for one in errors:
        span = found.sources.resolve(one.primary.place)
        assert span is not None
        assert len(texts[0].encode()[: span.start.offset].decode()) in wrong, "it is reported at another place"


@settings(examples(15))
@given(programs())
def test_the_formatter_keeps_what_a_program_means(program: Generated) -> None:
    before = core(program.files).program
    for ascii_ in (False, True):
        formatted = {}
        for name, text in program.files.items():
            result = format_source(text.encode(), ascii_=ascii_)
            assert isinstance(result, Formatted)
            formatted[name] = result.text
        assert core(formatted).program == before
