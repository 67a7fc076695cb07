#!/usr/bin/env python3
"""What this host has that a launch depends on, as one JSON document.

This module runs alone and needs nothing but Python 3.8 or later::

    ssh node python3 - --weights /models/glm < imagegate/nodes/facts.py > node.json

It changes nothing and needs no privileges; what it could not see is listed under ``unseen``, with
the reason. It states facts; `imagegate launch check` judges them. Sizes are in bytes or, where the
name says so, in KiB. Values of variables whose names look like secrets are given as SHA-256.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import sys
import time

SCHEMA = 1
COMMAND_SECONDS = 20
HEADER_LIMIT = 100_000_000
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(?:^|_)KEY(?:$|_)|APIKEY", re.IGNORECASE)
# bits of one element (safetensors/src/tensor.rs, Dtype)
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


class Host:
    """Reads files below a root, runs programs, and remembers what could not be seen."""

    def __init__(self, root="/", run_programs=True):
        self.root = root
        self.run_programs = run_programs
        self.unseen = []

    def path(self, path):
        """Return where a path lies below the root."""
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    def not_seen(self, what, why):
        """Remember that something could not be seen, and why."""
        entry = {"what": what, "why": str(why)}
        if entry not in self.unseen:
            self.unseen.append(entry)

    def text(self, path, quiet=False):
        """Return a file's text, ``None`` where it cannot be read."""
        try:
            with open(self.path(path), "rb") as stream:
                return stream.read().decode("utf-8", "replace")
        except OSError as error:
            if not quiet:
                self.not_seen(path, error.strerror or error)
            return None

    def number(self, path, quiet=False):
        """Return a file's number, ``None`` where there is none."""
        text = self.text(path, quiet)
        try:
            return int(text) if text is not None else None
        except ValueError:
            self.not_seen(path, "not a number")
            return None

    def glob(self, pattern):
        """Return the matching paths, as they are named below the root."""
        found = sorted(glob.glob(self.path(pattern)))
        cut = 0 if self.root == "/" else len(self.root.rstrip("/"))
        return [path[cut:] for path in found]

    def run(self, *command, **more):
        """Return what a program prints, ``None`` where it is absent or fails."""
        if not self.run_programs or shutil.which(command[0]) is None:
            return None
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=COMMAND_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.not_seen(" ".join(command[:3]), error)
            return None
        if done.returncode != 0 and not more.get("any_code"):
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            self.not_seen(" ".join(command[:3]), said[-1] if said else f"exit {done.returncode}")
            return None
        return (done.stdout + (done.stderr if more.get("both") else b"")).decode("utf-8", "replace")


def host_facts(host):
    """Who this is."""
    kernel = host.text("/proc/sys/kernel/osrelease")
    inside = [
        sign for sign in ("/.dockerenv", "/run/.containerenv") if os.path.exists(host.path(sign))
    ]
    return {
        "name": (host.text("/proc/sys/kernel/hostname") or socket.gethostname()).strip(),
        "boot_id": (host.text("/proc/sys/kernel/random/boot_id", quiet=True) or "").strip(),
        "kernel": (kernel or "").strip(),
        "architecture": platform.machine(),
        "cpus": len(re.findall(r"^processor\s*:", host.text("/proc/cpuinfo") or "", re.MULTILINE))
        or os.cpu_count(),
        "in_container": bool(inside),
        "python": platform.python_version(),
        "time": int(time.time()),
        # a boot line may hold secrets; these words bear on memory and drivers
        "boot_words": [
            word
            for word in (host.text("/proc/cmdline", quiet=True) or "").split()
            if word.startswith(("kho", "hugepages", "transparent_hugepage", "iommu", "nvidia"))
        ],
    }


# --- memory


