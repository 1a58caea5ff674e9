"""The interfaces of other aligners, on translation models: eflomal, simalign, and SIL's machine.py."""
