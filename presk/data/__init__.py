"""Data files (`.psk.d`), vocabularies, and the stream of batches that a training reads."""
