"""Realizations: in which machine types the nests of a program compute."""
