"""What a run gave, kept in memory: for who draws it without a log."""

from presk.train.log import Run, Saved
from presk.train.report import Evaluation, Step


class Recorder:
    """Listens to a run."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._evaluations: list[Evaluation] = []
        self._saved: list[Saved] = []

    def step(self, step: Step) -> None:
        """Takes a step."""
        self._steps.append(step)

    def evaluation(self, evaluation: Evaluation) -> None:
        """Takes an evaluation."""
        self._evaluations.append(evaluation)

    def checkpoint(self, step: int, path: str) -> None:
        """Takes a checkpoint."""
        self._saved.append(Saved(step, path))

    @property
    def last(self) -> Step | None:
        """The last step."""
        return self._steps[-1] if self._steps else None

    @property
    def run(self) -> Run:
        """Everything."""
        return Run({}, tuple(self._steps), tuple(self._evaluations), tuple(self._saved))
