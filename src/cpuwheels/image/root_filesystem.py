"""The lowest layer of an image: pinned Debian packages, and the files that their scripts would have made.

Neither apt nor dpkg is in it. What the packages' scripts do on an installed system is done here: users, certificates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.errors import MatrixError
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import content_key, unpacked_root
from cpuwheels.image.layers import Member, folder, folder_members

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock

KIND = "image-roots"
USER = 1000
HOME = "home/vllm"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"

_PASSWD = f"""\
root:x:0:0:root:/root:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
vllm:x:{USER}:{USER}:vLLM:/{HOME}:/bin/sh
"""
_GROUP = f"""\
root:x:0:
nogroup:x:65534:
vllm:x:{USER}:
"""
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"


def base_root(context: BuildContext, lock: DebianLock) -> tuple[Path, str]:
    """Return the unpacked packages of a lock, and the key of their content.

    Args:
        context: The run.
        lock: The base's.

    Raises:
        MatrixError: The lock is empty.
        DownloadError: A package cannot be fetched.
    """
    return _unpacked(context, lock), content_key(lock)


def base_members(root: Path) -> dict[str, Member]:
    """Return the members of the base layer: packages, certificates, the user, and folders that programs expect.

    Args:
        root: The unpacked packages.
    """
    own = {
        "etc/passwd": Member(_PASSWD.encode()),
        "etc/group": Member(_GROUP.encode()),
        "etc/nsswitch.conf": Member(_NSSWITCH.encode()),
        "tmp": folder(0o1777),
        "var/tmp": folder(0o1777),
        "root": folder(0o700),
        HOME: folder(0o755, USER),
        f"{HOME}/.cache": folder(0o755, USER),
        **{name: folder() for name in ("dev", "proc", "run", "sys")},
    }
    if found := sorted((root / "usr/share/ca-certificates").rglob("*.crt")):
        # As update-ca-certificates of Debian's ca-certificates does.
        own[CERTIFICATES] = Member(b"".join(path.read_bytes().rstrip(b"\n") + b"\n" for path in found))
    return folder_members(root) | own


def compiler_members(context: BuildContext, base: str, name: str) -> tuple[dict[str, Member], str]:
    """Return the members that a compiler adds to a base, and the key of their content.

    Args:
        context: The run.
        base: Name of the base's lock.
        name: Name of the compiler's lock; packages that the base has are left out.

    Raises:
        MatrixError: A lock cannot be read, or both have a package in different versions.
        DownloadError: A package cannot be fetched.
    """
    there = {package.name: package for package in load_lock(context.root, base).packages}
    lock = load_lock(context.root, name)
    if differing := [one.name for one in lock.packages if there.get(one.name, one) != one]:
        raise MatrixError(
            f"{', '.join(differing)}: another version than in locks/{base}.yaml",
            where=f"locks/{name}.yaml",
            next_step="resolve both at once: nox -s lock",
        )
    added = lock.model_copy(update={"packages": tuple(one for one in lock.packages if one.name not in there)})
    members = folder_members(_unpacked(context, added))
    # The links of a merged /usr (lib → usr/lib) are the base's matter: here they would replace its folders.
    own = {path: member for path, member in members.items() if "/" in path}
    return own, content_key(added)


def _unpacked(context: BuildContext, lock: DebianLock) -> Path:
    return unpacked_root(lock, KIND, mirrors=debian_mirrors(context), store=context.store, reporter=context.reporter)
