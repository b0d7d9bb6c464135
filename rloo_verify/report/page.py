"""A report as one HTML file: template, styles, scripts and data, nothing fetched from anywhere."""

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from rloo_verify.report.words import FILTERS

SCRIPTS = ("chart.js", "browser.js", "page.js")


def render(template: str, *, data: Mapping[str, Any], **context: Any) -> str:
    """The HTML of a report.

    Everything from outside goes in as text: Jinja escapes what the template shows, the rest is JSON that the scripts
    put into the page as text nodes. Should that ever fail, the page's content security policy lets nothing run but our
    own scripts, by their hashes, and lets nothing be fetched.

    Args:
        template: Name of a template in `rloo_verify/templates`.
        data: What the scripts read: `charts` and `browser`. Numbers that JSON does not have become null.
        context: What the template shows.
    """
    environment = jinja2.Environment(loader=jinja2.PackageLoader("rloo_verify"), autoescape=True, trim_blocks=True)
    environment.filters.update(FILTERS)
    library, script = _text("report/vendor/uplot/uPlot.iife.min.js"), _own_script()
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in (library, script)]
    return environment.get_template(template).render(
        policy="default-src 'none'; style-src 'unsafe-inline'; script-src "
        + " ".join(f"'sha256-{value}'" for value in hashes),
        styles=Markup(_text("report/vendor/uplot/uPlot.min.css") + _text("templates/report.css")),
        library=Markup(library),
        script=Markup(script),
        data=Markup(inert_json(data)),
        **context,
    )


def inert_json(value: Any) -> str:
    """JSON that ends no script element and starts no tag, whatever its strings hold: ASCII without `<`, `>`, `&`."""
    text = json.dumps(_without_nan(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value


@cache
def _text(name: str) -> str:
    return resources.files("rloo_verify").joinpath(name).read_text(encoding="utf-8")


def _own_script() -> str:
    return "\n".join(_text(f"templates/{name}") for name in SCRIPTS)
