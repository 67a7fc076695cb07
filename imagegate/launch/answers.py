"""What a served model has to answer, and what its answers say."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

QUESTION = "Is 391 a prime number? Think first, then answer in one short sentence."
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
# a model that thinks needs room to finish both the thought and the answer
TOKENS = 2048


def question(model: str) -> dict[str, Any]:
    """Return the request that asks for a thought and an answer."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": TOKENS,
        "temperature": 0,
    }


def tool_question(model: str) -> dict[str, Any]:
    """Return the request that asks for a tool call."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": "What is the weather in Oslo now? Use the tool."}],
        "tools": [TOOL],
        "tool_choice": "auto",
        "max_tokens": TOKENS,
        "temperature": 0,
    }


def message_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice's message, empty where there is none."""
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else {}


def finish_of(document: Mapping[str, Any]) -> str:
    """Return why the first choice ended."""
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return str(first.get("finish_reason", "")) if isinstance(first, dict) else ""


def thought_and_content(document: Mapping[str, Any], *, reasons: bool) -> str:
    """Say what is wrong with an answer, ``""`` where nothing is.

    Args:
        document: the server's answer.
        reasons: whether a reasoning parser is set, so that the thought has to come apart.
    """
    message = message_of(document)
    content = message.get("content") or ""
    thought = message.get("reasoning") or message.get("reasoning_content") or ""
    if finish_of(document) == "length":
        return f"the answer was cut at {TOKENS} tokens"
    if not isinstance(content, str) or not content.strip():
        return "there is no content" + (", only a thought" if thought else "")
    if reasons and not thought:
        if "<think>" in content or "</think>" in content:
            return "the thought stands inside of the content: the reasoning parser does not fit"
        return "there is content and no reasoning: it was dropped, or the parser does not fit"
    return ""


def tool_call(document: Mapping[str, Any]) -> str:
    """Say what is wrong with a tool call, ``""`` where nothing is."""
    import json

    calls = message_of(document).get("tool_calls")
    if not isinstance(calls, list) or not calls:
        return "there is no tool call"
    function = calls[0].get("function") if isinstance(calls[0], dict) else None
    if not isinstance(function, dict) or function.get("name") != "get_weather":
        return "the call names another tool"
    try:
        arguments = json.loads(function.get("arguments") or "")
    except (ValueError, TypeError):
        return "the call's arguments are not JSON"
    if not isinstance(arguments, dict) or "city" not in arguments:
        return "the call has no `city`"
    return ""


def rate(document: Mapping[str, Any], seconds: float) -> float | None:
    """Return tokens a second, ``None`` where the server does not count."""
    usage = document.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count / seconds if isinstance(count, int) and count > 0 and seconds > 0 else None


def middle(values: Sequence[float]) -> float:
    """Return the median; one slow request is not a regression."""
    return median(values)
