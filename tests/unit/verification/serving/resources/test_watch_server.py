"""What a sandbox's watcher counts."""

from __future__ import annotations

from pathlib import Path

from cpuwheels.verification.serving.resources.watch_server import _shown, others, shared, sockets


def test_sockets_with_names_are_found(tmp_path: Path) -> None:
    table = tmp_path / "unix"
    table.write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000: 00000002 00000000 00010000 0001 01 1 /tmp/a socket\n"
        "0000: 00000002 00000000 00010000 0001 01 2 @abstract\n"
        "0000: 00000003 00000000 00000000 0001 03 3\n"
    )
    assert sockets(table) == {Path("/tmp/a socket")}


def test_the_first_process_and_itself_do_not_count(tmp_path: Path) -> None:
    for name in ("1", "2", "7", "self", "net"):
        (tmp_path / name).mkdir()
    assert others(2, tmp_path) == [tmp_path / "7"]


def test_shared_memory_in_use_is_found_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "maps").write_text("7f0 rw-s 00 /dev/shm/mapped\n7f1 r-xp 00 /usr/lib/libc.so\n")
    (tmp_path / "7" / "fd" / "3").symlink_to("/dev/shm/open (deleted)")
    (tmp_path / "7" / "fd" / "4").symlink_to("/tmp/a")
    assert shared([tmp_path / "7", tmp_path / "8"]) == {Path("/dev/shm/mapped"), Path("/dev/shm/open")}


def test_a_signal_is_told_as_a_shell_does() -> None:
    assert (_shown(0), _shown(3), _shown(-11)) == (0, 3, 139)
