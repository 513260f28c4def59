#!/usr/bin/env bash
# NAME: a judge script for agentv. Needs jq, and curl where it asks the judge.
#
# In a suite:
#
#     evaluators:
#       - name: NAME
#         type: code_judge
#         script: [bash, judges/NAME.sh]   # relative to the suite
#         judge: {max_calls: 5}            # may ask the judge target; leave it out for a script that asks nobody
#         config: {max_words: 50}          # passed on as .config
#
# While you write it:  agentv judge run NAME.sh --suite SUITE --case ID --watch

# A command that fails ends the script with its code: a failure of the judge, and never a low score.
set -euo pipefail
input=$(cat)

# Prints the judge's reply to the question on stdin. The token goes to curl through a descriptor: on its command line
# every user of the machine could read it.
ask() {
  jq --raw-input --slurp '{question: .}' |
    curl --silent --show-error --fail-with-body --noproxy '*' --data-binary @- \
      --header @<(printf 'Authorization: Bearer %s\n' "$AGENTV_JUDGE_PROXY_TOKEN") \
      "$AGENTV_JUDGE_PROXY_URL/invoke" |
    jq --raw-output '.rawText'
}

# What needs reading is asked. Without judge access there is nobody to ask.
reply=
if [ -n "${AGENTV_JUDGE_PROXY_URL:-}" ]; then
  reply=$(jq --raw-output '
    "Does the answer do what is asked for? Begin with yes or no, then say why.\n
Asked: \(.question)
Expected: \(.expected_outcome // .reference_answer // "a correct answer")
Answer: \(.candidate_answer)"' <<<"$input" | ask)
fi
echo "the judge said: ${reply:-nothing, it was not asked}" >&2 # stderr is the script's log

# What code can decide, code decides: exact, free, the same every time. The result is one JSON object on stdout.
jq --arg reply "$reply" '
  (.config.max_words // 50) as $limit
  | [{good: ((.candidate_answer | [splits("\\s+") | select(. != "")] | length) <= $limit), what: "at most \($limit) words"}]
  + (if $reply == "" then [] else [{good: ($reply | test("^\\s*yes"; "i")), what: "does what is asked for"}] end)
  | {
      score: ((map(select(.good)) | length) / length),
      hits: map(select(.good) | .what),
      misses: map(select(.good | not) | .what),
      reasoning: (if $reply == "" then "no judge was asked" else $reply end)
    }' <<<"$input"
