"""A real JupyterLab and a page of a real browser in it: for the bench of the labs, and for the tests.

A notebook is written, opened, and its cells are run; what the page writes to its console as an error is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat

BROWSER_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# JupyterLab's own complaints, which no notebook causes.
NOISE = ("debugger state", "favicon", "/api/news", "/lsp/status", "ResizeObserver loop", "Download the React DevTools")


class Jupyter:
    """A JupyterLab server of its own: its files, settings and kernels are in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        home = folder / "home"
        self.settings = home / "settings"
        self._log = open(folder / "jupyter.log", "w")  # as long as the server runs
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.token = secrets.token_hex(16)
        self.setting("notification", {"fetchNews": "false", "checkForUpdates": False})
        env = os.environ | {
            "HOME": str(home),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "IPYTHONDIR": str(home / "ipython"),
            # Models that were fetched before are found again.
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
        }
        self._server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyterlab",
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                f"--ServerApp.port={self.port}",
                "--ServerApp.port_retries=0",
                "--LabApp.expose_app_in_browser=True",
                f"--IdentityProvider.token={self.token}",
                f"--ServerApp.root_dir={self.root}",
            ],
            env=env,
            cwd=self.root,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(240):
            if self._server.poll() is not None:
                raise RuntimeError(f"JupyterLab ended at once:\n{Path(self._log.name).read_text()[-2000:]}")
            with (
                contextlib.suppress(urllib.error.URLError, ConnectionError),
                urllib.request.urlopen(self.url("api/status"), timeout=5),
            ):
                return
            time.sleep(0.25)
        raise RuntimeError("JupyterLab did not answer within a minute")

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}{'&' if '?' in path else '?'}token={self.token}"

    def setting(self, name: str, values: dict) -> None:
        """Set what a user would set in JupyterLab's settings (of its apputils extension); read when a page loads."""
        path = self.settings / "@jupyterlab" / "apputils-extension" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))

    def theme(self, name: str) -> None:
        """ "light" or "dark"; the page has to be loaded again."""
        self.setting("themes", {"theme": f"JupyterLab {name.capitalize()}"})

    def notebook(self, name: str, *cells: str, kernel: str = "python3") -> str:
        """Write a notebook with these code cells, for the kernel of this name; returns the notebook's name."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.metadata.kernelspec = {"name": kernel, "display_name": kernel, "language": "python"}
        nbformat.write(notebook, self.root / name)
        return name

    def stop(self) -> None:
        self._server.terminate()
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._log.close()


class LabPage:
    """A browser page in JupyterLab. ``errors``: what the page wrote to the console as an error, or threw."""

    def __init__(self, jupyter: Jupyter, page) -> None:
        self.jupyter, self.page = jupyter, page
        self.errors: list[str] = []
        page.on(
            "console",
            lambda message: (
                message.type == "error" and self._note(f"{message.text} ({message.location.get('url', '')})")
            ),
        )
        page.on("pageerror", lambda error: self._note(str(error)))

    def _note(self, text: str) -> None:
        if not any(noise in text for noise in NOISE):
            self.errors.append(text)

    def open(self, name: str) -> None:
        """Open a notebook and wait until its kernel is ready."""
        self.page.goto(self.jupyter.url(f"lab/tree/{name}?reset"))
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        self.wait_idle()

    def close(self) -> None:
        """Close the page, and end its kernel."""
        self.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.close()

    def wait_idle(self, timeout: float = 90_000) -> None:
        # Asked to run a cell before that, JupyterLab opens a dialog about kernels.
        self.page.wait_for_function(
            """() => { const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
                       return context?.isReady && context.session?.kernel?.status === "idle"; }""",
            timeout=timeout,
        )

    def command(self, name: str) -> None:
        """What a menu entry would do, "notebook:run-all-cells" for one."""
        # Not awaited: where JupyterLab asks something first, it would wait for ever.
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name); }", name)

    def run_all(self, timeout: float = 120_000) -> None:
        """Run all cells and wait until every one has run."""
        self._run("notebook:run-all-cells", None, timeout)

    def run_cell(self, index: int, timeout: float = 120_000) -> None:
        """Run one cell, counted from 0, and wait until it has run."""
        self.page.evaluate("i => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = i; }", index)
        self._run("notebook:run-cell", index, timeout)

    def _run(self, command: str, index: int | None, timeout: float) -> None:
        # A kernel that was restarted counts from 1 again, so forget the numbers of the last run.
        self.page.evaluate(
            """index => window.jupyterapp.shell.currentWidget.content.widgets
                 .filter((cell, i) => cell.model.type === "code" && (index === null || i === index))
                 .forEach(cell => { cell.model.executionCount = null; })""",
            index,
        )
        self.command(command)
        self.page.wait_for_function(
            """index => window.jupyterapp.shell.currentWidget.content.widgets.every((cell, i) =>
                 index !== null && i !== index || cell.model.type !== "code" || !cell.model.sharedModel.source.trim()
                 || cell.model.executionCount !== null)""",
            arg=index,
            timeout=timeout,
        )
