"""What a serve section says, against the image's own options: problems with needed and found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from imagegate.launch.memory import read_max_jobs
from imagegate.recipe.serve import PER_NODE
from imagegate.serving.judge import Parsed, Problem, judge_arguments
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.recipe.serve import ServeSection
    from imagegate.serving.table import Program, ServingOptions

_BACKEND = "--distributed-executor-backend"


def judge_section(
    section: ServeSection,
    options: ServingOptions,
    files: Mapping[str, object] | None = None,
    *,
    multimodal: bool | None = None,
) -> tuple[Parsed, list[Problem]]:
    """Judge the arguments of a section.

    Args:
        section: one way to start the image.
        options: what the image's programs accept.
        files: configuration files that ``--config`` may name, as YAML, by path.
        multimodal: whether the model takes more than text, ``None`` where nobody knows.

    Returns:
        What the arguments say, and everything that is wrong with them or worth a note.
    """
    program = options.program(section.program)
    parsed = Parsed()
    if program is None or program.status == "unread":
        why = program.why if program is not None else f"the image has no `{section.program}`"
        parsed.refused = True
        parsed.add("not-read", Severity.FAIL, section.program, f"not checked: {why}",
                   needed="a table of its options", found="none",
                   hint="`imagegate lock` reads it out of the image's source")  # fmt: skip
        return parsed, parsed.problems
    model = [section.model] if program.parser == "flexible" else ["--model-path", section.model]
    parsed = judge_arguments(program, [*model, *section.arguments], files)
    if program.parser == "flexible":
        _topology(section, parsed)
        _text_only(section, program, parsed, multimodal=multimodal)
        _cancelling(parsed)
        _names(program, parsed)
        _speculative(program, parsed)
    _ray(section, options, parsed)
    return parsed, parsed.problems


def _whole(parsed: Parsed, name: str, default: int) -> int:
    value = parsed.values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _topology(section: ServeSection, parsed: Parsed) -> None:
    """Say which options several nodes need (``vllm/config/parallel.py``, no fallback to ray)."""
    tensor = _whole(parsed, "tensor_parallel_size", 1)
    pipeline = _whole(parsed, "pipeline_parallel_size", 1)
    needed, here = tensor * pipeline, section.gpus_per_node
    backend = parsed.values.get("distributed_executor_backend")
    nnodes = _whole(parsed, "nnodes", 1)
    if needed > here * section.nodes:
        parsed.add("gpus", Severity.FAIL, "--tensor-parallel-size",
                   "the model is split over more GPUs than all nodes have",
                   needed=f"{needed} GPUs", found=f"{here * section.nodes} GPUs",
                   hint="lower the sizes, or declare more `nodes`")  # fmt: skip
    if nnodes > 1 and backend == "ray":
        parsed.add("nnodes-with-ray", Severity.FAIL, "--nnodes",
                   "`--nnodes` and the ray backend exclude each other",
                   needed="one of them", found=f"--nnodes {nnodes} {_BACKEND} ray",
                   hint="remove `--nnodes`; ray knows its nodes")  # fmt: skip
    if needed > here and nnodes == 1 and backend not in ("ray", "external_launcher"):
        parsed.add("no-backend", Severity.FAIL, _BACKEND,
                   "one node has too few GPUs and nothing says how the others are reached",
                   needed=f"{needed} GPUs", found=f"{here} GPUs on a node, backend {backend or 'mp'}",
                   hint=f"set `{_BACKEND} ray`")  # fmt: skip
    if needed <= here and section.nodes > 1:
        parsed.add("nodes-unused", Severity.NOTE, "--tensor-parallel-size",
                   "the model fits on one node by its sizes, and more nodes are declared",
                   needed=f"{section.nodes} nodes in use", found=f"{needed} GPUs in use")  # fmt: skip


def _text_only(
    section: ServeSection, program: Program, parsed: Parsed, *, multimodal: bool | None
) -> None:
    """A multimodal model warms its processor unless every limit is an explicit zero."""
    if not section.text_only or multimodal is False:
        return
    limits = parsed.values.get("limit_mm_per_prompt")
    if parsed.values.get("language_model_only") is True:
        return
    zero = isinstance(limits, dict) and all(_is_zero(value) for value in limits.values())
    if zero and isinstance(limits, dict) and {"image", "video"} <= limits.keys():
        return
    shorter = " or `--language-model-only`" if program.option("--language-model-only") else ""
    parsed.add(
        "limits-missing",
        Severity.NOTE,
        "--limit-mm-per-prompt",
        "the model is to serve text alone, and its image processor is warmed all the same",
        needed='{"image":0,"video":0}',
        found=str(limits) if limits is not None else "nothing",
        hint=f"write the zeros out{shorter}; `--skip-mm-profiling` does not replace them",
    )


def _is_zero(value: object) -> bool:
    if isinstance(value, dict):
        value = value.get("count")
    return value == 0


def _cancelling(parsed: Parsed) -> None:
    """Name options that take each other's effect away."""
    if "kv_cache_memory_bytes" in parsed.values and "gpu_memory_utilization" in parsed.values:
        parsed.add("without-effect", Severity.NOTE, "--gpu-memory-utilization",
                   "it has no effect beside `--kv-cache-memory-bytes`",
                   needed="one of them", found="both",
                   hint="remove it; the budget is then weights plus cache plus the rest")  # fmt: skip
    for one, other in (
        ("enable_auto_tool_choice", "tool_call_parser"),
        ("enable_log_outputs", "enable_log_requests"),
    ):
        if parsed.values.get(one) is True and not parsed.values.get(other):
            flags = [f"--{name.replace('_', '-')}" for name in (one, other)]
            parsed.add("needs-other", Severity.FAIL, flags[0],
                       f"`{flags[0]}` is refused without `{flags[1]}`",
                       needed=flags[1], found="nothing")  # fmt: skip


