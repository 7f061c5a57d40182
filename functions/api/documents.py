"""The documents that browsers open: compressed once, and sent again only when they have changed."""

import base64
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from aws_lambda_powertools.event_handler import Response


@dataclass(frozen=True)
class Document:
    content_type: str
    text: str
    policy: str | None = None  # its own Content-Security-Policy

    def answer(self, headers: Mapping[str, str]) -> Response[str]:
        """For a request with these headers, whose names are in lower case."""
        told = {
            "ETag": self._etag,
            "Cache-Control": "no-cache",  # kept, but asked about each time: a deploy shows at once
            "Vary": "Accept-Encoding",
        }
        if self.policy:
            told["Content-Security-Policy"] = self.policy
        if self._etag in _listed(headers, "if-none-match"):
            return Response(304, self.content_type, "", told)
        if "gzip" not in _listed(headers, "accept-encoding"):
            return Response(200, self.content_type, self.text, told)
        told["Content-Encoding"] = "gzip"
        response = Response(200, self.content_type, self._compressed, told)
        response.base64_encoded = True
        return response

    @cached_property
    def _etag(self) -> str:
        """A weak one, as it stands for the compressed and the plain form alike."""
        told = f"{self.content_type}\n{self.policy}\n{self.text}"
        return f'W/"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'

    @cached_property
    def _compressed(self) -> str:
        return base64.b64encode(gzip.compress(self.text.encode(), 9, mtime=0)).decode()


def _listed(headers: Mapping[str, str], name: str) -> list[str]:
    """The values of a header that has a list, without their weights; one of weight 0 is not wanted."""
    values = [value.strip() for value in headers.get(name, "").split(",")]
    return [value.partition(";")[0].strip() for value in values if not value.endswith((";q=0", "; q=0"))]
