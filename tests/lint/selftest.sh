#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the checks: a clean tree passes every check, and each fault, planted alone, fails the check named beside it.
# usage: selftest.sh [ROOT]   (ROOT is ignored: the tree is made here)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
bad=0
licence='// SPDX-License-Identifier: Apache-2.0'

clean_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{quant,kernels,experiments,tools,tests/{quant,kernels,experiments}}
  printf '%s\n#include <cstdio>\nint snprintf_user(); // never printf(\n' "$licence" >"$tree/quant/a.h"
  printf '%s\n#include "quant/a.h"\n' "$licence" | tee "$tree/quant/a.cc" "$tree/kernels/b.cc" "$tree/tools/d.cc" \
    "$tree"/tests/{quant/a,kernels/b,experiments/c}_test.cc >/dev/null
  printf '%s\n#include "kernels/b.h"\n' "$licence" >"$tree/experiments/c.cc"
  mkdir -p "$tree"/{docs/{img,results,reference},tests/lint}
  printf '# Title\n\n' >"$tree/README.md"
  printf '[Title](../README.md), [far](./results/far.md).\n' >"$tree/docs/index.md"
  printf '**Answer.** 1.\n\n**Limits.** 2.\n\n**How measured.** `make.sh far`.\n\n' >"$tree/docs/results/far.md"
  printf '300 %s\n' README.md docs/{index,results/far}.md | awk '{ print $2, $1 }' >"$tree/docs/words.txt"
  : >"$tree/tests/lint/prose.txt"
}

# expect_failure CHECK FILE LINE: the check, which passes on the clean tree, fails once LINE is the file's last.
expect_failure() {
  clean_tree
  mkdir -p "$(dirname "$tree/$2")"
  printf "$3" >>"$tree/$2"
  if "$BASH" "$here/$1.sh" "$tree" >/dev/null; then echo "selftest: $1 passes with '$3' in $2"; bad=1; fi
}

clean_tree
for check in layering sizes prose text mirror paths top; do
  "$BASH" "$here/$check.sh" "$tree" || { echo "selftest: $check fails on a clean tree"; bad=1; }