_REGISTERED = {
    "reasoning_parser": ("reasoning parsers", "--reasoning-parser", "reasoning_parser_plugin"),
    "tool_call_parser": ("tool parsers", "--tool-call-parser", "tool_parser_plugin"),
    "quantization": ("quantization methods", "--quantization", ""),
}


def _names(program: Program, parsed: Parsed) -> None:
    """Compare names that only the engine looks up with the image's registries."""
    import difflib

    for dest, (title, option, plugin) in _REGISTERED.items():
        value, known = parsed.values.get(dest), program.lists.get(title)
        if not isinstance(value, str) or not value or value == "None":
            continue
        if known is None:
            parsed.add("not-checked", Severity.NOTE, option,
                       f"the image's list of {title} was not found; `{value}` is not checked")  # fmt: skip
        elif value not in known:
            near = difflib.get_close_matches(value, known, n=1)
            by_plugin = bool(plugin and parsed.values.get(plugin))
            parsed.add(
                "not-registered",
                Severity.NOTE if by_plugin else Severity.FAIL,
                option,
                f"no {title[:-1]} of the image has this name"
                + ("; a plugin may bring it" if by_plugin else ""),
                needed=near[0] if near else f"one of {len(known)} names: {', '.join(known[:6])}, …",
                found=value,
                hint=f"did you mean `{near[0]}`?" if near else "",
            )


def _speculative(program: Program, parsed: Parsed) -> None:
    """A speculative method is looked up when the engine starts; 40 minutes late."""
    value: Any = parsed.values.get("speculative_config")
    known = program.lists.get("speculative methods")
    structure = program.structures.get("SpeculativeConfig")
    if not isinstance(value, dict):
        return
    method = value.get("method")
    if isinstance(method, str) and known and method not in known:
        parsed.add("speculative-method", Severity.FAIL, "--speculative-config",
                   "the image knows no speculative method of this name",
                   needed="one of " + ", ".join(known), found=method)  # fmt: skip
    for key in value if structure is not None and structure.closed else ():
        if structure is not None and key not in structure.fields:
            parsed.add("speculative-key", Severity.FAIL, "--speculative-config",
                       "the image's SpeculativeConfig has no such key",
                       needed=", ".join(sorted(structure.fields)[:10]) + ", …", found=key)  # fmt: skip


def _ray(section: ServeSection, options: ServingOptions, parsed: Parsed) -> None:
    ray = options.program("ray start")
    for arguments in (section.ray_head, section.ray_worker):
        if not arguments:
            continue
        if ray is None or ray.status == "unread":
            parsed.add("not-read", Severity.FAIL, "ray start",
                       "not checked: the options of `ray start` were not found in the image",
                       needed="a table of its options", found="none")  # fmt: skip
            return
        parsed.problems += judge_arguments(ray, arguments).problems


def judge_environment(
    section: ServeSection, options: ServingOptions, env: Mapping[str, str]
) -> list[Problem]:
    """Judge the variables that a profile hands to the containers."""
    parsed = Parsed()
    program = options.program(section.program)
    known = set(program.environment or ()) if program is not None else set()
    for name in sorted(env):
        if name.startswith("VLLM_") and known and name not in known:
            parsed.add("unknown-variable", Severity.NOTE, name,
                       "this image's vLLM does not know the variable; it has no effect",
                       needed="a name of `vllm/envs.py`", found=name,
                       hint="another version knew it, or it is misspelt")  # fmt: skip
    for name in section.forward:
        if name not in env:
            parsed.add("not-in-profile", Severity.FAIL, name,
                       "it is to be forwarded and the profile does not have it",
                       needed=f"`{name}` under [profile.env]", found="nothing")  # fmt: skip
    if env and not section.forward:
        parsed.add("nothing-forwarded", Severity.FAIL, "forward",
                   "the profile has variables and none is forwarded to the containers",
                   needed=", ".join(sorted(env)), found="an empty list",
                   hint="name them under `forward`")  # fmt: skip
    for name in sorted(set(PER_NODE) & set(env)) if section.nodes > 1 else ():
        parsed.add("fixed-per-node", Severity.FAIL, name,
                   "one value for several nodes: links and devices have other names on each",
                   needed="computed for each node", found=env[name],
                   hint="name it under `network` instead; `launch args` computes it")  # fmt: skip
    _jobs(section, env, parsed)
    return parsed.problems


def _jobs(section: ServeSection, env: Mapping[str, str], parsed: Parsed) -> None:
    value = env.get("MAX_JOBS")
    if value is None:
        return
    read = read_max_jobs(value, 1)
    if not value.isdigit() or read.count is None:
        parsed.add("max-jobs-form", Severity.FAIL, "MAX_JOBS", read.why,
                   needed="a whole number from 1", found=repr(value))  # fmt: skip
    elif read.count > section.jobs.serving:
        parsed.add("max-jobs", Severity.FAIL, "MAX_JOBS",
                   "more compilers than the section allows while the model is resident",
                   needed=f"at most {section.jobs.serving} ([serve.jobs] serving)", found=value,
                   hint="compile before the model is loaded: `imagegate launch precompile`")  # fmt: skip
