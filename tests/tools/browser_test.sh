#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The report in Chromium: its console stays empty in both colour schemes at three widths, and what its script makes is
# there. The first sentence of the page and its first figure say what two quantized files lose. Exits with 77, which
# ctest counts as skipped, without Chromium (tools/setup.sh --browser).
# usage: browser_test.sh TARE ROOT
set -euo pipefail
tare=${1:?usage: browser_test.sh TARE ROOT} pair=${2:?usage: browser_test.sh TARE ROOT}/experiments/pair
chromium=$(command -v chromium-headless-shell || command -v chromium || command -v google-chrome) ||
  { echo 'browser_test: no Chromium; try tools/setup.sh --browser'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "browser_test: $*" >&2; exit 1; }

# Two models, the second of a name that a page must not run.
standard=$pair/novels-standard
head -c 20000 "$pair/heldout.txt" >"$work/heldout.txt" # all of it takes a tokenizer most of a second, each time
hostile="$work/<img src=x onerror=console.log(1)>"
cp -r "$pair/novels-differential" "$hostile"
"$tare" stats "$standard" "$hostile" --input "$work/heldout.txt" --tokens 64 --window 32 --json "$work/outliers.json" \
  >/dev/null
"$tare" sweep "$standard" "$hostile" --bits 16,4 --tasks "perplexity=$work/heldout.txt" --tokens 64 --window 32 \
  --out "$work/sweep" >/dev/null
for bits in 4 3; do
  "$tare" quantize "$standard" --plan "weights=int$bits/group16" --out "$work/rtn-$bits.h5" >/dev/null
done
"$tare" sweep "$work/rtn-4.h5" "$work/rtn-3.h5" --source "$standard" --tasks "perplexity=$work/heldout.txt" \
  --tokens 640 --window 32 --out "$work/methods" >/dev/null
"$tare" report "$work/outliers.json" "$work/sweep" "$work/methods" --out "$work/report.html" >/dev/null

# browse WIDTH SCHEME OPTION...: 0 is the dark scheme, 1 the light one. What the console says comes with CONSOLE before
# it.
browse() {
  "$chromium" --headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr \
    --user-data-dir="$work/profile" \
    --blink-settings=preferredColorScheme="$2" --window-size="$1",2400 "${@:3}" "file://$work/report.html" \
    2>"$work/said"
  ! grep 'CONSOLE' "$work/said" >&2 || die "the console has something to say at width $1, scheme $2"
}

for scheme in 0 1; do
  for width in 390 820 1400; do
    browse $width $scheme --screenshot="$work/$scheme-$width.png" >/dev/null
    [ -s "$work/$scheme-$width.png" ] || die "no picture at width $width, scheme $scheme"
  done
  ! cmp -s "$work/$scheme-390.png" "$work/$scheme-1400.png" || die 'a phone sees what a desk sees'
done
! cmp -s "$work/0-820.png" "$work/1-820.png" || die 'the dark scheme is the light one'
browse 820 1 --dump-dom >"$work/dom.html"
for part in '>Download CSV<' '>Download SVG<' '>Download PNG<' '<th scope="col"><button type="button">' 'id="tip"'; do
  grep -q "$part" "$work/dom.html" || die "the script did not make $part"
done
first=$(grep -A2 'id="findings"' "$work/dom.html" | grep -o '<li>[^<]*' | head -n 1)
bits='* bits per weight of quantized matrices'
[[ $first == '<li>At '$bits', perplexity on heldout changes by '*' % with rtn-4.h5 (rtn) over 20 windows.'* ]] ||
  die "the page begins with '$first'"
[ "$(grep -o '<figure id="[^"]*"' "$work/dom.html" | head -n 1)" = '<figure id="figure-methods"' ] ||
  die 'the first figure is another'
browse 820 1 --print-to-pdf="$work/report.pdf" >/dev/null
[ -s "$work/report.pdf" ] || die 'it does not print'

# A page whose script its policy refuses must be seen to fail.
sed -i 's/sha256-[^;]*/sha256-AAAA/' "$work/report.html"
! (browse 820 1 --dump-dom) >/dev/null 2>&1 || die 'a refused script went unseen'
