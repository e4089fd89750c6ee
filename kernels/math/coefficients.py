"""Polynomials and constants of the elementary functions, as exact binary64 numbers.

Written by tests/tools/coefficients.py (`--check` compares), which states the method. Beside each polynomial stand what it
approximates, where, and the largest error relative to the function that is computed from it, rounding of coefficients included
and rounding of the evaluation not.
"""

from typing import Final

LN2: Final = (
    float.fromhex("0x1.62e42fefa39efp-1"),
    float.fromhex("0x1.abc9e3b39803fp-56"),
)
"""ln 2 as a sum."""

LN2_SPLIT: Final = (
    float.fromhex("0x1.62e42fefa3800p-1"),
    float.fromhex("0x1.ef35793c76730p-45"),
)
"""ln 2 as a sum, the first of 42 bits, so that its product with an integer of 11 bits is exact."""

PI: Final = (
    float.fromhex("0x1.921fb54442d18p+1"),
    float.fromhex("0x1.1a62633145c07p-53"),
    float.fromhex("-0x1.f1976b7ed8fbcp-109"),
)
"""π as a sum."""

HALF_PI: Final = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62633145c07p-54"),
    float.fromhex("-0x1.f1976b7ed8fbcp-110"),
)
"""π/2 as a sum."""

ROOT_2: Final = (
    float.fromhex("0x1.6a09e667f3bcdp+0"),
    float.fromhex("-0x1.bdd3413b26456p-54"),
)
"""√2 as a sum."""

TURN: Final = (
    float.fromhex("0x1.80ead197f00b4p-1"),
    float.fromhex("-0x1.13e74c58cada8p-56"),
)
"""a₀ as a sum: the derivative of gelu is 0 at −a₀."""

CENTRE: Final = 6.0
"""C of t = (a − C)/(a + C)."""

INVERSE_LN2: Final = float.fromhex("0x1.71547652b82fep+0")
"""Rounded to nearest."""

INVERSE_PI: Final = float.fromhex("0x1.45f306dc9c883p-2")
"""Rounded to nearest."""

TWO_OVER_PI: Final = float.fromhex("0x1.45f306dc9c883p-1")
"""Rounded to nearest."""

INVERSE_PI_BITS: Final = (
    0x28BE60DB9391054A,
    0x7F09D5F47D4D3770,
    0x36D8A5664F10E410,
    0x7F9458EAF7AEF158,
)
"""Bits of 1/π in words of 64, the first of weight 1."""

TWO_OVER_PI_BITS: Final = (
    0x0000000028BE60DB,
    0x9391054A7F09D5F4,
    0x7D4D377036D8A566,
    0x4F10E4107F9458EA,
    0xF7AEF1586DC91B8E,
    0x909374B801924BBA,
    0x827464873F877AC7,
    0x2C4A69CFBA208D7D,
    0x4BAED1213A671C09,
    0xAD17DF904E64758E,
    0x60D4CE7D272117E2,
    0xEF7E4A0EC7FE25FF,
    0xF7816603FBCBC462,
    0xD6829B47DB4D9FB3,
    0xC9F2C26DD3D18FD9,
    0xA797FA8B5D49EEB1,
    0xFAF97C5ECF41CE7D,
    0xE294A4BA9AFED7EC,
    0x47E357421580CC11,
    0xBF1EDAEAFC33EF08,
)
"""Bits of 2/π in words of 64, the first of weight 2³³."""

EXP_32: Final = (
    float.fromhex("0x1.000000000000bp-1"),
    float.fromhex("0x1.555555555550fp-3"),
    float.fromhex("0x1.55555555502a0p-5"),
    float.fromhex("0x1.1111111122b4ap-7"),
    float.fromhex("0x1.6c16c1852c01cp-10"),
    float.fromhex("0x1.a01a014498ae6p-13"),
    float.fromhex("0x1.a01997c656a0fp-16"),
    float.fromhex("0x1.71deec62e8918p-19"),
    float.fromhex("0x1.28af42a60c9fap-22"),
    float.fromhex("0x1.add773f1887c6p-26"),
)
"""(e^r − 1 − r)/r², |r| ≤ 0.34661; error 2^-57.8."""

