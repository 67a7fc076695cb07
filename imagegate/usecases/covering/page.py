"""Answers about builds as one HTML page that needs nothing from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.verdict import Verdict

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>COPY coverage</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top }
code { overflow-wrap: anywhere }
.fail { color: #b00020 } .pass { color: #1a7f37 }
</style>
</head>
<body>
<h1>COPY coverage</h1>
{% for verdict in verdicts %}
<section>
<h2>{{ verdict.subject }}: <span class="{{ 'pass' if verdict.passed else 'fail' }}">{{ verdict.word }}</span></h2>
<p>{% for label, value in verdict.heading %}{{ label }}: {{ value }}{{ "; " if not loop.last }}{% endfor %}</p>
{% if verdict.findings %}
<table>
<thead><tr><th>severity</th><th>asset</th><th>what</th><th>expected</th><th>found</th><th>where</th></tr></thead>
<tbody>
{% for finding in verdict.findings %}
<tr><td>{{ finding.severity.value }}</td><td><code>{{ finding.subject }}</code></td><td>{{ finding.message }}{% if finding.hint %}<br>{{ finding.hint }}{% endif %}</td><td><code>{{ finding.locked }}</code></td><td><code>{{ finding.found }}</code></td><td>{% if finding.place.file %}<code>{{ finding.place.file }}:{{ finding.place.line }}</code>{% endif %}</td></tr>
{% endfor %}
</tbody>
</table>
{% else %}
<p>Every asset ends up in the image.</p>
{% endif %}
</section>
{% endfor %}
</body>
</html>
"""


def render_page(verdicts: Sequence[Verdict]) -> str:
    """Write the page; every value is escaped."""
    from imagegate.report.formats import printable
    from imagegate.report.page import page_environment

    return printable(page_environment().from_string(_PAGE).render(verdicts=verdicts))
