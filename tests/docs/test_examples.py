"""The worked example, as whoever copies its folder has it: its own tests, run there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.embedded import Cluster

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
WITHIN_S = 240.0  # they take five; a busy machine takes longer


@pytest.mark.parametrize("name", [folder.name for folder in sorted(EXAMPLES.iterdir())])
def test_an_examples_own_tests_pass(tmp_path: Path, cluster: Cluster, name: str) -> None:
    folder = tmp_path / "copied" / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    here = {"NOTTWICE_TRIAL_URL": cluster.url(database="postgres"), "NOTTWICE_HOME": str(tmp_path)}
    done = subprocess.run(
        [
            Path(sys.executable).with_name("pytest"),
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-q",
            "-Werror",
        ],
        cwd=folder,
        env={**os.environ, **here},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    tests = sum(file.read_text().count("\ndef test_") for file in (folder / "tests").glob("test_*.py"))
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.rsplit(" passed", 1)[0].split()[-1]) >= tests > 10
