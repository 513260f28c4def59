"""Checks that are too long for one line."""

import json


def total_is_the_sum(answer):
    """The total of an order is the sum of its prices."""
    order = json.loads(answer)
    total = sum(item["price"] for item in order["items"])
    if total == order["total"]:
        return {"pass": True, "reason": f"the total is {total}"}
    return {"pass": False, "reason": f"the total is {order['total']}, the prices add up to {total}"}


async def is_polite(answer, judge):
    """A judge model decides."""
    reply = await judge.invoke(question=f"Is this polite? Answer yes or no.\n\n{answer}")
    return reply.raw_text.strip().lower() == "yes"
