"""What is open to everybody: health, the API's description and the page that shows it."""

import requests

from tests.e2e.service import Service


def test_health_and_documentation_are_open_and_everything_else_is_not(service: Service) -> None:
    base = service.stack.api_url

    health = requests.get(f"{base}/health", timeout=30)
    description = requests.get(f"{base}/openapi.json", timeout=30)
    page = requests.get(f"{base}/docs", timeout=30)
    front = requests.get(f"{base}/", timeout=30)
    kept = requests.get(f"{base}/", headers={"If-None-Match": front.headers["ETag"]}, timeout=30)
    closed = requests.get(f"{base}/api/instances", timeout=30)
    deep = requests.get(f"{base}/health?deep=true", timeout=30)
    heads = [requests.head(f"{base}/health", timeout=30), service.call("HEAD", "/api/instances")]

    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert [(one.status_code, one.content) for one in heads] == [(200, b"")] * 2
    assert description.status_code == 200
    assert description.headers["Content-Type"].startswith("application/json")
    assert description.json()["openapi"].startswith("3.1")
    assert "/api/instances/{instance_id}/start" in description.json()["paths"]
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert "swagger-ui" in page.text.lower()
    assert (front.status_code, kept.status_code, kept.content) == (200, 304, b"")
    for answer in (front, page, description):
        assert answer.headers["Content-Encoding"] == "gzip"
    assert int(front.headers["Content-Length"]) < 100_000
    assert front.text.startswith("<!doctype html>")
    for answer in (closed, deep):
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    for answer in (health, description, page, front, kept, closed, deep):
        assert answer.headers["X-Request-ID"]
        assert answer.headers["X-Correlation-ID"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Strict-Transport-Security"]
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
