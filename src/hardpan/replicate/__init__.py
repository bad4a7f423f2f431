"""Rebuild a test set: pool, annotation tasks and votes, sampling strategies, near-duplicates, review, assembly.

Arrays and tables in, records out (no project needed)::

    sample(candidates, strategy="matched", per_class=10, originals=..., threshold=0.7, seed=0)
    near_duplicates(queries, references, k=10, metric="l2")

A project on disk is made by ``create_project`` and opened by ``open_project``. What a server needs is below; every
function takes the project first, runs in one transaction of its own, blocks (call it in a thread), is safe from
many threads and processes at once, and says what is wrong with an ``InputError`` of one sentence that may be shown.

People::

    invite(project, role=, uses=, label=, seconds=) -> Invited     .link goes into the address; roles:
    invitations(project), revoke(project, invitation_id)           annotator, selector, reviewer, participant
    enter(project, link, external_id="") -> Person                 same link and external id: same person
    worker(project, worker_id) -> Person | None; workers(project)
    completion_code(project, worker_id) -> str
    project.is_owner(token), renew_owner_token(project) -> str     the token is shown once, stored as a hash
    project.sign(purpose, text), project.is_signed(purpose, text, signature)   for cookies and CSRF tokens

Grid tasks::

    next_task(project, worker_id, besides=tokens) -> Lease | None  token, class_index, places, expires_at
    renew_lease(project, worker_id, token) -> Lease
    submit(project, worker_id, token, selected_places, submission_key) -> Receipt    state "counted" or "repeated"
    give_back(project, worker_id, token)
    shown_image(project, worker_id, token, place) -> bytes         PNG; only of the worker's own lease
    standing(project, worker_id) -> Standing                       for the progress bar
    LeaseLost (an InputError): expired and filled by others, or not this worker's

First selector, second reviewer, duplicates, final review::

    keywords(project) -> [KeywordState]                            quota, selected, removed, short
    selector_view(project, class_index, keyword, start=, most=) -> SelectorView
    second_review_queue(project), final_review_queue(project) -> [ReviewItem]
    duplicate_queue(project, most=, decided=) -> [PairItem]        l2, ssim; .subject names the pair
    decide(project, step, subject, verdict, by=, submission_key=, note=) -> bool     STEPS lists steps and verdicts
    verdicts(project, step) -> {subject: verdict}
    image_info(project, image_id), picture_of(project, image_id) -> bytes            never for annotators

Human-accuracy experiment::

    begin_experiment(project, predictions) -> HumanExperiment      picks the hardest images of both sets, once
    start_experiment(project, original_ids, new_ids), next_question(project, worker_id) -> Asked | None
    question_image(project, worker_id, question) -> bytes
    answer_question(project, worker_id, question, class_index) -> bool
    human_responses(project) -> rows for testbed.human_table; experiment_results(project) -> Humans (Table 3)

Owner's dashboard::

    coverage(project) -> [ClassCoverage]; task_times(project) -> [TaskTime]; events(project, after=, most=)
    add_event(project, actor, what, **details); all_votes(project) -> [StoredVote]
    annotation_quality(project) -> Quality                         flagged workers, frequencies, agreement
    project_status(project) -> ProjectStatus; export_votes(project, path), read_votes(project, path)
    project_what_if(project, per_class, predictions=None) -> WhatIf   accuracies only once the set is frozen, logged

``project.clock`` gives the time; ``set_clock(project, clock)`` is the same project with another one, for tests.
``simulate.demo_project(path)`` makes a small project of digits with candidates and tasks, to build pages on.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hardpan.errors import MissingExtra
from hardpan.replicate.project import (
    Project,
    ProjectConfig,
    TargetClass,
    open_project,
    renew_owner_token,
    set_clock,
)
from hardpan.replicate.steps import Step, read_steps

if TYPE_CHECKING:
    from hardpan.neighbors.near import Neighbours, near_duplicates
    from hardpan.neighbors.similarity import ssim, ssim_pairs
    from hardpan.replicate.assembly import Assembled, Lineage, assemble
    from hardpan.replicate.candidates import Annotated, annotated
    from hardpan.replicate.creation import create_project, read_classes
    from hardpan.replicate.database.decisions import (
        STEPS,
        ImageInfo,
        KeywordState,
        PairItem,
        ReviewItem,
        SelectorView,
        decide,
        duplicate_queue,
        final_review_queue,
        image_info,
        keywords,
        picture_of,
        second_review_queue,
        selector_view,
        verdicts,
    )
    from hardpan.replicate.database.experiment import (
        Asked,
        answer_question,
        human_responses,
        next_question,
        question_image,
        start_experiment,
    )
    from hardpan.replicate.database.leases import (
        Lease,
        LeaseLost,
        Receipt,
        Standing,
        give_back,
        next_task,
        renew_lease,
        shown_image,
        standing,
        submit,
    )
    from hardpan.replicate.database.people import (
        Invited,
        NotAdmitted,
        Person,
        block,
        check_admitted,
        completion_code,
        enter,
        excluded_workers,
        invitations,
        invite,
        revoke,
        unblock,
        worker,
        workers,
    )
    from hardpan.replicate.database.votes import (
        ClassCoverage,
        StoredVote,
        TaskTime,
        add_event,
        all_votes,
        coverage,
        events,
        import_votes,
        task_times,
    )
    from hardpan.replicate.decision_files import keep_below, read_decisions, write_frequencies, write_queue
    from hardpan.replicate.drawing import current_sample, draw_again, draw_sample, is_frozen
    from hardpan.replicate.duplicates import (
        Found,
        Learned,
        Resolved,
        find_duplicates,
        learn_threshold,
        resolve_duplicates,
    )
    from hardpan.replicate.human_experiment import (
        HumanExperiment,
        begin_experiment,
        experiment_results,
        experiment_section,
        hardest_images,
    )
    from hardpan.replicate.pool import Added, add_candidates
    from hardpan.replicate.progress import ProjectStatus, project_status
    from hardpan.replicate.quality import (
        Frequency,
        Quality,
        WorkerQuality,
        annotation_quality,
        frequency_table,
        quality_of,
        selection_frequencies,
    )
    from hardpan.replicate.raters import DawidSkene, beta_interval, dawid_skene, krippendorff_alpha
    from hardpan.replicate.sampling import Drawn, Sample, Shortfall, sample, sample_again
    from hardpan.replicate.subclasses import KeywordShare, Subclasses, find_subclasses, keyword_quotas
    from hardpan.replicate.tasks import make_tasks, plan_tasks, top_up
    from hardpan.replicate.verification import Verified, verify
    from hardpan.replicate.votes_files import export_votes, read_votes
    from hardpan.replicate.what_if import WhatIf, project_what_if, what_if_section

# Loaded at first use: the database needs an extra, and the rest would slow down what does not need it.
_HOMES = {
    "creation": "create_project read_classes",
    "tasks": "make_tasks plan_tasks top_up",
    "decision_files": "keep_below read_decisions write_frequencies write_queue",
    "assembly": "Assembled Lineage assemble",
    "candidates": "Annotated annotated",
    "drawing": "current_sample draw_again draw_sample is_frozen",
    "duplicates": "Found Learned Resolved find_duplicates learn_threshold resolve_duplicates",
    "human_experiment": "HumanExperiment begin_experiment experiment_results experiment_section hardest_images",
    "near": "Neighbours near_duplicates",
    "pool": "Added add_candidates",
    "progress": "ProjectStatus project_status",
    "quality": "Frequency Quality WorkerQuality annotation_quality frequency_table quality_of "
    "selection_frequencies",
    "raters": "DawidSkene beta_interval dawid_skene krippendorff_alpha",
    "sampling": "Drawn Sample Shortfall sample sample_again",
    "similarity": "ssim ssim_pairs",
    "subclasses": "KeywordShare Subclasses find_subclasses keyword_quotas",
    "verification": "Verified verify",
    "votes_files": "export_votes read_votes",
    "what_if": "WhatIf project_what_if what_if_section",
    "database.decisions": "STEPS ImageInfo KeywordState PairItem ReviewItem SelectorView decide duplicate_queue "
    "final_review_queue image_info keywords picture_of second_review_queue selector_view verdicts",
    "database.experiment": "Asked answer_question human_responses next_question question_image start_experiment",
    "database.leases": "Lease LeaseLost Receipt Standing give_back next_task renew_lease shown_image standing "
    "submit",
    "database.people": "Invited NotAdmitted Person block check_admitted completion_code enter "
    "excluded_workers invitations invite revoke unblock worker workers",
    "database.votes": "ClassCoverage StoredVote TaskTime add_event all_votes coverage events import_votes "
    "task_times",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "STEPS",
    "Added",
    "Annotated",
    "Asked",
    "Assembled",
    "ClassCoverage",
    "DawidSkene",
    "Drawn",
    "Found",
    "Frequency",
    "HumanExperiment",
    "ImageInfo",
    "Invited",
    "KeywordShare",
    "KeywordState",
    "Learned",
    "Lease",
    "LeaseLost",
    "Lineage",
    "Neighbours",
    "NotAdmitted",
    "PairItem",
    "Person",
    "Project",
    "ProjectConfig",
    "ProjectStatus",
    "Quality",
    "Receipt",
    "Resolved",
    "ReviewItem",
    "Sample",
    "SelectorView",
    "Shortfall",
    "Standing",
    "Step",
    "StoredVote",
    "Subclasses",
    "TargetClass",
    "TaskTime",
    "Verified",
    "WhatIf",
    "WorkerQuality",
    "add_candidates",
    "add_event",
    "all_votes",
    "annotated",
    "annotation_quality",
    "answer_question",
    "assemble",
    "begin_experiment",
    "beta_interval",
    "block",
    "check_admitted",
    "completion_code",
    "coverage",
    "create_project",
    "current_sample",
    "dawid_skene",
    "decide",
    "draw_again",
    "draw_sample",
    "duplicate_queue",
    "enter",
    "events",
    "excluded_workers",
    "experiment_results",
    "experiment_section",
    "export_votes",
    "final_review_queue",
    "find_duplicates",
    "find_subclasses",
    "frequency_table",
    "give_back",
    "hardest_images",
    "human_responses",
    "image_info",
    "import_votes",
    "invitations",
    "invite",
    "is_frozen",
    "keep_below",
    "keyword_quotas",
    "keywords",
    "krippendorff_alpha",
    "learn_threshold",
    "make_tasks",
    "near_duplicates",
    "next_question",
    "next_task",
    "open_project",
    "picture_of",
    "plan_tasks",
    "project_status",
    "project_what_if",
    "quality_of",
    "question_image",
    "read_classes",
    "read_decisions",
    "read_steps",
    "read_votes",
    "renew_lease",
    "renew_owner_token",
    "resolve_duplicates",
    "revoke",
    "sample",
    "sample_again",
    "second_review_queue",
    "selection_frequencies",
    "selector_view",
    "set_clock",
    "shown_image",
    "ssim",
    "ssim_pairs",
    "standing",
    "start_experiment",
    "submit",
    "task_times",
    "top_up",
    "unblock",
    "verdicts",
    "verify",
    "what_if_section",
    "worker",
    "workers",
    "write_frequencies",
    "write_queue",
]


def __getattr__(name: str) -> Any:
    """Import a function's module at first use; without the database's packages, say how to install them."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hardpan.replicate' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"hardpan.replicate.{_HOME_OF[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("sqlalchemy", "alembic"):
            raise MissingExtra(str(error.name), "web") from error
        raise
    return getattr(module, name)
