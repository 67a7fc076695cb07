"""Credentials in a text, by the forms that their issuers or their places give them.

Only forms that are recognisable by themselves are looked for: a prefix that one issuer uses, a
name that says what its value is, a place in an address or a header. What merely looks random is
not guessed at. What is found is what is hidden: one list serves the search and the redaction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# what stands where a credential stood
REDACTED = "[redacted]"
_FEWEST_DIFFERENT = 8
_FEWEST_CHARACTERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of a credential: what it is, what it begins with, and the whole of it."""

    what: str
    anchor: bytes
    pattern: re.Pattern[bytes]


def _form(what: str, anchor: bytes, rest: bytes) -> Form:
    # a letter or digit before or behind would make it a part of something else
    pattern = rb"(?<![0-9A-Za-z_-])(" + re.escape(anchor) + rest + rb")(?![0-9A-Za-z_-])"
    return Form(what=what, anchor=anchor, pattern=re.compile(pattern))


_WORD = rb"[0-9A-Za-z]"
_WIDE = rb"[0-9A-Za-z_-]"
FORMS = (
    *(_form("GitHub token", b"gh%c_" % kind, _WORD + rb"{36}") for kind in b"pousr"),
    _form("GitHub token", b"github_pat_", _WORD + rb"{22}_" + _WORD + rb"{59}"),
    _form("GitLab token", b"glpat-", _WIDE + rb"{20,64}"),
    _form("Hugging Face token", b"hf_", rb"[A-Za-z]{34}"),
    _form("PyPI token", b"pypi-AgEIcHlwaS5vcmc", _WIDE + rb"{50,500}"),
    _form("TestPyPI token", b"pypi-AgENdGVzdC5weXBpLm9yZw", _WIDE + rb"{50,500}"),
    _form("npm token", b"npm_", _WORD + rb"{36}"),
    _form("NVIDIA API key", b"nvapi-", _WIDE + rb"{64}"),
    _form("Slack token", b"xoxb-", rb"[0-9]{8,}-[0-9A-Za-z-]{16,}"),
    _form("Slack token", b"xoxp-", rb"[0-9]{8,}-[0-9A-Za-z-]{16,}"),
    _form("model API key", b"sk-proj-", _WIDE + rb"{40,200}"),
    _form("model API key", b"sk-ant-", _WIDE + rb"{80,200}"),
    _form("AWS access key", b"AKIA", rb"[0-9A-Z]{16}"),
    _form("AWS access key", b"ASIA", rb"[0-9A-Z]{16}"),
    _form("Google API key", b"AIza", _WIDE + rb"{35}"),
)
KEY_ANCHOR = b"-----BEGIN "
_KEY_HEADER = rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
# a header alone is what every TLS library holds; a key has lines of base64 behind it
KEY = re.compile(
    _KEY_HEADER + rb"\s*?\r?\n"
    rb"(?:[A-Za-z-]+: [^\n]*\r?\n)*(?:\r?\n)?[ \t]*[0-9A-Za-z+/=]{40,}"
)
ADDRESS = re.compile(
    rb"(?<![a-z0-9+.-])[a-z0-9+.-]*://[^\s/:@'\"<>{}$]+:([^\s/@'\"<>{}$]+)@[^\s'\"<>{}$]+"
)

_KEY_BEGINS = re.compile(_KEY_HEADER.decode())
_FEWEST_OF_KEY = 40

