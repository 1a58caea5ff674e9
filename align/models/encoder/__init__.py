"""Multilingual encoders, whose states align any pair of their languages."""
