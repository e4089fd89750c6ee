"""The acceptance suite of the language: cases in Markdown, their parser, and the test that runs them."""
