"""Which judge target is used: the one place that defines the precedence.

    --judge-target  >  the evaluator's  >  the suite's  >  the main target's  >  defaults  >  the main target itself

The first that is set wins. `none` at any level disables judging.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentv.suite.suite import EvalSuite
from agentv.targets.config import TargetsConfig


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The judge targets set at each level; None where a level sets none."""

    option: str | None = None
    suite: str | None = None
    target: str | None = None
    defaults: str | None = None
    main: str | None = None
    """The target that answers. It is its own judge if nothing else is set."""

    @classmethod
    def of(
        cls,
        config: TargetsConfig | None,
        *,
        main: str | None = None,
        suite: EvalSuite | None = None,
        option: str | None = None,
    ) -> JudgeChoice:
        """The choice for answers of the target `main`, with the settings of `suite` and `config`."""
        spec = config.targets.get(main) if config is not None and main is not None else None
        return cls(
            option=option,
            suite=suite.judge_target if suite is not None else None,
            target=spec.judge_target if spec is not None else None,
            defaults=config.defaults.judge_target if config is not None else None,
            main=main,
        )

    @classmethod
    def without_answers(
        cls, config: TargetsConfig, *, suite: EvalSuite | None = None, option: str | None = None
    ) -> JudgeChoice:
        """The choice when no target is called: the same as for the target that a run of `suite` would call."""
        main = (suite.target if suite is not None else None) or config.default_target()
        return cls.of(config, main=main, suite=suite, option=option)

    def resolve(self, evaluator: str | None = None) -> str | None:
        """The judge target (`none` included), or None if no level sets one. `evaluator` is the evaluator's setting."""
        names = (self.option, evaluator, self.suite, self.target, self.defaults, self.main)
        return next((name for name in names if name is not None), None)
