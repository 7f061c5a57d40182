"""Which addresses a request may go to."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functions.shared.domain.delivery.targets import BadTarget, forbidden_kind, networks, parse_target

KINDS = {
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "private": [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
    ],
    "link-local": ["169.254.169.254", "169.254.0.1", "fe80::1", "febf::1", "fe80::1%eth0"],
    "shared (CGNAT)": ["100.64.0.1", "100.100.100.200", "100.127.255.255"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "a documentation range": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "a benchmark range": ["198.18.0.1", "198.19.255.255", "2001:2::1"],
    "reserved": [
        "192.0.0.8",
        "192.88.99.1",
        "240.0.0.1",
        "255.255.255.255",
        "2001:10::1",
        "100::1",
        "5f00::1",
    ],
    "IPv4 in an IPv6 spelling": [
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ],
}
PUBLIC = ["8.8.8.8", "1.1.1.1", "11.0.0.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1"]
PUBLIC += ["198.20.0.1", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1", "2001:4860:4860::8888"]

LOOPBACK_SPELLINGS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1", "0X7F.1",
    "0177.0.0.1", "0177.0.0.01", "127.0.0.0x1", "00000177.0.0.1", "127.0.0.1.",
    "127\u30020\u30020\u30021", "127\uff0e0\uff0e0\uff0e1", "\uff11\uff12\uff17.0.0.1",
    "①②⑦.0.0.1", "0", "0.0.0.0", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]",
    "[::ffff:127.0.0.1]", "[::FFFF:7F00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]", "[2001:0:0:0:0:0:80ff:fffe]",
]  # fmt: skip  # many to a line


@pytest.mark.parametrize(("kind", "address"), [(kind, one) for kind, group in KINDS.items() for one in group])
def test_an_address_that_is_not_public_is_refused_by_its_kind(kind: str, address: str) -> None:
    assert forbidden_kind(ip_address(address)) == kind


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_passes(address: str) -> None:
    assert forbidden_kind(ip_address(address)) is None


@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
def test_this_machine_is_recognised_in_every_spelling(host: str) -> None:
    with pytest.raises(BadTarget, match="must lead to a public address"):
        parse_target(f"http://{host}:8080/hook")


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.16689662"]
)
def test_the_metadata_service_is_recognised_in_every_spelling(host: str) -> None:
    with pytest.raises(BadTarget, match="link-local"):
        parse_target(f"http://{host}/latest/meta-data/")


def test_an_opened_range_opens_itself_and_nothing_beside_it() -> None:
    allowed = networks(" 127.0.0.1/32, ::1/128 ,")

    assert forbidden_kind(IPv4Address("127.0.0.1"), allowed) is None
    assert forbidden_kind(IPv6Address("::1"), allowed) is None
    assert forbidden_kind(IPv4Address("127.0.0.2"), allowed) == "loopback"
    assert forbidden_kind(IPv6Address("::ffff:127.0.0.1"), allowed) == "IPv4 in an IPv6 spelling"
    assert forbidden_kind(IPv4Address("10.0.0.1"), allowed) == "private"


@pytest.mark.parametrize(
    ("cidr", "inside", "outside"),
    [
        ("64:ff9b::/96", "64:ff9b::8.8.8.8", "64:ff9b::10.0.0.1"),
        ("2002::/16", "2002:808:808::1", "2002:a00:1::1"),
        ("2001::/32", "2001:0:1:1:1:1:f7f7:f7f7", "2001:0:1:1:1:1:80ff:fffe"),
        ("::ffff:0:0/96", "::ffff:8.8.8.8", "::ffff:127.0.0.1"),
    ],
)
def test_in_an_opened_translation_range_the_ipv4_address_is_judged_as_well(
    cidr: str, inside: str, outside: str
) -> None:
    assert forbidden_kind(ip_address(inside), networks(cidr)) is None
    assert forbidden_kind(ip_address(outside), networks(cidr)) in ("private", "loopback")


@given(st.ip_addresses())
@example(IPv4Address("192.0.0.9"))
@example(IPv6Address("2001:1::1"))
def test_what_python_knows_not_to_be_global_is_never_let_through(address: IPv4Address | IPv6Address) -> None:
    suspicious = not address.is_global or address.is_multicast or address.is_reserved or address.is_link_local

    assert forbidden_kind(address) is not None or not suspicious


@given(st.ip_addresses(v=4))
def test_a_spelled_address_is_judged_as_the_address_itself(address: IPv4Address) -> None:
    bits, verdicts = int(address), set()
    for host in (str(address), str(bits), hex(bits), f"0{bits:o}", f"{bits >> 24}.{bits & 0xFFFFFF}"):
        try:
            verdicts.add(parse_target(f"http://{host}/").host)
        except BadTarget as error:
            verdicts.add(str(error))

    assert len(verdicts) == 1