def memory_facts(host):
    """``/proc/meminfo``, the sysctls that matter and the zones' watermarks in pages."""
    fields = dict(
        re.findall(r"^([\w()]+):\s+(\d+)(?: kB)?$", host.text("/proc/meminfo") or "", re.MULTILINE)
    )
    names = {
        "total_kib": "MemTotal", "free_kib": "MemFree", "available_kib": "MemAvailable",
        "anonymous_kib": "AnonPages", "active_file_kib": "Active(file)",
        "inactive_file_kib": "Inactive(file)", "reclaimable_kib": "KReclaimable",
        "slab_reclaimable_kib": "SReclaimable", "swap_total_kib": "SwapTotal",
        "swap_free_kib": "SwapFree", "huge_pages_kib": "Hugetlb",
    }  # fmt: skip
    found = {key: int(fields[name]) if name in fields else None for key, name in names.items()}
    for name in ("min_free_kbytes", "swappiness", "watermark_scale_factor", "overcommit_memory"):
        found[name] = host.number(f"/proc/sys/vm/{name}")
    found["page_size"] = os.sysconf("SC_PAGE_SIZE")
    found["zones"] = zones(host.text("/proc/zoneinfo") or "")
    return found


def zones(text):
    """Read ``/proc/zoneinfo``: watermarks, managed pages and the reserve, in pages."""
    found = []
    for part in re.split(r"^Node \d+, zone\s+", text, flags=re.MULTILINE)[1:]:
        numbers = {
            name: int(value)
            for name, value in re.findall(
                r"^\s+(min|low|high|boost|managed|present|spanned)\s+(\d+)\s*$", part, re.MULTILINE
            )
        }
        protection = re.search(r"protection: \(([\d, ]*)\)", part)
        reserve = [int(one) for one in re.findall(r"\d+", protection[1])] if protection else []
        found.append(
            {"name": part.split(None, 1)[0], "reserve": max(reserve) if reserve else 0, **numbers}
        )
    return found


# --- killers


def process_facts(host):
    """Return pid, name, arguments and parent of every process that can be seen."""
    found = []
    for folder in host.glob("/proc/[0-9]*"):
        line = host.text(f"{folder}/cmdline", quiet=True)
        name = host.text(f"{folder}/comm", quiet=True)
        if line is None or name is None:
            continue
        status = host.text(f"{folder}/status", quiet=True) or ""
        parent = re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)
        found.append(
            {
                "pid": int(folder.rsplit("/", 1)[1]),
                "name": name.strip(),
                "arguments": line.rstrip("\0").split("\0") if line else [],
                "parent": int(parent[1]) if parent else None,
            }
        )
    return found


def killer_facts(host, processes):
    """Return the programs that end processes when memory is short, as they run now."""
    found = []
    for process in processes:
        name = process["name"]
        if name == "earlyoom":
            found.append(
                {
                    "kind": "earlyoom",
                    "pid": process["pid"],
                    "arguments": process["arguments"][1:],
                    "version": earlyoom_version(host, process["pid"]),
                    "configured": earlyoom_configured(host),
                }
            )
        elif name == "raylet":
            environment = host.text(f"/proc/{process['pid']}/environ", quiet=True)
            if environment is None:
                host.not_seen("environment of raylet", "not permitted")
            values = dict(
                line.split("=", 1) for line in (environment or "").split("\0") if "=" in line
            )
            found.append(
                {
                    "kind": "ray",
                    "pid": process["pid"],
                    "refresh_ms": values.get("RAY_memory_monitor_refresh_ms"),
                    "threshold": values.get("RAY_memory_usage_threshold"),
                    "seen": environment is not None,
                }
            )
        elif name.startswith(("systemd-oom", "nohang", "oomd")):
            # the kernel cuts names after 15 characters
            found.append(
                {
                    "kind": "systemd-oomd" if name.startswith("systemd-oom") else name,
                    "pid": process["pid"],
                    "units": oomd_units(host) if name.startswith("systemd") else [],
                }
            )
    if not processes:
        host.not_seen("killers", "no process can be seen")
    # a killer that is installed and does not run is a fact of its own
    configured = earlyoom_configured(host)
    installed = host.path("/usr/bin/earlyoom")
    if os.path.exists(installed) or configured is not None:
        if not any(one["kind"] == "earlyoom" for one in found):
            found.append(
                {"kind": "earlyoom", "pid": None, "arguments": [], "configured": configured,
                 "version": earlyoom_version(host, None)}
            )  # fmt: skip
    return found


