"""Charts with their numbers: plotly where it can run, the table itself where it cannot (GitHub, a PDF)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from pagedlab.viz.kit.style import NUM_HUES, middle_hue

# The hues of requests A, B, C …, so that a chart and a lab speak the same language. A chart does not know the page's
# theme, so each is halfway between the lab's light and its dark one: seen well on both.
COLORS = tuple(middle_hue(i) for i in range(NUM_HUES))


class Chart:
    """A chart of ``rows`` under ``columns``: the first column is the x axis, each other one a series.

    ``kind`` is "bar" or "line". Values are numbers; ``unit`` labels their axis.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        title: str,
        unit: str,
        kind: str = "bar",
        log_x: bool = False,
        log_y: bool = False,
    ) -> None:
        if any(len(row) != len(columns) for row in rows):
            raise ValueError(f"every row needs {len(columns)} values, one for each of {list(columns)}")
        self.columns, self.rows = list(columns), [list(row) for row in rows]
        self.title, self.unit, self.kind, self.log_x, self.log_y = title, unit, kind, log_x, log_y

    def figure(self) -> Any:
        """The plotly figure. Its background is clear and its lines are grey, for a light page and a dark one."""
        import plotly.graph_objects as go

        x = [row[0] for row in self.rows]
        figure = go.Figure()
        for i, name in enumerate(self.columns[1:]):
            y, color = [row[i + 1] for row in self.rows], COLORS[i % len(COLORS)]
            if self.kind == "bar":
                figure.add_bar(x=[str(v) for v in x], y=y, name=name, marker_color=color, texttemplate="%{y:.3g}")
            else:
                figure.add_scatter(x=x, y=y, name=name, mode="lines+markers", line_color=color)
        # Bars stand side by side: plotly would read "16" as a number and space the bars on a linear axis.
        x_type = "category" if self.kind == "bar" else "log" if self.log_x else None
        grey = "rgba(128,128,128,0.35)"
        axis = {"gridcolor": grey, "zerolinecolor": grey, "linecolor": grey}
        figure.update_layout(
            template="none",
            title=self.title,
            height=320,
            margin={"l": 60, "r": 20, "t": 50, "b": 50},
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            font={"color": "#808890", "family": "system-ui, sans-serif"},
            showlegend=len(self.columns) > 2,
            xaxis={"title": self.columns[0], "type": x_type, **axis},
            yaxis={"title": self.unit, "type": "log" if self.log_y else None, **axis},
        )
        return figure

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {
            # Not "responsive": after a resize JupyterLab would draw it a few pixels high.
            "application/vnd.plotly.v1+json": self.figure().to_plotly_json() | {"config": {"displayModeBar": False}},
            "text/html": self._table(),
            "text/plain": "\n".join("  ".join(map(_cell, row)) for row in [self.columns, *self.rows]),
        }

    def _table(self) -> str:
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row) + "</tr>" for row in self.rows
        )
        caption = html.escape(f"{self.title} ({self.unit})")
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
