"""Which URLs are taken at all, and what is made of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain.delivery.targets import (
    BadTarget,
    networks,
    parse_target,
    split_place,
    split_target,
)

LOOPBACK = networks("127.0.0.1/32")


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://hooks.example.com/a?b=c", "https://hooks.example.com", "/a?b=c"),
        ("HTTPS://Hooks.Example.COM:443", "https://hooks.example.com", "/"),
        ("http://example.com.:8080?x=1#part", "http://example.com:8080", "/?x=1"),
        ("http://example.com:0080/", "http://example.com", "/"),
        ("https://bücher.example/straße", "https://xn--bcher-kva.example", "/stra%C3%9Fe"),
        ("https://example\u3002com/", "https://example.com", "/"),
        ("https://\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45\uff0ecom/", "https://example.com", "/"),
        ("https://8.8.8.8/@x:1", "https://8.8.8.8", "/@x:1"),
        ("http://0x08080808:81/", "http://8.8.8.8:81", "/"),
        ("https://[2606:4700:4700:0::1111]/", "https://[2606:4700:4700::1111]", "/"),
        ("https://a_b.example.com/%41%20?q='x'", "https://a_b.example.com", "/%41%20?q='x'"),
    ],
)
def test_an_ordinary_url_passes_in_its_usual_spelling(url: str, origin: str, path: str) -> None:
    target = parse_target(url)

    assert (target.origin, target.path) == (origin, path)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "http:example.com",
        "http:/example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "http://:80/",
        "http://./",
        "http://a..b/",
        "http://example.com../",
        f"http://{'a' * 64}.com/",
        f"http://{'a.' * 127}com/",
        f"http://example.com/{'a' * 2048}",
    ],
)
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(BadTarget):
        split_target(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com:80@127.0.0.1/",
        "http://example.com:80@127.0.0.1:81@example.com/",
        "http://@example.com/",
        "http://example.com\uff20127.0.0.1/",
        "http://example.com\\@127.0.0.1/",
        "http://127.0.0.1\\.example.com/",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:99999/",
        "http://example.com:/",
        "http://example.com:+80/",
        "http://example.com:8_0/",
        "http://example.com:\uff18\uff10/",
        "http://example.com:80:81/",
        "http://example.com\uff1a80/",
        "http://example.com:80a/",
        "http://example%2ecom/",
        "http://127.0.0.1%2f@example.com/",
        "http://exa mple.com/",
        "http://example.com/a b",
        "http://example.com/\r\nHost: x",
        "http://example.com/\x00",
        "http://example.com\t/",
        "\nhttp://example.com/",
        "http://exa\u200bmple.com/",
        "http://example.com/\u2028",
        "http://example.com/\ud800",
        "http://exam℀ple.com/",
        "http://straße.example/",
        "http://STRAẞE.example/",
        "http://[::1/",
        "http://::1/",
        "http://[::1]x/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[v1.x]/",
        "http://[8.8.8.8]/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://1.1.1.256/",
        "http://4294967296/",
        "http://08.8.8.8/",
        "http://a.8.8.8/",
        "http://8..8/",
    ],
)
def test_a_url_that_two_readers_could_take_differently_is_refused(url: str) -> None:
    with pytest.raises(BadTarget):
        split_target(url)


def test_the_message_says_what_is_wrong_and_does_not_repeat_the_url() -> None:
    with pytest.raises(BadTarget, match="user name or password") as caught:
        split_target("http://me:s3cret@example.com/?token=s3cret")

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "api.localhost", "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54"],
)
def test_localhost_is_known_to_be_loopback_without_a_resolver(host: str) -> None:
    with pytest.raises(BadTarget, match="loopback"):
        parse_target(f"http://{host}:8080/")

    assert parse_target(f"http://{host}:8080/", LOOPBACK).port == 8080


def test_a_tcp_place_is_read_by_the_same_rules() -> None:
    assert split_place("proxy.us-ca-6.gpu-instance.novita.ai", 62248).host.startswith("proxy.")
    for host, port in [
        ("::1", 22),
        ("a/b", 22),
        ("x@y", 22),
        ("", 22),
        ("example.com", 0),
    ]:
        with pytest.raises(BadTarget):
            split_place(host, port)


@given(st.text(max_size=40), st.text(max_size=20))
def test_whatever_is_typed_is_a_target_or_a_bad_target(host: str, rest: str) -> None:
    try:
        target = split_target(f"http://{host}/{rest}")
    except BadTarget:
        return

    assert target.host.encode("idna").decode().isascii()
    assert target.path.isascii()
    assert split_target(target.origin + target.path) == target
