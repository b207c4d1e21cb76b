"""Takes the place of this program's own command line in jobs: makes small results, and does as a folder tells it.

Run as ``python fake_program.py FOLDER [--poisoned] …`` with the arguments of a command. FOLDER gets a line in
``events`` for each beginning and end. A file ``hang-SOURCE`` there makes a build wait until it is gone;
``slow-SOURCE`` makes the first command that finds it wait until it is ended. ``fail-SOURCE`` has the exit codes of the
attempts, the last one for all others.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.store import Store
from shared_stores import make_audit, make_kernels

LIMIT_SECONDS = 120


def options(words: list[str]) -> dict[str, str]:
    return {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}


def note(folder: Path, text: str) -> None:
    with (folder / "events").open("a") as stream:
        stream.write(f"{text}\n")


def obey(folder: Path, source: str) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    try:
        (folder / f"slow-{source}").unlink()
        slow = True
    except FileNotFoundError:
        slow = False
    while slow or (folder / f"hang-{source}").exists():
        if time.monotonic() > end:
            sys.exit("nobody ended this command")
        time.sleep(0.02)
    failing = folder / f"fail-{source}"
    if failing.exists():
        code, *others = failing.read_text().split()
        if others:
            failing.write_text("\n".join(others))
        if int(code) == 0:
            return
        print(f"error: told to fail with {code}", flush=True)
        sys.exit(int(code))


def build(folder: Path, target: str, given: dict[str, str], *, poisoned: bool, kernels_only: bool) -> None:
    source = given["--source"]
    version = f"0.{sum(source.encode())}+cpu"
    key, store = make_key(kernels=target), Store(Path(given["--cache"]))
    if kernels_only:
        make_kernels(store, key)
        make_audit(store, make_key(audit=target))
        print(key, make_key(audit=target), sep="\n")
        return
    if "--store" in given:
        found = [path.parent.name for path in Path(given["--store"]).rglob("kernels/*/description.json")]
        note(folder, f"kernels {source} {' '.join(found)} {'signed' if '--store-key' in given else 'unsigned'}")
    if compiled := "--store" not in given and not store.path("kernels", key).is_dir():
        note(folder, f"compiled {source} {store.root}")
    output = Path(given["--dist"]) / target / version
    output.mkdir(parents=True, exist_ok=True)
    wheel = output / f"vllm-{version}-{target}.whl"
    wheel.write_text(f"{target} {source}{' and something else' if poisoned else ''}\n" * 1000)
    record = {
        "wheel_key": make_key(target=target, source=source),
        "wheel": {
            "file": wheel.name,
            "sha256": file_digest(wheel),
            "size": wheel.stat().st_size,
            "versions": [],
            "policy": "manylinux_2_28",
        },
        "beside": [],
        "jobs": {"compiled_in_this_run": compiled},
    }
    (output / "record.json").write_text(json.dumps(record))
    print(wheel, flush=True)


def main() -> None:
    folder, *words = sys.argv[1:]
    place = Path(folder)
    poisoned = "--poisoned" in words
    given = options(words)
    at = next(at for at, word in enumerate(words) if word in {"build", "parity", "serve"})
    command, target = words[at], words[at + 1]
    source = given.get("--source") or Path(given["--wheel"]).read_text().split()[1]
    kernels_only = "--kernels-only" in words
    what = f"{'kernels' if kernels_only else command} {target} {source}"
    note(place, f"begin {what} {os.getpid()} {given['--cache']}")
    if "--reports" in words:
        Path(given["--wheel"]).with_name(f"{command}.json").write_text("{}")
    obey(place, source if command == "build" else f"{command}-{source}")
    if command == "build":
        build(place, target, given, poisoned=poisoned, kernels_only=kernels_only)
    else:
        Path(given["--wheel"]).with_name(f"{command}.json").write_text(json.dumps({"level": given.get("--level", "")}))
    note(place, f"end {what}")


if __name__ == "__main__":
    main()
