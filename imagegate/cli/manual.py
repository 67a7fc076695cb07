"""What each command's help says beyond its options: examples, exit codes, files, environment."""

from __future__ import annotations

from dataclasses import dataclass

import click

# characters of a command's first sentence
_WHOLE_LINE = 200
Rows = tuple[tuple[str, str], ...]

INTERRUPTED = ("130", "interrupted; existing files are intact")
_USAGE = ("2", "invalid input")
_WORKSPACE: Rows = (
    ("images/NAME/image.toml", "the recipe, with requirements.in and recipes/ beside it"),
    ("locks/NAME/, locks/bases/", "what the layer may add, and what the base holds"),
)
_BASES: Rows = (
    ("locks/bases/DIGEST/", "what one base holds"),
    (
        "locks/trust.toml",
        "whose base locks are trusted: `[[trusted]]`, `key = FILE` or `identity` and `issuer`",
    ),
)
_LAYOUT = ("build/NAME/", "the OCI image layout that was built")
_ACCOUNTS: Rows = (
    (
        "DOCKER_CONFIG",
        "folder of docker's config.json; its accounts and credential helpers are used",
    ),
    ("REGISTRY_AUTH_FILE", "podman's credentials file"),
    ("HTTPS_PROXY, NO_PROXY", "proxy settings for registries"),
    ("REQUESTS_CA_BUNDLE", "additional certificates to trust"),
)
_CACHE: Rows = (
    ("IMAGEGATE_CACHE", "where downloads are kept; ~/.cache/imagegate by default"),
    ("PIP_INDEX_URL, PIP_…", "pip's own configuration, which downloads follow"),
)
_DOCKER = ("DOCKER_HOST", "the docker daemon; docker's current context if unset")
_SUMMARY = ("GITHUB_STEP_SUMMARY", "set by GitHub Actions: the job's summary gets the report too")
_FACTS: Rows = (("0", "printed"), _USAGE, ("3", "the host could not be reached, or gave no facts"))
_LAUNCHED: Rows = (
    ("0", "everything matches what was judged"),
    ("1", "something does not; each finding names the node"),
    ("2", "no profile is named, or there is none with that name"),
    ("3", "a node gave no facts, or something needed could not be seen"),
)
_PROFILE_FILES: Rows = (
    ("profiles/NAME.env", "what was published"),
    ("profiles/NAME.json", "what is started, from `[serve]`"),
    ("profiles/NAME.probe.json", "what a good start took, if `launch probe` stored it"),
)
_JUDGED = ("3", "could not judge: a blob, a lock or the network failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """The sections of one command's help.

    Attributes:
        examples: command lines and what they do.
        exits: exit codes and what they mean.
        files: what is read and written.
        environment: variables that are obeyed.
        sections: further sections, by their title.
    """

    examples: Rows
    exits: Rows
    files: Rows = ()
    environment: Rows = ()
    sections: tuple[tuple[str, Rows], ...] = ()


MANUALS = {
    "init": Manual(
        examples=(
            ("imagegate init", "a workspace in the current folder"),
            ("imagegate init serving --name glm", "one in serving/, whose recipe is glm"),
            ("imagegate init --base registry.example/vllm@sha256:…", "filled in from the base"),
            ("imagegate init --base docker-daemon:vllm:1.2", "from an engine's image"),
        ),
        exits=(
            ("0", "written"),
            ("2", "a file of the recipe exists; nothing is replaced"),
            ("3", "the base cannot be read; nothing is written"),
            INTERRUPTED,
        ),
        files=_WORKSPACE,
        environment=(_DOCKER, *_ACCOUNTS),
    ),
    "lock": Manual(
        examples=(
            ("imagegate lock glm", "after a change of recipe, requirements or assets"),
            ("imagegate lock glm --base registry.example/vllm@sha256:…", "take over another base"),
            ("imagegate lock glm --base oci:build/vllm-gb10", "read it from a layout"),
            (
                "imagegate lock --all --trust release.pub",
                "fetch base locks that a trusted signer published",
            ),
            ("imagegate lock --all --check --format markdown", "for a comment on a pull request"),
            ("imagegate lock glm --verify-base", "compare the base's lock with the base's bytes"),
        ),
        exits=(
            ("0", "locked"),
            ("1", "with --check: a lock is stale; with --verify-base: the base's lock is wrong"),
            _USAGE,
            ("3", "could not lock: the base, the network, or a requirement that cannot be met"),
            INTERRUPTED,
        ),
        files=_WORKSPACE,
        environment=(*_CACHE, *_ACCOUNTS),
    ),
    "base": Manual(
        examples=(
            ("imagegate base list", "which bases are locked, and which recipes use them"),
            (
                "imagegate base read registry.example/vllm@sha256:…",
                "read a base and write its lock",
            ),
            ("imagegate base push glm --sign release.key", "publish the lock of glm's base"),
            ("imagegate base pull glm --trust release.pub", "fetch it instead of reading the base"),
            ("imagegate base prune --dry-run", "which base locks are unused"),
        ),
        exits=(("0", "done"), _USAGE, _JUDGED, INTERRUPTED),
        files=_BASES,
        environment=_ACCOUNTS,
    ),
    "base list": Manual(
        examples=(
            ("imagegate base list", "which bases are locked, and which recipes use them"),
            ("imagegate base list --format json", "the same for programs"),
        ),
        exits=(("0", "done"), _USAGE, _JUDGED, INTERRUPTED),
        files=_BASES,
    ),
    "base read": Manual(
        examples=(
            (
                "imagegate base read registry.example/vllm@sha256:…",
                "read a base and write its lock",
            ),
            ("imagegate base read oci:base --again", "again, for example if its lock is in doubt"),
        ),
        exits=(("0", "done"), _USAGE, _JUDGED, INTERRUPTED),
        files=_BASES,
        environment=_ACCOUNTS,
    ),
    "base push": Manual(
        examples=(
            ("imagegate base push glm --sign release.key", "publish the lock of the base of glm"),
            ("imagegate base push sha256:… --to registry.example/vllm --keyless", "as a CI job"),
        ),
        exits=(("0", "done"), _USAGE, _JUDGED, INTERRUPTED),
        files=_BASES,
        environment=_ACCOUNTS,
    ),
    "base pull": Manual(
        examples=(
            ("imagegate base pull glm --trust release.pub", "fetch it instead of reading the base"),
        ),
        exits=(("0", "done"), _USAGE, _JUDGED, INTERRUPTED),
        files=_BASES,
        environment=_ACCOUNTS,
    ),
    "base prune": Manual(
        examples=(("imagegate base prune --dry-run", "which base locks are unused"),),
        exits=(("0", "done"), _USAGE, _JUDGED, INTERRUPTED),
        files=_BASES,
    ),
    "mv": Manual(
        examples=(("imagegate mv glm glm-gb10", "rename images/glm and locks/glm"),),
        exits=(("0", "renamed"), _USAGE, _JUDGED),
        files=_WORKSPACE,
    ),
    "build": Manual(
        examples=(
            ("imagegate build glm", "without a daemon and without the base"),
            ("imagegate build glm --engine docker", "with the recipe's Dockerfile"),
        ),
        exits=(("0", "built and passed"), ("1", "built and failed"), _USAGE, _JUDGED, INTERRUPTED),
        files=(
            *_WORKSPACE,
            _LAYOUT,
            ("build/NAME.verdict.json", "the verdict"),
            ("build/NAME.build.json", "what made the digest"),
        ),
        environment=(*_CACHE, _DOCKER, *_ACCOUNTS),
    ),
    "verify": Manual(
        examples=(
            ("imagegate verify", "every recipe's build"),
            ("imagegate verify glm --image registry.example/glm@sha256:…", "one in a registry"),
            ("imagegate verify glm --html report.html", "with an HTML report"),
            (
                "imagegate verify glm --attested release.pub --max-age 24",
                "accept a verdict signed within a day",
            ),
            ("imagegate verify --static", "only the locks, as a pre-commit hook does"),
        ),
        exits=(("0", "passed"), ("1", "findings"), _USAGE, _JUDGED, INTERRUPTED),
        files=(*_WORKSPACE, _LAYOUT),
        environment=(_DOCKER, *_ACCOUNTS, _SUMMARY),
    ),
    "promote": Manual(
        examples=(
            ("imagegate promote glm --why 'NCCL fix'", "publish the build"),
            ("imagegate promote glm --to registry.example/glm", "push it first"),
            ("imagegate promote glm --sign release.key", "sign it and its statements"),
            (
                "imagegate promote glm --attested release.pub",
                "accept a stored verdict that is still valid",
            ),
            ("imagegate promote glm --keyless", "sign as the GitHub Actions job that runs this"),
            ("imagegate promote glm --rollback --why 'hangs'", "publish the previous state"),
        ),
        exits=(
            ("0", "published"),
            ("1", "not passed, or no digest: the profile is unchanged"),
            _USAGE,
            ("3", "could not judge, push, sign or write: the profile is unchanged"),
            ("130", "interrupted: the profile is the old one or the new one"),
        ),
        files=(
            *_WORKSPACE,
            _LAYOUT,
            ("profiles/NAME.env", "what launchers read; replaced in one step"),
            ("profiles/NAME.json", "the history with who, when and why, and the settings"),
            ("profiles/verdicts/", "the verdicts that profiles name"),
        ),
        environment=(
            *_ACCOUNTS,
            ("ACTIONS_ID_TOKEN_REQUEST_URL", "set by GitHub Actions: who --keyless signs as"),
            ("GITHUB_ACTOR", "set by GitHub Actions: who publishes; the user without it"),
        ),
    ),
    "load": Manual(
        examples=(
            ("imagegate load glm", "into this machine's docker"),
            ("imagegate load glm --host ssh://spark-2", "into the docker of another node"),
            ("imagegate load glm --engine podman --base oci:base", "base layers out of a layout"),
        ),
        exits=(
            ("0", "the engine holds the image, compared with what was sent"),
            ("1", "the engine holds another image under its id"),
            _USAGE,
            ("3", "a layer is nowhere, or the engine is absent, refuses or fails"),
            INTERRUPTED,
        ),
        files=(*_PROFILE_FILES[:1], _LAYOUT),
        environment=(_DOCKER, *_ACCOUNTS),
    ),
    "inspect": Manual(
        examples=(
            ("imagegate inspect glm", "a recipe's build; the base's contents come from its lock"),
            ("imagegate inspect oci:FOLDER", "a layout"),
            ("imagegate inspect docker-daemon:glm --format json", "an image of docker, as data"),
        ),
        exits=(("0", "printed"), _USAGE, _JUDGED, INTERRUPTED),
        files=(*_WORKSPACE, _LAYOUT),
        environment=(_DOCKER, *_ACCOUNTS),
    ),
    "diff": Manual(
        examples=(
            ("imagegate diff oci:old oci:build/glm", "two images"),
            ("imagegate diff glm ../main/locks/glm", "two locks"),
        ),
        exits=(("0", "the same"), ("1", "they differ"), _USAGE, _JUDGED, INTERRUPTED),
        files=(_WORKSPACE[1],),
        environment=(_DOCKER, *_ACCOUNTS),
    ),
    "coverage": Manual(
        examples=(
            ("imagegate coverage --discover", "write a first coverage.toml"),
            ("imagegate coverage", "everything that coverage.toml lists"),
            ("imagegate coverage runtime --strict", "one of its builds, notes fail too"),
            (
                "imagegate coverage --recipes 'recipes/*'",
                "this folder's Dockerfile, without coverage.toml",
            ),
            ("imagegate coverage --recipes 'recipes/*' --fix", "write the missing lines"),
            (
                "imagegate coverage -f Dockerfile --recipes 'ex/*.jinja' --expect ex=/opt/templates",
                "files, and where they have to be",
            ),
            ("imagegate coverage -f - --recipes .", "a Dockerfile from standard input"),
            ("imagegate coverage --list-context", "what is sent to the builder"),
        ),
        sections=(
            (
                "Patterns, of --recipes and --exclude",
                (
                    ("models.json", "one file"),
                    ("recipes/*", "each folder in recipes/, with all its files"),
                    ("examples/*.jinja", "files; * and ? stay inside one name, [ab] is one of two"),
                    ("recipes/**", "every file below recipes/, at any depth"),
                    ("**/chat_template.jinja", "at any depth"),
                    ("conf/{a,b}.yaml", "alternatives"),
                    (".", "the whole context"),
                ),
            ),
            (
                "Expectations, of --expect and `expect`",
                (
                    ("recipes=/opt/recipes", "what is below recipes/ is below /opt/recipes"),
                    ("recipes/{model}=/opt/{model}/r", "{model} stands for part of the path"),
                    ("models.json=/etc/m.json", "the file itself"),
                    ("models.json=/etc/", "into a folder"),
                    ("examples/*.jinja=/opt/t", "what a wildcard names keeps its name"),
                ),
            ),
            (
                "Keys of coverage.toml; [defaults] takes all but the first two",
                (
                    ("[[build]]", "one or more Dockerfiles that are built alike"),
                    ("name, dockerfile", "for reports; patterns of Dockerfiles"),
                    ("context", "relative to the file; {folder} is the Dockerfile's own folder"),
                    ("assets, expect", 'as above; expect is a table, "SRC" = "DST"'),
                    ("target", "a stage, or several"),
                    ("build_args, build_args_complete", "values; true: there are no others"),
                    ("matrix", 'a table such as { PYTHON = ["3.11", "3.12"] }: all combinations'),
                    ("platforms, builders", "lists; see --platform and --builder"),
                    ("build_contexts", "named contexts, a table"),
                    ("run_keeps, strict", "as the options"),
                    ("[[bake]] file, targets", "as `docker buildx bake --print` describes them"),
                    ("[[compose]] file, services", "as `docker compose config` describes them"),
                ),
            ),
        ),
        exits=(
            ("0", "every asset ends up in the image, possibly with notes"),
            ("1", "one does not, or it cannot be known"),
            ("2", "a file, a pattern or a build cannot be used; the other builds are judged"),
            ("3", "buildx or compose is needed and not installed"),
        ),
        files=(
            ("coverage.toml", "what to judge; or [tool.imagegate.coverage] in pyproject.toml"),
            ("Dockerfile", "what is judged"),
            ("Dockerfile.dockerignore, .dockerignore", "what keeps files from the builder"),
        ),
        environment=(_SUMMARY,),
    ),
    "node": Manual(
        examples=(("imagegate node facts", "this host, in a few lines"),),
        exits=_FACTS,
    ),
    "node facts": Manual(
        examples=(
            ("imagegate node facts --json --weights /models/glm", "the whole document"),
            ("imagegate node facts --on 'ssh spark-2'", "another host, which needs only Python"),
        ),
        exits=_FACTS,
    ),
    "launch": Manual(
        examples=(("imagegate launch check glm --on 'ssh spark-1' --on 'ssh spark-2'", "before"),),
        exits=_LAUNCHED,
        files=_PROFILE_FILES,
    ),
    "launch check": Manual(
        examples=(
            ("imagegate launch check glm --on 'ssh spark-1' --on 'ssh spark-2'", "both hosts"),
            ("imagegate launch check glm --facts a.json --facts b.json", "from recorded facts"),
            ("imagegate launch check glm --here --running --variant long", "what runs here"),
        ),
        exits=_LAUNCHED,
        files=_PROFILE_FILES,
    ),
    "launch args": Manual(
        examples=(
            ("imagegate launch args glm", "the command that serves, quoted for sh"),
            ("imagegate launch args glm --what env --here", "the variables of this node"),
            ("imagegate launch args glm --override=--max-model-len=65536", "judged like the rest"),
        ),
        exits=(
            ("0", "written"),
            ("1", "the image's own parser refuses it"),
            _USAGE,
            ("3", "the node gave no facts"),
        ),
        files=_PROFILE_FILES,
    ),
    "launch precompile": Manual(
        examples=(("imagegate launch precompile glm --on 'ssh spark-1'", "before the start"),),
        exits=(
            ("0", "every expected kernel is there"),
            ("1", "refused, or a kernel is missing"),
            _USAGE,
            ("3", "a node could not be reached, or the build failed"),
        ),
        files=_PROFILE_FILES,
    ),
    "launch down": Manual(
        examples=(("imagegate launch down glm --on 'ssh spark-1' --on 'ssh spark-2'", "both"),),
        exits=(
            ("0", "nothing is left"),
            ("1", "something is left; it is named"),
            _USAGE,
            ("3", "a node could not be reached"),
        ),
        files=_PROFILE_FILES,
    ),
    "launch probe": Manual(
        examples=(
            ("imagegate launch probe glm --url http://spark-1:8000", "after the start"),
            ("imagegate launch probe glm --before a.json --facts b.json", "and what it took"),
        ),
        exits=(
            ("0", "every answer is right"),
            ("1", "one is not"),
            _USAGE,
            ("3", "the server could not be reached"),
        ),
        files=_PROFILE_FILES,
    ),
    "profile": Manual(
        examples=(("imagegate profile show glm", "what launchers read"),),
        exits=(("0", "holds"), ("1", "does not hold"), _USAGE, _JUDGED),
        files=(("profiles/NAME.env", "what launchers read"),),
    ),
    "profile show": Manual(
        examples=(
            ("imagegate profile show glm", "the variables, and who published them when and why"),
            ("imagegate profile show glm --history", "everything that was published"),
        ),
        exits=(("0", "shown"), _USAGE, ("3", "there is no such profile, or it was edited")),
        files=(
            ("profiles/NAME.env", "what launchers read"),
            ("profiles/NAME.json", "the history"),
        ),
    ),
    "profile check": Manual(
        examples=(
            ("imagegate profile check glm", "against what was published"),
            ("imagegate profile check --all", "every profile"),
            ("imagegate profile check glm --node --engine podman", "before a launch on this node"),
        ),
        exits=(
            ("0", "holds"),
            ("1", "does not hold"),
            _USAGE,
            ("3", "there is no such profile, it was edited, or the engine does not answer"),
        ),
        files=(
            ("profiles/NAME.env", "what launchers read"),
            ("profiles/verdicts/", "the verdict that it names"),
            _WORKSPACE[1],
        ),
        environment=(_DOCKER,),
    ),
    "profile retire": Manual(
        examples=(
            ("imagegate profile retire glm --why 'served by glm-next now'", "its history stays"),
        ),
        exits=(
            ("0", "retired"),
            _USAGE,
            ("3", "there is no such profile, or it cannot be written"),
        ),
    ),
    "keygen": Manual(
        examples=(
            ("imagegate keygen release", "release.key and release.pub"),
            ("imagegate keygen release --algorithm ecdsa-p256", "for tools without Ed25519"),
        ),
        exits=(("0", "written"), ("2", "a file exists; a key is never replaced")),
        files=(("PREFIX.key", "the private key, mode 0600"), ("PREFIX.pub", "the public key")),
    ),
    "overview": Manual(
        examples=(
            ("imagegate overview", "images grouped by base and pins"),
            ("imagegate overview --details --drift", "a line each, with what registries say"),
            ("imagegate overview --html images.html", "also as a page"),
        ),
        exits=(("0", "shown, whatever the images' states are"), _USAGE),
        files=(*_WORKSPACE, ("profiles/", "what is published, and the stored verdicts")),
    ),
    "admission": Manual(
        examples=(
            ("imagegate admission kyverno glm --key k.pub", "with Kyverno"),
            ("imagegate admission policy-controller glm --key k.pub", "with policy-controller"),
            ("imagegate admission cosign glm --key k.pub >glm.cue", "with cosign alone"),
        ),
        exits=(("0", "printed"), ("2", "no such profile, or it names no registry; a bad key")),
        files=(("profiles/NAME.env", "what is published"),),
    ),
    "drift": Manual(
        examples=(
            ("imagegate drift", "every recipe"),
            ("imagegate drift glm --format github", "one, as annotations"),
        ),
        exits=(
            ("0", "nothing drifted"),
            ("1", "a tag moved, or a digest is no longer served"),
            _USAGE,
            ("3", "a registry could not be asked"),
        ),
        files=(_WORKSPACE[0],),
        environment=(*_ACCOUNTS, _SUMMARY),
    ),
    "mirror": Manual(
        examples=(("imagegate mirror glm --to registry.example/vllm", "under the same digest"),),
        exits=(("0", "copied"), _USAGE, _JUDGED, INTERRUPTED),
        files=(_WORKSPACE[0],),
        environment=_ACCOUNTS,
    ),
    "explain": Manual(
        examples=(
            ("imagegate explain", "every check in one line"),
            ("imagegate explain native.pins/moved", "what a finding's check asks"),
        ),
        exits=(("0", "printed"), ("2", "there is no such check")),
    ),
}
COMPLETION: Rows = (
    ("bash", 'eval "$(_IMAGEGATE_COMPLETE=bash_source imagegate)"'),
    ("zsh", 'eval "$(_IMAGEGATE_COMPLETE=zsh_source imagegate)"'),
    ("fish", "_IMAGEGATE_COMPLETE=fish_source imagegate | source"),
)


def write_section(formatter: click.HelpFormatter, title: str, rows: Rows) -> None:
    """Write a section of two columns, if there is anything in it."""
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows, col_max=36)


def _write_manual(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    manual = MANUALS.get(ctx.command_path.partition(" ")[2])
    if manual is None:
        return
    with formatter.section("Examples"):
        for line, what in manual.examples:
            # a command line is to be copied: it is never wrapped
            formatter.write(f"{' ' * formatter.current_indent}$ {line}\n")
            with formatter.indentation(), formatter.indentation():
                formatter.write_text(what)
    for title, rows in manual.sections:
        write_section(formatter, title, rows)
    write_section(formatter, "Exit codes", manual.exits)
    write_section(formatter, "Files", manual.files)
    write_section(formatter, "Environment", manual.environment)


class Command(click.Command):
    """A command whose help is a page of a manual."""

    def get_short_help_str(self, limit: int = _WHOLE_LINE) -> str:
        """Return the first sentence, which a list of commands shows whole."""
        return super().get_short_help_str(max(limit, _WHOLE_LINE))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what stands behind the options."""
        _write_manual(ctx, formatter)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what stands behind the list of commands."""
        _write_manual(ctx, formatter)
