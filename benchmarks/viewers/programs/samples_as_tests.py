"""Samples as tests, for the report of pytest-html. The file named by SAMPLES has them."""

import json
import os
from pathlib import Path

import pytest

SAMPLES = json.loads(Path(os.environ["SAMPLES"]).read_text(encoding="utf-8"))


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample["id"] for sample in SAMPLES])
def test_sample(sample):
    for name in ("question", "expected", "answer", "reasoning"):
        print(sample[name])
    assert sample["score"] >= 0.8
