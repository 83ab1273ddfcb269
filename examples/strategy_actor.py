"""An actor on the drop-in: a plan's day, with the primary running out of quota in the morning.

python examples/strategy_actor.py

The names are those of the StrategyActor it replaces. What differs from it, hole by hole:

H1  a failure is judged by type, status and code; only untyped exceptions by the seed's words
H2  a throttle is waited for or passed by for as long as the server says; only a quota error starts the 300 s
H3  with the primary parked and the fallback down, the primary's quota error is raised all the same
H4  a recovery attempt that fails otherwise leaves fallback mode on, and its call is answered by the fallback
H5  of many calls at the recovery, exactly one tries the primary
H6  the timer runs on a clock that never jumps, and what is known about a key is shared by all actors that use it
H7  provider, model and interval are configuration: arguments, environment, TOML
H8  other outages fail over too: 5xx, timeouts, refused keys, missing models
H9  the stub's answer is marked, and the outage behind it is logged and returned
H10 one owner of retries: the vendors' clients have none
"""

from __future__ import annotations

from reliable_llm.integrations.quota_fallback import QuotaFallback
from reliable_llm.integrations.strategy_actor import StrategyActorMixin, StrategyOutcome, StrategySettings
from reliable_llm.testing import Drill, connection_refused, ok, out_of_quota

SETTINGS = StrategySettings(primary_model="gpt-5.1")


class StrategyActor(StrategyActorMixin):
    """Makes a plan of steps."""

    async def execute(self, goal: str, plan_id: str) -> StrategyOutcome[list[str]]:
        prompt = f"List the steps, one a line, to: {goal}"
        return await self._execute_or_stub_async(
            prompt, plan_id=plan_id, parser=str.splitlines, stub=lambda: self._execute_stub(goal)
        )

    def _execute_stub(self, goal: str) -> list[str]:
        return [f"understand: {goal}", f"do: {goal}", f"check: {goal}"]


def simulated(drill: Drill) -> QuotaFallback:
    drill.answers("openai", ok("measure\ncut"), out_of_quota(), ok("measure again\ncut again"))
    drill.answers("anthropic", ok("ask Claude\ncut"), ok("ask Claude again\ncut"), connection_refused())
    return QuotaFallback(
        SETTINGS,
        primary=drill.openai(models=[SETTINGS.primary_model]),
        fallback=drill.anthropic(models=[SETTINGS.fallback_model]),
        clock=drill.clock,
    )


def main() -> None:
    drill = Drill()
    actor = StrategyActor()
    actor.quota_fallback = simulated(drill)  # without this line: OPENAI_API_KEY, RELIABLE_LLM_PRIMARY_MODEL, ...

    def plan(plan_id: str) -> None:
        outcome = drill.run(actor.execute("build a shed", plan_id))
        by = "the deterministic stub" if outcome.degraded else outcome.served_by
        fallback_mode = actor._using_fallback  # noqa: SLF001 - the name that the actor has always had
        print(f"[{drill.now:>5.0f} s] {plan_id}: {outcome.value} by {by}, using_fallback={fallback_mode}")

    plan("plan-1")
    plan("plan-2")
    plan("plan-3")
    drill.pass_time(300)
    plan("plan-4")
    drill.answers("openai", out_of_quota())
    plan("plan-5")


if __name__ == "__main__":
    main()
