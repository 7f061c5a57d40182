"""Another party's text, made fit to be repeated: short, printable, nothing that looks like a credential."""

import re

MAX_CHARACTERS = 200
MASK = "***"

_CREDENTIALS = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+\S+"),
    re.compile(
        r"(?i)\b[\w-]*(?:passw(?:or)?d|secret|token|api[-_ ]?key|authorization|credentials?|image_?auth)\b"
        r"[\"']?\s*(?:[:=]|\bis\b)\s*\S+"
    ),
    re.compile(r"[^\s/:@]+:[^\s/@]+@"),  # user:password@host
    re.compile(r"\b(?:sk|gh[pousr]|hf|ost|whsec|glpat|dckr_pat|npm|xox[a-z])[-_]\w[\w-]{5,}"),
    re.compile(r"(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[\w+=-]{20,}"),  # long and opaque
)


def quoted(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text[: MAX_CHARACTERS * 10])
    for credential in _CREDENTIALS:
        printable = credential.sub(MASK, printable)
    return " ".join(printable.split())[:MAX_CHARACTERS]
