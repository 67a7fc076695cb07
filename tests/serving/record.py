# mypy: ignore-errors
"""Prints the option table of a program's own parser, or its answer to argument lists on stdin.

    OUT=table.json python -O tests/serving/record.py FOLDER vllm|sglang
    MODE=lists python -O tests/serving/record.py FOLDER vllm < lists.jsonl

FOLDER holds an unpacked wheel. Run it in an environment of its own that has pydantic, PyYAML, regex,
msgspec, fastapi and numpy; torch and everything else is stood in for by empty stubs, and assertions
are off (-O) because some compare what the stubs cannot give. `ray start` is asked where ray is
installed: its `click` command lists its parameters itself.
"""

import sys, types, importlib.abc, importlib.machinery, argparse, json, os

root, which = sys.argv[1], sys.argv[2]
sys.path.insert(0, root)
REAL = {
    "pydantic",
    "pydantic_core",
    "yaml",
    "regex",
    "typing_extensions",
    "msgspec",
    "numpy",
    "packaging",
    "click",
    "psutil",
    "annotated_types",
    "typing_inspection",
    "cachetools",
    "cloudpickle",
    "huggingface_hub",
    "requests",
    "fastapi",
    "starlette",
    "colorama",
    "filelock",
    "email_validator",
}
import abc


class Meta(abc.ABCMeta):
    def __getattr__(cls, n):
        if n == "__get_pydantic_core_schema__":
            from pydantic_core import core_schema

            return lambda *a, **k: core_schema.any_schema()
        if n == "__class_validators__":
            return []
        if n == "max":
            return 2**62
        if n == "min":
            return -(2**62)
        if n.startswith("__"):
            raise AttributeError(n)
        return make(n)

    def __or__(a, b):
        return a

    def __ror__(a, b):
        return a

    def __getitem__(cls, i):
        return cls

    def __iter__(cls):
        return iter(())

    def __instancecheck__(cls, o):
        return False

    def __call__(cls, *a, **k):
        if (
            a
            and len(a) == 1
            and not k
            and (isinstance(a[0], types.FunctionType) or isinstance(a[0], type))
        ):
            return a[0]
        return super().__call__()

    def __lt__(a, b):
        return False

    def __gt__(a, b):
        return False

    def __ge__(a, b):
        return True

    def __le__(a, b):
        return True

    def __contains__(a, b):
        return False

    def __len__(a):
        return 0

    def __radd__(a, b):
        return b

    def __int__(a):
        return 0

    def __index__(a):
        return 0

    def __float__(a):
        return 0.0

    def __sub__(a, b):
        return a

    def __rsub__(a, b):
        return a

    def __truediv__(a, b):
        return a

    def __and__(a, b):
        return a

    def __invert__(a):
        return a

    def __add__(a, b):
        return a

    def __mod__(a, b):
        return a

    def __rmul__(a, b):
        return a

    def __mul__(a, b):
        return a

    def __bool__(a):
        return True

    def __hash__(a):
        return id(a)


def make(n):
    return Meta(
        n,
        (),
        {
            "__getattr__": lambda s, k: (
                2**62
                if k == "max"
                else -(2**62)
                if k == "min"
                else make(k)
                if not k.startswith("__")
                else (_ for _ in ()).throw(AttributeError(k))
            ),
            "__call__": lambda s, *a, **k: (
                a[0]
                if a and len(a) == 1 and isinstance(a[0], (types.FunctionType, type))
                else make(n)
            ),
            "__init__": lambda s, *a, **k: None,
            "__getitem__": lambda s, i: make(n),
            "__iter__": lambda s: iter(()),
            "__or__": lambda s, o: s,
            "__bool__": lambda s: False,
            "__enter__": lambda s: s,
            "__exit__": lambda s, *a: None,
            "__lt__": lambda s, o: False,
            "__gt__": lambda s, o: False,
            "__le__": lambda s, o: True,
            "__ge__": lambda s, o: True,
            "__int__": lambda s: 0,
            "__index__": lambda s: 0,
            "__contains__": lambda s, o: False,
            "__len__": lambda s: 0,
            "__hash__": lambda s: id(s),
            "__eq__": lambda s, o: s is o or type(s).__name__ == type(o).__name__,
            "__get_pydantic_core_schema__": classmethod(
                lambda c, *a, **k: __import__("pydantic_core").core_schema.any_schema()
            ),
            "__radd__": lambda s, o: o,
            "__rmul__": lambda s, o: s,
            "__rsub__": lambda s, o: s,
            "__floordiv__": lambda s, o: s,
            "__rtruediv__": lambda s, o: s,
            "__add__": lambda s, o: s,
            "__mul__": lambda s, o: s,
            "__sub__": lambda s, o: s,
            "__truediv__": lambda s, o: s,
        },
    )


