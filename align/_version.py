"""Version of the package, in signatures too."""

__version__ = "0.4.0.dev0"