done
expect_failure layering quant/a.cc '#include "kernels/b.h"\n'
expect_failure layering quant/a.h '  # include <experiments/c.h>\n'
expect_failure layering kernels/b.cc '#include "experiments/c.h"\n'
expect_failure layering experiments/c.cc '#include "tools/d.h"\n'
expect_failure layering quant/a.cc '#include <oneapi/dnnl/dnnl.hpp>\n'
expect_failure layering kernels/b.cc '#include <nlohmann/json.hpp>\n'
expect_failure layering experiments/c.cc '#include <CLI/CLI.hpp>\n'
expect_failure layering quant/a.cc '#include "a.h"\n'
expect_failure layering quant/a.cc '#include "../quant/a.h"\n'
expect_failure layering quant/a.cc 'void F() { printf("x"); }\n'
expect_failure layering kernels/b.cc 'auto* x = std::getenv("X");\n'
expect_failure layering experiments/c.cc 'void F() { std::exit(1); }\n'
expect_failure layering experiments/c.cc 'void F() { std::cerr << 1; }\n'
expect_failure layering quant/base/low.h '#include "quant/file/high.h"\n'
expect_failure layering quant/file/high.cc '  # include <quant/unheard_of/x.h>\n'
expect_failure layering quant/unheard_of/x.h 'int x;\n'
expect_failure layering kernels/attention/a.cc '#include "kernels/attention/float/b.h"\n'
expect_failure layering experiments/text/a.cc '#include "experiments/model/b.h"\n'
expect_failure sizes quant/a.cc "$(printf 'x\\n%.0s' {1..399})"
expect_failure sizes quant/a.cc "// $(printf 'x%.0s' {1..118})\\n"
# Rules of prose; words N prints N words.
words() { printf 'x %.0s' $(seq "$1"); }
expect_failure prose README.md "$(words 36).\\n"
expect_failure prose README.md "$(for i in 1 2 3 4 5; do echo "$(words 21).\\n\\n"; done)"
expect_failure prose README.md 'A b; c; d e.\n'
expect_failure prose README.md "$(words 23). $(words 23). $(words 23). $(words 23).\\n"
expect_failure prose README.md "$(for i in $(seq 41); do echo "$(words 10).\\n\\n"; done)"
expect_failure prose README.md '#### Deep\n'
expect_failure prose README.md '## One two three four five six seven eight nine\n'
expect_failure prose README.md '## A Title\n'
expect_failure prose README.md '## Stop.\n'
expect_failure prose README.md '# Title\n'
expect_failure prose README.md "| a |\\n|---|\\n| $(printf 'x%.0s' {1..81}) |\\n"
expect_failure prose README.md "$(printf '| a %.0s' {1..9})|\\n"
expect_failure prose README.md "| a |\\n|---|\\n$(printf '| b |\\n%.0s' {1..13})"
expect_failure prose README.md '| a | b |\n|---|---|\n| | c |\n'
expect_failure prose README.md 'All but\nfor one.\n'
expect_failure prose README.md '| a |\n|---|\n| of which |\n'
expect_failure prose README.md '![Short text.](x.svg)\n'
expect_failure prose README.md '![A text of eight words, and no picture.](x.svg)\n'
expect_failure prose README.md "$(for i in 1 2 3; do echo '<!-- prose: why -->\\nA.\\n\\n'; done)"
expect_failure prose README.md "\`\`\`text\\n$(words 300)\\n\`\`\`\\n"
expect_failure prose docs/new.md 'Not in words.txt.\n'
expect_failure prose docs/words.txt 'docs/gone.md 10\n'
expect_failure prose docs/words.txt 'README.md 40000\n'
expect_failure prose docs/results/far.md '| a |\n|---|\n| b |\n'
expect_failure prose quant/a.h '// Of a row.\n'
expect_failure prose quant/a.cc 'int x;  // The same, of a row.\n'
# A waiver, a page of reference, a generated block and the ratchet allow what would fail.
expect_success() {
  printf "$2" >>"$tree/$1"
  "$BASH" "$here/prose.sh" "$tree" || { echo "selftest: prose fails with '$2' in $1"; bad=1; }
}
clean_tree
expect_success README.md "<!-- prose: why -->\\n$(words 36).\\n\\n"
expect_success README.md "<!-- generated: x -->\\n$(words 36).\\n<!-- end -->\\n"
expect_success README.md "\`$(words 36)\`.\\n"
printf 'README.md phrase 1\n* comment 1\n' >"$tree/tests/lint/prose.txt"
expect_success README.md 'All but for one.\n'
expect_success quant/a.h '// Of a row.\n'
"$BASH" "$here/prose.sh" "$tree" --lower
sed -i 's/but for/except/' "$tree/README.md"
"$BASH" "$here/prose.sh" "$tree" --lower
[ "$(cat "$tree/tests/lint/prose.txt")" = '* comment 1' ] || { echo "selftest: prose --lower does not lower"; bad=1; }
expect_failure text quant/new.cc 'int x;\n'
expect_failure text tools/new.sh '#!/bin/sh\nexit 0\n'
expect_failure text quant/a.cc 'int x;'
expect_failure text quant/a.cc '\tint x;\n'
expect_failure text quant/a.cc 'int x; \n'
expect_failure text quant/a.cc '// caf\xc3\xa9\n'
expect_failure text quant/a.cc '// TO''DO\n'
expect_failure text README.md 'see ../sha''red/x\n'
expect_failure paths quant/a.cc '// see quant/gone.h\n'
expect_failure paths tools/new.sh '# See tests/a.sh, kernels/gone.\n'
expect_failure paths README.md 'see `kernels/gone`\n'
expect_failure paths README.md '[x](gone.md)\n'
expect_failure paths README.md '# Title\n\n[x](README.md#titel)\n'
expect_failure paths docs/img/sites.svg '<rect class="late"/>\n<text>late: z</text>\n'
expect_failure mirror tests/quant/format/orphan_test.cc 'int x;\n'
expect_failure mirror quant/format/new.h 'int x;\n'
expect_failure mirror experiments/model/new.cc 'int x;\n'
expect_failure mirror tools/new.cc 'int x;\n'
expect_failure top stray/notes.log 'Tuesday\n'
expect_failure top .hidden 'x\n'
exit $bad