# --- of texts alone: a line of history, a variable, an argument


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A place that makes its value a credential; the group `value` is what is hidden."""

    what: str
    pattern: re.Pattern[str]


# from the beginning of the word on: a long word is tried once
# one slash is what is left of two in a path
_SCHEME = r"(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]*:/{1,2}"
_VALUE = r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'&;,]+)"
# what follows a word such as `token` may as well be a token of text: then who issues it is named
_ISSUED = r"(?:hf|hugging_?face|auth|access|bearer|api|app|bot|github|gh|gitlab|refresh|session|registry|npm|pypi|id|user|admin|oauth|personal|deploy|security|vault|wandb|ngc|csrf|jwt|sas)"
_CALLED = (
    r"(?:[A-Za-z0-9_.-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key"
    r"|secret[_-]?key|private[_-]?key|client[_-]?secret|credentials?|auth[_-]?token|authtoken)"
    rf"|(?:[A-Za-z0-9_.-]*[_.-])?{_ISSUED}[_-]?token|token)"
)
_RULES = (
    _Rule(
        what="credentials in an address",
        pattern=re.compile(_SCHEME + r"[^\s/:@'\"<>{}$]*:(?P<value>[^\s/@'\"<>{}$]+)@"),
    ),
    _Rule(
        what="credentials in an address",
        pattern=re.compile(_SCHEME + r"(?P<value>[0-9A-Za-z_.~%-]{20,})@"),
    ),
    _Rule(
        what="credentials in an address",
        pattern=re.compile(
            r"[?&](?:x-amz-(?:signature|credential|security-token)|x-goog-signature|signature|sig"
            r"|token|access_token|auth_token|api_?key|key|password|secret)=(?P<value>[^\s&#'\"]+)",
            re.IGNORECASE,
        ),
    ),
    _Rule(
        # RFC 9110, 11.6.2; RFC 6750, 2.1
        what="an authorization header",
        pattern=re.compile(
            r"\b(?:Bearer|Basic|Negotiate)\s+(?P<value>(?=[^\s\"']*[0-9+/=._-])[0-9A-Za-z+/=._~-]{12,})"
            r"|\bAuthorization\s*[:=]\s*[\"']?(?:[A-Za-z]+\s+)?(?P<header>[^\s\"']{8,})",
            re.IGNORECASE,
        ),
    ),
    _Rule(
        what="an authorization header",
        pattern=re.compile(
            r"\b(?:X-[A-Za-z-]*(?:Key|Token|Secret|Api)|PRIVATE-TOKEN|JOB-TOKEN|DEPLOY-TOKEN)\s*:\s*"
            r"[\"']?(?P<value>[^\s\"']{8,})",
            re.IGNORECASE,
        ),
    ),
    _Rule(
        # RFC 7519, 3.1
        what="a JSON web token",
        pattern=re.compile(
            r"(?<![\w-])(?P<value>eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})(?![\w-])"
        ),
    ),
    _Rule(
        what="registry credentials",
        pattern=re.compile(r"\"(?:auth|identitytoken|registrytoken)\"\s*:\s*\"(?P<value>[^\"]+)\""),
    ),
    _Rule(
        # netrc(5); curl(1), `--user`; sshpass(1); docker-login(1)
        what="a password",
        pattern=re.compile(
            r"\b(?:machine|login)\b[^\n]{0,256}?\bpassword\s+(?P<value>\S+)"
            r"|\bcurl\b[^|;&\n]{0,512}?\s(?:-u\s*|--user[ =]|--proxy-user[ =])[\"']?[^\s:\"']+:(?P<user>[^\s\"']+)"
            r"|\bsshpass\s+-p\s*[\"']?(?P<pass>[^\s\"']+)"
            r"|\blogin\b[^|;&\n]{0,256}?\s-p\s*[\"']?(?P<login>[^\s\"']+)"
        ),
    ),
)
# a name whose value is a credential: an assignment, an option, a key of JSON or YAML
_NAMED = re.compile(
    r"(?<![A-Za-z0-9_.-])(?P<quote>[\"']?)(?P<dashes>-{0,2})"
    rf"(?P<name>{_CALLED}|[A-Z][A-Z0-9_]*_TOKEN)(?P=quote)(?:\s*[:=]\s*|(?<=[\w])\s+(?=\S)|\s*,\s*(?=[\"'])){_VALUE}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Credential:
    """A credential in a text.

    Attributes:
        start: where it begins.
        end: where it ends.
        what: which kind it is, for people.
    """

    start: int
    end: int
    what: str


def find_credentials(text: str) -> tuple[Credential, ...]:
    """Find every credential in a text, in the order in which they begin."""
    return tuple(sorted({*_by_form(text), *_keys(text), *_by_place(text), *_by_name(text)}))


# without one of these no rule applies; most texts are paths and versions
_WORTH_A_LOOK = re.compile(
    r":/|-----BEGIN|token|secret|pass|key|auth|credential|bearer|basic|negotiate|login|curl"
    r"|signature|[?&]sig=|eyJ|hf_|gh[pousr]_|github_pat_|glpat-|xox[bp]-|AKIA|ASIA|AIza|npm_|nvapi-"
    r"|pypi-|sk-proj-|sk-ant-|X-|DEPLOY",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Hide every credential in a text."""
    if not _WORTH_A_LOOK.search(text):
        return text
    kept: list[str] = []
    done = 0
    for one in find_credentials(text):
        if one.end <= done:
            continue
        kept += [text[done : max(one.start, done)], REDACTED]
        done = one.end
    return "".join([*kept, text[done:]]) if kept else text


