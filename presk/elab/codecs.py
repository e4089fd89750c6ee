"""The codecs of what the stages of elaboration take and give."""

from typing import Final

from presk.cache.codec import TEXT, struct_codec
from presk.elab.data import DataFile
from presk.elab.entities import Elaborated, ModuleHeader
from presk.elab.modules import Outline
from presk.syntax import tree
from presk.types.dim import Dim

PACKAGES: Final = ("islpy",)
"""What the results of elaboration depend on beside the project: the decision procedure's library."""

ELABORATED: Final = struct_codec(Elaborated)
OVERRIDE: Final = struct_codec(Dim | None, "override")
HEADER: Final = struct_codec(ModuleHeader | None, "header or none")
CONST: Final = struct_codec(tree.Const)
DIMENSION: Final = struct_codec(tree.DimDecl)
ALIAS: Final = struct_codec(tree.TypeAlias)
MODEL: Final = struct_codec(tree.Model)
ASSERTION: Final = struct_codec(tree.StaticAssert)
OUTLINE: Final = struct_codec(Outline)
FUNCTION: Final = struct_codec(tree.Fn)
BLOCK: Final = struct_codec(tree.Block)
MARK: Final = TEXT
DATA_FILE: Final = struct_codec(DataFile)
