"""The stock fairseq programs on current versions of Python: `python -m align.fairseq_cli train ...`."""

from align.models.fairseq.programs import main

if __name__ == "__main__":
    main()
