"""Stages as pure keyed queries, and the store that keeps their results.

This package knows nothing of the language. It gives the rest of the project four things:

* ``presk.cache.stage``: what a stage is (a pure function with a name, declared options and a codec);
* ``presk.cache.engine``: the engine that answers a stage from memory, from the disk, or by computing it;
* ``presk.cache.store``: the content-addressed store under it, which may be damaged or deleted at any time;
* ``presk.cache.maintain``: what the command line does with a store (statistics, size, repair, explanations).

Nothing is imported here: a module that declares a stage imports ``presk.cache.stage`` and ``presk.cache.codec`` only,
so that its fingerprint (see ``presk.cache.fingerprint``) does not hold the engine, and a start-up pays only for what
it uses. ``docs/cache.md`` tells the whole story.
"""
