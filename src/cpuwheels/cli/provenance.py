"""Commands about provenance: make a key, sign a wheel's provenance, verify it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from cpuwheels.cli.given_values import WHEEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.attestation.sign import Signing
    from cpuwheels.attestation.verify import Trust

_PATH = click.Path(path_type=Path)

EXTRA = "cpuwheels[signing]"
"""What has the libraries."""


class SigningOptions(TypedDict):
    """How to sign, as click names the options."""

    key: str | None
    public_key: Path | None
    keyless: bool
    trust_config: Path | None


class TrustOptions(TypedDict):
    """Whose signatures count, as click names the options."""

    trusted_keys: tuple[Path, ...]
    identity: str | None
    issuer: str | None
    trust_config: Path | None


_TRUST_CONFIG = click.option(
    "--trust-config", type=_PATH, help="Client trust configuration of another instance of Sigstore than the public one."
)
_SIGNING = (
    click.option(
        "--key", help="Sign with a private key: its file, or a URI such as gcpkms:, awskms:, azurekms:, hsm:."
    ),
    click.option("--public-key", type=_PATH, help="File of its public key (default: the private key's with .pub)."),
    click.option("--keyless", is_flag=True, help="Sign for the identity of this CI job, with Sigstore."),
)
_TRUSTED = (
    click.option(
        "--trusted-key",
        "trusted_keys",
        type=_PATH,
        multiple=True,
        help="Trust this public key's file; may be repeated.",
    ),
    click.option("--identity", help="Trust this identity: a workflow's URL with its branch, or an address of mail."),
    click.option("--issuer", help="The service that vouches for it."),
)


def signing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `SigningOptions`."""
    return _with(command, (*_SIGNING, _TRUST_CONFIG))


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `TrustOptions`."""
    return _with(command, (*_TRUSTED, _TRUST_CONFIG))


def _with(command: Callable[..., Any], options: tuple[Callable[..., Any], ...]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def signing_of(options: SigningOptions) -> Signing:
    """Return how to sign.

    Raises:
        UsageError: The libraries are not installed, or an option needs another one.
    """
    from cpuwheels.core.errors import UsageError

    require_libraries()
    from cpuwheels.attestation.sign import Signing

    found = Signing(**options)
    if found.public_key is not None and found.key is None:
        raise UsageError("there is no key to sign with", where="--public-key", next_step="name it with --key")
    return found


def trust_of(options: TrustOptions, *, offline: bool = False) -> Trust:
    """Return whose signatures count.

    Raises:
        UsageError: The libraries are not installed, or an option needs another one.
    """
    from cpuwheels.core.errors import UsageError

    require_libraries()
    from cpuwheels.attestation.keyless import Identity
    from cpuwheels.attestation.verify import Trust

    identity, issuer = options["identity"], options["issuer"]
    if (identity is None) != (issuer is None):
        raise UsageError(
            "an identity is who it is only by the service that vouches for it",
            where="--identity" if identity else "--issuer",
            next_step="give --identity and --issuer together",
        )
    return Trust(
        keys=options["trusted_keys"],
        identity=Identity(identity, issuer) if identity and issuer else None,
        trust_config=options["trust_config"],
        offline=offline,
    )


def require_libraries() -> None:
    """Refuse to go on without what signs and verifies.

    Raises:
        UsageError: It is not installed.
    """
    from cpuwheels.config.installation import require_installed

    libraries = ("pypi_attestations", "securesystemslib", "sigstore")
    require_installed("signatures need", libraries, f"install {EXTRA}")


@click.command("make-key")
@click.argument("file", type=_PATH)
def make_key(file: Path) -> None:
    """Make a key that signs wheels: FILE, which is secret, and FILE.pub for everybody."""
    require_libraries()
    from cpuwheels.attestation.keys import make_key as make
    from cpuwheels.attestation.keys import public_key

    public = make(file)
    print(f"{file}: the private key; keep it where nothing is built")
    print(f"{public}: the public key {public_key(public).keyid}")


@click.command()
@click.argument("wheel", type=WHEEL)
@signing_options
def sign(wheel: Path, **options: Unpack[SigningOptions]) -> None:
    """Sign the provenance of WHEEL, which is made anew from the record next to it.

    In place of WHEEL: the statement of a rebuild, or a rebuilder's rebuilds.json for all statements below it.
    """
    from cpuwheels.core.errors import UsageError

    signing = signing_of(options)
    if not signing:
        raise UsageError("nothing says how to sign", where="sign", next_step="give --key or --keyless")
    from cpuwheels.attestation.sign import sign_wheel
    from cpuwheels.core.console import Reporter
    from cpuwheels.rebuild.signing import sign_rebuild
    from cpuwheels.rebuild.site.folder import open_site
    from cpuwheels.rebuild.site.listing import LIST
    from cpuwheels.rebuild.statement import SUFFIX

    if wheel.name.endswith(SUFFIX):
        print(sign_rebuild(wheel, signing))
        return
    if wheel.name == LIST:
        with open_site(wheel.parent.resolve(), Reporter("sign")) as site:
            for path in site.sign(signing):
                print(path)
        return
    for path in sign_wheel(wheel, signing):
        print(path)


@click.command("verify-provenance")
@click.argument("wheel", type=WHEEL)
@trust_options
@click.option("--offline", is_flag=True, help="Take Sigstore's own keys as they were fetched last, or are installed.")
def verify_provenance(wheel: Path, offline: bool, **options: Unpack[TrustOptions]) -> None:
    """Verify who signed the provenance of WHEEL, next to it, and print what it was built from."""
    trust = trust_of(options, offline=offline)
    from cpuwheels.attestation.facts import lines_of
    from cpuwheels.attestation.verify import verify_provenance as verify

    for line in lines_of(verify(wheel, trust)):
        print(line)
