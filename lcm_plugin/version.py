"""The version of the package, in one place that every module may import."""

VERSION = "0.1.0"
