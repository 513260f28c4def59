#!/usr/bin/env bash
# NAME: a judge script for agentv. Needs jq, and curl to call the judge.
#
# In a suite:
#
#     evaluators:
#       - name: NAME
#         type: code_judge
#         script: [bash, judges/NAME.sh]   # relative to the suite
#         judge: {max_calls: 5}            # lets the script call the judge target; optional
#         config: {max_words: 50}          # available as .config
#
# Develop it with:  agentv judge run NAME.sh --suite SUITE --case ID --watch

# If a command fails, the script exits with its code. That is reported as an error, not as a low score.
set -euo pipefail
input=$(cat)

# Print the judge's reply to the question on stdin. The token is passed to curl through a file descriptor, because
# other users of the machine can read command lines.
ask() {
  jq --raw-input --slurp '{question: .}' |
    curl --silent --show-error --fail-with-body --noproxy '*' --data-binary @- \
      --header @<(printf 'Authorization: Bearer %s\n' "$AGENTV_JUDGE_PROXY_TOKEN") \
      "$AGENTV_JUDGE_PROXY_URL/invoke" |
    jq --raw-output '.rawText'
}

# Ask the judge model what code cannot decide. Without judge access, the variable is not set.
reply=
if [ -n "${AGENTV_JUDGE_PROXY_URL:-}" ]; then
  reply=$(jq --raw-output '
    "Does the answer do what the question asks? Begin with yes or no, then explain why.\n
Question: \(.question)
Expected: \(.expected_outcome // .reference_answer // "a correct answer")
Answer: \(.candidate_answer)"' <<<"$input" | ask)
fi
echo "judge reply: ${reply:-none, the judge was not called}" >&2 # stderr is the script's log

# Check in code whatever code can decide: it is exact, free and reproducible. The result is a JSON object on stdout.
jq --arg reply "$reply" '
  (.config.max_words // 50) as $limit
  | [{passed: ((.candidate_answer | [splits("\\s+") | select(. != "")] | length) <= $limit), label: "at most \($limit) words"}]
  + (if $reply == "" then [] else [{passed: ($reply | test("^\\s*yes"; "i")), label: "does what the question asks"}] end)
  | {
      score: ((map(select(.passed)) | length) / length),
      hits: map(select(.passed) | .label),
      misses: map(select(.passed | not) | .label),
      reasoning: (if $reply == "" then "no judge was called" else $reply end)
    }' <<<"$input"
