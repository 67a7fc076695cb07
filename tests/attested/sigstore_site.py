"""What keyless signing talks to, on loopback: the CI's token service, a CA and a log.

Written from Fulcio's API (fulcio.proto, ``CreateSigningCertificate``) and certificate profile
(docs/certificate-specification.md), RFC 6962 (SCT), Rekor's openapi.yaml (v1, type ``dsse``) and
GitHub's "OpenID Connect reference"; it signs with keys of its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

if TYPE_CHECKING:
    from collections.abc import Iterator

ISSUER = "https://token.actions.githubusercontent.com"
IDENTITY = "https://github.com/team/served/.github/workflows/promote.yml@refs/heads/main"
REQUEST_TOKEN = "throw-away"
# RFC 6962, 3.3; Fulcio's issuer extensions, the second as DER UTF8String
_SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_OLD_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")


class Key:
    """A P-256 key as trust roots name it."""

    def __init__(self) -> None:
        self.private = ec.generate_private_key(ec.SECP256R1())
        public = self.private.public_key()
        self.der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = hashlib.sha256(self.der).digest()

    def sign(self, content: bytes) -> bytes:
        return self.private.sign(content, ec.ECDSA(SHA256()))

    def log(self, url: str) -> dict[str, Any]:
        """An entry of ``tlogs`` or ``ctlogs`` (protobuf-specs, TransparencyLogInstance)."""
        return {
            "baseUrl": url,
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": _b64(self.der),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": "2020-01-01T00:00:00Z"},
            },
            "logId": {"keyId": _b64(self.id)},
        }


class SigstoreSite:
    """Token service, CA and log; `refuse` names what answers 403."""

    def __init__(self) -> None:
        self.refuse: set[str] = set()
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.entries = 0
        self.root_key, self.certificate_log, self.log = Key(), Key(), Key()
        self.root = _root(self.root_key)
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer({})

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                self._answer(json.loads(self.rfile.read(length)))

            def _answer(self, body: dict[str, Any]) -> None:
                status, answer = site.answer(self.path, dict(self.headers), body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[SigstoreSite]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    @property
    def environment(self) -> dict[str, str]:
        """What GitHub Actions sets in a job with ``id-token: write``."""
        return {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/token?job=1",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }

    @property
    def trusted_root(self) -> dict[str, Any]:
        """protobuf-specs, TrustedRoot v0.1."""
        start = {"start": "2020-01-01T00:00:00Z"}
        certificate = {"rawBytes": _b64(self.root.public_bytes(Encoding.DER))}
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [self.log.log(self.url)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "loopback", "commonName": "loopback"},
                    "uri": self.url,
                    "certChain": {"certificates": [certificate]},
                    "validFor": start,
                }
            ],
            "ctlogs": [self.certificate_log.log(self.url)],
            "timestampAuthorities": [],
        }

    @property
    def trust_config(self) -> dict[str, Any]:
        """protobuf-specs, ClientTrustConfig v0.1."""
        service = {
            "url": self.url,
            "majorApiVersion": 1,
            "validFor": {"start": "2020-01-01T00:00:00Z"},
            "operator": "loopback",
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root,
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service],
                "oidcUrls": [service],
                "rekorTlogUrls": [service],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaUrls": [],
                "tsaConfig": {"selector": "ANY"},
            },
        }

    def answer(
        self, target: str, headers: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        path = urlsplit(target).path
        self.requests.append((target, headers, body))
        if path in self.refuse:
            return 403, {"message": "refused"}
        if path == "/token":
            # "Updating your actions for OIDC": the request's token as bearer, the audience asked
            assert headers["Authorization"].lower() == f"bearer {REQUEST_TOKEN}"
            (audience,) = parse_qs(urlsplit(target).query)["audience"]
            return 200, {"value": _token(audience)}
        if path == "/api/v2/signingCert":
            return 201, self._certify(body)
        assert path == "/api/v1/log/entries"
        return 201, self._log(body)

    def _certify(self, body: dict[str, Any]) -> dict[str, Any]:
        text = base64.b64decode(body["certificateSigningRequest"])
        request = x509.load_pem_x509_csr(text)
        assert request.is_signature_valid
        now = datetime.now(UTC).replace(microsecond=0)
        utf8 = ISSUER.encode()
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.root.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(seconds=5))
            .not_valid_after(now + timedelta(minutes=10))
            .add_extension(_usage(signature=True), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(
                    self.root_key.private.public_key()
                ),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(IDENTITY)]),
                critical=True,
            )
            .add_extension(x509.UnrecognizedExtension(_OLD_ISSUER, utf8), critical=False)
            .add_extension(
                x509.UnrecognizedExtension(_ISSUER, b"\x0c" + bytes([len(utf8)]) + utf8),
                critical=False,
            )
        )
        before = builder.sign(self.root_key.private, SHA256())
        listed = x509.UnrecognizedExtension(_SCT_LIST, self._timestamp(before, now))
        leaf = builder.add_extension(listed, critical=False).sign(self.root_key.private, SHA256())
        chain = [one.public_bytes(Encoding.PEM).decode() for one in (leaf, self.root)]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}

    def _timestamp(self, certificate: x509.Certificate, now: datetime) -> bytes:
        """RFC 6962, 3.2 and 3.3: a list of one SCT over the certificate without it."""
        body = certificate.tbs_certificate_bytes
        moment = int(now.timestamp() * 1000)
        entry = self.root_key.id + struct.pack("!I", len(body))[1:] + body
        signed = struct.pack("!BBQH", 0, 0, moment, 1) + entry + struct.pack("!H", 0)
        signature = self.certificate_log.sign(signed)
        # sha256 is 4 and ecdsa 3 (RFC 5246, 7.4.1.4.1)
        one = struct.pack("!B32sQHBBH", 0, self.certificate_log.id, moment, 0, 4, 3, len(signature))
        one += signature
        listed = struct.pack("!HH", len(one) + 2, len(one)) + one
        # DER, OCTET STRING: lengths from 128 on take a byte that says how many follow
        length = [len(listed)] if len(listed) < 128 else [0x81, len(listed)]
        return b"\x04" + bytes(length) + listed

    def _log(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """Rekor v1, type ``dsse`` 0.0.1: what is logged of an envelope; a tree of this one leaf."""
        assert (proposed["kind"], proposed["apiVersion"]) == ("dsse", "0.0.1")
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        payload = base64.b64decode(envelope["payload"])
        spec = {
            "envelopeHash": _hash(content["envelope"].encode()),
            "payloadHash": _hash(payload),
            "signatures": [
                {"signature": one["sig"], "verifier": verifier}
                for one, verifier in zip(envelope["signatures"], content["verifiers"], strict=True)
            ],
        }
        body = _b64(_canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}))
        index, self.entries = self.entries, self.entries + 1
        entry = {
            "body": body,
            "integratedTime": int(datetime.now(UTC).timestamp()),
            "logID": self.log.id.hex(),
            "logIndex": index,
        }
        leaf = hashlib.sha256(b"\x00" + base64.b64decode(body)).digest()
        note = f"loopback - 1\n1\n{_b64(leaf)}\n"
        signature = _b64(self.log.id[:4] + self.log.sign(note.encode()))
        proof = {
            "checkpoint": f"{note}\n\N{EM DASH} loopback {signature}\n",
            "hashes": [],
            "logIndex": 0,
            "rootHash": leaf.hex(),
            "treeSize": 1,
        }
        promise = _b64(self.log.sign(_canonical(entry)))
        verification = {"inclusionProof": proof, "signedEntryTimestamp": promise}
        return {leaf.hex(): {**entry, "verification": verification}}


def _root(key: Key) -> x509.Certificate:
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "loopback"),
            x509.NameAttribute(NameOID.COMMON_NAME, "loopback"),
        ]
    )
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2049, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
        .add_extension(_usage(signature=False), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.private.public_key()), critical=False
        )
        .sign(key.private, SHA256())
    )


def _usage(*, signature: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signature,
        key_cert_sign=not signature,
        crl_sign=not signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _token(audience: str) -> str:
    """A token as GitHub's service gives it; whoever passes it on does not verify it."""
    now = int(datetime.now(UTC).timestamp())
    claims = {
        "iss": ISSUER,
        "aud": audience,
        "sub": "repo:team/served:ref:refs/heads/main",
        "job_workflow_ref": "team/served/.github/workflows/promote.yml@refs/heads/main",
        "iat": now,
        "exp": now + 300,
    }
    parts = [_url(json.dumps(one).encode()) for one in ({"alg": "RS256", "typ": "JWT"}, claims)]
    return ".".join([*parts, _url(b"signature")])


def _url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _hash(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}


def _canonical(document: dict[str, Any]) -> bytes:
    """RFC 8785 for documents of ASCII texts and small integers."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
