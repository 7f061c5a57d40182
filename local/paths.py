"""Where things are in the work tree; everything that is built or kept stays inside it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build"
CLOUD_ASSEMBLY = ROOT / "cdk.out"
FUNCTIONS = ROOT / "functions"
STATE = ROOT / ".local"


def display_path(path: Path) -> str:
    """As short as somebody in the work tree would write it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
