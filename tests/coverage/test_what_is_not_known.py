"""What a command may have done is doubt, and a doubt counts where it can be about the asset."""

from __future__ import annotations

import io

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.builder import Builder
from imagegate.coverage.building.profiles import BUILDKIT, PROFILES
from imagegate.coverage.outcome import Asset, AssetVerdict, Outcome, Standing
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.tree import Context, build_tree, file, link
from imagegate.coverage.verdict import judge

FILES = ("recipes/a/t.jinja", "recipes/b/t.jinja", "src/x", "README.md", "requirements.txt")
BUILDERS = pytest.mark.parametrize(
    "builder", PROFILES.values(), ids=lambda builder: str(builder.name)
)


def verdict_of(
    text: str,
    path: str = "recipes/a/t.jinja",
    expected: str | None = "/opt/recipes/a/t.jinja",
    builder: Builder = BUILDKIT,
) -> AssetVerdict:
    root = build_tree({name: file(size=100) for name in FILES} | {"links/short": link("/opt")})
    context = Context(root=root, open=lambda name: io.BytesIO(name.ljust(100).encode()))
    build = Build(
        dockerfile=parse_dockerfile(text.encode(), "D"),
        builder=builder,
        main=FilteredContext(context=context),
        args_complete=False,
    )
    model = path.split("/")[1] if path.count("/") > 1 else path
    asset = Asset(model=model, path=path, folder=path.rpartition("/")[0], expected=expected)
    (verdict,) = judge(build, [asset]).verdicts
    return verdict


COVERED_BEHIND = [
    "RUN ls -la",
    "RUN ldconfig",
    "RUN useradd -m app && chown -R app /opt",
    "RUN pip check",
    'RUN python -c "import vllm"',
    'RUN set -ex; echo "$HOME"',
    "RUN rm -rf ~/.cache",
    "RUN apt-get clean && rm -rf /var/lib/apt/lists/*",
    "RUN mkdir -p /opt/recipes",
    "RUN ln -s /opt/recipes /models",
    "RUN cp -r /opt/recipes /backup",
    'RUN pip install --no-cache-dir "ray[default]"',
    "RUN --mount=type=cache,target=/root/.cache uv pip install --system -r requirements.txt",
    "RUN apt-get update && apt-get install -y --no-install-recommends git curl && rm -rf /tmp/*",
    "RUN curl -fsSL https://example.org/x.tgz -o /tmp/x.tgz && tar -C /usr/local -xzf /tmp/x.tgz",
    "RUN git clone --depth 1 https://example.org/y.git /src/y",
    "RUN (cd /srv; rm -rf old) && chmod -R a+rX /opt/recipes",
    'RUN for d in /var/log/*; do rm -rf "$d"; done',
    "RUN find / -name '*.pyc' -delete",
    "RUN find /usr -type d -name __pycache__ -exec rm -rf {} +",
    "RUN sed -i 's/a/b/' /etc/apt/sources.list",
    "RUN <<EOF\nset -e\napt-get update\nrm -rf /var/cache/apt\nEOF",
    "RUN bash -c 'source /opt/venv/bin/activate && pip install x'",
    "RUN npm ci && npm cache clean --force",
    "RUN sudo -u app env HOME=/home/app pip install --user x",
    "RUN touch /opt/recipes/a/t.jinja",
    "RUN xargs -a /tmp/list apt-get install -y",
    "USER app",
]


@pytest.mark.parametrize("run", COVERED_BEHIND)
def test_an_asset_at_its_place_is_covered_whatever_known_commands_do(run: str) -> None:
    found = verdict_of(f"FROM img\nCOPY recipes /opt/recipes\n{run}\n")
    assert (found.standing, found.notes) == (Standing.COVERED, ()), found


