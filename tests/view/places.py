"""The pages of the bookshop that tests and pictures visit, and what each must show."""

from __future__ import annotations

from tests.view.bookshop import RUNS

RUN, BASELINE = RUNS["new-prompt"], RUNS["baseline"]
CASE = f"#/run/{RUN}/case/support/shipping-cost/assistant/1"
PLACES: dict[str, tuple[str, str]] = {
    "runs": ("#/", "new-prompt"),
    "run": (f"#/run/{RUN}", "shipping-cost"),
    "run-filtered": (f"#/run/{RUN}?f=score%3C0.7", "shipping-cost"),
    "case": (CASE, "Shipping is always free."),
    "judge-call": (f"{CASE}?call=1", "Shipping is always free."),
    "tools": (f"#/run/{RUN}/case/agent/refund-1033/assistant/1", "check_policy"),
    "compare": (f"#/compare/{BASELINE}/{RUN}", "new-prompt"),
    "compare-pair": (f"#/compare/{BASELINE}/{RUN}?pair=0", "new-prompt"),
    "judges": (f"#/run/{RUN}/judges", "careful-judge"),
    "review": (f"#/run/{RUN}/review", "opening-hours"),
}
"""Name -> address, and some text of the page."""

SUMMARIES = {
    "run": f"#/run/{RUNS['summaries']}",
    "case": f"#/run/{RUNS['summaries']}/case/summaries/summary-dune/assistant/2",
    "judges": f"#/run/{RUNS['summaries']}/judges",
}
"""Pages of a run with repeats and a judge that is not sure."""
