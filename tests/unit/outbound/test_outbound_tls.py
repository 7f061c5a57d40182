"""TLS: the certificate is for the name, the address is what is dialled."""

import datetime
import ipaddress
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from functions.shared.domain.delivery.targets import HttpResponse, OutboundFailed
from functions.shared.outbound.http import OutboundHttp
from tests.unit.outbound.test_outbound_servers import Receiver, answers, disguised, reply

LOCAL = OutboundHttp("127.0.0.1/32")


def get(url: str, outbound: OutboundHttp = LOCAL) -> HttpResponse:
    return outbound.request("GET", url, timeout_total=0.8, cap_bytes=1000)


def failure(url: str, outbound: OutboundHttp = LOCAL) -> tuple[str, str]:
    with pytest.raises(OutboundFailed) as caught:
        get(url, outbound)
    return caught.value.category, caught.value.message


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    usage = x509.KeyUsage(True, False, False, False, False, True, False, False, False)
    names = x509.SubjectAlternativeName(
        [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    for extension, critical in ((x509.BasicConstraints(True, None), True), (usage, True), (names, False)):
        builder = builder.add_extension(extension, critical)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signed = builder.add_extension(identifier, False).sign(key, hashes.SHA256())
    path = folder / f"{name}.pem"
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + signed.public_bytes(encoding))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context, path


def test_tls_is_checked_for_the_name_although_the_address_is_dialled(tmp_path: Path) -> None:
    server, trusted = certificate(tmp_path, "hooks.example")
    seen: list[object] = []
    server.sni_callback = lambda _sock, name, _context: seen.append(name)

    with Receiver(reply(), server) as receiver:
        outbound = OutboundHttp(
            resolve=answers("8.8.8.8"),
            dial=disguised(receiver.port),
            tls=lambda: ssl.create_default_context(cafile=trusted),
        )

        assert get("https://hooks.example/", outbound).status == 200
        assert "not valid for 'other.example'" in failure("https://other.example/", outbound)[1]

    assert seen == ["hooks.example", "other.example"]


def test_a_certificate_that_no_authority_signed_is_an_ssl_error(tmp_path: Path) -> None:
    server, _ = certificate(tmp_path, "self.example")

    with Receiver(reply(), server) as receiver:
        assert failure(receiver.url) == ("ssl_error", "ssl error: self-signed certificate")

    assert receiver.asked == []


def test_a_server_that_speaks_no_tls_is_an_ssl_error_and_a_silent_one_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert failure(f"https://127.0.0.1:{silent.getsockname()[1]}/")[0] == "timeout"
    with socket.create_server(("127.0.0.1", 0)) as plain:
        threading.Thread(
            target=lambda: plain.accept()[0].sendall(b"HTTP/1.1 200 OK\r\n\r\n"), daemon=True
        ).start()
        assert failure(f"https://127.0.0.1:{plain.getsockname()[1]}/")[0] == "ssl_error"
