"""The command line: the Typer application and the thin client."""
