#!/usr/bin/env bash
# Does the answer mean the same as the expected one? With curl and jq, without an SDK.
set -euo pipefail # a refused call, a failed judge, a reply that is no JSON: the script fails, and so does the evaluator

ask() { # a request on stdin, the judge's reply on stdout
  # The token goes through a descriptor: on a command line every user of the machine could read it.
  curl --silent --show-error --fail-with-body --data-binary @- \
    --header @<(printf 'Authorization: Bearer %s' "$AGENTV_JUDGE_PROXY_TOKEN") "$AGENTV_JUDGE_PROXY_URL/invoke"
}

jq '{question: "Do both answers mean the same? Answer yes or no, and nothing else.\n
Question: \(.question)\nExpected: \(.reference_answer)\nGiven: \(.candidate_answer)"}' |
  ask |
  jq '(.rawText | ascii_downcase | gsub("[ .\n]"; "")) as $said
    | if $said == "yes" then {score: 1, hits: ["means what was expected"]}
      elif $said == "no" then {score: 0, misses: ["does not mean what was expected"]}
      else error("the judge said \($said), and neither yes nor no") end'
