"""The argument rows of operators' reports, each with its right answer."""

from __future__ import annotations

import pytest

from imagegate.serving.judge import Parsed, judge_arguments
from imagegate.verdict import Severity
from tests.serving.recorded import recorded

PROGRAMS = {name: recorded(f"vllm-{name}").program for name in ("0.29.0", "0.20.0", "0.11.0")}
RAY = recorded("ray-2.60.0").program


def judged(*args: str, version: str = "0.29.0", files: dict[str, object] | None = None) -> Parsed:
    return judge_arguments(PROGRAMS[version], ["/model", *args], files)


def fails(parsed: Parsed) -> list[str]:
    return [p.what for p in parsed.problems if p.severity is Severity.FAIL]


@pytest.mark.parametrize(
    ("args", "version", "what"),
    [
        (["--kv-cache-m", "1G"], "0.29.0", ["ambiguous"]),
        (["--kv-cache-m", "1G"], "0.11.0", []),
        (["--kv_cache_memory_bytes", "1G"], "0.29.0", []),
        (["--kv-cache-memory-bytes", "6.5G"], "0.29.0", ["value"]),
        (["--kv-cache-memory-bytes", "6g"], "0.29.0", []),
        (["--limit-mm-per-prompt"], "0.29.0", ["no-value"]),
        (["--limit-mm-per-prompt", "{image:0,video:0}"], "0.29.0", ["value"]),
        (["--limit-mm-per-prompt", '{"image":0,"video":0}'], "0.29.0", []),
        (["--limit-mm-per-prompt.image", "0", "--limit-mm-per-prompt.video", "0"], "0.29.0", []),
        (["--skip-mm-profiling", "true"], "0.29.0", ["surplus"]),
        (["--skip-mm-profiling=true"], "0.29.0", ["no-value-taken"]),
        (["--swap-space", "16"], "0.29.0", ["unknown"]),
        (["--swap-space", "16"], "0.11.0", []),
        (["--config=f.yaml"], "0.29.0", ["config-ignored"]),
        (["--gpu-memory-utilization", "85"], "0.29.0", ["range"]),
        (["--gpu-memory-utilization", "inf"], "0.29.0", ["range"]),
        (["--gpu-memory-utilization", "nan"], "0.29.0", ["range"]),
        (["--gpu-memory-utilization", "0,85"], "0.29.0", ["value"]),
        (["--block-size", "2304"], "0.29.0", []),
        (["--block-size", "2304"], "0.11.0", ["value"]),
        (["--moe-backend", "flashinfer-cutlass"], "0.29.0", []),
        (["--moe-backend", "nosuch"], "0.29.0", ["value"]),
        (["--no-enforce-eager"], "0.29.0", []),
        (["-O3"], "0.29.0", []),
        (["-O3"], "0.11.0", []),
        (["--max-model-len", "256K"], "0.29.0", []),
        (["--max-model-len", "256.5K"], "0.29.0", ["value"]),
    ],
)
def test_an_argument_list(args: list[str], version: str, what: list[str]) -> None:
    assert fails(judged(*args, version=version)) == what


def test_an_abbreviation_is_told_with_the_whole_option() -> None:
    for version, text in (("0.29.0", "--kv-cache-memory"), ("0.11.0", "--kv-cache-m")):
        told = judged(text, "6442450944", version=version).problems
        assert [(p.what, p.needed) for p in told] == [("abbreviation", "--kv-cache-memory-bytes")]


def test_the_suffix_that_counts_in_thousands_is_told() -> None:
    parsed = judged("--kv-cache-memory-bytes", "6g")
    assert parsed.values["kv_cache_memory_bytes"] == 6_000_000_000
    assert [p.what for p in parsed.problems] == ["decimal-suffix"]
    assert judged("--max-model-len", "256k").values["max_model_len"] == 256_000
    assert judged("--max-model-len", "256K").values["max_model_len"] == 262_144


def test_a_name_that_only_the_engine_refuses_is_told() -> None:
    parsed = judged("--distributed-executor-backend", "rayy")
    assert [p.what for p in parsed.problems] == ["not-known"]
    assert "external_launcher, mp, ray, uni" in parsed.problems[0].needed


def test_what_a_configuration_file_says_is_judged_and_named() -> None:
    parsed = judged("--config", "f.yaml", files={"f.yaml": {"not-a-flag": 3}})
    assert "unknown" in fails(parsed)
    fine = judged("--config", "f.yaml", files={"f.yaml": {"enforce-eager": False, "port": 8000}})
    assert fails(fine) == []
    assert fine.values["enforce_eager"] is False
    late = judged("--config", "f.yaml", "--port", "9", files={"f.yaml": {"port": 8}})
    assert late.values["port"] == 9


def test_all_errors_of_a_list_are_told_at_once() -> None:
    parsed = judged(
        "--port", "x", "--swap-space", "16", "--max-model-len", "1.5K", "--enforce-eager"
    )
    assert fails(parsed) == ["value", "value", "unknown"]
    assert parsed.values["enforce_eager"] is True


def test_click_takes_no_abbreviation() -> None:
    parsed = judge_arguments(RAY, ["--num-gpu=1"])
    assert [(p.what, p.needed) for p in parsed.problems] == [("unknown", "--num-gpus")]
    assert not judge_arguments(RAY, ["--head", "--num-gpus=1", "--port=6379"]).refused
