"""Codes of what is found out on the core: regularity, effects, initializers, differentiation."""

from typing import Final

from presk.diagnostics.code import Code, paragraphs, program

REGULARITY: Final = (
    Code(
        "E3001",
        "gradient of a discontinuous function",
        paragraphs("""
            The gradient is taken of a function whose value jumps with the parameter: somewhere between them stands a primitive
            such as `argmax`, `sample` or an index. Almost everywhere its derivative is 0, and where it jumps there is none.

            A function has a class in each parameter, the worst on any path to its value: C∞ (smooth), C⁰⁺ (smooth but at kinks,
            as `relu` and `max`), Disc. A gradient needs C⁰⁺ or better. The class is read off the program's text, so a jump that
            cancels out counts all the same.
        """),
        paragraphs("""
            Use a smooth surrogate (`softmax` for `argmax`), or take the gradient in another parameter.
        """),
        program("""
            fn pick(scores : ℝ[10]) -> ℝ[] = real(argmax(scores))
            fn slope(scores : ℝ[10]) -> ℝ[10] = grad(λ s. pick(s))(scores)
        """),
        program("""
            fn pick(scores : ℝ[i: 10]) -> ℝ[] = sum(softmax(axis i, scores)^2)
            fn slope(scores : ℝ[i: 10]) -> ℝ[i: 10] = grad(λ s. pick(s))(scores)
        """),
    ),
)

UNDECLARED: Final = (
    Code(
        "E4001",
        "effect that is not declared",
        paragraphs("""
            The function draws random numbers, with `sample`, `dropout`, `split_key`, a random initializer or a function that
            does, and does not say `uses Rand`. Lambdas count as the function in which they stand. What is drawn depends on a key
            and on nothing else; the declaration tells callers that one is needed.
        """),
        paragraphs("""
            Write `uses Rand` behind the result type.
        """),
        program("""
            fn noisy(key : key, x : ℝ[10]) -> ℝ[10] = dropout(0.1, key, x)
        """),
        program("""
            fn noisy(key : key, x : ℝ[10]) -> ℝ[10] uses Rand = dropout(0.1, key, x)
        """),
    ),
)

LOWERING: Final = (
    Code(
        "E5002",
        "initializer of a stack whose length is not constant",
        paragraphs("""
            A stack is initialized layer by layer, each from its own part of the key, so the number of layers must be known. Here an
            instance is initialized whose `stack{L}` has a symbolic length, at some depth of its tree.
        """),
        paragraphs("""
            Give the instance a constant length where it is initialized.
        """),
        program("""
            module Scale { param w : ℝ[4] init = normal(std = 0.02)
              fn apply(x : ℝ[4]) -> ℝ[4] = x * w }
            module Deep{L : dim} {
              use layers : stack{L}(Scale)
              fn apply(x : ℝ[4]) -> ℝ[4] = layers.apply(x)
            }
            fn made{L : dim}(key : key) -> params Deep{L} uses Rand = Deep{L}.init(key)
        """),
        program("""
            module Scale { param w : ℝ[4] init = normal(std = 0.02)
              fn apply(x : ℝ[4]) -> ℝ[4] = x * w }
            module Deep{L : dim} {
              use layers : stack{L}(Scale)
              fn apply(x : ℝ[4]) -> ℝ[4] = layers.apply(x)
            }
            fn made(key : key) -> params Deep{3} uses Rand = Deep{3}.init(key)
        """),
    ),
)

GRADIENTS: Final = (
    Code(
        "E6001",
        "derivative of second order",
        paragraphs("""
            `grad` stands inside a function that is differentiated itself. Derivatives of derivatives are not taken: the primitives
            that a first derivative introduces have none of their own.
        """),
        paragraphs("""
            Take one gradient, or write the inner derivative out.
        """),
        program("""
            fn curvature(x : ℝ[4]) -> ℝ[4] = grad(λ a. sum(grad(λ b. sum(b^3))(a)))(x)
        """),
        program("""
            fn curvature(x : ℝ[4]) -> ℝ[4] = grad(λ a. sum(3 * a^2))(x)
        """),
    ),
    Code(
        "E6002",
        "gradient of a function value that is not a lambda",
        paragraphs("""
            `grad` takes the gradient of a lambda written in the same body, and a function that is differentiated applies only such
            lambdas: the derivative is made from the lambda's text. Here the function value comes from elsewhere, as a declared
            function without a lambda around it, or a lambda that another lambda captured.
        """),
        paragraphs("""
            Write the lambda where it is used: `grad(λ x. f(x))` in place of `grad(f)`.
        """),
        program("""
            fn energy(x : ℝ[4]) -> ℝ[] = sum(x^2)
            fn slope(x : ℝ[4]) -> ℝ[4] = grad(energy)(x)
        """),
        program("""
            fn energy(x : ℝ[4]) -> ℝ[] = sum(x^2)
            fn slope(x : ℝ[4]) -> ℝ[4] = grad(λ a. energy(a))(x)
        """),
    ),
)