def earlyoom_version(host, pid):
    """Ask the program itself, else Debian's record of the package."""
    program = f"/proc/{pid}/exe" if pid is not None and host.root == "/" else "earlyoom"
    said = None
    if host.run_programs and (program == "earlyoom" or os.access(program, os.X_OK)):
        said = host.run(program if os.path.exists(program) else "earlyoom", "-v", both=True)
    match = re.search(r"earlyoom v?(\d+(?:\.\d+)*)", said or "")
    if match:
        return match[1]
    for name, version, state in debian_packages(host, r"earlyoom"):
        if name == "earlyoom" and state == "installed":
            return re.sub(r"^\d+:", "", version).split("-")[0]
    return None


def earlyoom_configured(host):
    """Return the words of the last ``EARLYOOM_ARGS`` of ``/etc/default/earlyoom``."""
    text = host.text("/etc/default/earlyoom", quiet=True)
    if text is None:
        return None
    found = ""
    for line in text.splitlines():
        match = re.match(r"\s*EARLYOOM_ARGS=(.*)$", line)
        if match:
            found = match[1].strip()
    if len(found) > 1 and found[0] == found[-1] and found[0] in "\"'":
        found = found[1:-1]
    return found.split()


def oomd_units(host):
    """Return the units that systemd-oomd is told to watch."""
    said = host.run(
        "systemctl", "show", "--all", "*.slice", "*.service", "*.scope",
        "-p", "Id", "-p", "ManagedOOMMemoryPressure", "-p", "ManagedOOMSwap",
    )  # fmt: skip
    if said is None:
        host.not_seen("units of systemd-oomd", "systemctl did not answer")
        return []
    found = []
    for part in said.split("\n\n"):
        values = dict(line.split("=", 1) for line in part.splitlines() if "=" in line)
        acts = [
            k for k in ("ManagedOOMMemoryPressure", "ManagedOOMSwap") if values.get(k) == "kill"
        ]
        if acts:
            found.append({"unit": values.get("Id", ""), "acts_on": acts})
    return found


def ssh_facts(host, processes):
    """Return the score of the sshd that listens: the one that has to survive."""
    listeners = [p for p in processes if p["name"] == "sshd" and p["parent"] in (0, 1)]
    if not listeners:
        return None
    score = host.number(f"/proc/{listeners[0]['pid']}/oom_score_adj", quiet=True)
    return {"pid": listeners[0]["pid"], "oom_score_adj": score}


# --- kernel and driver


def debian_packages(host, pattern):
    """Yield name, version and state of Debian packages by pattern of the name."""
    text = host.text("/var/lib/dpkg/status", quiet=True)
    for part in (text or "").split("\n\n"):
        values = dict(re.findall(r"^(Package|Version|Status): (.*)$", part, re.MULTILINE))
        name = values.get("Package", "")
        if name and re.fullmatch(pattern, name):
            yield name, values.get("Version", ""), values.get("Status", "").split(" ")[-1]


