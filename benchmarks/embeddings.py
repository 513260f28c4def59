"""What `similarity` with `metric: embedding` can tell apart: `python -m benchmarks.embeddings [--pairs]`.

Each triple is an answer with a paraphrase of it, the same sentence with one changed fact, and a sentence on another
topic. The AUC is the share of comparisons in which the first kind scores higher than the second: 0.5 is chance.
"""

from __future__ import annotations

import argparse
from statistics import mean

from agentv.evaluators.embedding import compare
from agentv.evaluators.likeness import likeness

TRIPLES = [
    (
        "The shop is open on Sundays.",
        "You can visit the store on Sunday too.",
        "The shop is closed on Sundays.",
        "Photosynthesis needs light and water.",
    ),
    (
        "You can return the item within 14 days.",
        "Returns are accepted for two weeks.",
        "You can return the item within 30 days.",
        "The train to Lyon leaves from platform four.",
    ),
    (
        "The capital of Australia is Canberra.",
        "Australia is governed from Canberra.",
        "The capital of Australia is Sydney.",
        "Add two eggs and stir the dough.",
    ),
    (
        "The library opens at 9 in the morning.",
        "From nine o'clock on, the library lets people in.",
        "The library opens at 11 in the morning.",
        "His second novel sold poorly.",
    ),
    (
        "Delivery is free for orders over 50 euros.",
        "We charge no shipping when you spend more than 50 euros.",
        "Delivery is free for orders over 80 euros.",
        "The moon has no atmosphere to speak of.",
    ),
    (
        "The patient should take the tablet before meals.",
        "Swallow the pill ahead of eating.",
        "The patient should take the tablet after meals.",
        "The goalkeeper saved two penalties.",
    ),
    (
        "Anna wrote the report and Ben reviewed it.",
        "Ben checked the report, which Anna had written.",
        "Ben wrote the report and Anna reviewed it.",
        "Granite is harder than marble.",
    ),
    (
        "The battery lasts ten hours on one charge.",
        "A full charge gives you ten hours of use.",
        "The battery lasts two hours on one charge.",
        "The choir rehearses on Thursdays.",
    ),
    (
        "Dogs are allowed in the garden.",
        "You may bring your dog into the garden.",
        "Dogs are not allowed in the garden.",
        "The invoice was paid in March.",
    ),
    (
        "The server restarts automatically after a crash.",
        "If it crashes, the server comes back up on its own.",
        "The server never restarts after a crash.",
        "Lavender grows best in full sun.",
    ),
    (
        "Smoking increases the risk of heart disease.",
        "People who smoke are more likely to get heart trouble.",
        "Smoking decreases the risk of heart disease.",
        "The painting hangs in the town hall.",
    ),
    (
        "The meeting was moved from Monday to Friday.",
        "Instead of Monday, we now meet on Friday.",
        "The meeting was moved from Friday to Monday.",
        "Copper conducts electricity well.",
    ),
    (
        "The subscription renews every year.",
        "Your plan is extended annually.",
        "The subscription renews every month.",
        "Penguins cannot fly.",
    ),
    (
        "All employees must wear a helmet on site.",
        "Staff may not be on the site without a hard hat.",
        "Visitors must wear a helmet on site.",
        "The soup tastes better the next day.",
    ),
    (
        "Water boils at 100 degrees Celsius at sea level.",
        "At the height of the sea, the boiling point of water is 100 degrees Celsius.",
        "Water boils at 80 degrees Celsius at sea level.",
        "The tenant signed the lease yesterday.",
    ),
    (
        "The museum is next to the station.",
        "You find the museum right beside the railway station.",
        "The museum is far from the station.",
        "Two factors are needed to log in.",
    ),
    (
        "The offer is valid until the end of June.",
        "You can take up the offer up to 30 June.",
        "The offer is valid until the end of July.",
        "Violins have four strings.",
    ),
    (
        "The company was founded by two sisters.",
        "Two sisters started the firm.",
        "The company was founded by two brothers.",
        "Rain is expected in the north.",
    ),
    (
        "The account is locked after three wrong passwords.",
        "Enter a wrong password three times and the account is blocked.",
        "The account is locked after five wrong passwords.",
        "Olives are harvested in autumn.",
    ),
    (
        "The drug is safe during pregnancy.",
        "Pregnant women can take this medicine without danger.",
        "The drug is unsafe during pregnancy.",
        "The bridge is painted red.",
    ),
]
"""Answer, paraphrase, one changed fact, another topic."""


def auc(better: list[float], worse: list[float]) -> float:
    """The share of pairs in which the first score is higher; ties count half."""
    pairs = [(a > b) + (a == b) / 2 for a in better for b in worse]
    return sum(pairs) / len(pairs)


def scores(metric: str) -> tuple[list[float], list[float], list[float]]:
    """The scores of paraphrases, of changed facts and of other topics."""

    def score(one: str, other: str) -> float:
        return compare(one, other).score if metric == "embedding" else likeness("token_set", one, other)

    columns = [[score(triple[0], triple[kind]) for triple in TRIPLES] for kind in (1, 2, 3)]
    return columns[0], columns[1], columns[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", action="store_true", help="Print the scores of all pairs.")
    options = parser.parse_args()
    print(f"{len(TRIPLES)} triples; mean score, and AUC of paraphrases against the others")
    print("metric     paraphrase   one fact  unrelated  AUC unrelated  AUC one fact")
    for metric in ("embedding", "token_set"):
        alike, changed, unrelated = scores(metric)
        row = f"{metric:10} {mean(alike):10.2f} {mean(changed):10.2f} {mean(unrelated):10.2f}"
        print(f"{row} {auc(alike, unrelated):14.2f} {auc(alike, changed):13.2f}")
        if options.pairs:
            for triple, *row_scores in zip(TRIPLES, alike, changed, unrelated, strict=True):
                print("    " + " ".join(f"{each:.2f}" for each in row_scores), triple[0])


if __name__ == "__main__":
    main()