def redact_value(name: str, value: str) -> str:
    """Hide the credentials in a value, its name taken into account.

    Args:
        name: what the value belongs to, for instance a variable.
        value: the value alone.
    """
    lead = f"{name}="
    return redact(f"{lead}{value}")[len(lead) :] if value else value


def redact_document(value: object) -> object:
    """Hide the credentials in every text of a document."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {name: redact_document(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        lines = [one for one in value if isinstance(one, str)]
        if lines and len(lines) == len(value):
            # a key goes over several lines, which a catalog keeps one by one
            whole = "\n".join(lines)
            hidden = redact(whole)
            return lines if hidden == whole else hidden.split("\n")
        return [redact_document(one) for one in value]
    return value


def _by_form(text: str) -> Iterator[Credential]:
    for what, pattern in _AS_TEXT:
        for match in pattern.finditer(text):
            if is_random(match[1].encode()):
                yield Credential(start=match.start(), end=match.end(), what=what)


def _as_text(form: Form) -> tuple[str, re.Pattern[str]]:
    anchor = re.escape(form.anchor.decode())
    return form.what, re.compile(
        form.pattern.pattern.decode().replace(f"({anchor}", f"{anchor}(", 1)
    )


_AS_TEXT = tuple(_as_text(form) for form in FORMS)


def _keys(text: str) -> Iterator[Credential]:
    """Find private keys; one without an end goes on to the end of the text."""
    done = 0
    for match in _KEY_BEGINS.finditer(text):
        if match.start() < done:
            continue
        end = text.find("-----END", match.end())
        done = len(text) if end < 0 else end
        if (
            len(text[match.end() : done].strip()) >= _FEWEST_OF_KEY
            and REDACTED not in text[match.end() : match.end() + len(REDACTED) + 4]
        ):
            yield Credential(start=match.end(), end=done, what="private key")


def _by_place(text: str) -> Iterator[Credential]:
    for rule in _RULES:
        for match in rule.pattern.finditer(text):
            group = match.lastgroup
            if group is not None and is_literal(match[group]):
                yield Credential(start=match.start(group), end=match.end(group), what=rule.what)


def _by_name(text: str) -> Iterator[Credential]:
    for match in _NAMED.finditer(text):
        value = match["value"].strip("\"'")
        spaced = not re.search(r"[:=]", text[match.end("name") : match.start("value")])
        # prose says `password is`; an option is followed by its value
        if spaced and not match["dashes"]:
            continue
        if len(value) >= _FEWEST_CHARACTERS and is_literal(value):
            yield Credential(
                start=match.start("value"),
                end=match.end("value"),
                what=f"a value for `{match['name']}`",
            )


def is_random(body: bytes) -> bool:
    """Leave out examples: ``AKIAIOSFODNN7EXAMPLE``, ``ghp_xxxx…``, ``hf_AAAA…``."""
    lowered = body.lower()
    if any(word in lowered for word in (b"example", b"xxxxxx", b"123456789", b"abcdefgh")):
        return False
    return len(set(body)) >= _FEWEST_DIFFERENT


def is_literal(value: str) -> bool:
    """Leave out what stands for a value: ``$TOKEN``, ``${TOKEN}``, ``<token>``, ``****``."""
    text = value.strip("\"'")
    if not text or text[:1] in ("$", "<", "%", "{") or len(set(text)) < 3:
        return False
    # where engines mount secrets; the path is not a secret
    if text.startswith((REDACTED, "/run/secrets/", "/var/run/secrets/")):
        return False
    return text.lower() not in ("none", "null", "true", "false", "password", "token", "secret")
