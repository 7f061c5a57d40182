"""An issuer of tokens on this machine, with the two documents that a gateway reads."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256


class Issuer:
    def __init__(self, url: str) -> None:
        self.url = url
        self._key = _new_key()

    def token(self, *, forged: bool = False, **claims: Any) -> str:
        now = int(time.time())
        issued = {"iss": self.url, "aud": "ostler", "sub": "alice", "iat": now - 5, "exp": now + 300}
        header = {"alg": "RS256", "kid": "one", "typ": "JWT"}
        signed = f"{_encoded(header)}.{_encoded({**issued, **claims})}"
        key = _new_key() if forged else self._key
        return f"{signed}.{_text(key.sign(signed.encode(), PKCS1v15(), SHA256()))}"

    def documents(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256"}
        key |= {name: _text(_bytes(getattr(numbers, name))) for name in ("n", "e")}
        return {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [key]},
        }


@contextmanager
def issuing() -> Iterator[Issuer]:
    documents: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(documents.get(self.path, {})).encode()
            self.send_response(200 if self.path in documents else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
        documents.update(issuer.documents())
        Thread(target=server.serve_forever, daemon=True).start()
        yield issuer
        server.shutdown()


def _new_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


def _encoded(part: dict[str, Any]) -> str:
    return _text(json.dumps(part).encode())


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
