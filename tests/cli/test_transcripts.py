"""What each command prints, as transcripts under `tests/golden/cli`: lines of standard error begin with `!`."""

import json
import os

from presk.cli.request import Terminal
from tests.cli.console import BAD, GOOD, Console
from tests.conftest import Golden

TRAINED = """\
dim B
dim T
module Net {
  param e : ℝ[char: 64, next: 64]
  fn apply(x : idx[64][batch: B, seq: T]) -> ℝ[batch: B, seq: T, next: 64] = embed(e, x)
}
fn loss(θ : params Net, x : idx[64][batch: B, seq: T]) -> ℝ[] = mean(Net.apply(θ, x))
optimizer adamw { lr = 1e-3 }
training run {
  model = Net
  objective = loss
  optimizer = adamw
  data = stream "some.psk.d" |> shuffle(seed = 1) |> batch(B = 4)
}
"""


# --- check ------------------------------------------------------------------------------------------------------------


def test_check(console: Console, golden: Golden) -> None:
    console.presk("check", "good.psk")
    console.presk("check", "bad.psk")
    console.presk("check", "warned.psk")
    console.presk("check", "importing.psk")
    console.presk("check", "../lib/../importing.psk", cwd="lib")
    console.presk("check", "good.psk", "bad.psk", "warned.psk")
    golden("cli/check.txt", console.transcript)


def test_check_as_json(console: Console, golden: Golden) -> None:
    ran = console.presk("check", "--message-format", "json", "good.psk", "bad.psk", "importing.psk")
    assert ran.err == ""
    for line in ran.out.splitlines():
        one = json.loads(line)
        assert one.keys() == {"code", "severity", "message", "file", "span", "labels", "notes", "mend"}
    console.presk("check", "--message-format", "json", "good.psk")
    console.presk("check", "--message-format", "yaml", "good.psk")
    golden("cli/check_json.txt", console.transcript)


def test_check_with_a_summary(console: Console, golden: Golden) -> None:
    console.write("trained.psk", TRAINED)
    console.write("empty.psk", "")
    console.presk("check", "--summary", "good.psk", "bad.psk")
    console.presk("check", "--summary", "trained.psk")
    console.presk("check", "--summary", "empty.psk")
    console.presk("check", "--summary", "--message-format", "json", "trained.psk")
    golden("cli/check_summary.txt", console.transcript)


def test_check_with_other_constants(console: Console, golden: Golden) -> None:
    console.write("named.psk", "const σ₁ = 2\nconst D = σ₁ + 1\nstatic assert D <= 4\n".replace("₁", "1"))
    console.presk("check", "named.psk", "--const", "σ1=3")
    console.presk("check", "named.psk", "--const", "σ1=4")
    console.presk("check", "named.psk", "--const", "σ1=4", "--const", "D=4")
    console.presk("check", "named.psk", "--const", "D=1", "--const", "D=2")
    console.presk("check", "named.psk", "--const", " D = 4 ")
    console.presk("check", "importing.psk", "--const", "V=5")
    for wrong in ("E=4", "d=4", "D", "D=", "=4", "D=-1", "D=1.5", "D=four", "D=٤", "D=4=5", "sizes.V=3"):
        console.presk("check", "named.psk", "--const", wrong)
    console.presk("check", "named.psk", "--const", f"D={'9' * 10_001}")
    golden("cli/check_const.txt", console.transcript)


def test_names_of_files(console: Console, golden: Golden) -> None:
    console.write("two words/a name.psk", GOOD)
    console.write("θ/größe.psk", BAD)
    console.write("-dash.psk", GOOD)
    console.presk("check", "two words/a name.psk")
    console.presk("check", "θ/größe.psk")
    console.presk("check", "größe.psk", cwd="θ")
    console.presk("check", "-dash.psk")
    console.presk("check", "--", "-dash.psk")
    console.presk("check", "./-dash.psk")
    golden("cli/names_of_files.txt", console.transcript)


def test_files_that_cannot_be_read(console: Console, golden: Golden) -> None:
    for wrong in (
        "god.psk",
        "lib/size.psk",
        "nowhere/at all.psk",
        "lib",
        ".",
        "",
        "good.psk/inner.psk",
        "good",
        "a\0b",
        "\x1b[31m.psk",
        "x" * 300,
    ):
        console.presk("check", wrong)
    console.presk("check", "good.psk", "missing.psk", "bad.psk")
    (console.folder / "loop.psk").symlink_to("loop.psk")
    (console.folder / "dangling.psk").symlink_to("nothing.psk")
    console.presk("check", "loop.psk")
    console.presk("check", "dangling.psk")
    os.mkfifo(console.folder / "pipe.psk")
    console.presk("check", "pipe.psk")
    console.presk("fmt", "pipe.psk")
    golden("cli/unreadable.txt", console.transcript.replace("\x1b", "␛").replace("\0", "␀"))


