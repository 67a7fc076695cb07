"""cosign's encrypted key: scrypt and NaCl secretbox (go-securesystemslib, ``encrypted``)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.errors import AttestationError

# cosign writes N=65536 (older: 32768); what asks for more memory than 256 MiB is no key of it
_MEMORY = 256 << 20


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    n: int = Field(alias="N", ge=2)
    r: int = Field(ge=1)
    p: int = Field(ge=1, le=16)


class _Derivation(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: Literal["scrypt"]
    params: _Parameters
    salt: str


class _Cipher(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: Literal["nacl/secretbox"]
    nonce: str


class _EncryptedKey(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    kdf: _Derivation
    cipher: _Cipher
    ciphertext: str


def decrypt(content: bytes, passphrase: bytes | None, where: str) -> bytes:
    """Return the PKCS#8 DER form of a key that ``cosign generate-key-pair`` wrote.

    Raises:
        AttestationError: it is damaged, the passphrase is another, or PyNaCl is not there.
    """
    if passphrase is None:
        raise AttestationError(f"the key `{where}` needs a passphrase")
    try:
        from nacl.exceptions import CryptoError
        from nacl.secret import SecretBox
    except ImportError as error:
        raise AttestationError(
            f"reading cosign's key `{where}` needs PyNaCl",
            hint="install `imagegate[cosign-keys]`",
        ) from error
    try:
        body = b"".join(line for line in content.splitlines() if not line.startswith(b"-----"))
        key = _EncryptedKey.model_validate_json(base64.b64decode(body))
        parameters = key.kdf.params
        if 128 * parameters.n * parameters.r > _MEMORY:
            raise AttestationError(f"the key `{where}` asks for more memory than a key does")
        secret = hashlib.scrypt(
            passphrase,
            salt=base64.b64decode(key.kdf.salt),
            n=parameters.n,
            r=parameters.r,
            p=parameters.p,
            maxmem=2 * _MEMORY,
            dklen=SecretBox.KEY_SIZE,
        )
        box = SecretBox(secret)
        return box.decrypt(base64.b64decode(key.ciphertext), base64.b64decode(key.cipher.nonce))
    except (ValidationError, binascii.Error, ValueError) as error:
        raise AttestationError(f"`{where}` is not cosign's form of a key") from error
    except CryptoError as error:
        raise AttestationError(f"the passphrase of the key `{where}` is another") from error