EXP_64: Final = (
    float.fromhex("0x1.0000000000000p-1"),
    float.fromhex("0x1.5555555555555p-3"),
    float.fromhex("0x1.5555555555558p-5"),
    float.fromhex("0x1.11111111112c2p-7"),
    float.fromhex("0x1.6c16c16c1501ep-10"),
    float.fromhex("0x1.a01a019f5118bp-13"),
    float.fromhex("0x1.a01a01ad6c994p-16"),
    float.fromhex("0x1.71de3d0ff5955p-19"),
    float.fromhex("0x1.27e4cc445eae1p-22"),
    float.fromhex("0x1.ae5b49a071562p-26"),
    float.fromhex("0x1.1f8b7fcfbe730p-29"),
    float.fromhex("0x1.6cebd60b0bc88p-33"),
)
"""(e^r − 1 − r)/r², |r| ≤ 0.34661; error 2^-67.3."""

LOG_32: Final = (
    float.fromhex("0x1.5555555555594p-1"),
    float.fromhex("0x1.999999997f72dp-2"),
    float.fromhex("0x1.249249423c734p-2"),
    float.fromhex("0x1.c71c51d50fa2ap-3"),
    float.fromhex("0x1.7466486178ecdp-3"),
    float.fromhex("0x1.39a0ddfa994c2p-3"),
    float.fromhex("0x1.2f0d5e2c92795p-3"),
)
"""(2·atanh(s)/s − 2)/t, t = s² ≤ 0.02945; error 2^-59.4."""

LOG_64: Final = (
    float.fromhex("0x1.5555555555555p-1"),
    float.fromhex("0x1.9999999999d0ap-2"),
    float.fromhex("0x1.249249243a361p-2"),
    float.fromhex("0x1.c71c724a82c6fp-3"),
    float.fromhex("0x1.745ce20ffd0bcp-3"),
    float.fromhex("0x1.3b2018a521d73p-3"),
    float.fromhex("0x1.0f68463bb8667p-3"),
    float.fromhex("0x1.0f05040883d52p-3"),
)
"""(2·atanh(s)/s − 2)/t, t = s² ≤ 0.02945; error 2^-66.6."""

SIN_32: Final = (
    float.fromhex("-0x1.5555555555555p-3"),
    float.fromhex("0x1.11111111110dcp-7"),
    float.fromhex("-0x1.a01a01a016ef2p-13"),
    float.fromhex("0x1.71de3a53fa3fcp-19"),
    float.fromhex("-0x1.ae6455b835243p-26"),
    float.fromhex("0x1.6124215b2aa03p-33"),
    float.fromhex("-0x1.ae6707117734fp-41"),
    float.fromhex("0x1.90247888ec4bep-49"),
    float.fromhex("-0x1.778dc1c2ad2d2p-58"),
)
"""(sin r − r)/r³, z = r² ≤ (π/2)²; error 2^-61.5."""

SIN_64: Final = (
    float.fromhex("-0x1.5555555555555p-3"),
    float.fromhex("0x1.111111111108ap-7"),
    float.fromhex("-0x1.a01a01a0069dcp-13"),
    float.fromhex("0x1.71de3a3fc8c7ep-19"),
    float.fromhex("-0x1.ae643cdb58b5dp-26"),
    float.fromhex("0x1.611465358c2a2p-33"),
    float.fromhex("-0x1.a53dca1266de7p-41"),
)
"""(sin r − r)/r³, z = r² ≤ (π/4)²; error 2^-62.9."""

COS_64: Final = (
    float.fromhex("0x1.5555555555555p-5"),
    float.fromhex("-0x1.6c16c16c16b45p-10"),
    float.fromhex("0x1.a01a01a001209p-16"),
    float.fromhex("-0x1.27e4fb5fbe299p-22"),
    float.fromhex("0x1.1eed765b3f5d7p-29"),
    float.fromhex("-0x1.937c6633589b8p-37"),
    float.fromhex("0x1.a15feb55dd7f9p-45"),
)
"""(cos r − 1 + r²/2)/r⁴, z = r² ≤ (π/4)²; error 2^-68.7."""

