#!/usr/bin/env bash
# Checks whether the answer means the same as the expected one, with curl and jq, without an SDK.
set -euo pipefail # a rejected call, a failed judge or an invalid reply makes the script and the evaluator fail

ask() { # a request on stdin, the judge's reply on stdout
  # The token is passed through a descriptor, because every user of the machine can read command lines.
  curl --silent --show-error --fail-with-body --data-binary @- \
    --header @<(printf 'Authorization: Bearer %s' "$AGENTV_JUDGE_PROXY_TOKEN") "$AGENTV_JUDGE_PROXY_URL/invoke"
}

jq '{question: "Do both answers mean the same? Answer yes or no, and nothing else.\n
Question: \(.question)\nExpected: \(.reference_answer)\nGiven: \(.candidate_answer)"}' |
  ask |
  jq '(.rawText | ascii_downcase | gsub("[ .\n]"; "")) as $reply
    | if $reply == "yes" then {score: 1, hits: ["means what was expected"]}
      elif $reply == "no" then {score: 0, misses: ["does not mean what was expected"]}
      else error("the judge must answer yes or no, got \($reply)") end'
