"""Version of the package, in signatures too."""

__version__ = "0.3.0"