# --- dump, fmt, explain -----------------------------------------------------------------------------------------------


def test_dump(console: Console, golden: Golden) -> None:
    console.write("small.psk", "const D = 4 -- a size\nfn f(x : Real[D]) -> Real[D] = x @ y\n")
    console.presk("dump", "small.psk", "--stage", "tokens")
    console.presk("dump", "small.psk", "--stage", "tokens", "--format", "json")
    console.presk("dump", "small.psk", "--stage", "ast")
    console.presk("dump", "small.psk", "--stage", "ast", "--format", "json")
    console.presk("dump", "small.psk", "--stage", "elab")
    console.presk("dump", "good.psk")
    console.presk("dump", "good.psk", "--const", "D=7")
    golden("cli/dump.txt", console.transcript)


GRADIENT = """\
const D = 4
dim B

module Linear{In Out : dim} {
  param w : ℝ[In, Out]
  param b : ℝ[Out]
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x · w + b
}

fn loss(θ : params Linear{D, 2}, x : ℝ[batch: B, D]) -> ℝ[] =
  let y = Linear.apply(θ, x)
  mean(y^2)

fn slope(θ : params Linear{D, 2}, x : ℝ[batch: B, D]) -> params Linear{D, 2} =
  grad(λ θ. loss(θ, x))(θ)
"""


def test_dump_of_stages_of_the_core(console: Console, golden: Golden) -> None:
    console.write("gradient.psk", GRADIENT)
    console.presk("dump", "gradient.psk", "--stage", "core")
    console.presk("dump", "gradient.psk", "--stage", "core", "--entry", "Linear.apply")
    console.presk("dump", "gradient.psk", "--stage", "core-after-ad", "--entry", "slope")
    console.presk("dump", "gradient.psk", "--stage", "realize", "--entry", "slope")
    golden("cli/dump_core.txt", console.transcript)


def test_dump_as_equations(console: Console, golden: Golden) -> None:
    console.write("gradient.psk", GRADIENT)
    console.presk("dump", "gradient.psk", "--stage", "elab", "--format", "unicode")
    console.presk("dump", "gradient.psk", "--stage", "core-after-ad", "--format", "unicode", "--entry", "slope")
    console.presk("dump", "gradient.psk", "--format", "latex", "--const", "D=5")
    console.presk("dump", "gradient.psk", "--format", "latex", "--standalone")
    console.presk("dump", "bad.psk", "--format", "unicode")
    console.presk("dump", "warned.psk", "--format", "unicode")
    golden("cli/dump_equations.txt", console.transcript)


def test_dump_with_options_that_do_not_go_together(console: Console, golden: Golden) -> None:
    for stage, *others in (
        ("tokens", "--format", "unicode"),
        ("ast", "--format", "latex"),
        ("core", "--format", "latex", "--standalone"),
        ("core-after-ad", "--format", "json"),
        ("realize", "--format", "unicode"),
        ("sched", "--format", "json"),
        ("elab", "--standalone"),
        ("elab", "--standalone", "--format", "unicode"),
        ("elab", "--format", "tex"),
        ("tokens", "--mode", "training"),
        ("ast", "--unroll-stack"),
        ("elab", "--entry", "loss", "--format", "unicode"),
        ("core", "--remat", "store"),
        ("core", "--realize", "bf16"),
    ):
        assert console.presk("dump", "good.psk", "--stage", stage, *others).code == 2
    golden("cli/dump_options.txt", console.transcript)


def test_dump_of_what_is_wrong(console: Console, golden: Golden) -> None:
    console.write("broken.psk", "const D = 4\nfn f(x : ℝ[D]) -> ℝ[D] = (x +\nfn g(x : ℝ[D]) -> ℝ[D] = x + z\n")
    for stage in ("tokens", "ast", "elab"):
        console.presk("dump", "broken.psk", "--stage", stage)
    console.presk("dump", "good.psk", "--stage", "typing")
    console.presk("dump", "missing.psk", "--stage", "ast")
    console.presk("dump", "lib", "--stage", "tokens")
    console.presk("dump", "good.psk", "--const", "Q=1")
    golden("cli/dump_wrong.txt", console.transcript)


