"""Which target judges: the one place that knows the precedence.

    --judge-target  >  the evaluator's own  >  the suite's  >  the main target's  >  defaults  >  the main target itself

The first that is set wins. `none` at any level disables judging.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentv.suite.suite import EvalSuite
from agentv.targets.config import TargetsConfig


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The judge targets named at each level, None where a level names none."""

    option: str | None = None
    suite: str | None = None
    target: str | None = None
    defaults: str | None = None
    main: str | None = None
    """The target that answers: it judges itself when nothing else is named."""

    @classmethod
    def of(
        cls,
        config: TargetsConfig | None,
        *,
        main: str | None = None,
        suite: EvalSuite | None = None,
        option: str | None = None,
    ) -> JudgeChoice:
        """The choice for answers of the target `main`, with the names that `suite` and `config` set."""
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
        """The choice where no target answers: as for the target that a run of `suite` would call."""
        main = (suite.target if suite is not None else None) or config.default_target()
        return cls.of(config, main=main, suite=suite, option=option)

    def resolve(self, evaluator: str | None = None) -> str | None:
        """The judge target of an evaluator that names `evaluator`: its name, `none`, or None when nothing names one."""
        names = (self.option, evaluator, self.suite, self.target, self.defaults, self.main)
        return next((name for name in names if name is not None), None)
