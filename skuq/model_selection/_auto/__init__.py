"""Search for the best distribution.

The subpackage contains the space, the time budget, the evaluation, the search methods and the final choice.
"""