ERF_32: Final = (
    float.fromhex("0x1.20dd750429b6dp+0"),
    float.fromhex("-0x1.812746b03794ep-2"),
    float.fromhex("0x1.ce2f21a038722p-4"),
    float.fromhex("-0x1.b82ce30e5a0a3p-6"),
    float.fromhex("0x1.565bcc333f401p-8"),
    float.fromhex("-0x1.c02d808e44bddp-11"),
    float.fromhex("0x1.f99bcb3a6ceb6p-14"),
    float.fromhex("-0x1.f42b0548c433ap-17"),
    float.fromhex("0x1.b0d8d22ef4a35p-20"),
    float.fromhex("-0x1.189ad60e1224dp-23"),
)
"""erf(x)/x, z = x² ≤ 0.5; error 2^-55.3."""

ERF_64: Final = (
    float.fromhex("0x1.20dd750429b6dp+0"),
    float.fromhex("-0x1.812746b0379e7p-2"),
    float.fromhex("0x1.ce2f21a042c27p-4"),
    float.fromhex("-0x1.b82ce3128a821p-6"),
    float.fromhex("0x1.565bcd0ecc3cbp-8"),
    float.fromhex("-0x1.c02db4184483bp-11"),
    float.fromhex("0x1.f9a32a8881270p-14"),
    float.fromhex("-0x1.f4d2ac1c99f7bp-17"),
    float.fromhex("0x1.b9ea4a11bbd35p-20"),
    float.fromhex("-0x1.5f71de2ec561fp-23"),
    float.fromhex("0x1.f84618941c901p-27"),
    float.fromhex("-0x1.1eae6662f0744p-30"),
)
"""erf(x)/x, z = x² ≤ 0.5; error 2^-64.0."""

ERF_64_LOW: Final = float.fromhex("0x1.1ad86ee1571c2p-56")
"""To be added to the first of ERF_64."""

TAIL_64: Final = (
    (float.fromhex("0x1.8e010d2b8a0eap-1"), float.fromhex("-0x1.d02da7abbbf68p-55")),
    (float.fromhex("-0x1.66eaa7d09640fp-1"), float.fromhex("0x1.e3ec10994d2edp-56")),
    (float.fromhex("0x1.234fe3fd925bdp-1"), float.fromhex("0x1.6d9ecf14623ccp-57")),
    (float.fromhex("-0x1.a7d6577269bbcp-2"), float.fromhex("0x1.e4e0ea3a47b7fp-60")),
    (float.fromhex("0x1.1267d7383db0bp-2"), float.fromhex("0x1.73bbc717630d8p-57")),
    (float.fromhex("-0x1.38b069dbb65c0p-3"), float.fromhex("-0x1.084ef4342c724p-57")),
    (float.fromhex("0x1.33e77775fcb31p-4"), float.fromhex("-0x1.fa95a9a019dd6p-60")),
    (float.fromhex("-0x1.fba9d52f44da6p-6"), float.fromhex("-0x1.679315fa26ec7p-61")),
    (float.fromhex("0x1.48a83bd40d294p-7"), float.fromhex("0x1.e6a31e9452297p-61")),
    (float.fromhex("-0x1.1764cdbf65426p-9"), float.fromhex("-0x1.8a0b5052d3cd6p-64")),
    (float.fromhex("0x1.13bbbdeeffdc3p-15"), float.fromhex("-0x1.f1136a18069dep-74")),
    (float.fromhex("0x1.7c5745edcc77dp-13"), float.fromhex("0x1.1143d63ea5d49p-68")),
    (float.fromhex("-0x1.0f96b0923afafp-14"), float.fromhex("0x1.2ed44d6176d46p-68")),
    (float.fromhex("0x1.207f657bdfc9ap-20"), float.fromhex("0x1.b901a51f65929p-75")),
    (float.fromhex("0x1.c80a83ad64bb8p-18"), float.fromhex("-0x1.9ba7abe1d2592p-73")),
    (float.fromhex("-0x1.e2a6cf86febb3p-20"), float.fromhex("-0x1.e6597dee3a668p-74")),
    (float.fromhex("-0x1.cb254b0b2e67ep-22"), float.fromhex("-0x1.f32541415a0eap-76")),
    (float.fromhex("0x1.4b5e9ee399db9p-22"), float.fromhex("0x1.4c03c4f265b37p-77")),
    (float.fromhex("0x1.4819267e4f5dbp-28"), float.fromhex("0x1.38a3ddb63d7ebp-82")),
    (float.fromhex("-0x1.6f05a5650da8fp-25"), float.fromhex("0x1.994262a663569p-81")),
    (float.fromhex("0x1.24b151a9d5e93p-28"), float.fromhex("-0x1.2c2ea76418888p-82")),
    (float.fromhex("0x1.9280c09dccec0p-28"), float.fromhex("-0x1.ca107831bd200p-84")),
    (float.fromhex("-0x1.f5296e30e6105p-31"), float.fromhex("0x1.f3059750c0443p-85")),
    (float.fromhex("-0x1.d36e66b7a3751p-31"), float.fromhex("0x1.218f12010ddf9p-86")),
    (float.fromhex("0x1.2ec0af4ff65d0p-34"), float.fromhex("0x1.c22588146a6a5p-88")),
    (float.fromhex("0x1.c15e339dc592bp-34"), float.fromhex("0x1.677eef1cc9a58p-88")),
    (float.fromhex("0x1.ff8dc9f3f89c3p-37"), float.fromhex("0x1.a63a74e449c51p-91")),
)
"""Φ(−a)·e^(a²/2)·(a + 6), t = (a − 6)/(a + 6), 0 ≤ a ≤ 40; error 2^-67.0."""

