#!/usr/bin/env bash
# Registers the example sources with a running daemon, ingests their releases, and runs a few queries.
# It uses oraclectl's default sockets, or ORACLED_SOCKET and ORACLED_CONTROL_SOCKET, and the oraclectl on the PATH, or
# ORACLECTL. A second run changes nothing and prints the same answers.
set -euo pipefail
cd "$(dirname "$0")"

# `command` calls the program instead of this function, which has the same name
oraclectl() { command "${ORACLECTL:-oraclectl}" "$@"; }
title() { printf '\n== %s\n' "$*"; }

# Approves a source unless it is approved
approve() {
    local shown
    shown="$(oraclectl describe source "$1")"
    if [[ $shown =~ status\ +pending ]]; then oraclectl source approve "$1"; fi
}

# Ingests a release. Arguments: source, version, release date, payload. A release of a few records changes a large share
# of them, so some releases break a gate (exit status 7), and an operator approves them
ingest() {
    local status=0
    oraclectl ingest run "$1" "data/$1/$4" --version "$2" --released-at "$3" || status=$?
    if [[ $status == 7 ]]; then
        oraclectl ingest approve "$(oraclectl ingest list "$1" --csv | first)" --reason 'excerpt, compared by hand'
    elif [[ $status != 0 ]]; then
        return "$status"
    fi
}

# Prints the first column of the first row of a CSV table
first() { sed -n 2p | cut -d, -f1; }

title 'register the documents'
oraclectl apply -f ontologies -f sources -f pipelines -f workflows -f review-rules
for source in sources/*.json; do approve "$(basename "$source" .json)"; done

title 'ingest the releases, out of order'
for day in 2020-04-14 2017-10-26 2026-03-06 2023-05-04; do
    ingest world-bank-population "$day" "$day" "$day.csv"
done
ingest un-wpp-population 2019 2019-06-17 2019-and-three-faults.tsv
ingest iso-3166 4.15.0 2023-05-31 4.15.0.json
ingest iso-3166 4.20.1 2026-02-01 4.20.1.json
ingest iso-4217 4.15.0 2023-05-31 4.15.0.json
ingest iso-4217 4.20.1 2026-02-01 4.20.1.json
ingest usda-sr older 2006-01-01 older.ndjson
ingest usda-sr newer 2018-04-01 newer-and-three-faults.ndjson
ingest cnf 2015 2015-01-01 cnf.ndjson

title "population of Moldova in 2015: as of now, and as of 2018"
oraclectl query world-bank-population area=MDA year=2015 --axes population
oraclectl query world-bank-population area=MDA year=2015 --axes population --at 2018-01-01

title 'the same from the United Nations, whose figure covers another territory'
oraclectl query un-wpp-population area=MDA year=2015 --axes population

title 'currencies that existed in 2024 and no longer exist'
codes() { oraclectl query iso-4217 --axes name --at "$1" --csv | tail -n +2 | cut -d, -f2 | sort; }
before="$(codes 2024-01-01)"
after="$(codes 2026-06-01)"
comm -23 <(echo "$before") <(echo "$after") | paste -sd' '

title 'provenance of the first value down to its bytes, and a check of those bytes'
record="$(oraclectl query world-bank-population area=MDA year=2015 --csv | first)"
oraclectl provenance "$record"
oraclectl source verify world-bank-population

title 'sodium and vitamin D in 100 g of butter, from two sources with different units'
nutrients=food_name,nutrients.sodium.amount,nutrients.vitamin_d.amount
oraclectl query usda-sr food_scheme=ndb food_id=1001 --axes "$nutrients"
oraclectl query cnf food_scheme=cnf food_id=118 --axes "$nutrients"

title 'changes and rejected records of the newer release of the foods'
newest="$(oraclectl ingest list usda-sr --csv | first)"
oraclectl ingest show "$newest"
oraclectl rejects "$newest"

title 'a text about population checked against that source: as of now, and as of 2018'
check() { oraclectl rules check "texts/$1.txt" --facts-from texts/population-2015.json --rules RULE-PREC-013; }
check moldova
# exit status 1: the text does not pass
check moldova-as-known-in-2018 || [[ $? == 1 ]]

title 'freshness of the source'
oraclectl describe freshness_policy world-bank-population

title 'a text checked against both sources; where they differ, the later release wins'
oraclectl rules check texts/aruba.txt --facts-from texts/aruba-verified.json --rules RULE-PREC-013

title "population of Aruba in 2016, which one of the two sources lacks"
oraclectl verify population area=ABW year=2016 --axes population

title 'Moldova in 2015, where the sources cover different territories: no strategy resolves that'
oraclectl verify population area=MDA year=2015 --axes population || [[ $? = 6 ]]

title 'Aruba in 2015, where the sources disagree: a reviewer decides, unless one has already'
if ! oraclectl verify population area=ABW year=2015 --axes population; then
    review="$(oraclectl review list --workflow population --json | sed -n 's/.*"review_id": "\(.*\)".*/\1/p' | sed -n 1p)"
    oraclectl review show "$review"
    oraclectl review resolve "$review" population=107906 --valid-for 90d \
        --reason 'the later of the two releases'
    title 'the same verification after the decision'
    oraclectl verify population area=ABW year=2015 --axes population
fi