def test_fmt(console: Console, golden: Golden) -> None:
    untidy = "-- top\nconst  D=4\nfn f( x:Real[D] )->Real[D]=x@x -- why\n"
    path = console.write("untidy.psk", untidy)
    path.chmod(0o640)
    console.presk("fmt", "--check", "untidy.psk", "good.psk")
    console.presk("fmt", "--stdout", "untidy.psk")
    console.presk("fmt", "--stdout", "--ascii", "good.psk")
    assert path.read_text("utf-8") == untidy
    console.presk("fmt", "untidy.psk", "good.psk")
    assert path.stat().st_mode & 0o777 == 0o640
    console.presk("fmt", "--check", "untidy.psk")
    console.presk("fmt", "untidy.psk")
    console.write("broken.psk", "const = 4\n")
    console.presk("fmt", "broken.psk", "good.psk")
    console.presk("fmt", "missing.psk")
    console.presk("fmt", "lib")
    assert [entry.name for entry in console.folder.iterdir() if entry.name.startswith(".")] == []
    golden("cli/fmt.txt", console.transcript)


def test_explain(console: Console, golden: Golden) -> None:
    console.presk("explain", "E2003")
    for other in ("e2003", "E2033", "E9999", "2003", "", "E2003 "):
        console.presk("explain", other)
    golden("cli/explain.txt", console.transcript)


# --- the store --------------------------------------------------------------------------------------------------------


def test_the_store(console: Console, golden: Golden) -> None:
    console.presk("cache", "stats")
    console.presk("check", "good.psk")
    console.presk("cache", "verify", "--all")
    console.presk("cache", "clear")
    console.presk("cache", "verify")
    console.presk("cache", "gc")
    console.presk("cache", "gc", "--max-bytes", "-1")
    console.presk("cache", "stats", env={"PRESK_CACHE": ""})
    console.presk("cache", "forget")
    console.presk("cache")
    golden("cli/cache.txt", console.transcript)


def test_why(console: Console, golden: Golden) -> None:
    console.presk("why", "good.psk", "loss")
    console.presk("why", "good.psk", "fn loss")
    console.presk("why", "good.psk", "Linear.apply")
    console.presk("why", "good.psk", "const D")
    console.presk("why", "good.psk", "los")
    console.presk("why", "good.psk", "qwertz")
    console.presk("why", "missing.psk")
    console.write("good.psk", GOOD.replace("^2)", "^3)").replace("const D = 4", "const D = 5"))
    console.presk("why", "good.psk", "loss")
    console.presk("why", "good.psk", "const D")
    console.presk("why", "good.psk", "Linear.apply")
    golden("cli/why.txt", console.transcript)


# --- help and mistakes ------------------------------------------------------------------------------------------------


def test_help(console: Console, golden: Golden) -> None:
    for command in ("check", "fmt", "explain", "why"):
        console.presk(command, "--help")
    console.presk("cache", "--help")
    for command in ("stats", "verify", "gc", "clear"):
        console.presk("cache", command, "--help")
    golden("cli/help.txt", console.transcript)


def test_mistakes(console: Console, golden: Golden) -> None:
    console.presk("chekc", "good.psk")
    console.presk("check")
    console.presk("check", "--sumary", "good.psk")
    console.presk("check", "good.psk", "--const")
    console.presk("check", "good.psk", "--message-format", "json", "--message-format")
    console.presk("explain")
    console.presk("explain", "E2003", "E2004")
    console.presk("why")
    console.presk("fmt")
    console.presk("dump")
    golden("cli/mistakes.txt", console.transcript)


# --- terminals --------------------------------------------------------------------------------------------------------


def test_colours_and_widths(console: Console, golden: Golden) -> None:
    console.write("wide.psk", f"fn f(x : ℝ[8]) -> ℝ[8] =\n  {'x + ' * 60}y\n")
    colored = console.presk("check", "bad.psk", terminal=Terminal(True, 100))
    assert "\x1b[" in colored.out
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[" not in console.presk("check", "bad.psk", terminal=Terminal(True, 100), env=env).out
    assert "\x1b[" in console.presk("check", "bad.psk", terminal=Terminal(True, 100), env={"NO_COLOR": ""}).out
    assert "\x1b[" not in console.presk("check", "bad.psk").out
    for columns in (40, 80, 200):
        console.presk("check", "wide.psk", terminal=Terminal(True, columns), env={"NO_COLOR": "1"})
    golden("cli/terminals.txt", console.transcript.replace("\x1b", "␛"))