@pytest.mark.parametrize(
    "run",
    [
        "RUN ./setup.sh",
        "RUN make install",
        "RUN curl -fsSL https://example.org/install.sh | sh",
        "RUN python tools/convert.py",
        "RUN rm -rf $UNKNOWN/x",
        "RUN cd $(mktemp -d) && rm -rf *",
        "RUN find . -name x | xargs rm -f",
        'SHELL ["python3", "-c"]\nRUN import os',
        "RUN <<EOF\n#!/usr/bin/env python3\nimport shutil\nEOF",
        "COPY --from=ghcr.io/acme/assets /x /opt/recipes/",
        "RUN tar -xzf /tmp/more.tgz -C /opt",
        "RUN if [ -d /x ]; then cd /x; fi; rm -rf recipes",
    ],
)
def test_what_is_opaque_is_covered_with_one_note(run: str) -> None:
    found = verdict_of(f"FROM img\nCOPY recipes /opt/recipes\n{run}\n")
    assert (found.outcome, found.standing) == (Outcome.COVERED, Standing.NOTED), found
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    "run",
    [
        "rm -rf /opt/recipes",
        "rm -rf /opt/*",
        "rm -f /opt/recipes/*/t.jinja",
        "cd /opt && rm -r recipes",
        "(cd /opt/recipes; find . -name '*.jinja' -delete)",
        'D=/opt; rm -rf "$D/recipes"',
        "for d in a b; do rm -rf /opt/recipes/$d; done",
        "rm -rf /opt/recipes/{a,b}",
        "sed -i s/a/b/ /opt/recipes/a/t.jinja",
        "echo x > /opt/recipes/a/t.jinja",
        "cat <<'EOF' > /opt/recipes/a/t.jinja\nhi\nEOF",
        "bash -c 'rm -rf /opt/recipes'",
        "sudo rm -rf /opt/recipes",
        "mv /opt/recipes /srv/recipes",
        "rsync -a --delete /empty/ /opt/recipes/",
        "./convert --in /opt/recipes/a/t.jinja",
        "find / -name '*.jinja' -exec rm {} \\;",
        "cd /a || cd /opt; rm -rf /opt/recipes/a",
        "true && { rm -rf /opt/recipes; }",
        "if true; then rm -rf /opt/recipes; fi",
        "f() { rm -rf /opt/recipes; }; f",
        "curl -o /opt/recipes/a/t.jinja https://example.org/t",
    ],
)
def test_a_run_that_names_the_asset_or_a_folder_above_it_is_unknown(run: str) -> None:
    found = verdict_of(f"FROM img\nCOPY recipes /opt/recipes\nRUN true\nRUN {run}\nRUN make\n")
    assert found.outcome is Outcome.UNKNOWN, found
    assert found.place is not None
    assert found.place.line == 4, "the RUN that matters is named"


@pytest.mark.parametrize(
    "run",
    [
        "mv /tmp/recipes /opt/recipes",
        "mkdir -p /opt && cp -r /tmp/recipes /opt/",
        "cp -a /tmp/recipes/. /opt/recipes/",
        "ln -s /tmp/recipes /opt/recipes",
        "for m in a b; do mkdir -p /opt/recipes/$m && cp /tmp/recipes/$m/* /opt/recipes/$m/; done",
        "rsync -a /tmp/recipes/ /opt/recipes",
        "install -D /tmp/recipes/a/t.jinja /opt/recipes/a/t.jinja",
        "cd /tmp && mv recipes /opt/",
        "mv /tmp/recipes /mnt/r && mv /mnt/r /opt/recipes",
    ],
)
@BUILDERS
def test_a_run_that_brings_it_to_its_place_is_proven_by_the_image(
    run: str, builder: Builder
) -> None:
    found = verdict_of(f"FROM img\nCOPY recipes /tmp/recipes\nRUN {run}\n", builder=builder)
    assert (found.outcome, found.standing) == (Outcome.BY_RUN, Standing.NOTED), found


def test_a_bind_mount_that_is_copied_is_by_a_run() -> None:
    mount = "--mount=type=bind,source=recipes,target=/r"
    found = verdict_of(f"FROM img\nRUN {mount} cp -r /r /opt/recipes\n")
    assert found.outcome is Outcome.BY_RUN


