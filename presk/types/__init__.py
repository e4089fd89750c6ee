"""The value types of the language: linear dimensions and their decision procedure, axes, shapes, types, parameter trees."""
