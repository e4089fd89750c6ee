"""Every stage of the compiler, in the order of the pipeline, and the codecs of inputs that are given from outside.

What walks over all stages (`presk cache verify`, the tests of keys) reads this table.
"""

from typing import Any, Final

from presk import analysis
from presk import run as running
from presk.ad import stage as ad
from presk.ad import step
from presk.cache.codec import Codec
from presk.cache.stage import Stage
from presk.check import CHECK, IMPORTS, OVERRIDES
from presk.core import stage as core
from presk.elab import codecs, stages
from presk.elab.parsing import CHUNK_TOKENS, PARSE_CHUNK, PARSE_FILE
from presk.elab.references import REFERENCES
from presk.elab.tokenizing import PLACES, TOKENS
from presk.kernels import stage as kernels
from presk.native import stage as native
from presk.typing.stage import TYPING

STAGES: Final[tuple[Stage[Any], ...]] = (
    TOKENS,
    PLACES,
    PARSE_CHUNK,
    PARSE_FILE,
    REFERENCES,
    stages.CONSTANT,
    stages.DIMENSION,
    stages.ALIAS,
    stages.HEADER,
    stages.MODEL,
    stages.SIGNATURE,
    TYPING,
    stages.ASSERTION,
    stages.DATA,
    stages.OPTIMIZER,
    stages.TRAINING,
    stages.SERVE,
    CHECK,
    core.LOWER,
    core.LOWER_INIT,
    core.LOWER_OPTIMIZER,
    analysis.EFFECTS,
    analysis.REGULARITY,
    ad.VJP,
    ad.SIGNATURES,
    ad.DERIVABLE,
    ad.AFTER_AD,
    step.LOWER_STEP,
    running.RUN,
    native.DRIVER,
    kernels.OBJECT,
    kernels.ROUTINES,
)

CODECS: Final[tuple[Codec[Any], ...]] = (
    CHUNK_TOKENS,
    codecs.ELABORATED,
    codecs.OVERRIDE,
    codecs.HEADER,
    codecs.CONST,
    codecs.DIMENSION,
    codecs.ALIAS,
    codecs.MODEL,
    codecs.ASSERTION,
    codecs.OUTLINE,
    codecs.FUNCTION,
    codecs.BLOCK,
    codecs.MARK,
    codecs.DATA_FILE,
    stages.SOURCES,
    IMPORTS,
    OVERRIDES,
    core.NAMES,
    analysis.HEADERS,
    ad.FUNCTION,
    ad.CALLEES,
    running.QUESTION,
    running.ORIGINS,
    running.INPUT_NAMES,
    core.HEADER,
    core.OPTIMIZER,
    step.TRAINING,
    native.AT,
    kernels.KERNEL,
)