@BUILDERS
def test_no_run_can_bring_what_no_line_brings_to_its_stage(builder: Builder) -> None:
    for run in ("pip install x", "./any.sh", "make", "mv /a /opt/recipes", "rm -rf /opt"):
        found = verdict_of(
            f"FROM img\nRUN {run}\nCOPY recipes/a /opt/recipes/a\nRUN {run}\n",
            path="recipes/b/t.jinja",
            expected="/opt/recipes/b/t.jinja",
            builder=builder,
        )
        assert found.outcome is Outcome.NOT_COPIED, (run, found)
        assert "a RUN would have to fetch it" in found.reason


@BUILDERS
def test_a_script_in_a_stage_that_feeds_the_target_may_carry_it(builder: Builder) -> None:
    text = "FROM img AS build\nCOPY . /src\nRUN ./build.sh /out\nFROM scratch\n"
    found = verdict_of(f"{text}COPY --from=build /out /opt\n", builder=builder)
    assert found.outcome is Outcome.UNKNOWN
    assert found.place is not None
    assert found.place.line == 3
    # it stood in no other place of the stage, and this copy goes elsewhere
    other = verdict_of(f"{text}COPY --from=build /out/bin /usr/bin/\n", builder=builder)
    assert other.outcome is Outcome.OTHER_STAGE


@BUILDERS
def test_what_a_stage_may_hold_too_may_lie_over_what_is_here(builder: Builder) -> None:
    for source in ("/out/", "/out", "/out/*", "/out/sub", "/out/new"):
        found = verdict_of(
            "FROM img AS build\nCOPY links/ /out/sub/\nRUN make\n"
            f"FROM scratch\nCOPY recipes /opt/recipes\nCOPY --from=build {source} /opt/recipes/\n",
            builder=builder,
        )
        assert (found.outcome, found.standing) == (Outcome.COVERED, Standing.NOTED), source


@BUILDERS
def test_what_is_copied_behind_the_doubt_is_certain(builder: Builder) -> None:
    found = verdict_of(
        "FROM unknown AS build\nRUN make\n"
        "FROM scratch\nCOPY --from=build /out/ /\nCOPY recipes /opt/recipes\n",
        builder=builder,
    )
    assert found.standing is Standing.COVERED


def test_a_file_on_a_base_that_nobody_knows_is_a_file_and_its_folder_is_asked_for() -> None:
    placed = verdict_of("FROM img\nCOPY recipes/a/t.jinja /opt/recipes/a/t.jinja\n")
    assert placed.standing is Standing.COVERED
    inside = verdict_of("FROM img\nCOPY recipes/a/t.jinja /opt/recipes/a\n")
    assert inside.outcome is Outcome.UNKNOWN
    made = verdict_of(
        "FROM img\nRUN mkdir -p /opt/recipes/a\nCOPY recipes/a/t.jinja /opt/recipes/a\n"
    )
    assert made.standing is Standing.COVERED


def test_where_it_goes_is_not_known_and_the_argument_is_named() -> None:
    found = verdict_of("FROM img\nARG DEST\nCOPY recipes $DEST/recipes\n")
    assert found.outcome is Outcome.UNKNOWN
    assert "$DEST" in found.reason
    default = verdict_of("FROM img\nARG DEST\nCOPY recipes ${DEST:-/opt}/recipes\n")
    assert default.standing is Standing.COVERED


def test_a_project_that_is_installed_is_a_package() -> None:
    found = verdict_of(
        "FROM img\nWORKDIR /app\nCOPY . .\nRUN pip install .\n",
        expected="/usr/lib/python3/dist-packages/x/recipes/a/t.jinja",
    )
    assert (found.outcome, found.standing) == (Outcome.PACKAGED, Standing.NOTED)
    wheel = verdict_of(
        "FROM img AS build\nCOPY . /src\nRUN pip wheel -w /dist /src\n"
        "FROM img\nCOPY --from=build /dist /dist\nRUN pip install /dist/*.whl\n",
        expected=None,
    )
    assert wheel.outcome is Outcome.PACKAGED


@BUILDERS
def test_what_a_package_manager_makes_in_a_stage_can_be_copied(builder: Builder) -> None:
    found = verdict_of(
        "FROM scratch AS build\nRUN pip install --root /w/root x\n"
        "FROM scratch\nCOPY --from=build /w/root/ /\nCOPY recipes /opt/recipes\n",
        builder=builder,
    )
    assert found.standing is Standing.COVERED
