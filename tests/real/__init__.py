"""Tests with a real model of 135M parameters (`make test-real`). They test form, never quality."""
