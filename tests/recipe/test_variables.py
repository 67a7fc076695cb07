"""What a profile says is measured; a recipe adds to it and changes none of it."""

from __future__ import annotations

from typing import Any

import pytest

from imagegate.errors import ProfileError, RecipeError
from imagegate.oci.digest import Digest
from imagegate.recipe.variables import Declared, Measured, pin_variable, published
from tests.recipe.test_values import RECIPE, parse

MEASURED = Measured(
    profile="served",
    repository="registry.example/team/served",
    image=Digest.of(b"manifest"),
    image_id=Digest.of(b"config"),
    platform="linux/arm64",
    base=str(Digest.of(b"base")),
    lock=Digest.of(b"lock"),
    verdict=Digest.of(b"verdict"),
    pins={"NCCL_VERSION": "2.30.7+cuda13.3"},
)


def with_profile(**profile: Any) -> dict[str, Any]:
    return {**RECIPE, "profile": profile}


@pytest.mark.parametrize("name", [*MEASURED.variables(), "TORCH_VERSION", "VLLM_VERSION"])
@pytest.mark.parametrize("case", [str.upper, str.lower, str.title])
def test_a_measured_name_is_refused(name: str, case: Any) -> None:
    with pytest.raises(RecipeError, match="is measured"):
        parse(with_profile(env={case(name): "x"}))
    with pytest.raises(RecipeError, match="is measured"):
        parse(with_profile(secrets=[case(name)]))


@pytest.mark.parametrize("pin", ["cuda", "aws-ofi-nccl", "cuda runtime"])
def test_the_name_of_a_pin_of_this_recipe_is_measured_too(pin: str) -> None:
    document = {**with_profile(env={pin_variable(pin): "x"}), "pins": {pin: "1"}}
    with pytest.raises(RecipeError, match="is measured"):
        parse(document)


@pytest.mark.parametrize(
    ("name", "acts_on"),
    [
        # POSIX shell, bash(1), zsh
        *((n, "the shell") for n in ("PATH", "IFS", "ENV", "PS4", "BASH_ENV", "SHELLOPTS", "HOME")),
        *((n, "the shell") for n in ("PROMPT_COMMAND", "BASH_FUNC_x", "CDPATH", "UID", "ZDOTDIR")),
        # glibc, sysdeps/generic/unsecvars.h
        *((n, "the dynamic loader") for n in ("LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES")),
        *((n, "the dynamic loader") for n in ("GCONV_PATH", "LOCPATH", "RES_OPTIONS")),
        *((n, "make") for n in ("MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "VPATH")),
        ("SHELL", "the shell"),
        *((n, "the container engine") for n in ("DOCKER_HOST", "COMPOSE_FILE", "BUILDKIT_HOST")),
        *((n, "the container engine") for n in ("CONTAINER_HOST", "CONTAINERS_CONF")),
        *((n, "the container engine") for n in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR")),
        *((n, "systemd") for n in ("NOTIFY_SOCKET", "LISTEN_FDS", "SYSTEMD_LOG_LEVEL", "MAINPID")),
        *((n, "an interpreter") for n in ("PYTHONPATH", "PYTHONHOME", "PERL5OPT", "NODE_OPTIONS")),
    ],
)
def test_a_variable_that_acts_on_the_reader_is_refused(name: str, acts_on: str) -> None:
    with pytest.raises(RecipeError, match=f"would change {acts_on}"):
        parse(with_profile(env={name: "x"}))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "MAX_JOBS",
            "NCCL_DEBUG",
            "TZ",
            "LANG",
            "VLLM_LOGGING_LEVEL",
            "CUDA_HOME",
            "OMP_NUM_THREADS",
        ),
        *("PYTHONUNBUFFERED", "NVIDIA_VISIBLE_DEVICES", "HF_HOME", "IMAGENET_ROOT", "PATHS"),
        *("RAY_OBJECT_STORE_MEMORY", "MODEL_PATH", "HOMEPAGE"),
    ],
)
def test_what_launchers_hand_on_is_free(name: str) -> None:
    assert parse(with_profile(env={name: "x"})).document.profile.env == {name: "x"}


