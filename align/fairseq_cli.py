"""The stock fairseq programs on current versions of Python: `python -m align.fairseq_cli train ...`."""

from align.training.programs import main

if __name__ == "__main__":
    main()