def driver_facts(host):
    """Return the evidence about kernel and driver, each reading by itself."""
    loaded_text = host.text("/proc/driver/nvidia/version", quiet=True)
    match = re.search(
        r"(?:Kernel Module|for \w+)\s+(?:for \w+\s+)?(\d+\.\d+(?:\.\d+)?)", loaded_text or ""
    )
    loaded = match[1] if match else None
    loaded = loaded or (host.text("/sys/module/nvidia/version", quiet=True) or "").strip() or None
    modules = {}
    for folder in host.glob("/lib/modules/*"):
        kernel = folder.rsplit("/", 1)[1]
        found = [
            path
            for pattern in ("nvidia.ko", "nvidia.ko.*", "*/nvidia.ko*", "*/*/nvidia.ko*",
                            "*/*/*/nvidia.ko*", "*/*/*/*/nvidia.ko*", "*/*/*/*/*/nvidia.ko*")
            for path in host.glob(f"{folder}/{pattern}")
        ]  # fmt: skip
        modules[kernel] = sorted(found)
    packages = [
        {"name": name, "version": version, "state": state}
        for name, version, state in debian_packages(
            host,
            r"linux-(?:image|modules|objects|signatures)-.*|libnvidia-compute-.*|nvidia-dkms-.*",
        )
        if re.search(r"\d", name) or "nvidia" in name
    ]
    libraries = sorted(
        {
            match[1]
            for folder in (
                "/usr/lib/*-linux-gnu",
                "/usr/lib64",
                "/usr/lib",
                "/usr/lib/*-linux-gnu/nvidia/current",
            )
            for path in host.glob(f"{folder}/libcuda.so.*")
            for match in [re.search(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)$", path)]
            if match
        }
    )
    grub = re.findall(
        r"^\s*GRUB_DEFAULT=(.*)$", host.text("/etc/default/grub", quiet=True) or "", re.MULTILINE
    )
    if not os.path.isdir(host.path("/lib/modules")):
        host.not_seen("/lib/modules", "not there: run this on the host")
    if host.text("/var/lib/dpkg/status", quiet=True) is None:
        host.not_seen("dpkg", "no package record: run this on the host")
    return {
        "running_kernel": (host.text("/proc/sys/kernel/osrelease") or "").strip(),
        "loaded": loaded,
        "modules": modules,
        "modules_seen": os.path.isdir(host.path("/lib/modules")),
        "packages": packages,
        "packages_seen": host.text("/var/lib/dpkg/status", quiet=True) is not None,
        "libraries": libraries,
        "grub_default": grub[-1].strip().strip("\"'") if grub else None,
    }


def gpu_facts(host):
    """Return the GPUs as ``nvidia-smi`` or ``/proc`` names them."""
    fields = ("index", "name", "driver_version", "memory.total", "compute_cap", "uuid")
    said = host.run(
        "nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"
    )
    found = []
    for line in (said or "").splitlines():
        values = [one.strip() for one in line.split(",")]
        if len(values) == len(fields):
            found.append(
                {
                    key.replace(".", "_"): None
                    if value in ("[N/A]", "N/A", "[Not Supported]")
                    else value
                    for key, value in zip(fields, values)
                }
            )
    if said is None:
        for path in host.glob("/proc/driver/nvidia/gpus/*/information"):
            text = host.text(path, quiet=True) or ""
            model = re.search(r"^Model:\s*(.*)$", text, re.MULTILINE)
            found.append({"index": str(len(found)), "name": model[1].strip() if model else None})
        if not found:
            host.not_seen("GPUs", "no nvidia-smi and no /proc/driver/nvidia/gpus")
    return found


# --- network


def network_facts(host):
    """Return links with carrier, the RDMA devices on them, and what listens."""
    addresses = {}
    said = host.run("ip", "-j", "addr")
    try:
        for link in json.loads(said) if said else []:
            addresses[link.get("ifname")] = [
                one.get("local")
                for one in link.get("addr_info", [])
                if one.get("scope") == "global"
            ]
    except ValueError:
        said = None
    if said is None:
        host.not_seen("addresses", "no `ip -j addr`")
    rdma = {}
    for path in host.glob("/sys/class/infiniband/*/device/net/*"):
        parts = path.split("/")
        rdma.setdefault(parts[-1], []).append(parts[4])
    links = []
    for folder in host.glob("/sys/class/net/*"):
        name = folder.rsplit("/", 1)[1]
        if name == "lo" or name.startswith(("veth", "docker", "br-", "cni", "flannel", "virbr")):
            continue
        links.append(
            {
                "name": name,
                "state": (host.text(f"{folder}/operstate", quiet=True) or "").strip(),
                "carrier": (host.text(f"{folder}/carrier", quiet=True) or "").strip() == "1",
                "speed_mbits": host.text(f"{folder}/speed", quiet=True)
                and host.number(f"{folder}/speed", quiet=True),
                "mtu": host.number(f"{folder}/mtu", quiet=True),
                "physical": os.path.exists(host.path(f"{folder}/device")),
                "addresses": addresses.get(name, []),
                "rdma": sorted(rdma.get(name, [])),
            }
        )
    devices = []
    for folder in host.glob("/sys/class/infiniband/*"):
        for port in host.glob(f"{folder}/ports/*"):
            devices.append(
                {
                    "name": folder.rsplit("/", 1)[1],
                    "port": port.rsplit("/", 1)[1],
                    "state": (host.text(f"{port}/state", quiet=True) or "").strip(),
                    "links": [p.rsplit("/", 1)[1] for p in host.glob(f"{folder}/device/net/*")],
                }
            )
    return {
        "links": links,
        "rdma": devices,
        "dev_infiniband": sorted(p.rsplit("/", 1)[1] for p in host.glob("/dev/infiniband/*")),
        "listeners": listeners(host),
    }


def listeners(host):
    """Return the TCP ports on which something listens (``/proc/net/tcp``, state 0A)."""
    ports = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (host.text(path, quiet=path.endswith("6")) or "").splitlines()[1:]:
            columns = line.split()
            if len(columns) > 3 and columns[3] == "0A":
                ports.add(int(columns[1].rsplit(":", 1)[1], 16))
    return sorted(ports)


# --- engines


def engine_facts(host, wanted):
    """Return images and running containers of each engine that answers."""
    found = []
    for engine in ("docker", "podman"):
        if wanted and engine not in wanted:
            continue
        if not host.run_programs or shutil.which(engine) is None:
            continue
        info = host.run(engine, "info", "--format", "{{json .}}")
        if info is None:
            continue
        try:
            about = json.loads(info)
        except ValueError:
            about = {}
        identifiers = (host.run(engine, "images", "--no-trunc", "-q") or "").split()
        running = (host.run(engine, "ps", "--no-trunc", "-q") or "").split()
        found.append(
            {
                "kind": engine,
                "version": about.get("ServerVersion")
                or (about.get("version") or {}).get("Version"),
                "cgroup_driver": about.get("CgroupDriver")
                or (about.get("host") or {}).get("cgroupManager"),
                "images": images(host, engine, sorted(set(identifiers))),
                "containers": containers(host, engine, running),
            }
        )
    if not found:
        host.not_seen("container engines", "neither docker nor podman answers")
    return found


def inspected(host, engine, kind, names):
    """Return the documents of ``inspect``."""
    if not names:
        return []
    said = host.run(engine, kind, "inspect", *names)
    try:
        return json.loads(said) if said else []
    except ValueError:
        host.not_seen(f"{engine} {kind} inspect", "not JSON")
        return []


def images(host, engine, names):
    """Return id, digests, platform and settings of images."""
    found = []
    for one in inspected(host, engine, "image", names):
        config = one.get("Config") or {}
        environment = dict(e.split("=", 1) for e in config.get("Env") or [] if "=" in e)
        found.append(
            {
                "id": with_algorithm(one.get("Id", "")),
                "digests": one.get("RepoDigests") or [],
                "tags": one.get("RepoTags") or [],
                "architecture": one.get("Architecture"),
                "requires": {k: v for k, v in environment.items() if k in CAPABILITY_NAMES},
            }
        )
    return found


CAPABILITY_NAMES = (
    "NVIDIA_REQUIRE_CUDA",
    "TORCH_CUDA_ARCH_LIST",
    "FLASHINFER_CUDA_ARCH_LIST",
    "CUDA_VERSION",
)


def containers(host, engine, names):
    """Return what runs: image, command, environment, mounts, devices, limits, start time."""
    found = []
    for one in inspected(host, engine, "container", names):
        config, limits = one.get("Config") or {}, one.get("HostConfig") or {}
        state = one.get("State") or {}
        environment = {}
        for entry in config.get("Env") or []:
            name, _, value = entry.partition("=")
            environment[name] = shown(name, value)
        found.append(
            {
                "id": one.get("Id", ""),
                "name": (one.get("Name") or "").lstrip("/"),
                "image": with_algorithm(one.get("Image", "")),
                "image_name": config.get("Image") or one.get("ImageName"),
                "command": [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
                if not isinstance(config.get("Entrypoint"), str)
                else [config["Entrypoint"], *(config.get("Cmd") or [])],
                "environment": environment,
                "mounts": [
                    {
                        "source": mount.get("Source"),
                        "target": mount.get("Destination"),
                        "writable": mount.get("RW", True),
                    }
                    for mount in one.get("Mounts") or []
                ],
                "devices": sorted(
                    device.get("PathInContainer") or device.get("PathOnHost") or ""
                    for device in limits.get("Devices") or []
                ),
                "gpus": bool(limits.get("DeviceRequests")) or limits.get("Runtime") == "nvidia",
                "privileged": bool(limits.get("Privileged")),
                "memory_limit": limits.get("Memory") or None,
                "network": limits.get("NetworkMode"),
                "ipc": limits.get("IpcMode"),
                "shm_size": limits.get("ShmSize"),
                "memlock": [
                    u
                    for u in limits.get("Ulimits") or []
                    if u.get("Name", "").lower().endswith("memlock")
                ],
                "started_at": state.get("StartedAt"),
                "pid": state.get("Pid"),
                "labels": config.get("Labels") or {},
            }
        )
    return found


def with_algorithm(identifier):
    """Return an id as docker and podman write it alike."""
    return identifier if not identifier or ":" in identifier else f"sha256:{identifier}"


def shown(name, value):
    """Return a variable's value, or its SHA-256 where the name looks like a secret's."""
    if value and SECRET.search(name):
        return "sha256:" + hashlib.sha256(value.encode()).hexdigest()
    return value


# --- weights


def weight_facts(host, path, full=False):
    """Prove a checkpoint from its headers: what is there, what is missing, what is damaged."""
    given = path
    here = host.path(path)
    found = {"path": given, "files": [], "faults": [], "bytes": 0, "content_read": full}
    if not os.path.isdir(here):
        what = "dead link" if os.path.islink(here) else "no folder"
        found["faults"].append({"what": "absent", "file": given, "found": what})
        return found
    here = snapshot(here, found)
    names = sorted(os.listdir(here))
    found["folder"] = here
    tensors, total = {}, 0
    for name in names:
        full_path = os.path.join(here, name)
        if os.path.islink(full_path) and not os.path.exists(full_path):
            fault(found, "dead-link", name, found=os.readlink(full_path))
            continue
        if os.path.isdir(full_path):
            continue
        if name.endswith(".incomplete"):
            fault(found, "incomplete", name)
        if name.endswith(".safetensors"):
            entry, inside = shard(full_path, name, found, full)
            found["files"].append(entry)
            total += entry["size"]
            for tensor in inside:
                tensors.setdefault(tensor, name)
        elif name.endswith((".json", ".txt", ".jinja", ".model", ".tiktoken", ".py")):
            found["files"].append(small_file(full_path, name))
    found["bytes"] = total
    found["tensors"] = len(tensors)
    check_index(here, names, tensors, found)
    describe_model(here, names, found)
    lines = [
        f"{f['name']} {f['size']} {f.get('header') or f.get('sha256')}" for f in found["files"]
    ]
    found["digest"] = "sha256:" + hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return found


def fault(checkpoint, what, file, **more):
    """Add a fault of a checkpoint."""
    checkpoint["faults"].append({"what": what, "file": file, **more})


def snapshot(here, found):
    """Resolve ``models--ORG--NAME`` of a Hugging Face cache to its snapshot."""
    reference = os.path.join(here, "refs", "main")
    snapshots = os.path.join(here, "snapshots")
    if not os.path.isdir(snapshots):
        parent = os.path.dirname(os.path.dirname(here.rstrip("/")))
        blobs = os.path.join(parent, "blobs")
    else:
        blobs = os.path.join(here, "blobs")
        revision = None
        if os.path.isfile(reference):
            with open(reference) as stream:
                revision = stream.read().strip()
        chosen = revision or next(iter(sorted(os.listdir(snapshots))), None)
        found["revision"] = chosen
        here = os.path.join(snapshots, chosen) if chosen else here
        if not os.path.isdir(here):
            fault(found, "no-snapshot", str(chosen))
            here = os.path.dirname(snapshots)
    for name in sorted(os.listdir(blobs)) if os.path.isdir(blobs) else []:
        if name.endswith(".incomplete"):
            fault(found, "incomplete", f"blobs/{name}")
    return here


def small_file(path, name):
    """Return size and SHA-256 of a file that is small."""
    with open(path, "rb") as stream:
        content = stream.read(64 << 20)
    return {
        "name": name,
        "size": os.path.getsize(path),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def shard(path, name, found, full):
    """Read one safetensors file's header (format: u64 length, JSON, data without gaps)."""
    status = os.stat(path)
    entry = {
        "name": name,
        "size": status.st_size,
        "blocks": status.st_blocks * 512,
        "uid": status.st_uid,
    }
    with open(path, "rb") as stream:
        first = stream.read(8)
        rest = stream.read(192)
        if (first + rest).startswith(b"version https://git-lfs"):
            fault(found, "lfs-pointer", name, found=status.st_size)
            return entry, []
        if len(first) < 8:
            fault(found, "empty" if not first else "cut", name, needed=8, found=len(first))
            return entry, []
        length = struct.unpack("<Q", first)[0]
        if length == 0 and not rest.strip(b"\0"):
            fault(found, "zeros", name)
            return entry, []
        if length > HEADER_LIMIT or length > status.st_size - 8:
            fault(found, "bad-header", name, needed=8 + length, found=status.st_size)
            return entry, []
        stream.seek(8)
        header = stream.read(length)
        entry["header"] = hashlib.sha256(first + header).hexdigest()
        if full:
            digest = hashlib.sha256(first + header)
            while True:
                chunk = stream.read(4 << 20)
                if not chunk:
                    break
                digest.update(chunk)
            entry["sha256"] = digest.hexdigest()
            blob = os.path.basename(os.path.realpath(path))
            # a blob of the Hugging Face cache is named by its content's SHA-256
            if re.fullmatch(r"[0-9a-f]{64}", blob) and blob != entry["sha256"]:
                fault(found, "content", name, needed=blob, found=entry["sha256"])
    try:
        document = json.loads(header.decode("utf-8"))
        assert isinstance(document, dict) and header[:1] == b"{"
    except (ValueError, AssertionError, RecursionError):
        fault(found, "bad-header", name, found="not a JSON object")
        return entry, []
    document.pop("__metadata__", None)
    problem, end = extents(document)
    if problem:
        fault(found, "bad-header", name, found=problem)
    elif 8 + length + end != status.st_size:
        fault(
            found, "cut" if 8 + length + end > status.st_size else "surplus", name,
            needed=8 + length + end, found=status.st_size,
        )  # fmt: skip
    elif entry["blocks"] < 0.9 * status.st_size:
        fault(found, "sparse", name, needed=status.st_size, found=entry["blocks"])
    entry["tensors"] = len(document)
    return entry, list(document)


def extents(document):
    """Return what is wrong with the offsets, and where the data ends."""
    try:
        ordered = sorted(document.items(), key=lambda item: item[1]["data_offsets"])
        position = 0
        for tensor, about in ordered:
            begin, end = about["data_offsets"]
            if begin != position or end < begin:
                return f"`{tensor}` begins at {begin}, not at {position}", 0
            bits = BITS.get(about["dtype"])
            if bits is not None:
                for extent in about["shape"]:
                    bits *= extent
                if bits != 8 * (end - begin):
                    return (
                        f"`{tensor}` has {end - begin} bytes for {about['dtype']} {about['shape']}",
                        0,
                    )
            position = end
    except (KeyError, TypeError, ValueError):
        return "a tensor without dtype, shape or data_offsets", 0
    return "", position


def check_index(here, names, tensors, found):
    """Compare the shards with ``*.safetensors.index.json``."""
    shards = [name for name in names if name.endswith(".safetensors")]
    indexes = [name for name in names if name.endswith(".safetensors.index.json")]
    if not shards and not indexes:
        others = [n for n in names if n.endswith((".bin", ".gguf", ".pt", ".pth"))]
        found["other_formats"] = others
        fault(found, "no-weights", here, found=f"{len(names)} files, none *.safetensors")
        return
    if not indexes:
        if len([s for s in shards if s != "consolidated.safetensors"]) > 1:
            fault(found, "no-index", "model.safetensors.index.json", found=f"{len(shards)} shards")
        return
    for index in indexes:
        try:
            with open(os.path.join(here, index), "rb") as stream:
                placed = json.loads(stream.read().decode("utf-8"))["weight_map"]
            items = list(placed.items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            fault(found, "bad-index", index)
            continue
        wanted = {file for _, file in items}
        for file in sorted(wanted - set(shards)):
            fault(found, "missing", file, needed=index)
        moved = [t for t, f in items if f in shards and tensors.get(t) != f]
        if moved:
            fault(found, "tensor-elsewhere", moved[0], needed=placed[moved[0]],
                  found=tensors.get(moved[0]), count=len(moved))  # fmt: skip
        if len(indexes) == 1:
            for file in sorted(set(shards) - wanted):
                fault(found, "not-in-index", file)


def describe_model(here, names, found):
    """Keep what the checks need of ``config.json`` and name the files that a model needs."""
    if "config.json" not in names:
        fault(found, "no-config", "config.json")
        return
    try:
        with open(os.path.join(here, "config.json"), "rb") as stream:
            config = json.loads(stream.read().decode("utf-8"))
        architectures = config.get("architectures") or []
    except (OSError, ValueError, AttributeError):
        fault(found, "bad-config", "config.json")
        return
    quantization = config.get("quantization_config") or {}
    found["model"] = {
        "architectures": architectures,
        "model_type": config.get("model_type"),
        "auto_map": bool(config.get("auto_map")),
        "quantization": quantization.get("quant_method") if isinstance(quantization, dict) else None,
        "multimodal": any(key in config for key in ("vision_config", "audio_config")),
        "text": {
            key: (config.get("text_config") or config).get(key)
            for key in ("num_hidden_layers", "num_key_value_heads", "num_attention_heads", "head_dim",
                        "hidden_size", "kv_lora_rank", "qk_rope_head_dim", "layer_types",
                        "sliding_window", "max_position_embeddings")
        },
    }  # fmt: skip
    if found["model"]["multimodal"] and not {
        "processor_config.json",
        "preprocessor_config.json",
    } & set(names):
        fault(found, "no-processor", "processor_config.json")
    if not {
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "tekken.json",
        "vocab.json",
    } & set(names):
        fault(found, "no-tokenizer", "tokenizer.json")


# --- caches


def cache_facts(host, path):
    """Return what lies in a cache of compiled kernels, by its first folders."""
    here = host.path(path)
    found = {"path": path, "there": os.path.isdir(here), "folders": []}
    if not found["there"]:
        return found
    found["uid"] = os.stat(here).st_uid
    found["writable"] = os.access(here, os.W_OK)
    for name in sorted(os.listdir(here)):
        folder = os.path.join(here, name)
        if not os.path.isdir(folder):
            continue
        entry = {"name": name, "libraries": [], "locks": [], "bytes": 0}
        for parent, _, files in os.walk(folder):
            for file in files:
                whole = os.path.join(parent, file)
                relative = os.path.relpath(whole, folder)
                try:
                    entry["bytes"] += os.lstat(whole).st_size
                except OSError:
                    continue
                if file.endswith(".so"):
                    entry["libraries"].append(relative)
                elif file.endswith(".lock"):
                    entry["locks"].append(relative)
        entry["libraries"].sort()
        entry["locks"].sort()
        record = os.path.join(folder, "imagegate-precompiled.json")
        if os.path.isfile(record):
            try:
                with open(record) as stream:
                    entry["record"] = json.load(stream)
            except (OSError, ValueError):
                entry["record"] = None
        found["folders"].append(entry)
    return found


def collect(host, weights=(), caches=(), full=False, engines=()):
    """Return everything that is known of this host."""
    processes = process_facts(host)
    document = {
        "schema": SCHEMA,
        "host": host_facts(host),
        "memory": memory_facts(host),
        "killers": killer_facts(host, processes),
        "processes_seen": len(processes),
        "ssh": ssh_facts(host, processes),
        "driver": driver_facts(host),
        "gpus": gpu_facts(host),
        "network": network_facts(host),
        "engines": engine_facts(host, engines),
        "weights": [weight_facts(host, path, full) for path in weights],
        "caches": [cache_facts(host, path) for path in caches],
    }
    if document["host"]["in_container"]:
        host.not_seen("the host", "this ran in a container: packages and modules are its own")
    document["unseen"] = host.unseen
    return document


def main(arguments=None):
    """Print the document."""
    parser = argparse.ArgumentParser(description="What this host has that a launch depends on.")
    parser.add_argument("--weights", action="append", default=[], metavar="DIR")
    parser.add_argument("--cache", action="append", default=[], metavar="DIR")
    parser.add_argument("--engine", action="append", default=[], choices=("docker", "podman"))
    parser.add_argument("--full", action="store_true", help="hash the weights' content too")
    parser.add_argument("--root", default="/", help="read the host below this folder")
    parser.add_argument("--json", action="store_true", help="the only form there is")
    given = parser.parse_args(arguments)
    host = Host(given.root, run_programs=given.root == "/")
    json.dump(
        collect(host, given.weights, given.cache, given.full, given.engine), sys.stdout, indent=1
    )
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
