"""The bundled models, one folder each; `extract-align -m NAME` finds them here."""
