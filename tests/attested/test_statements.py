"""Statements hold what in-toto, SLSA, DSSE and CycloneDX require, and the same bytes each time."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import given, strategies as st
from packaging.utils import canonicalize_name
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from imagegate.attestation.components import Installed, components
from imagegate.attestation.provenance import BuildRecord, provenance
from imagegate.attestation.sbom import sbom
from imagegate.attestation.spdx import spdx
from imagegate.attestation.statement import (
    Envelope,
    Subject,
    make_statement,
    parse_envelope,
    parse_statement,
    pre_authentication_encoding,
)
from imagegate.attestation.summary import policy_digest, summarise
from imagegate.catalog.freeze import freeze
from imagegate.catalog.requirements import marker_environment
from imagegate.checks.image import CHECKS
from imagegate.errors import AttestationError
from imagegate.facts import Distribution, SystemPackage
from imagegate.oci.digest import Digest
from imagegate.oci.platform import Platform
from imagegate.report.document import parse_json_report, render_json
from imagegate.workspace import Workspace
from tests.attested.cases import NOW, VERSION, Judged, nothing_compared, with_failure

if TYPE_CHECKING:
    from imagegate.attestation.statement import Statement
    from imagegate.lock import Lock


def _predicate(statement: Statement) -> dict[str, Any]:
    document = json.loads(statement.payload)
    # in-toto attestation, spec/v1/statement.md: the four fields, all required
    assert set(document) == {"_type", "subject", "predicateType", "predicate"}
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    predicate = document["predicate"]
    assert isinstance(predicate, dict)
    return predicate


def test_the_pre_authentication_encoding_is_the_specifications_example() -> None:
    # secure-systems-lab/dsse, protocol.md, "Test Vectors"
    encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_every_statement_is_about_the_manifest_and_the_index_it_was_pinned_through() -> None:
    manifest, index = Digest.of(b"manifest"), Digest.of(b"index")
    subject = Subject(repository="registry.example/served", digest=manifest, index=index)
    document = json.loads(make_statement(subject, "https://example.com/type", {}).payload)
    assert document["subject"] == [
        {"name": "registry.example/served", "digest": {"sha256": manifest.encoded}},
        {"name": "registry.example/served", "digest": {"sha256": index.encoded}},
    ]


def test_a_second_run_gives_the_same_bytes(judged: Judged) -> None:
    first, second = judged.statements(), judged.statements()
    assert {name: s.payload for name, s in first.items()} == {
        name: s.payload for name, s in second.items()
    }


def test_the_summary_has_what_slsa_requires(judged: Judged) -> None:
    statements = judged.statements()
    summary = _predicate(statements["summary"])
    # slsa.dev, "Verification Summary Attestation", v1, "Fields": those marked required
    assert summary["verifier"]["id"] == "pkg:pypi/imagegate"
    assert summary["verifier"]["version"] == {"imagegate": VERSION}
    assert summary["timeVerified"] == NOW
    # the recipe's repository, wherever the image is read from later (conforma/cli#3080)
    assert summary["resourceUri"] == (
        f"pkg:oci/served@sha256%3A{judged.subject.digest.encoded}"
        "?arch=arm64&repository_url=registry.example/team/served"
    )
    lock = judged.evidence.lock
    assert summary["policy"]["digest"] == {"sha256": lock.digest.encoded}
    assert summary["policy"]["annotations"] == {
        "recipe": str(policy_digest(judged.evidence.recipe)),
        "checks": {check.id: check.revision for check in CHECKS},
    }
    assert summary["verificationResult"] == "PASSED"
    # "inputAttestations": each with a digest, none left out
    assert summary["inputAttestations"] == [
        {
            "uri": "https://in-toto.io/attestation/test-result/v0.1",
            "digest": {"sha256": statements["result"].digest.encoded},
        }
    ]


def test_the_summarys_levels_name_every_check_and_claim_no_build_level(judged: Judged) -> None:
    levels = _predicate(judged.statements()["summary"])["verifiedLevels"]
    # slsa.dev: custom levels must not start with SLSA_; UNEVALUATED makes no claim
    assert [level for level in levels if level.startswith("SLSA_")] == [
        "SLSA_BUILD_LEVEL_UNEVALUATED"
    ]
    assert len(levels) == 1 + len(CHECKS)


def test_a_failed_verdict_is_never_summarised_as_passed(judged: Judged) -> None:
    for verdict in (
        with_failure(judged.verdict),
        nothing_compared(judged.verdict),
        replace(judged.verdict, reports=()),
    ):
        summary = _predicate(judged.statements(verdict=verdict)["summary"])
        assert summary["verificationResult"] == "FAILED"
        assert summary["verifiedLevels"] == ["FAILED"]


def test_a_verdict_on_another_image_or_by_another_lock_is_not_summarised(judged: Judged) -> None:
    result = judged.statements()["result"]
    for verdict in (
        replace(judged.verdict, image=Digest.of(b"another")),
        replace(judged.verdict, image=None),
        replace(judged.verdict, lock=Digest.of(b"another")),
    ):
        with pytest.raises(AttestationError, match="another"):
            summarise(
                verdict,
                judged.evidence.lock,
                judged.subject,
                recipe=policy_digest(judged.evidence.recipe),
                checks={"base.digest": 1},
                result=result,
                verified_at=NOW,
                version=VERSION,
            )


def test_the_test_result_lists_every_check_once_and_every_input(judged: Judged) -> None:
    failed = _predicate(judged.statements(verdict=with_failure(judged.verdict))["result"])
    # in-toto attestation, spec/predicates/test-result.md: result and configuration are required
    assert failed["result"] == "FAILED"
    assert failed["failedTests"] == ["python.pins"]
    listed = [*failed["passedTests"], *failed["warnedTests"], *failed["failedTests"]]
    assert sorted(listed) == sorted(check.id for check in CHECKS)
    names = [entry["name"] for entry in failed["configuration"]]
    assert "locks/served" in names
    assert "images/served/recipes/glm53/serve.yaml" in names
    assert [name for name in names if name.startswith("layer ")] == [
        "layer 1",
        "layer 2",
        "layer 3",
    ]
    assert all(entry["digest"]["sha256"] for entry in failed["configuration"])


def test_the_test_result_holds_the_whole_verdict(judged: Judged) -> None:
    result = _predicate(judged.statements()["result"])
    stored = json.dumps(result["pkg:pypi/imagegate#verdict"]).encode()
    assert parse_json_report(stored) == judged.verdict


def test_provenance_names_base_assets_settings_and_lock(judged: Judged) -> None:
    document = _predicate(judged.statements()["provenance"])
    definition, details = document["buildDefinition"], document["runDetails"]
    # slsa.dev, "Provenance" v1: buildType, externalParameters and builder.id are required
    assert definition["buildType"] == "pkg:pypi/imagegate#build/compose/v1"
    assert definition["externalParameters"]["config"]["env"] == {"SERVED": "/usr/share/served"}
    assert details["builder"]["id"] == "pkg:pypi/imagegate"
    dependencies = {d["name"]: d["digest"]["sha256"] for d in definition["resolvedDependencies"]}
    assert dependencies["base"] == judged.built.base.digest.removeprefix("sha256:")
    assert dependencies["locks/served"] == judged.evidence.lock.digest.encoded
    assert "recipes/glm53/serve.yaml" in dependencies


def test_provenance_of_what_an_engine_built_names_engine_builder_and_secrets_by_name(
    judged: Judged,
) -> None:
    path = judged.built.root / "build" / "served.build.json"
    composed = json.loads(path.read_bytes())
    engine = {
        "name": "docker",
        "builder": "buildkit",
        "version": "28.2.2",
        "network": "none",
        "secrets": ["token"],
        "image": "sha256:" + "0" * 64,
    }
    written = {key: composed[key] for key in ("schema", "imagegate", "digest", "lock")}
    record = BuildRecord.parse(json.dumps({**written, "engine": engine}).encode(), "it")
    recipe, lock = judged.evidence.recipe, judged.evidence.lock
    definition = _predicate(provenance(record, recipe, lock, judged.subject))["buildDefinition"]
    assert definition["buildType"] == "pkg:pypi/imagegate#build/engine/v1"
    asked = {"name": "docker", "network": "none", "secrets": ["token"]}
    assert definition["externalParameters"]["engine"] == asked
    assert definition["internalParameters"]["engine"]["version"] == "28.2.2"
    with pytest.raises(AttestationError, match="neither what composed"):
        BuildRecord.parse(json.dumps(written).encode(), "it")


def test_provenance_is_not_stated_of_an_image_that_the_build_did_not_make(judged: Judged) -> None:
    path = judged.built.root / "build" / "served.build.json"
    record = BuildRecord.parse(path.read_bytes(), "served.build.json")
    foreign = replace(judged.subject, digest=Digest.of(b"foreign"))
    with pytest.raises(AttestationError, match="of another build"):
        provenance(record, judged.evidence.recipe, judged.evidence.lock, foreign)
    with pytest.raises(AttestationError, match="not a build record"):
        BuildRecord.parse(b"{}", "served.build.json")


def test_the_bill_of_materials_is_valid_cyclonedx(judged: Judged) -> None:
    document = _predicate(judged.statements()["sbom"])
    # the schema that CycloneDX publishes, as cyclonedx-python-lib ships it
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None


def test_the_bill_of_materials_equals_pip_freeze_and_hashes_everything(judged: Judged) -> None:
    listed = _predicate(judged.statements()["sbom"])["components"]
    frozen = freeze(judged.evidence.facts.distributions, "3.12")
    python = [one for one in listed if one["purl"].startswith("pkg:pypi/")]
    assert "".join(f"{one['name']}=={one['version']}\n" for one in python) == frozen
    assert all(len(one["hashes"][0]["content"]) == 64 for one in python)
    # purl-spec: `+` of a local version is written %2B
    assert "pkg:pypi/torch@2.13.0%2Bcu130" in [one["purl"] for one in listed]


def test_the_shipped_images_bill_is_valid_cyclonedx_and_names_nothing_twice() -> None:
    lock = Workspace(Path(__file__).parents[2]).lock("glm")
    subject = Subject(repository="registry.example/glm", digest=Digest.of(b"glm"))
    document = _predicate(sbom(lock, subject, created=NOW, version=VERSION))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None
    references = [one["bom-ref"] for one in document["components"]]
    assert len(set(references)) == len(references)
    named = {r for one in document["dependencies"] for r in (one["ref"], *one["dependsOn"])}
    assert named == {*references, subject.uri}


def test_the_shipped_images_bill_lists_every_distribution_with_purl_and_hash() -> None:
    """The lock of ``glm``: what pip freezes in the base, and what the layer adds to it."""
    folder = Path(__file__).parents[2]
    listed = [
        one for one in components(Workspace(folder).lock("glm")) if one.purl.startswith("pkg:pypi/")
    ]
    frozen = Workspace(folder).lock("glm").freeze.splitlines()
    required = (folder / "locks/glm/requirements.txt").read_text().splitlines()
    lines = [*frozen, *(line.partition(" ")[0] for line in required)]
    expected = {canonicalize_name(line.partition("==")[0]): line for line in lines}
    # pip leaves itself out of its freeze
    assert {
        canonicalize_name(one.name): f"{one.name}=={one.version}"
        for one in listed
        if canonicalize_name(one.name) != "pip"
    } == expected
    assert len(expected) > 200
    assert all(re.fullmatch("[0-9a-f]{64}", one.sha256) for one in listed)
    assert len({one.purl for one in listed}) == len(listed)
    assert {one.hashed for one in listed if one.origin == "layer"} == {"wheel"}


def test_the_shipped_images_bill_lists_each_pinned_library_with_version_hash_and_owner() -> None:
    lock = Workspace(Path(__file__).parents[2]).lock("glm")
    listed = {one.path: one for one in components(lock) if one.path}
    pinned = {r.path: r.value for r in lock.base.facts.native if r.source == "sha256"}
    assert {path: one.sha256 for path, one in listed.items()} == pinned
    assert {one.hashed for one in listed.values()} == {"file"}
    site = "usr/local/lib/python3.12/dist-packages"
    nccl = listed[f"{site}/nvidia/nccl/lib/libnccl.so.2"]
    # the library's own words, not those of the wheel that brought it
    assert (nccl.version, nccl.owner) == ("2.30.7+cuda13.3", "nvidia-nccl-cu13==2.30.7")
    assert nccl.purl == (f"pkg:generic/libnccl@2.30.7%2Bcuda13.3?checksum=sha256:{nccl.sha256}")
    assert nccl.build_id
    assert listed[f"{site}/nvidia/cudnn/lib/libcudnn.so.9"].version == "9.20.0.48"
    # a copy that another wheel carries along is not of that wheel's version
    copied = {
        one.name: one.version for one in listed.values() if one.owner.startswith("pynvvideocodec==")
    }
    # the driver's stub says nowhere what it is
    assert copied == {"libcudart": "12.9.79", "libcuda": "unknown"}


def _dist(name: str, *requires: str, license: str = "") -> Distribution:  # noqa: A002 - METADATA's name
    return Distribution(
        name=name,
        version="1.0",
        path=f"usr/lib/{name}.dist-info",
        site="usr/lib",
        requires=requires,
        license=license,
    )


def _with(judged: Judged, *found: Distribution) -> tuple[Lock, Installed]:
    lock = judged.evidence.lock
    facts = replace(lock.base.facts, distributions=found)
    lock = replace(lock, base=replace(lock.base, facts=facts), wheels=())
    installed = Installed(
        distributions={canonicalize_name(one.name): one for one in found},
        markers=marker_environment(Platform.parse("linux/arm64"), "3.12"),
    )
    return lock, installed


def test_licences_are_expressions_where_the_metadata_writes_one(judged: Judged) -> None:
    """PEP 639: an SPDX expression in any case; all else is a name and says nothing more."""
    lock, installed = _with(
        judged,
        _dist("one", license="mit and (Apache-2.0 or bsd-3-clause)"),
        _dist("two", license="OSI Approved :: BSD License"),
        _dist("three"),
    )
    options: Any = {"installed": installed, "created": NOW, "version": VERSION}
    bill = _predicate(sbom(lock, judged.subject, **options))
    said = {one["name"]: one.get("licenses") for one in bill["components"]}
    assert {name: said[name] for name in ("one", "two", "three")} == {
        "one": [{"expression": "MIT AND (Apache-2.0 OR BSD-3-Clause)"}],
        "two": [{"license": {"name": "OSI Approved :: BSD License"}}],
        "three": None,
    }
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    document = _predicate(spdx(lock, judged.subject, **options))
    declared = {one["name"]: one["licenseDeclared"] for one in document["packages"]}
    assert declared["one"] == "MIT AND (Apache-2.0 OR BSD-3-Clause)"
    assert declared["two"] == declared["three"] == "NOASSERTION"


def test_the_graph_follows_markers_and_the_extras_in_use(judged: Judged) -> None:
    lock, installed = _with(
        judged,
        _dist("app", "lib[fast]", "win; sys_platform == 'win32'", "absent"),
        _dist("lib", "quick; extra == 'fast'", "slow; extra == 'slow'"),
        _dist("quick"),
        _dist("slow"),
        _dist("win"),
    )
    options: Any = {"installed": installed, "created": NOW, "version": VERSION}
    bill = _predicate(sbom(lock, judged.subject, **options))
    names = {one["bom-ref"]: one["name"] for one in bill["components"]}
    graph = {
        names[one["ref"]]: [names[on] for on in one["dependsOn"]]
        for one in bill["dependencies"]
        if one["ref"] in names
    }
    assert {name: graph.get(name) for name in ("app", "lib", "quick", "slow", "win")} == {
        "app": ["lib"],
        "lib": ["quick"],
        "quick": None,
        "slow": None,
        "win": None,
    }
    document = _predicate(spdx(lock, judged.subject, **options))
    named = {one["SPDXID"]: one["name"] for one in document["packages"]}
    assert {
        (named[one["spdxElementId"]], named[one["relatedSpdxElement"]])
        for one in document["relationships"]
        if one["relationshipType"] == "DEPENDS_ON"
    } == {("app", "lib"), ("lib", "quick")}


def test_the_spdx_documents_are_valid_and_list_what_the_other_bill_lists(judged: Judged) -> None:
    """By the SPDX project's own tool."""
    shipped = Workspace(Path(__file__).parents[2]).lock("glm")
    for lock in (shipped, judged.evidence.lock):
        document = _predicate(spdx(lock, judged.subject, created=NOW, version=VERSION))
        assert validate_full_spdx_document(JsonLikeDictParser().parse(document)) == []
        rows = [
            [ref["referenceLocator"] for ref in one["externalRefs"]]
            for one in document["packages"][1:]
        ]
        assert rows == [[one.purl] for one in components(lock)]


