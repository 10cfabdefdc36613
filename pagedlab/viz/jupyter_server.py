"""For JupyterLab's server: a kernel's messages go to the page at once.

A step's answer comes right behind the kernel's message that it is busy. Left alone, TCP holds the second of two small
messages back until the first is acknowledged, which Linux does up to 40 ms later: longer than the lab's own work.
``tools/jupyter/etc/jupyter/jupyter_server_config.d`` makes the server load this.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    """``server``: the ``ServerApp``."""
    settings = server.web_app.settings
    before: type = settings["kernel_websocket_connection_class"]

    class AtOnce(before):
        def connect(self) -> Any:
            self.websocket_handler.set_nodelay(True)
            return super().connect()

    settings["kernel_websocket_connection_class"] = AtOnce
