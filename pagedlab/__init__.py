"""PagedAttention, taught by a small paged engine that you can run, step and rebuild.

`from pagedlab import LLM, SamplingParams` is the short way in. The names below are loaded when they are first used, so
that `import pagedlab` alone stays quick: torch, plotly and ipywidgets are imported by the layers that need them.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "EngineConfig": "pagedlab.engine",
    "EngineDriver": "pagedlab.engine",
    "LLM": "pagedlab.engine",
    "PagedlabError": "pagedlab.errors",
    "SamplingParams": "pagedlab.engine",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str):
    """Load a public name from the layer where it lives (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'pagedlab' has no attribute '{name}'; it has {', '.join(__all__)}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
