"""The frame of the house: the files that say what is installed agree, and what is installed is whole."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE_DATA = (
    "pagedlab/viz/static",
    "pagedlab/trace/recorded",
    "pagedlab/grading/reference",
    "pagedlab/parity/golden",
)
PROBE = "probe.jsonl.gz"
# A path that only one machine has: in somebody's home, in this repository's own folder, in a virtual environment.
MACHINE_PATH = re.compile(
    r"(?<![\w.~@<>$-])/(?:(?:root|work|home/\w[\w.-]*|Users/\w[\w.-]*)/|[\w./-]*/(?:\.venv|site-packages)/)"
)


@pytest.fixture(scope="module")
def project(root) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def direct(project) -> dict[str, Requirement]:
    """Every requirement that pyproject.toml states, extras included, by canonical name."""
    stated = project["project"]["dependencies"] + sum(project["project"]["optional-dependencies"].values(), [])
    return {canonicalize_name(one.name): one for one in map(Requirement, stated)}


@pytest.fixture(scope="module")
def pins(root) -> dict[str, list[Requirement]]:
    """constraints.txt by canonical name; a name has several lines where not every Python can have the same version."""
    lines = (root / "constraints.txt").read_text().splitlines()
    found = {}
    for one in map(Requirement, (line for line in lines if not line.startswith("#"))):
        found.setdefault(canonicalize_name(one.name), []).append(one)
    return found


def pinned(one: Requirement) -> str:
    """The one version that a line of constraints.txt admits."""
    (exactly,) = one.specifier
    assert exactly.operator == "==" and "*" not in exactly.version, one
    return exactly.version


def tracked_files(root: Path) -> list[Path]:
    """The files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout, so there are no tracked files to read")
    return [root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def test_constraints_are_exact_and_name_no_build_no_address_and_no_cuda_library(pins):
    """torch==2.13.0 admits every build of 2.13.0, and each build brings its own CUDA libraries."""
    assert not [one for some in pins.values() for one in some if one.url or "+" in pinned(one)]
    assert not [name for name in pins if name.startswith(("nvidia-", "cuda-"))]


def test_every_dependency_is_pinned_inside_its_stated_range(direct, pins):
    assert not set(direct) - set(pins), "not in constraints.txt: run `make constraints`"
    outside = [f"{direct[name]} but {one}" for name in direct for one in pins[name]
               if not direct[name].specifier.contains(pinned(one))]
    assert not outside


def test_what_dependencies_bring_along_is_pinned_too_and_so_installed(direct, pins):
    """Followed from one distribution to the next, as they are here."""
    wanted_here = [one for one in direct.values() if not one.marker or one.marker.evaluate()]
    ahead, seen, wrong = list(wanted_here), set(), []
    while ahead:
        one = ahead.pop()
        name = canonicalize_name(one.name)
        if (name, *one.extras) in seen or name.startswith(("nvidia-", "cuda-")):
            continue
        seen.add((name, *one.extras))
        exact = [pinned(pin) for pin in pins.get(name, []) if not pin.marker or pin.marker.evaluate()]
        here = metadata.distribution(name)
        if [here.version.partition("+")[0]] != exact:
            wrong.append(f"{name}: {here.version} is here, constraints.txt says {exact}")
        for more in map(Requirement, here.requires or []):
            if not more.marker or any(more.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                ahead.append(more)
    assert len(seen) > 100 and not wrong, "run `make env`"


def test_environment_yml_installs_what_make_env_does(root, project):
    environment = yaml.safe_load((root / "environment.yml").read_text())
    (pip_part,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    extras = ",".join(project["project"]["optional-dependencies"])
    assert pip_part == ["--constraint constraints.txt", f"--editable .[{extras}]"]
    assert f"-e '.[{extras}]'" in (root / "tools" / "setup_env.sh").read_text()


def test_environment_yml_takes_a_python_that_the_project_allows(root, project):
    environment = yaml.safe_load((root / "environment.yml").read_text())
    (python,) = [entry for entry in environment["dependencies"] if str(entry).startswith("python=")]
    allowed = Requirement(f"python{project['project']['requires-python']}").specifier
    assert allowed.contains(python.removeprefix("python="))


@pytest.fixture(scope="module")
def installed(root, tmp_path_factory) -> Path:
    """The folder into which a wheel, built from a copy of the tree, was installed without its dependencies.

    A file named PROBE is added to each data folder of the copy, so that an empty folder tests the promise too.
    """
    tree, wheels, target = (tmp_path_factory.mktemp(name) for name in ("tree", "wheels", "target"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(root / name, tree / name)
    for name in ("pagedlab", "kernels", "tools/jupyter"):
        shutil.copytree(root / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in PACKAGE_DATA:
        (tree / folder).mkdir(exist_ok=True)
        (tree / folder / PROBE).touch()

    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(wheels), str(tree)]
    subprocess.run(build, check=True)
    (wheel,) = wheels.glob("pagedlab-*.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(("kernels/", "tests/"))]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)], check=True)
    return target


def run_installed(installed: Path, tmp_path: Path, code: str) -> str:
    """Run `code` where only the installed copy can be meant, and return what it prints."""
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); {code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("folder", PACKAGE_DATA)
def test_the_wheel_carries_the_static_files_and_the_recorded_traces(root, installed, folder):
    in_tree = {file.name for file in (root / folder).glob("*") if file.is_file()}
    assert {file.name for file in (installed / folder).glob("*") if file.is_file()} == in_tree | {PROBE}


@pytest.mark.slow
def test_the_installed_package_imports_from_its_own_folder(installed, tmp_path):
    code = "import pagedlab as p, pagedlab.kernels as k, pagedlab.trace as t; print(p.__file__, k.__file__, t.__file__)"
    files = [Path(name) for name in run_installed(installed, tmp_path, code).split()]
    assert files == [installed / "pagedlab" / part / "__init__.py" for part in ("", "kernels", "trace")]


@pytest.mark.slow
def test_the_wheel_brings_what_shows_a_stored_picture_where_jupyterlab_looks_for_it(root, installed):
    config = "etc/jupyter/jupyter_server_config.d/pagedlab.json"
    assert (installed / config).read_bytes() == (root / "tools/jupyter" / config).read_bytes()
    for path in (root / "pagedlab/viz/labextension").iterdir():
        there = installed / "share/jupyter/labextensions/pagedlab" / path.name
        assert there.read_bytes() == path.read_bytes(), path.name


@pytest.mark.slow
def test_every_module_of_the_tree_is_in_the_wheel(root, installed):
    in_tree = {file.relative_to(root / "pagedlab") for file in (root / "pagedlab").rglob("*.py")}
    in_tree |= {Path("kernels") / file.relative_to(root / "kernels") for file in (root / "kernels").rglob("*.py")}
    assert {file.relative_to(installed / "pagedlab") for file in (installed / "pagedlab").rglob("*.py")} == in_tree


def test_import_pagedlab_loads_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-c", "import pagedlab"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "pagedlab" in loaded
    assert not loaded & {"torch", "triton", "numpy", "plotly", "ipywidgets", "anywidget", "tokenizers", "IPython"}


def test_kernels_are_imported_from_the_top_level_folder_wherever_the_learner_is(root, tmp_path):
    for folder in (root, tmp_path):
        code = "import pagedlab.kernels; print(pagedlab.kernels.__file__)"
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
        assert Path(done.stdout.strip()) == root / "kernels" / "__init__.py"


def test_an_unknown_name_is_refused_with_the_names_there_are():
    import pagedlab

    with pytest.raises(AttributeError, match="LLM"):
        pagedlab.nothing_of_the_kind  # noqa: B018


def test_every_public_name_of_the_package_can_be_loaded():
    import pagedlab

    assert all(getattr(pagedlab, name) for name in pagedlab.__all__)


def test_no_tracked_file_names_a_path_of_one_machine(root):
    own = re.compile(re.escape(f"{root}/"))
    found = []
    for file in tracked_files(root):
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := MACHINE_PATH.search(line) or own.search(line):
                found.append(f"{file.relative_to(root)}:{number}: {match[0]}")
    assert not found
