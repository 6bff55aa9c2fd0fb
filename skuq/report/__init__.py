"""The evaluation of forecasts as one HTML page, and the command line that writes it from files.

The page needs matplotlib and Jinja2 (the extra ``report``).

.. code-block:: text

    models, forecasts or blocks -> reports and values (_sources, _measure) -> findings (_evidence, _advice)
                                -> figures (_figures) -> page (_page, page.html.jinja)

    HTMLReport               _html_report
    python -m skuq report    _cli: options, columns and tables of files, forecasts, blocks of rows
"""

from skuq.report._html_report import HTMLReport

__all__ = [
    "HTMLReport",
]
