"""The HTML page: one file that needs nothing beside it, readable on a phone."""

import base64
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .drawing import Chart, pyplot
from .tables import Table
from .transcripts import Episode

_STYLE = """\
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1500px; padding: 1rem 1.25rem 3rem; color: #1c2024; background: #fafafa;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; margin: 0.5rem 0 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.6rem; border-bottom: 1px solid #d9dce0; padding-bottom: 0.2rem; }
h3 { font-size: 1rem; margin: 0 0 0.3rem; }
nav { margin: 0.6rem 0 1rem; }
nav a { margin-right: 1rem; }
a { color: #0b5cad; }
.quiet { color: #5b6470; font-size: 0.9rem; }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); }
figure { margin: 0; padding: 0.8rem; background: #fff; border: 1px solid #e2e5e9; border-radius: 8px; }
figure img { display: block; width: 100%; height: auto; }
figcaption { color: #5b6470; font-size: 0.85rem; margin-top: 0.3rem; }
.wide { overflow-x: auto; background: #fff; border: 1px solid #e2e5e9; border-radius: 8px; }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
th, td { padding: 0.35rem 0.7rem; text-align: left; vertical-align: top; border-bottom: 1px solid #eceef1; }
th { white-space: nowrap; color: #5b6470; font-weight: 600; }
tr:last-child td { border-bottom: 0; }
td { font-variant-numeric: tabular-nums; }
.settings td { overflow-wrap: anywhere; min-width: 8rem; }
.settings td:first-child { overflow-wrap: normal; min-width: 0; }
.notes { background: #fff7e0; border: 1px solid #ead9a4; border-radius: 8px; padding: 0.6rem 0.9rem; margin: 1rem 0; }
.notes ul { margin: 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
details { background: #fff; border: 1px solid #e2e5e9; border-radius: 8px; padding: 0.6rem 0.9rem;
  margin: 0.6rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.event { border-left: 3px solid #0072b2; padding-left: 0.8rem; margin: 0.8rem 0; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0.2rem 0 0.7rem; padding: 0.5rem 0.7rem;
  background: #f4f5f7; border-radius: 6px;
  font: 0.85rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
"""


@dataclass(frozen=True)
class Page:
    """Everything that a report shows."""

    title: str
    subtitle: str
    notes: Sequence[str]
    summary: Table
    charts: Sequence[Chart]
    settings: Table
    settings_remark: str
    episodes: dict[str, list[Episode]]


def picture(chart: Chart) -> bytes:
    """The chart as a PNG; its figure is closed."""
    buffer = io.BytesIO()
    chart.figure.savefig(buffer, format="png")
    pyplot().close(chart.figure)
    return buffer.getvalue()


def render(page: Page, pictures: dict[str, bytes]) -> str:
    """The page as one HTML document. pictures: PNGs by chart name."""
    sections = list(dict.fromkeys(chart.section for chart in page.charts))
    anchors = [*sections, "Settings", *(["Transcripts"] if page.episodes else [])]
    body = "\n".join(_body(page, pictures, sections, anchors))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(page.title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _body(page: Page, pictures: dict[str, bytes], sections: list[str], anchors: list[str]) -> Iterator[str]:
    yield f'<h1>{_text(page.title)}</h1>\n<p class="quiet">{_text(page.subtitle)}</p>'
    yield "<nav>" + " ".join(f'<a href="#{_anchor(name)}">{_text(name)}</a>' for name in anchors) + "</nav>"
    if page.notes:
        yield '<div class="notes"><ul>' + "".join(f"<li>{_text(note)}</li>" for note in page.notes) + "</ul></div>"
    yield _table(page.summary)
    for section in sections:
        yield _heading(section) + '\n<div class="charts">'
        for chart in page.charts:
            if chart.section == section:
                yield _figure(chart, pictures[chart.name])
        yield "</div>"
    yield _heading("Settings") + f'\n<p class="quiet">{_text(page.settings_remark)}</p>'
    if page.settings[1]:
        yield _table(page.settings, "settings")
    if page.episodes:
        yield _heading("Transcripts")
    for name, episodes in page.episodes.items():
        if len(page.episodes) > 1:
            yield f"<h3>{_text(name)}</h3>"
        yield from map(_episode, episodes)


def _text(text: str) -> str:
    return html.escape(text)


def _anchor(name: str) -> str:
    return name.lower()


def _heading(name: str) -> str:
    return f'<h2 id="{_anchor(name)}">{_text(name)}</h2>'


def _table(table: Table, kind: str = "") -> str:
    header, rows = table
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    lines = "".join(f"<tr><td>{_breakable(row[0])}</td>{_cells(row[1:])}</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td>{_text(cell)}</td>" for cell in row)


def _breakable(name: str) -> str:
    """A dotted name that may break after its dots and underscores."""
    return _text(name).replace(".", ".<wbr>").replace("_", "_<wbr>")


def _figure(chart: Chart, png: bytes) -> str:
    source = base64.b64encode(png).decode()
    return (
        f'<figure id="{_text(chart.name)}"><h3>{_text(chart.title)}</h3>'
        f'<img alt="{_text(chart.title)}" src="data:image/png;base64,{source}">'
        f"<figcaption>{_text(chart.caption)}</figcaption></figure>"
    )


def _episode(episode: Episode) -> str:
    parts = [
        f"<details><summary>{_text(episode.outcome)} <span class='quiet'>({_text(episode.place)})</span></summary>",
        f"<pre>{_text(episode.question)}</pre>",
    ]
    for event in episode.events:
        parts.append(f'<div class="event"><p class="quiet">{_text(event.heading)}</p>')
        for said in event.members:
            title = ", ".join(part for part in (said.agent, *said.remarks) if part)
            parts.append((f"<h3>{_text(title)}</h3>" if title else "") + f"<pre>{_text(said.text)}</pre>")
        parts.append("</div>")
    return "".join(parts) + "</details>"