class StubModule(types.ModuleType):
    __path__ = []

    def __getattr__(self, n):
        if n == "__version__":
            return "2.13.0"
        if n.startswith("__"):
            raise AttributeError(n)
        if n in ("npu", "musa", "mlu", "hpu"):
            raise AttributeError(n)
        if n == "infer_schema":
            return lambda *a, **k: "(Tensor x) -> Tensor"
        v = make(n)
        setattr(self, n, v)
        return v


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if top in (
            "torch_npu",
            "torch_xla",
            "torch_musa",
            "torch_mlu",
            "torchada",
            "intel_extension_for_pytorch",
            "habana_frameworks",
            "amdsmi",
            "sgl_kernel_npu",
            "vllm_ascend",
        ):
            return None
        if top in REAL or top in ("vllm", "sglang", "ray"):
            if (
                name.endswith("_C")
                or "_C_" in name
                or name.startswith("vllm.vllm_flash_attn")
                or name.startswith("ray._raylet")
            ):
                pass
            else:
                return None
        elif top in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        m = StubModule(spec.name)
        m.__spec__ = spec
        m.__file__ = "/stub"
        return m

    def exec_module(self, m):
        pass


sys.meta_path.append(Finder())
import importlib.metadata as _im

_v = _im.version


def _version(name):
    try:
        return _v(name)
    except Exception:
        return "5.0.0"


_im.version = _version


def tname(t):
    if t is None:
        return "str"
    q = getattr(t, "__qualname__", "")
    if "_optional_type" in q or "nullable" in q:
        for c in t.__closure__ or ():
            if callable(c.cell_contents):
                return tname(c.cell_contents) + "?"
    if "parse_dataclass" in q:
        return "json:" + t.__defaults__[0].__name__
    if "_parse_type" in q:
        for c in t.__closure__ or ():
            if callable(c.cell_contents):
                return tname(c.cell_contents)
    return {
        "loads": "json",
        "human_readable_int": "size",
        "human_readable_int_or_auto": "size-or-auto",
        "union_dict_and_str": "json-or-str",
    }.get(q, q)


def dump(parser):
    out = []
    for a in parser._actions:
        ch = None if a.choices is None else [c for c in a.choices]
        out.append(
            dict(
                strings=list(a.option_strings),
                dest=a.dest,
                action=type(a).__name__,
                nargs=a.nargs,
                type=tname(a.type),
                choices=sorted(map(str, ch)) if ch is not None else None,
                required=a.required,
                deprecated=bool(getattr(a, "deprecated", False))
                or a in getattr(type(parser), "_deprecated", ()),
            )
        )
    return out


def get():
    if which.startswith("vllm"):
        sys.argv = ["vllm", "serve"]
        import vllm.platforms as P
        from vllm.platforms.interface import Platform

        class Cpu(Platform):
            device_type = "cpu"
            device_name = "cpu"

        try:
            from vllm.platforms.cpu import CpuPlatform

            P._current_platform = CpuPlatform()
        except Exception as e:
            print("cpu", e, file=sys.stderr)
        try:
            from vllm.utils.argparse_utils import FlexibleArgumentParser
        except ImportError:
            from vllm.utils import FlexibleArgumentParser
        import importlib

        serve = importlib.import_module("vllm.entrypoints.cli.serve")
        p = FlexibleArgumentParser(description="vLLM CLI")
        sp = p.add_subparsers(required=False, dest="subparser")
        return p, serve.ServeSubcommand().subparser_init(sp)
    if which == "sglang":
        from sglang.srt.server_args import ServerArgs

        p = argparse.ArgumentParser()
        ServerArgs.add_cli_args(p)
        return p, p


if __name__ == "__main__":
    top, serve = get()
    if len(sys.argv_orig if hasattr(sys, "argv_orig") else []) == 0:
        pass
    mode = os.environ.get("MODE", "table")
    if mode == "table":
        json.dump(dump(serve), open(os.environ["OUT"], "w"), indent=0)
    else:
        import io, contextlib, logging

        logging.disable(50)
        for line in sys.stdin:
            args = json.loads(line)
            err = io.StringIO()
            try:
                with contextlib.redirect_stderr(err), contextlib.redirect_stdout(err):
                    ns = (
                        top.parse_args(["serve", *args])
                        if which.startswith("vllm")
                        else top.parse_args(args)
                    )
                print(json.dumps(dict(args=args, ok=True)))
            except SystemExit as e:
                print(
                    json.dumps(
                        dict(
                            args=args, ok=e.code == 0, err=err.getvalue().strip().splitlines()[-1:]
                        )
                    )
                )
            except BaseException as e:
                print(json.dumps(dict(args=args, ok=False, err=[repr(e)[:200]])))