def test_names_in_package_urls_are_encoded(judged: Judged) -> None:
    """purl-spec: `+` is written %2B in names too."""
    package = SystemPackage(
        manager="dpkg",
        name="libstdc++6",
        architecture="arm64",
        version="14.2.0-4ubuntu2~24.04",
        state="install ok installed",
        path="var/lib/dpkg/status",
    )
    base = judged.evidence.lock.base
    facts = replace(base.facts, packages=(package,))
    lock = replace(judged.evidence.lock, base=replace(base, facts=facts))
    assert "pkg:deb/ubuntu/libstdc%2B%2B6@14.2.0-4ubuntu2~24.04?arch=arm64" in [
        one.purl for one in components(lock)
    ]


def test_packages_of_dpkg_and_conda_are_listed_as_installed_and_the_document_is_valid(
    judged: Judged,
) -> None:
    def package(name: str, version: str, state: str, manager: str = "dpkg") -> SystemPackage:
        return SystemPackage(
            manager=manager,
            name=name,
            architecture="arm64" if manager == "dpkg" else "py312_0",
            version=version,
            state=state,
            path="var/lib/dpkg/status",
        )

    base = judged.evidence.lock.base
    for mark, vendor in (("ubuntu8.4", "ubuntu"), ("", "debian")):
        packages = (
            package("libc6", f"2.39-0{mark}", "install ok installed"),
            package("libnccl2", "2.30.7-1+cuda13.3", "hold ok installed"),
            package("gone", "1:1.0-1", "deinstall ok config-files"),
            package("numpy", "2.2.0", "", "conda"),
        )
        facts = replace(base.facts, packages=packages)
        lock = replace(judged.evidence.lock, base=replace(base, facts=facts))
        statement = sbom(lock, judged.subject, created=NOW, version=VERSION)
        document = _predicate(statement)
        purls = [one["purl"] for one in document["components"]]
        # purl-spec, types `deb` and `conda`
        assert [one for one in purls if one.startswith(("pkg:deb", "pkg:conda"))] == [
            "pkg:conda/numpy@2.2.0?build=py312_0",
            f"pkg:deb/{vendor}/libc6@2.39-0{mark}?arch=arm64",
            f"pkg:deb/{vendor}/libnccl2@2.30.7-1%2Bcuda13.3?arch=arm64",
        ]
        validator = JsonStrictValidator(SchemaVersion.V1_6)
        assert validator.validate_str(json.dumps(document)) is None