SLOPE_64: Final = (
    (float.fromhex("0x1.c6657e6853013p-2"), float.fromhex("0x1.74d89cee9f6cfp-57")),
    (float.fromhex("-0x1.4376b99ad94a6p-4"), float.fromhex("0x1.e0f1acad20ccap-59")),
    (float.fromhex("0x1.dac68526dfb7dp-5"), float.fromhex("-0x1.5d806825c2e21p-59")),
    (float.fromhex("-0x1.3dc104a8b1cdep-5"), float.fromhex("-0x1.b06b353f91aa2p-62")),
    (float.fromhex("0x1.807d2b6b891e7p-6"), float.fromhex("0x1.fe56eb6e50bacp-61")),
    (float.fromhex("-0x1.9fa21f5260108p-7"), float.fromhex("-0x1.a859abccd0dbcp-61")),
    (float.fromhex("0x1.8a93fa4ec61d3p-8"), float.fromhex("-0x1.287edcb96bf11p-62")),
    (float.fromhex("-0x1.40193e0247d7fp-9"), float.fromhex("-0x1.777052e8f2df3p-64")),
    (float.fromhex("0x1.a6077a5b5ddcfp-11"), float.fromhex("0x1.f4acb9b707ed8p-65")),
    (float.fromhex("-0x1.91002d09bd316p-13"), float.fromhex("0x1.0e583ef7a9cadp-67")),
    (float.fromhex("0x1.36b84bc0f05a0p-16"), float.fromhex("0x1.ac255df6308edp-71")),
    (float.fromhex("0x1.129f066e4d401p-17"), float.fromhex("-0x1.c6e2270c0cb0dp-73")),
    (float.fromhex("-0x1.1e1d590b8dbf6p-18"), float.fromhex("-0x1.2f613025ad771p-73")),
    (float.fromhex("0x1.1d80c86b93c1dp-21"), float.fromhex("-0x1.af82f7528f54ap-75")),
    (float.fromhex("0x1.222a9f4c404f8p-22"), float.fromhex("0x1.2a9d4fe2aad9ap-79")),
    (float.fromhex("-0x1.027fa92008cd9p-23"), float.fromhex("-0x1.9a8d05161fa7cp-77")),
    (float.fromhex("-0x1.cd0044fb8d7ffp-29"), float.fromhex("0x1.2610be04266d6p-84")),
    (float.fromhex("0x1.ee6e62cdb84cdp-27"), float.fromhex("-0x1.7a59b84befe39p-85")),
    (float.fromhex("-0x1.1209a11840308p-29"), float.fromhex("0x1.253d3e52e20c0p-84")),
    (float.fromhex("-0x1.9fc405a12dec9p-30"), float.fromhex("0x1.b7f7d987263f8p-88")),
    (float.fromhex("0x1.e05e9136ba18cp-32"), float.fromhex("-0x1.600f35a6dd0f3p-87")),
    (float.fromhex("0x1.6a8d0578286a4p-33"), float.fromhex("0x1.6b07d8465a417p-87")),
    (float.fromhex("-0x1.2bbbb630187bap-34"), float.fromhex("-0x1.d771d18946faap-88")),
    (float.fromhex("-0x1.81570a216d6d3p-36"), float.fromhex("-0x1.62c9dacd5e0f3p-90")),
    (float.fromhex("0x1.e440c646e3b06p-38"), float.fromhex("0x1.e3d99a28bd980p-92")),
    (float.fromhex("0x1.9b1acd07a1b49p-39"), float.fromhex("-0x1.7b8581dedc728p-93")),
    (float.fromhex("0x1.5f7830499a820p-43"), float.fromhex("0x1.84c93228ea37cp-98")),
)
"""(Φ(−a) − a·φ(a))·e^(a²/2)/(a₀ − a), t = (a − 6)/(a + 6), 0 ≤ a ≤ 40; error 2^-70.2."""

