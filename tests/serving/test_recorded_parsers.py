"""Our tables of published programs against those programs' own parsers."""

from __future__ import annotations

import pytest

from imagegate.serving.judge import judge_arguments
from imagegate.serving.table import Option, ServingOptions, decode_options
from tests.serving.recorded import PROGRAMS, Recorded, recorded

ACTIONS = {
    "_StoreAction": "store",
    "_StoreTrueAction": "store_true",
    "_AppendAction": "append",
    "_HelpAction": "help",
    "BooleanOptionalAction": "boolean",
}
# converters that only running knows; the reader has to say so
RUN_TIME = ("<lambda>", "json_list_type", "nullable_str", "parse_cuda_graph")
# the recording had no torch: `torch.dtype | Literal[…]` lost its members there
STUBBED = {("vllm-0.29.0", "lora_dtype"), ("vllm-0.20.0", "lora_dtype")}
# lists on which we cannot agree with that parser, because its own code reads the value or the
# choices are made when it starts; each of them carries a note that says so
UNREAD = {"vllm-0.29.0": 5, "vllm-0.20.0": 6, "vllm-0.11.0": 5, "sglang-0.5.23": 1, "ray-2.60.0": 4}
CLICK = {"integer": "int", "text": "str", "float": "float", "boolean": "bool", "loads": "json"}


@pytest.fixture(params=PROGRAMS)
def one(request: pytest.FixtureRequest) -> Recorded:
    return recorded(request.param)


def strings(options: list[tuple[str, ...]]) -> set[str]:
    return {string for option in options for string in option} - {"--help", "-h"}


def test_no_option_is_missed_and_none_is_invented(one: Recorded) -> None:
    ours = strings([option.strings for option in one.program.options])
    assert ours == strings([tuple(option["strings"]) for option in one.table])


def test_every_declaration_was_reached_or_is_named(one: Recorded) -> None:
    unreached = [note for note in one.program.notes if "was not reached" in note]
    assert one.program.declared - one.program.interpreted <= len(unreached) + 1
    assert one.program.declared > 40


def test_arity_type_and_choices_are_the_parsers(one: Recorded) -> None:
    wrong = []
    for row in one.table:
        if row["strings"] and row["strings"][0] in ("-h", "--help"):
            continue
        option = _ours(one, row)
        assert option is not None, row
        told = _click_differences(option, row) if one.program.parser == "click" else ()
        if one.program.parser != "click" and (one.name, row["dest"]) not in STUBBED:
            told = tuple(_differences(option, row))
        wrong += [(row["dest"], what) for what in told]
    assert wrong == []


def _ours(one: Recorded, row: dict[str, object]) -> Option | None:
    names = row["strings"]
    assert isinstance(names, list)
    if names:
        return one.program.option(names[0])
    return next((o for o in one.program.options if not o.strings and o.dest == row["dest"]), None)


def _differences(option: Option, row: dict[str, object]) -> list[object]:
    found: list[object] = []
    action = ACTIONS.get(str(row["action"]), "custom")
    if option.action != action:
        found.append((option.action, row["action"]))
    if (option.nargs or None) != (row["nargs"] or None):
        found.append((option.nargs, row["nargs"]))
    if option.dest != row["dest"] or set(option.strings) != set(row["strings"]):  # type: ignore[call-overload]
        found.append((option.strings, row["strings"]))
    if option.required != row["required"]:
        found.append(("required", row["required"]))
    kind = str(row["type"])
    if not option.takes_nothing:
        ours = option.type + ("?" if option.optional else "")
        computed = any(sign in kind for sign in RUN_TIME)
        if not (ours == kind or (computed and (ours == "unknown" or option.steps))):
            found.append((ours, kind))
    choices = None if option.choices is None else sorted(map(str, option.choices))
    if choices != row["choices"] and not option.computed:
        found.append((choices, row["choices"]))
    return found


def _click_differences(option: Option, row: dict[str, object]) -> tuple[object, ...]:
    if option.takes_nothing:
        return () if row["flag"] or row["count"] else ("takes a value",)
    kind = CLICK.get(str(row["type"]), "str")
    choices = list(option.choices) if option.choices is not None else None
    unread = option.type == "unknown"
    same = (option.type == kind and choices == row["choices"]) or unread
    return () if same else ((option.type, choices, row["type"], row["choices"]),)


def test_what_is_not_known_is_told(one: Recorded) -> None:
    for option in one.program.options:
        if option.type == "unknown" and not option.steps and option.action != "custom":
            assert any(option.module in note for note in one.program.notes), option


def test_argument_lists_are_judged_as_the_parser_does(one: Recorded) -> None:
    assert len(one.lists) >= 200
    differ, unsaid, alarms = 0, [], []
    for args, accepted in one.lists:
        parsed = judge_arguments(one.program, args)
        if parsed.refused != (not accepted):
            differ += 1
            if parsed.refused:
                alarms.append((args, parsed.problems))
            elif not any(problem.what == "not-checked" for problem in parsed.problems):
                unsaid.append(args)
    # `--lora-dtype 256K` passed a parser that had no torch
    assert [a for a in alarms if "--lora-dtype" not in a[0]] == []
    assert differ <= UNREAD[one.name]
    # nested structures are read one level deep
    assert len(unsaid) <= 4, unsaid


def test_a_table_survives_being_written_and_read(one: Recorded) -> None:
    again = decode_options(one.options, "options.json")
    assert again.encode() == one.options
    assert again == ServingOptions(programs=(one.program,))