def test_a_components_hash_follows_the_files_that_the_distribution_owns(judged: Judged) -> None:
    import hashlib

    torch = next(one for one in components(judged.evidence.lock) if one.name == "torch")
    lines = [
        f"{node.sha256}  {node.path}\n"
        for node in judged.evidence.lock.files
        if node.owner == "torch==2.13.0+cu130" and node.sha256
    ]
    assert len(lines) == 4
    assert torch.sha256 == hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


@given(payload=st.binary(), kind=st.text(), signature=st.binary())
def test_an_envelope_comes_back_as_it_was_written(
    payload: bytes, kind: str, signature: bytes
) -> None:
    envelope = Envelope(payload_type=kind, payload=payload, signatures=(signature,))
    assert parse_envelope(json.dumps(envelope.document()).encode(), "it") == envelope


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"payloadType":"t","payload":"e30=","signatures":[]}',
        b'{"payloadType":"t","payload":"!","signatures":[{"sig":"AA=="}]}',
        b'{"payloadType":"t","payload":"e30=","payload":"W10=","signatures":[{"sig":"AA=="}]}',
    ],
)
def test_what_is_no_envelope_is_an_error(document: bytes) -> None:
    with pytest.raises(AttestationError):
        parse_envelope(document, "it")


def test_an_envelope_in_the_url_alphabet_is_read_too() -> None:
    # DSSE, envelope.md: "either standard or URL-safe encoding"
    payload = b"\xfb\xff\xfe"
    document = {
        "payloadType": "t",
        "payload": base64.urlsafe_b64encode(payload).decode(),
        "signatures": [{"sig": "AA=="}],
    }
    assert parse_envelope(json.dumps(document).encode(), "it").payload == payload


def test_another_version_of_statement_is_not_read() -> None:
    old = {"_type": "https://in-toto.io/Statement/v0.1", "subject": [], "predicateType": "x"}
    with pytest.raises(AttestationError, match=r"Statement/v0\.1"):
        parse_statement(json.dumps(old).encode(), "it")


def test_a_stored_verdict_that_contradicts_its_findings_is_refused(judged: Judged) -> None:
    failed = json.loads(render_json(with_failure(judged.verdict, message="moved")))
    with pytest.raises(AttestationError, match="contradicts itself"):
        parse_json_report(json.dumps({**failed, "verdict": "PASSED"}).encode())
    for check in failed["checks"]:
        check["passed"] = True
    with pytest.raises(AttestationError, match="contradicts itself"):
        parse_json_report(json.dumps(failed).encode())