# each is no real token: the forms are those of their issuers' documentation
SECRETS = {
    "Hugging Face": ("HF_TOKEN", "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"),
    "GitHub": ("PULL", "ghp_a8Kd03nfLs72hQmXo41PwZbVc95TrYuEiGjN"),
    "NVIDIA": ("NGC", "nvapi-" + "a8Kd03nfLs72hQmX" * 4),
    "a name that says so": ("POSTGRES_PASSWORD", "correct-horse-battery"),
    "an address": ("INDEX", "https://user:s3cret-pw@pypi.example/simple"),
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("where", ["env", "setting", "word", "option", "joined option"])
def test_a_secrets_value_is_refused_and_not_repeated(kind: str, where: str) -> None:
    name, value = SECRETS[kind]
    forms: dict[str, dict[str, Any]] = {
        "env": {"env": {name: value}},
        "setting": {"settings": {name: value}},
        "word": {"settings": {"serve": ["--x", f"{name}={value}"]}},
        "option": {"settings": {"serve": ["--api-key", value]}},
        "joined option": {"settings": {"serve": [f"--api-key={value}"]}},
    }
    with pytest.raises(RecipeError) as caught:
        parse(with_profile(**forms[where]))
    assert value not in caught.value.message
    assert value.rpartition(":")[2].partition("@")[0] not in caught.value.message


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("form", ["option", "joined option", "variable"])
def test_a_secrets_value_is_refused_in_serving_arguments(kind: str, form: str) -> None:
    name, value = SECRETS[kind]
    words = {
        "option": ["--api-key", value],
        "joined option": [f"--api-key={value}"],
        "variable": [f"{name}={value}"],
    }
    document = {**RECIPE, "serve": {"model": "/models/x", "arguments": words[form]}}
    with pytest.raises(RecipeError) as caught:
        parse(document)
    assert "`serve.arguments` holds" in caught.value.message
    assert value not in caught.value.message


def test_serving_arguments_that_only_sound_like_secrets_are_free() -> None:
    arguments = ["--max-num-batched-tokens", "8192", "--tokenizer", "deepseek-ai/DeepSeek-R1"]
    document = {**RECIPE, "serve": {"model": "/models/x", "arguments": arguments}}
    assert parse(document).document.serve is not None


def test_a_secret_is_a_name_that_the_launcher_sets() -> None:
    recipe = parse(with_profile(env={"A": "1"}, secrets=["HF_TOKEN", "NGC_API_KEY"]))
    lines = published(MEASURED, recipe.declared_over(None))
    assert lines["IMAGEGATE_SECRETS"] == "HF_TOKEN,NGC_API_KEY"
    assert "HF_TOKEN" not in lines


def test_a_secret_that_has_a_value_is_refused() -> None:
    with pytest.raises(RecipeError, match="twice"):
        parse(with_profile(env={"HF_HOME": "/x"}, secrets=["HF_HOME"]))


# --- where the two meet


def test_both_are_published_and_no_measured_line_is_lost() -> None:
    lines = published(MEASURED, Declared(env={"MAX_JOBS": "16"}))
    assert lines == {**MEASURED.variables(), "MAX_JOBS": "16"}
    assert lines["IMAGE_ID"] == str(Digest.of(b"config"))


@pytest.mark.parametrize("name", ["IMAGE", "image", "NCCL_VERSION", "nccl_version", "LD_PRELOAD"])
def test_what_reaches_the_meeting_past_the_recipe_is_refused_there(name: str) -> None:
    with pytest.raises(ProfileError):
        published(MEASURED, Declared(env={name: "x"}))


def test_a_pin_that_only_the_bytes_name_is_not_overwritten() -> None:
    from dataclasses import replace

    measured = replace(MEASURED, pins={"CUDA_VERSION": "13.3"})
    with pytest.raises(ProfileError, match="measured"):
        published(measured, Declared(env={"Cuda_Version": "12"}))
