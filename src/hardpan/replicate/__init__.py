"""Build a new test set in the same way as an existing one: pool, annotation, sampling, near-duplicates, assembly.

A :class:`Project` is a folder with candidates, votes, decisions and a log of every step::

    project = Project.create("new-digits", original="digits")
    project.add_candidates("photos/")
    project.make_tasks()                          # then: hardpan replicate serve new-digits
    project.sample(strategy="matched", per_class=10)
    project.find_duplicates()
    project.assemble()

Without a project, on tables and arrays: :func:`sample` and :func:`near_duplicates`.
:mod:`hardpan.replicate.simulate` makes small projects with simulated annotators.
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan.neighbors.near_duplicates import near_duplicates
    from hardpan.replicate.folder import ProjectConfig, TargetClass
    from hardpan.replicate.project import Project
    from hardpan.replicate.sampling import sample

exports(__name__)
