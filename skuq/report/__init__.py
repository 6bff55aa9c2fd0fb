"""The evaluation of forecasts as one HTML page, and the command line that writes it from files.

The page needs matplotlib and Jinja2 (the extra ``report``).

.. code-block:: text

    forecasts or blocks of rows -> facts and coverage of parts (_measure) -> findings and verdict (_advice)
                                -> figures and page (_page, page.html.jinja), captions (_wording)

    HTMLReport               _html_report
    python -m skuq           options, columns and files: _cli, _cli_inputs, _cli_tables
"""

from skuq.report._html_report import HTMLReport

__all__ = [
    "HTMLReport",
]
