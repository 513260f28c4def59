#!/usr/bin/env bash
set -euo pipefail
jq '{question: "Does the answer name the capital? Answer yes or no.\n\n\(.candidate_answer)"}' |
  curl --silent --show-error --fail-with-body --data-binary @- \
    --header @<(echo "Authorization: Bearer $AGENTV_JUDGE_PROXY_TOKEN") "$AGENTV_JUDGE_PROXY_URL/invoke" |
  jq '{score: (if (.rawText | test("^\\s*yes\\.?\\s*$"; "i")) then 1 else 0 end)}'
