"""Configuration, credentials, start-up files, rights: what a layer may not bring in silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.images import File, Link
from tests.judging import SITE, Case, dist, failed, found, noted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content

KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
    "-----END OPENSSH PRIVATE KEY-----\n"
)
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


# --- config.moves


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/x.so"),
        ("PYTHONPATH", "/opt"),
        ("PIP_INDEX_URL", "https://i"),
        ("UV_OVERRIDE", "/o"),
        ("NCCL_NVLS_ENABLE", "0"),
        ("VLLM_USE_V1", "0"),
        ("FLASHINFER_CUDA_ARCH_LIST", "12.0"),
        ("PATH", "/evil"),
    ],
)
def test_a_watched_variable_that_nobody_declared_is_refused(
    name: str, value: str, tmp_path: Path
) -> None:
    verdict = Case(added=[{"x": "y"}], config={"Env": [f"{name}={value}"]}).judge(tmp_path)
    assert found(verdict, "config.moves/env").subject == name


def test_a_variable_that_the_recipe_declares_is_no_move(tmp_path: Path) -> None:
    case = Case(
        added=[{"x": "y"}],
        config={"Env": ["VLLM_USE_V1=1"]},
        recipe='[config.env]\nVLLM_USE_V1 = "1"\n',
    )
    verdict = case.judge(tmp_path)
    assert verdict.passed
    assert "config.moves/env-declared" in noted(verdict)


def test_a_variable_that_nothing_depends_on_is_refused_too(tmp_path: Path) -> None:
    verdict = Case(added=[{"x": "y"}], config={"Env": ["BUILD_DATE=2026"]}).judge(tmp_path)
    assert found(verdict, "config.moves/env").subject == "BUILD_DATE"


def test_a_variable_of_the_base_that_is_gone(tmp_path: Path) -> None:
    case = Case(base_config={"Env": ["CUDA_HOME=/usr/local/cuda"]}, config={}, added=[{"x": "y"}])
    assert found(case.judge(tmp_path), "config.moves/env").found == "nothing"


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("Entrypoint", ["bash"], "entrypoint"),
        ("Cmd", ["sleep", "infinity"], "cmd"),
        ("User", "nobody", "user"),
        ("WorkingDir", "/tmp", "working-dir"),
    ],
)
def test_how_the_container_starts_was_changed(
    field: str, value: object, code: str, tmp_path: Path
) -> None:
    base = {"Entrypoint": ["vllm", "serve"], "Cmd": ["--help"], "User": "ray", "WorkingDir": "/w"}
    case = Case(base_config=base, config={**base, field: value}, added=[{"x": "y"}])
    assert found(case.judge(tmp_path), f"config.moves/{code}").subject == field


def test_every_label_is_the_bases_or_the_recipes(tmp_path: Path) -> None:
    base = {"Labels": {"org.opencontainers.image.created": "1", "ai.vllm.build.commit": "a"}}
    now = {
        "Labels": {"org.opencontainers.image.created": "2", "ai.vllm.build.commit": "b", "new": "c"}
    }
    verdict = Case(base_config=base, config=now, added=[{"x": "y"}]).judge(tmp_path)
    assert {f.subject for f in verdict.failures} == {*base["Labels"], "new"}


def test_the_user_root_and_no_user_are_the_same(tmp_path: Path) -> None:
    case = Case(base_config={}, config={"User": "root", "WorkingDir": "/"}, added=[{"x": "y"}])
    assert case.judge(tmp_path).passed


def test_the_path_that_buildkit_writes_over_a_base_without_one_is_said(tmp_path: Path) -> None:
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    verdict = Case(added=[{"x": "y"}], config={"Env": [path]}).judge(tmp_path)
    assert verdict.passed
    assert found(verdict, "config.moves/default-path").subject == "PATH"


# --- secrets.leaked


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("root/.ssh/id_ed25519", KEY),
        ("opt/app/settings.txt", f"token = {GITHUB}\n"),
        ("root/.netrc", "machine example.org login me password hunter2x\n"),
        ("etc/pip.conf", "[global]\nindex-url = https://me:s3cret@example.org/simple\n"),
        ("root/.pypirc", "[pypi]\nusername = __token__\npassword = hunter2x\n"),
        ("root/.npmrc", "//registry.example.org/:_authToken=abc123def\n"),
        ("root/.docker/config.json", '{"auths": {"r.example": {"auth": "bWU6cGFzcw=="}}}'),
        ("root/.cache/huggingface/token", "hf_abcdEFGHijklMNOPqrstUVWXyzABCDefgh"),
        (
            "root/.aws/credentials",
            "aws_secret_access_key = abcdEFGHijklMNOPqrstUVWX0123456789abcdEF\n",
        ),
    ],
)
def test_credentials_in_a_file_of_an_added_layer(path: str, content: str, tmp_path: Path) -> None:
    verdict = Case(added=[{path: content}]).judge(tmp_path)
    leaked = [f for f in verdict.failures if f.code == "secrets.leaked/file"]
    assert {f.subject for f in leaked} == {path}
    assert all(word not in str(leaked) for word in ("hunter2x", GITHUB, "s3cret"))


def test_a_file_that_the_next_layer_deletes_is_still_in_the_image(tmp_path: Path) -> None:
    verdict = Case(added=[{"root/key": KEY}, {"root/.wh.key": b""}]).judge(tmp_path)
    assert "secrets.leaked/buried" in failed(verdict)


def test_a_token_that_is_cut_by_the_end_of_a_chunk_is_found(tmp_path: Path) -> None:
    content = b"-" * ((1 << 20) - 512 * 3 - 10) + b"\n" + GITHUB.encode() + b"\n"
    assert "secrets.leaked/file" in failed(Case(added=[{"opt/x": content}]).judge(tmp_path))


@pytest.mark.parametrize(
    "step",
    [
        f"RUN pip install git+https://{GITHUB}@github.com/o/r",
        "|1 HF_TOKEN=abcdef123456 /bin/sh -c x",
    ],
)
def test_credentials_in_the_history(step: str, tmp_path: Path) -> None:
    assert "secrets.leaked/history" in failed(
        Case(added=[{"x": "y"}], steps=[step]).judge(tmp_path)
    )


def test_credentials_in_the_environment(tmp_path: Path) -> None:
    case = Case(added=[{"x": "y"}], config={"Env": [f"GH={GITHUB}"]})
    assert found(case.judge(tmp_path), "secrets.leaked/setting").subject == "Env GH"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        # what documentation, TLS libraries and templates hold
        ("opt/ssl.py", 'MARK = "-----BEGIN RSA PRIVATE KEY-----\\n"\n'),
        ("opt/lib.bin", b"\0-----BEGIN PRIVATE KEY-----\0-----END PRIVATE KEY-----\0"),
        ("opt/doc.md", "AKIAIOSFODNN7EXAMPLE ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        ("opt/doc.txt", "https://user:password@example.org"),
        ("root/.npmrc", "//registry.example.org/:_authToken=${NPM_TOKEN}\n"),
        ("etc/pip.conf", "[global]\nindex-url = https://${USER}:${PASS}@example.org/simple\n"),
        ("opt/hf_transfer.py", "hf_transfer_enabled_for_everything_here = 1\n"),
    ],
)
def test_what_only_looks_like_a_credential(path: str, content: Content, tmp_path: Path) -> None:
    assert Case(added=[{path: content}], allow=(path,)).judge(tmp_path).passed


def test_a_test_key_inside_a_locked_wheel_is_no_leak(tmp_path: Path) -> None:
    files = dist("tls", "1.0", files={"tls/tests/key.pem": KEY})
    assert Case(added=[files], locked={"tls==1.0": files}).judge(tmp_path).passed


def test_a_file_that_only_the_installer_writes_is_searched_although_its_path_is_locked(
    tmp_path: Path,
) -> None:
    locked = dist("tls", "1.0", files={"tls/__init__.py": ""})
    installer = f"{SITE}/tls-1.0.dist-info/INSTALLER"
    verdict = Case(
        added=[{**locked, installer: GITHUB}], locked={"tls==1.0": {**locked, installer: "pip"}}
    ).judge(tmp_path)
    assert found(verdict, "secrets.leaked/file").subject == installer


def test_a_layers_instructions_with_a_secret_mount_are_clean(tmp_path: Path) -> None:
    step = "RUN --mount=type=secret,id=HF_TOKEN HF_TOKEN=$(cat /run/secrets/HF_TOKEN) ./fetch"
    assert Case(added=[{"x": "y"}], steps=[step]).judge(tmp_path).passed


# --- python.startup


def test_a_new_pth_with_code_is_refused_and_one_of_the_base_is_not(tmp_path: Path) -> None:
    base: dict[str, Content] = {f"{SITE}/distutils-precedence.pth": "import os; os.getpid()\n"}
    assert Case(base=base, added=[{"x": "y"}]).judge(tmp_path / "a").passed
    added: dict[str, Content] = {f"{SITE}/hook.pth": "import hook\n"}
    new = found(Case(base=base, added=[added]).judge(tmp_path / "b"), "python.startup/new")
    assert new.found == "import hook"


def test_a_pth_of_the_base_that_does_something_else(tmp_path: Path) -> None:
    path = f"{SITE}/a.pth"
    case = Case(base={path: "import a\n"}, added=[{path: "import b\n"}])
    assert "python.startup/changed" in failed(case.judge(tmp_path))


def test_a_pth_of_a_locked_wheel_is_said(tmp_path: Path) -> None:
    files = dist("hook", "1.0", files={"hook.pth": "import hook\n"})
    verdict = Case(base={f"{SITE}/a.py": ""}, added=[files], locked={"hook==1.0": files}).judge(
        tmp_path
    )
    assert verdict.passed
    assert "python.startup/locked" in noted(verdict)


def test_limechain_an_overlay_by_pythonpath_with_sitecustomize(tmp_path: Path) -> None:
    overlay = "opt/glm53-gb10-overlay"
    case = Case(
        base=dist("vllm", "0.29.0", files={"vllm/__init__.py": "# base"}),
        added=[
            {f"{overlay}/sitecustomize.py": "import os", f"{overlay}/vllm/__init__.py": "# other"}
        ],
        config={"Env": [f"PYTHONPATH=/{overlay}"]},
    )
    verdict = case.judge(tmp_path)
    assert found(verdict, "python.startup/new").subject == f"{overlay}/sitecustomize.py"
    shadowed = found(verdict, "python.imports/shadowed")
    assert (shadowed.subject, shadowed.found) == ("vllm", f"/{overlay}/vllm/__init__.py")


def test_a_sitecustomize_that_no_interpreter_searches_is_only_a_file(tmp_path: Path) -> None:
    path = "opt/doc/sitecustomize.py"
    assert Case(added=[{path: "x"}], allow=(path,)).judge(tmp_path).passed


def test_a_namespace_package_that_grows_in_another_folder_shadows_nothing(tmp_path: Path) -> None:
    base = {**dist("a", "1", files={"google/a.py": ""}), "usr/lib/python3/dist-packages/x.py": ""}
    added: dict[str, Content] = {"usr/lib/python3/dist-packages/google/b.py": ""}
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    assert not {c for c in failed(verdict) if c.startswith("python.startup")}


# --- files.moves


def test_a_new_program_with_another_users_rights(tmp_path: Path) -> None:
    assert "files.moves/setuid" in failed(
        Case(added=[{"opt/su": File(b"x", mode=0o4755)}]).judge(tmp_path)
    )


def test_a_new_program_with_capabilities(tmp_path: Path) -> None:
    pax = (("SCHILY.xattr.security.capability", "\x01\x00\x00\x02"),)
    assert "files.moves/capability" in failed(
        Case(added=[{"opt/p": File(b"x", pax=pax)}]).judge(tmp_path)
    )


def test_a_file_of_the_base_that_lost_its_capabilities(tmp_path: Path) -> None:
    pax = (("SCHILY.xattr.security.capability", "\x01\x00\x00\x02"),)
    case = Case(base={"usr/bin/ping": File(b"x", pax=pax)}, added=[{"usr/bin/ping": File(b"x")}])
    assert found(case.judge(tmp_path), "files.moves/capability").found == "none"


def test_a_file_of_the_base_that_became_a_link(tmp_path: Path) -> None:
    case = Case(base={"etc/a": "x"}, added=[{"etc/a": Link("b")}])
    assert "files.moves/type-changed" in failed(case.judge(tmp_path))