TAIL_32: Final = (
    float.fromhex("0x1.0000000000000p-1"),
    float.fromhex("0x1.7b7c9900f7f28p-1"),
    float.fromhex("0x1.17b5342a8e46bp-1"),
    float.fromhex("0x1.0606a89c06207p-2"),
    float.fromhex("0x1.53dc03cd4a657p-4"),
    float.fromhex("0x1.3aca94c0ad0bbp-6"),
    float.fromhex("0x1.9fe5d479f1a38p-9"),
    float.fromhex("0x1.7aa1c1c422ef5p-12"),
    float.fromhex("0x1.b1646ee346654p-16"),
    float.fromhex("0x1.e0166cb4f80c1p-21"),
)
"""Φ(−a)·e^(a²/2), 0 ≤ a ≤ 15, is TAIL_32 / TAIL_32_BELOW; error 2^-54.8."""

TAIL_32_BELOW: Final = (
    float.fromhex("0x1.0000000000000p+0"),
    float.fromhex("0x1.23df614fccd27p+1"),
    float.fromhex("0x1.34bc0aab97bf0p+1"),
    float.fromhex("0x1.8fe547379515ep+0"),
    float.fromhex("0x1.6024f4cf944dep-1"),
    float.fromhex("0x1.b9f96ef14594bp-3"),
    float.fromhex("0x1.91e915e98a30ep-5"),
    float.fromhex("0x1.06bf3f4813d45p-7"),
    float.fromhex("0x1.dbb8490fc8660p-11"),
    float.fromhex("0x1.0f969ead414eep-14"),
    float.fromhex("0x1.2cd9ac54d2939p-19"),
)
"""See TAIL_32."""

SLOPE_32: Final = (
    float.fromhex("0x1.54851a5cc1ec8p-1"),
    float.fromhex("0x1.36797717c791fp+0"),
    float.fromhex("0x1.0f613e22926eap+0"),
    float.fromhex("0x1.2581f8f689a14p-1"),
    float.fromhex("0x1.ae1f73271a610p-3"),
    float.fromhex("0x1.ba1027ed17007p-5"),
    float.fromhex("0x1.3ef843fc73870p-7"),
    float.fromhex("0x1.38a6e4b72bed2p-10"),
    float.fromhex("0x1.7bebaae46da54p-14"),
    float.fromhex("0x1.b7fb7cec8140ap-19"),
)
"""(Φ(−a) − a·φ(a))·e^(a²/2)/(a₀ − a), 0 ≤ a ≤ 15, is SLOPE_32 / SLOPE_32_BELOW; error 2^-54.4."""

SLOPE_32_BELOW: Final = (
    float.fromhex("0x1.0000000000000p+0"),
    float.fromhex("0x1.0b691a5e3bc79p+1"),
    float.fromhex("0x1.0045a936202d4p+1"),
    float.fromhex("0x1.2879885d5c80ap+0"),
    float.fromhex("0x1.c9a1b7ecbafa2p-2"),
    float.fromhex("0x1.ea744f3bec23dp-4"),
    float.fromhex("0x1.6e90787e0d13bp-6"),
    float.fromhex("0x1.728e072d45d96p-9"),
    float.fromhex("0x1.cf34656f035b5p-13"),
    float.fromhex("0x1.13b7d321894d6p-17"),
)
"""See SLOPE_32."""
