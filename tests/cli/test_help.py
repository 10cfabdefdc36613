"""The command line's own face."""

import re
import subprocess
import sys

import pytest

import pagedlab
from pagedlab.cli import app


def commands() -> list[str]:
    return [command.name or command.callback.__name__ for command in app.registered_commands]


def test_version_prints_the_version(run):
    done = run("--version")
    assert (done.status, done.out) == (0, f"pagedlab {pagedlab.__version__}\n")


BENCHMARKS = ["kv", "fragmentation", "preemption", "sharing", "engine", "paging", "startup", "memory", "scaling",
              "budget"]


@pytest.mark.parametrize("argv, names", [([], commands()), (["bench"], BENCHMARKS)])
def test_help_lists_every_command_and_cuts_no_sentence_off(run, argv, names):
    done = run(*argv, "--help")
    assert done.status == 0
    assert set(names) <= set(re.findall(r"^  ([\w-]+)", done.out, re.M))
    assert "..." not in done.out.split("Commands:")[1]


@pytest.mark.parametrize("command", commands())
def test_every_command_and_every_option_says_what_it_does(run, command):
    done = run(command, "--help")
    assert done.status == 0
    options = re.findall(r"^  (--[\w-]+)[^\n]*(\n {10}[^\n]*)?", done.out, re.M)
    lines = {name: re.search(rf"^  {name}\b.*(?:\n {{8,}}.*)*", done.out, re.M)[0] for name, _ in options}
    assert not [name for name, text in lines.items() if len(text.split("  ")) < 2 or len(text.split()) < 4], done.out


def test_help_loads_nothing_heavy():
    code = ("import sys\nfrom pagedlab.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
            "print('loaded', *sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split("loaded", 1)[1].split())
    assert not loaded & {"torch", "triton", "numpy", "plotly", "ipywidgets", "tokenizers", "rich", "pagedlab.engine"}


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "pagedlab", "--version"], capture_output=True, text=True)
    assert done.stdout == f"pagedlab {pagedlab.__version__}\n"
