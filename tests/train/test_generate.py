"""`presk generate`: its tokens are those of the generation function, and what it refuses."""

import json

import pytest

from presk.exact import draws
from presk.train.generate import strides
from tests.cli.console import Console, Ran
from tests.conftest import Golden
from tests.train.models import MODEL, prepared


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """A folder with a model that was trained for a while."""
    made = prepared(Console(tmp_path_factory.mktemp("generate")))
    assert made.presk("train", "net.psk", "--seed", "1").code == 0
    return made


def generated(console: Console, *options: str, prompt: str = "the ") -> Ran:
    return console.presk("generate", "net.psk", "--params", "ckpt", "--prompt", prompt, *options)


def test_lengths_of_contexts() -> None:
    assert strides(1) == [1]
    assert strides(10) == [1, 2, 3, 4, 6, 8, 10]
    assert strides(64) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def test_each_token_is_that_of_the_function(console: Console) -> None:
    """The function itself is run on the exact reference, with the context and the key that each token has."""
    text = generated(console, "--length", "7", "--seed", "3", "--realize", "f64").out.rstrip("\n")
    assert len(text) == 11 and text.startswith("the ")
    characters = sorted(set((console.folder / "text.txt").read_text()))
    for number, (end, length) in enumerate(((4, 4), (5, 4), (6, 6), (7, 6), (8, 8), (9, 8), (10, 8)), 1):
        context = [[characters.index(character) for character in text[end - length : end]]]
        console.write("ctx.json", json.dumps(context))
        key = draws.child(draws.child(draws.master_key(3), 1), number).hex()
        given = ("--input", "ctx=ctx.json", "--arg", f"key={key}", "--params", "ckpt", "--json")
        ran = console.presk("run", "net.psk", "--entry", "generate", *given)
        assert ran.code == 0, ran.err
        (token,) = json.loads(ran.out)["result"]["data"]
        assert characters[token] == text[end], number


def test_what_decides_the_text(console: Console) -> None:
    whole = generated(console, "--length", "30", "--seed", "3").out
    assert generated(console, "--length", "30", "--seed", "3", "--threads", "2").out == whole
    assert whole.startswith(generated(console, "--length", "12", "--seed", "3").out.rstrip("\n"))
    assert generated(console, "--length", "30", "--seed", "4").out != whole
    assert generated(console, "--length", "30", "--seed", "3", "--arg", "temperature=5").out != whole
    narrow = generated(console, "--length", "30", "--seed", "3", "--window", "2").out
    assert narrow != whole and len(narrow) == len(whole)
    assert generated(console, "--length", "0").out == "the \n"


def test_a_long_prompt_ends_in_the_window(console: Console) -> None:
    short = generated(console, "--length", "9", "--seed", "3", prompt="t sat on the")
    long = generated(console, "--length", "9", "--seed", "3", prompt="and the cat sat on the")
    assert long.out.removeprefix("and the ca") == short.out


def test_what_is_refused(console: Console, golden: Golden) -> None:
    console.transcript = ""
    generated(console, prompt="the dog")
    generated(console, prompt="")
    generated(console, "--window", "9")
    generated(console, "--arg", "heat=1")
    generated(console, "--arg", "temperature=warm")
    console.presk("generate", "net.psk", "--params", "nowhere")
    console.write("text2.txt", "0123456789ab" * 9)
    console.presk("data", "pack", "text2.txt", "--window", "8", "--out", "digits.psk.d")
    generated(console, "--data", "digits.psk.d")
    console.write("wide.psk", MODEL.replace("const D : nat = 8", "const D : nat = 16"))
    console.presk("generate", "wide.psk", "--params", "ckpt", "--prompt", "the ")
    console.write("few.psk", MODEL.replace("const V : nat = 15", "const V : nat = 13"))
    console.presk("generate", "few.psk", "--params", "ckpt", "--prompt", "the ")
    head, tail = MODEL.split("fn generate", 1)
    console.write("none.psk", head + tail[tail.index("optimizer") :])
    console.presk("generate", "none.psk", "--params", "ckpt", "--prompt", "the ")
    golden("cli/generate.txt", console.transcript)
