"""Where a request that a stranger named may go: public addresses over http or https, and nowhere else."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from urllib.parse import quote

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_LENGTH = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}

_TRANSLATED = "IPv4 in an IPv6 spelling"
# Our own table: what `ipaddress` calls global differs between Python versions.
_NOT_PUBLIC = tuple(
    (ip_network(cidr), kind)
    for kind, cidrs in {
        "unspecified": "0.0.0.0/8 ::/128",
        "loopback": "127.0.0.0/8 ::1/128",
        "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
        "link-local": "169.254.0.0/16 fe80::/10",
        "shared (CGNAT)": "100.64.0.0/10",
        "multicast": "224.0.0.0/4 ff00::/8",
        "a documentation range": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
        "a benchmark range": "198.18.0.0/15 2001:2::/48",
        _TRANSLATED: "::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 2002::/16 2001::/32",
        "reserved": "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23",
    }.items()
    for cidr in cidrs.split()
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # the rest of IPv6 is special or not handed out

_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# IDNA 2003 (Python's codec) and IDNA 2008 make different names of these: \u00df is "ss" to one only.
_AMBIGUOUS = frozenset("\u00df\u03c2")


class BadTarget(ValueError):
    """The message is for the caller and never repeats the URL, which may hold a secret."""


class OutboundFailed(Exception):
    """No answer: category is timeout, connection_refused, connection_reset, network_unreachable,
    dns_resolution_failed, ssl_error, invalid_response, or refused_target (ours: not a public place)."""

    def __init__(self, category: str, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.category = category
        self.message = message
        self.timed_out = timed_out or category == "timeout"  # all the time there was is gone


@dataclass(frozen=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body_prefix: bytes
    elapsed: float  # seconds
    address: str
    cut: str = ""  # the category of what ended the body early; not the cap

    @property
    def timed_out(self) -> bool:
        """It began in time and did not end."""
        return self.cut == "timeout"


@dataclass(frozen=True)
class Target:
    scheme: str
    host: str  # ASCII, lower case, no trailing dot; an address in its usual spelling
    port: int
    path: str  # with the query
    address: Address | None = None  # where the host is one, however it was spelled

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def site(self) -> str:
        """Whose it probably is: the last two labels of a name, or an address with all its ports."""
        if isinstance(self.address, IPv6Address):
            return str(IPv6Network((self.address, 64), strict=False))  # one customer has at least this many
        return self.host if self.address else ".".join(self.host.split(".")[-2:])


def networks(text: str) -> tuple[Network, ...]:
    """The setting OUTBOUND_ALLOW_CIDRS, read."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def forbidden_kind(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """None where a request may go, else what kind of address it is. An opened range opens only itself:
    an IPv4 address within an IPv6 one is judged as well."""
    allowed = tuple(allowed)
    if not any(address in network for network in allowed):
        for network, kind in _NOT_PUBLIC:
            if address in network:
                return kind
        if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
            return "reserved"
    inner = _embedded(address)
    return forbidden_kind(inner, allowed) if inner else None


def _embedded(address: Address) -> IPv4Address | None:
    bits = int(address)
    if bits <= 1 or not any(address in network for network, kind in _NOT_PUBLIC if kind == _TRANSLATED):
        return None
    if bits >> 112 == 0x2002:  # 6to4
        bits >>= 80
    elif bits >> 96 == 0x20010000:  # Teredo hides the client's address by inverting it
        bits = ~bits
    return IPv4Address(bits & 0xFFFFFFFF)


def split_target(url: str) -> Target:
    """The URL as it would be dialled, wherever it leads."""
    if len(url) > MAX_URL_LENGTH:
        raise BadTarget(f"must be at most {MAX_URL_LENGTH} characters long")
    if "\\" in url or any(unicodedata.category(character)[0] in "CZ" for character in url):
        raise BadTarget("must not contain spaces, control characters or backslashes")
    shape = _URL.fullmatch(url)
    if shape is None:
        raise BadTarget("must begin with http:// or https://")
    scheme, authority, rest = shape[1].lower(), shape[2], shape[3]
    if "@" in authority:
        raise BadTarget("must not contain a user name or password")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise BadTarget("must name a host, and a port only as a number")
    port = int(parts[2]) if parts[2] else DEFAULT_PORTS[scheme]
    path = rest if rest.startswith("/") else "/" + rest
    return _target(scheme, parts[1], port, quote(path, safe="!#$%&'()*+,/:;=?@[]~"))


def split_place(host: str, port: int) -> Target:
    return _target("tcp", host, port)


def parse_target(url: str, allowed: Iterable[Network] = ()) -> Target:
    """The URL as it would be dialled, refused where it is known already that it leads nowhere public."""
    target = split_target(url)
    address = target.address
    if address is None and target.host.rpartition(".")[2] == "localhost":  # RFC 6761: never anything else
        address = IPv4Address("127.0.0.1")
    kind = address and forbidden_kind(address, allowed)
    if kind:
        raise BadTarget(f"must lead to a public address; {target.host} is {kind}")
    return target


def _target(scheme: str, text: str, port: int, path: str = "") -> Target:
    if not 1 <= port <= 65535:
        raise BadTarget("port must be between 1 and 65535")
    host, address = _read_host(text)
    return Target(scheme, host, port, path, address)


def _read_host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        return _read_ipv6(text[1:-1])
    name = text.lower()
    if not _AMBIGUOUS.isdisjoint(name):
        raise BadTarget("host must be given in its ASCII form (xn--...)")
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")  # makes ordinary letters, digits and dots of wide ones
        except UnicodeError as error:
            raise BadTarget("host is not a valid name") from error
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadTarget("host is missing or not a valid name")
    if not _NUMBER.fullmatch(labels[-1]):
        return name, None
    address = _read_ipv4(labels)
    return str(address), address


def _read_ipv6(text: str) -> tuple[str, IPv6Address]:
    try:
        address = IPv6Address(text)
    except ValueError as error:
        raise BadTarget("host is not a valid address") from error
    if address.scope_id is not None:
        raise BadTarget("host must not name a network interface")
    return str(address), address


def _read_ipv4(parts: list[str]) -> IPv4Address:
    """As inet_aton reads it: one to four decimal, octal or hex numbers, the last one filling the rest."""
    try:
        *leading, last = [_number(part) for part in parts]
    except ValueError as error:
        raise BadTarget("host is not a valid address") from error
    if len(parts) > 4 or any(number > 255 for number in leading) or last >= 256 ** (5 - len(parts)):
        raise BadTarget("host is not a valid address")
    return IPv4Address(sum(number << 24 - 8 * place for place, number in enumerate(leading)) + last)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)
