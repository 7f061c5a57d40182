"""The page at `/`: one document that the asset build puts together from `functions/api/page/`."""

from functools import cache
from pathlib import Path

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from functions.api.documents import Document
from functions.api.requests import wired
from functions.api.responses import content_security_policy

router = APIGatewayHttpRouter()

FOLDER = Path(__file__).parents[1] / "page"
_KEYS = 'data-auth="keys"'


@router.get("/", include_in_schema=False)
def page() -> Response[str]:
    return _document(FOLDER, wired().settings.auth).answer(router.current_event.headers)


@cache
def _document(folder: Path, auth: str) -> Document:
    """Read when somebody opens it: whoever never does pays nothing for it."""
    text = (folder / "index.html").read_text("utf-8").replace(_KEYS, f'data-auth="{auth}"', 1)
    return Document("text/html; charset=utf-8", text, content_security_policy(text, markup_from_text=False))
