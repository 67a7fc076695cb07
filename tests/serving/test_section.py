"""``[serve]`` against the options of real programs: topology, text alone, names, environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from imagegate.launch.arguments import judge_environment, judge_section
from imagegate.recipe.serve import ServeSection, merge_arguments
from imagegate.serving.table import ServingOptions
from imagegate.usecases.launching.plan import merged_options
from imagegate.verdict import Severity
from imagegate.workspace import Workspace
from tests.serving.recorded import recorded

RAY = recorded("ray-2.60.0").program
OPTIONS = {
    version: ServingOptions(programs=(recorded(f"vllm-{version}").program, RAY))
    for version in ("0.29.0", "0.20.0", "0.11.0")
}
TWO = ["--tensor-parallel-size", "2"]
RAY_BACKEND = ["--distributed-executor-backend", "ray"]


def section(*arguments: str, **more: Any) -> ServeSection:
    return ServeSection.model_validate({"model": "/m", "arguments": arguments, **more})


def told(given: ServeSection, version: str = "0.29.0", **more: Any) -> list[tuple[str, str]]:
    problems = judge_section(given, OPTIONS[version], **more)[1]
    return [(p.what, "fail" if p.severity is Severity.FAIL else "note") for p in problems]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (section(*TWO, nodes=2), [("no-backend", "fail")]),
        (section(*TWO, *RAY_BACKEND, nodes=2), []),
        (section(*TWO, "--nnodes", "2", nodes=2), []),
        (section(*TWO, *RAY_BACKEND, "--nnodes", "2", nodes=2), [("nnodes-with-ray", "fail")]),
        (section("-tp", "4", *RAY_BACKEND, nodes=2), [("gpus", "fail")]),
        (section(*TWO, gpus_per_node=2), []),
        (section("--pipeline-parallel-size", "2", nodes=2), [("no-backend", "fail")]),
        (section(nodes=2), [("nodes-unused", "note")]),
        (section("--skip-mm-profiling", text_only=True), [("limits-missing", "note")]),
        (section("--limit-mm-per-prompt", '{"image":0,"video":0}', text_only=True), []),
        (section("--limit-mm-per-prompt", '{"image":0}', text_only=True), [("limits-missing", "note")]),
        (section("--language-model-only", text_only=True), []),
        (section("--kv-cache-memory-bytes", "6G", "--gpu-memory-utilization", "0.85"), [("without-effect", "note")]),
        (section("--enable-auto-tool-choice"), [("needs-other", "fail")]),
        (section("--reasoning-parser", "nosuch"), [("not-registered", "fail")]),
        (section("--reasoning-parser", "mine", "--reasoning-parser-plugin", "p.py"), [("not-registered", "note")]),
        (section("--tool-call-parser", "glm47"), []),
        (section("--speculative-config", '{"method":"dflash2","num_speculative_tokens":1}'), [("speculative-method", "fail")]),
        (section("--speculative-config", '{"method":"dflash","nosuch":1}'), [("speculative-key", "fail")]),
        (section("--config", "elsewhere.yaml"), [("not-checked", "note")]),
        (section(ray_head=("--head", "--num-gpu=1")), [("unknown", "fail")]),
    ],
)  # fmt: skip
def test_a_section(given: ServeSection, expected: list[tuple[str, str]]) -> None:
    assert told(given) == expected


def test_a_multimodal_limit_is_not_asked_of_a_text_model() -> None:
    assert told(section(text_only=True), multimodal=False) == []


def test_a_program_that_is_not_there_is_never_fine() -> None:
    nothing = ServingOptions()
    _, problems = judge_section(section(), nothing)
    assert [(p.what, p.severity) for p in problems] == [("not-read", Severity.FAIL)]


def environment(env: dict[str, str], version: str = "0.29.0", **more: Any) -> list[str]:
    given = section(forward=tuple(more.pop("forward", env)), **more)
    return [p.what for p in judge_environment(given, OPTIONS[version], env)]


def test_variables_that_the_image_does_not_know() -> None:
    ghost = {"VLLM_USE_FLASHINFER_MOE_FP4": "1"}
    assert environment(ghost) == ["unknown-variable"]
    assert environment(ghost, "0.20.0") == []
    assert environment({"VLLM_ATTENTION_BACKEND": "X"}, "0.11.0") == []
    assert environment({"VLLM_ATTENTION_BACKEND": "X"}) == ["unknown-variable"]


def test_forwarding_and_values_of_one_node() -> None:
    assert environment({"A": "1"}, forward=()) == ["nothing-forwarded"]
    assert environment({"A": "1"}, forward=("A", "B")) == ["not-in-profile"]
    assert environment({"NCCL_IB_HCA": "x"}, nodes=2) == ["fixed-per-node"]
    assert environment({"NCCL_IB_HCA": "x"}) == []


@pytest.mark.parametrize("value", ["auto", "-1", "0", "1.5", "²"])
def test_forms_of_max_jobs_that_mean_something_else(value: str) -> None:
    assert environment({"MAX_JOBS": value}) in (["max-jobs-form"], ["max-jobs"])


def test_max_jobs_of_the_serving_phase() -> None:
    assert environment({"MAX_JOBS": "16"}) == ["max-jobs"]
    assert environment({"MAX_JOBS": "2"}, jobs={"serving": 2}) == []


# --- the section itself


def test_tables_of_other_names_are_variants() -> None:
    given = section("--port", "8000", "--max-model-len", "32K",
                    long={"arguments": ("--max-model-len", "256K"), "costs_gib": 2.0},
                    memory={"other": 4.0})  # fmt: skip
    long = given.chosen("long")
    assert long.arguments == ("--port", "8000", "--max-model-len", "256K")
    assert long.memory.other == 6.0
    with pytest.raises(KeyError):
        given.chosen("short")
    with pytest.raises(ValidationError, match="extra"):
        section(nosuch=1)
    with pytest.raises(ValidationError, match="is not computed"):
        section(network=("PATH",))
    with pytest.raises(ValidationError, match="digest"):
        section(caches=[{"path": "/cache", "target": "/c"}])


def test_overrides_replace_and_append() -> None:
    old = ("--a", "1", "2", "--b", "--c=3", "-n", "-1")
    assert merge_arguments(old, ("--a", "9")) == ("--b", "--c=3", "-n", "-1", "--a", "9")
    assert merge_arguments(old, (), ("--c", "-n")) == ("--a", "1", "2", "--b")


# --- the shipped recipe


def test_the_shipped_recipe_starts_what_its_locked_programs_take() -> None:
    workspace = Workspace.find(Path(__file__).parents[2])
    lock, document = workspace.lock("glm"), workspace.recipe("glm").document
    options = merged_options(lock.base_options, lock.options)
    assert options is not None
    assert document.serve is not None
    for variant in (None, *document.serve.variants):
        parsed, problems = judge_section(document.serve.chosen(variant), options)
        assert (parsed.refused, problems) == (False, [])
    assert judge_environment(document.serve, options, document.profile.env) == []
    # the base of the shipped recipes is the published wheel for another machine: one table
    vllm = options.program("vllm serve")
    assert vllm is not None
    assert vllm.options == recorded("vllm-0.29.0").program.options


def test_the_shipped_recipes_jobs_fit_beside_its_model() -> None:
    """The report's room is 0.85 of 121.63 GiB less half of 181 GiB; 16 jobs would need 82.6."""
    document = Workspace.find(Path(__file__).parents[2]).recipe("glm").document
    assert document.serve is not None
    room = 0.85 * 121.63 - 181.0 / 2
    jobs = document.serve.jobs
    assert int(document.profile.env["MAX_JOBS"]) == jobs.serving == document.toolchain.max_jobs
    assert jobs.serving * jobs.gib_per_job < room < 16 * jobs.gib_per_job
    assert jobs.precompile * jobs.gib_per_job < 106.94
