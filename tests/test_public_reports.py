"""The public reports that this project answers: each has a test of its name.

The tests themselves lie beside what they test; this table says which reports there are, and that
none is lost when a test is renamed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# reports on images in general: whiteouts and tars, the object graph, Python and dpkg
IMAGES = """
stereoscope#696 stereoscope#694 go-containerregistry#1897 go-containerregistry#2372
go-containerregistry#2191 moby#17819 moby#17766 storage#141 go-containerregistry#977
go-containerregistry#2002 container#1797 docker-squash#118 buildkit#266 containerd#2070
anchore-engine#209 fuse-overlayfs#151 container-structure-test#71 tar-split#21 ratarmount#23
toybox#469 go-containerregistry#1412 go-containerregistry#1414 boxlite#772 zstd#3255
stargz-snapshotter#1596
moby#31919 moby#22011 podman#15969 podman#18809 azul#6656 kubernetes#33014
go-containerregistry#625 elastic-agent#12676 apptainer#2905 data-api#2554 zakura#554 nerdctl#4328
image#898 argocd-image-updater#711 oras-go#993 tagfish#14 rules_docker#714 renovate#9786
renovate#15134 image-spec#822 regclient#603 ko#354 buildkit#6202 go-containerregistry#296
go-containerregistry#377 wave#10 go-containerregistry#1305 harbor#9370 containerd#7676 moby#48241
moby#27568 opslane#186 awcms#749 sagemath-mcp#131 omnigent#383 enduragent#890 jfrog-cli#2211
cli#3489 cli#3185 cli#3080
cpython#100666 importlib_metadata#291 importlib_metadata#457 importlib_metadata#106
hermes-agent#119364 pip#8174 pip#7612 conda#11580 fanal#126 claircore#841 base-images#291
distroless#1569 distroless#1809 nccl#1171 pytorch#122571 vllm#47223 vllm#4195
Megatron-Bridge#3750 Export-Deploy#679 flashinfer#4337 vllm#49804 tokenspeed#284 labs-molt#43
dgx-spark-playbooks#109 dgx-spark-playbooks#75 runner#178
""".split()  # noqa: SIM905 - a table for people
# reports on GPU serving images
GPU = """
spark-vllm-docker#263 spark-vllm-docker#265 spark-vllm-docker#219 eugr#141 eugr#269 ray#64484
vllm#42354 vllm#41725 vllm#46097 verl#6621 nccl#2289 nccl#1991 pytorch#116977 cugraph#4465
notebooks#4089 marin#7344
vllm#49804 flashinfer#4781 tokenspeed#284 flashinfer#4486 sglang#34629
LocalAI#10257 vllm#33833 vllm#33929 vllm#29590 syv-ai#12 vllm#29270 dynamo#14866 dynamo#14864
dynamo#8296 dynamo#6503 TensorRT-LLM#10122 triton#8539 gpustack#4372 flashinfer#3634
flashinfer#3899
dynamo#5995 ml-containers#160 datajuicer#668 get-pip#226 DLC#6686 deep-learning-containers#6697 llama.cpp#15004
docker-library/python#118
dynamo#14573 dynamo#14598 club-3090#258 InferenceX#2855 sparkring#75 vllm-ascend#10238
MiaAI-Lab#161 MiaAI-Lab#173 MiaAI-Lab#190
evenfire#745 dartway#177 buildkit#5132 Flare#73 vllm#2237
dynamo#8515 lws#835 production-stack#1056 ray#56747 ROLL#477 skypilot#7985 gpustack#2691
gpustack#1640
deep-learning-containers#6773 vllm-gb10#105 vllm-ascend#3713 sglang#9232 ART#565 opencv-python#1140
TensorRT-LLM#18743 ComfyUI-Easy-Install#192
gpustack#4678 vllm#33447 vllm#34226 llm-d#706 aws-k8s-tester#654 NeMo-Aligner#336
flashinfer#4884 model-serving-minefield#3 eugr#167
RL#3352 aws-ofi-nccl#1055 aws-ofi-nccl#391 awsome-distributed-ai#292 awsome-distributed-ai#894
""".split()  # noqa: SIM905 - a table for people


def _text() -> str:
    files = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    return "\n".join(path.read_text(encoding="utf-8") for path in files).lower()


@pytest.fixture(scope="module")
def tests() -> str:
    return _text()


@pytest.mark.parametrize("report", dict.fromkeys((*IMAGES, *GPU)))
def test_a_report_has_a_test_of_its_name(report: str, tests: str) -> None:
    repository, _, number = report.lower().rpartition("#")
    name = re.escape(repository.rpartition("/")[2])
    as_function = re.sub(r"[^a-z0-9]+", "_", repository)
    in_name = rf"def test_[a-z0-9_]*{as_function}(?:_\d+)*(?:_and)?(?:_\d+)*_{number}_"
    assert re.search(rf"{name}#{number}\b", tests) or re.search(in_name, tests), report
