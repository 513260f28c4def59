#!/usr/bin/env bash
# Run it with:  bash test_NAME.sh
set -euo pipefail
cd "$(dirname "$0")"
unset AGENTV_JUDGE_PROXY_URL AGENTV_JUDGE_PROXY_TOKEN # no judge access

# Usage: check DESCRIPTION PAYLOAD JQ_CONDITION (of the result)
check() {
  if result=$(bash NAME.sh <<<"$2" 2>/dev/null) && jq --exit-status "$3" <<<"$result" >/dev/null; then
    echo "ok      $1"
  else
    echo "FAILED  $1: ${result:-no result}"
    failed=1
  fi
}

failed=0
check "short answer passes" \
  '{"candidate_answer": "Paris."}' \
  '.score == 1 and .misses == []'
check "long answer is a miss" \
  '{"candidate_answer": "one two three four", "config": {"max_words": 3}}' \
  '.score == 0 and .misses == ["at most 3 words"]'
exit "$failed"
