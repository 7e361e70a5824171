#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# English that is read once. Pages are Markdown outside tests/data; code, tables and blocks between
# "<!-- generated" and "<!-- end -->" are no prose, and a link counts as its text.
#   sentence    at most 35 words             mean        of a page: at most 20 words a sentence
#   semicolon   one per 100 words            paragraph   at most 90 words
#   section     at most 400 words            heading     3 levels, 8 words, sentence case, no final stop, no twin
#   table       cells of 80 characters, 8 columns, 12 rows (more in docs/reference), a first cell in each row
#   phrase      none of phrases.txt          picture     alt text of 8 words or more, made by docs/img/make.sh
#   form        of results pages: Answer, Limits, How measured with a command; tables from tools/results/make.sh, or
#               below "<!-- by hand: commit, machine -->"
#   waiver      "<!-- prose: reason -->" before a paragraph or a table that breaks a rule; two a page
#   comment     of headers and sources: none opens with "Of" or "The same"; one count for all files
# prose.txt is a ratchet: a page may break a rule as often as it says there (PAGE RULE COUNT), a page that is not in it
# never. Counts fall, they never rise. Always errors: a page above its budget in docs/words.txt, budgets of more than
# 40,000 words together, and a page of docs/ that is more than two links from docs/index.md.
# usage: prose.sh ROOT [--all | --lower]
#   --all     prints whatever breaks a rule, counted in prose.txt or not, and the words of phrases.txt to look at
#   --lower   lowers the counts of prose.txt to those of the tree
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:?usage: prose.sh ROOT [--all | --lower]}"
ratchet=tests/lint/prose.txt budgets=docs/words.txt
[ -e $ratchet ] || ratchet=/dev/null
[ -e $budgets ] || budgets=/dev/null
mapfile -t pages < <(find . \( -name '.?*' -o -path ./build -o -path ./tests/data \) -prune -o -type f -name '*.md' \
  -printf '%P\n' | sort)
mapfile -t sources < <(find quant kernels experiments tools tests -name '*.h' -o -name '*.cc' 2>/dev/null | sort)
[ ! -e docs/img/make.sh ] || made=$(tr -s '\n' ' ' <docs/img/make.sh)

awk -v mode="${2:-}" -v phrases="$here/phrases.txt" -v ratchet=$ratchet -v budgets=$budgets -v made="${made:-}" '
  function hit(file, rule, line, text) {
    ++count[file, rule]
    said[file, rule] = said[file, rule] (file == "*" ? FILENAME : file) ":" line ": " text "\n"
  }
  function fail(text) { print text; bad = 1 }
  function over(rule, line, got, limit, unit, advice) {
    if (got > limit) hit(page, rule, line, "got " got " " unit ", expected at most " limit "; " advice)
  }
  function characters(text) { gsub(/[\200-\277]/, "", text); return length(text) }
  # The text without links, and with code as one word.
  function plain(text, code,   label) {
    if (code) gsub(/``[^`]+``|`[^`]*`/, "CODE", text)
    gsub(/!\[[^]]*\]\([^)]*\)|<[^>]*>|\*\*/, "", text)
    while (match(text, /\[[^][]*\]\([^()]*\)/)) {
      label = substr(text, RSTART + 1, RLENGTH - 1)
      sub(/\]\(.*/, "", label)
      text = substr(text, 1, RSTART - 1) label substr(text, RSTART + RLENGTH)
    }
    return text
  }
  function look_for_phrases(text, line,   i, read) {
    for (i = 1; i <= patterns; ++i) {
      read = shown[i] ~ /[A-Z]/ ? text : tolower(text)
      if (read !~ pattern[i]) continue
      if (!looked_at[i]) hit(page, "phrase", line, "got \"" shown[i] "\", write: " instead[i])
      else if (mode == "--all") print page ":" line ": look at \"" shown[i] "\": " instead[i]
    }
  }
  function sentence_ends() {
    over("sentence", from, words, 35, "words", "split it")
    look_for_phrases(sentence, from)
    if (words > 2) { ++sentences; all_words += words }
    words = 0; sentence = ""; from = 0
  }
  # A paragraph, or an item of a list, whose lines \001 separates.
  function paragraph_ends(   word, i, n, line, in_all) {
    if (paragraph == "") return
    look_for_pictures(paragraph, begun)
    if (waived) { paragraph = ""; return }
    n = split(plain(paragraph, 1), word, " ")
    line = begun
    for (i = 1; i <= n; ++i) {
      if (word[i] == "\001") { ++line; continue }
      if (!from) from = line
      sentence = sentence (sentence == "" ? "" : " ") word[i]
      if (word[i] ~ /[A-Za-z0-9\200-\377]/ && word[i] !~ signs) { ++words; ++in_all }
      if (word[i] ~ /;$/) ++semicolons
      if (word[i] ~ /[.?!][)"_*]*$/ && word[i] !~ /^\(?(e\.g|i\.e|vs|cf|etc|al)\.$/) sentence_ends()
    }
    if (sentence != "") sentence_ends()
    over("paragraph", begun, in_all, 90, "words in a paragraph", "split it")
    section += in_all
    paragraph = ""
  }
  function look_for_pictures(text, line,   alt, file) {
    gsub(/ *\001 */, " ", text)
    while (match(text, /!\[[^]]*\]\([^)]*\)/)) {
      alt = substr(text, RSTART + 2, RLENGTH - 3)
      file = alt
      text = substr(text, RSTART + RLENGTH)
      sub(/\]\(.*/, "", alt); sub(/.*\]\(/, "", file); sub(/.*\//, "", file)
      if (split(alt, unused, " ") < 8)
        hit(page, "picture", line, "got the alt text \"" alt "\", expected what the picture shows in 8 words or more")
      sub(/\.svg$/, "", file)
      if (!index(made, " " file " ") && !(file ~ /\.png$/ && index(made, "/" file)))
        hit(page, "picture", line, "got " file ", expected a picture of docs/img/make.sh")
      else if (file !~ /\.png$/ && !index(made, alt))
        hit(page, "picture", line, "got the alt text \"" alt "\", expected the title of " file " in docs/img/make.sh")
    }
  }
  function table_ends() {
    if (rows - 2 > 12 && page !~ /^docs\/reference\//)
      over("table", table_begun, rows - 2, 12, "rows", "write the rest to docs/results/data")
    rows = 0
  }
  function row(text,   cell, i, n, size) {
    if (!rows++) {
      table_begun = FNR
      if (page ~ /^docs\/results\// && page !~ /index\.md$/ && !by_hand)
        hit(page, "form", FNR, "got a table, expected tools/results/make.sh or \"<!-- by hand: commit, machine -->\"")
      by_hand = 0
    }
    if (waived) return
    gsub(/\\\|/, "/", text)
    text = plain(text)
    sub(/^ *\|/, "", text); sub(/\| *$/, "", text)
    n = split(text, cell, "|")
    if (rows == 1) over("table", FNR, n, 8, "columns", "split the table or turn it")
    if (rows == 2) return
    if (rows > 2 && cell[1] ~ /^ *$/) hit(page, "table", FNR, "got an empty first cell, expected what the row is about")
    for (i = 1; i <= n; ++i) {
      gsub(/^ +| +$/, "", cell[i])
      size = characters(cell[i])
      if (size > 80) hit(page, "table", FNR, "got a cell of " size " characters, expected at most 80; give it columns")
      gsub(/`[^`]*`/, "CODE", cell[i])
      look_for_phrases(cell[i], FNR)
    }
  }
  function heading(text,   level, word, i, n) {
    section_ends()
    level = index(text, " ") - 1
    sub(/^#+ +/, "", text)
    text = plain(text, 1)
    n = split(text, word, " ")
    over("heading", FNR, level, 3, "levels of headings", "make it a paragraph")
    over("heading", FNR, n, 8, "words in a heading", "shorten it")
    if (text ~ /[.:;]$/) hit(page, "heading", FNR, "got a heading with a stop, expected none")
    for (i = 2; i <= n; ++i) if (word[i] ~ /^[A-Z][a-z]+[?]?$/ && word[i] !~ names && word[i - 1] !~ /[.:]$/)
      hit(page, "heading", FNR, "got \"" word[i] "\" in a heading, expected sentence case")
    if (seen[page, tolower(text)]++) hit(page, "heading", FNR, "got the heading \"" text "\" twice")
    section_line = FNR
  }
  function section_ends() {
    over("section", section_line, section, 400, "words in a section", "give it headings")
    section = 0
  }
  function page_ends() {
    if (!page) return
    paragraph_ends(); table_ends(); section_ends()
    if (sentences > 4)
      over("mean", 1, int(all_words / sentences + 0.5), 20, "words a sentence on average", "split some")
    several = int(all_words / 100) + 1
    over("semicolon", 1, semicolons, several, "semicolons in " all_words " words", "write sentences")
    if (semicolons > several) count[page, "semicolon"] = semicolons - several
    over("waiver", 1, waivers, 2, "waivers", "mend the text")
    if (page ~ /^docs\/results\// && page !~ /index\.md$/) {
      for (i = 1; i <= split("Answer,Limits,How measured", part, ","); ++i)
        if (!((page, part[i]) in has)) hit(page, "form", 1, "got no **" part[i] ".**, which a page of results has")
      if (!((page, "command") in has)) hit(page, "form", 1, "got no command in How measured")
    }
    all_pages += total[page]
  }
  function remember_links(text,   target) {
    while (match(text, /\]\([^() ]+\)/)) {
      target = substr(text, RSTART + 2, RLENGTH - 3)
      text = substr(text, RSTART + RLENGTH)
      if (target ~ /^[a-z]+:/) continue
      sub(/#.*/, "", target)
      folder = page
      if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
      while (target ~ /^\.\.?\//) {
        if (target ~ /^\.\./ && !sub(/\/[^\/]*$/, "", folder)) folder = ""
        sub(/^\.\.?\//, "", target)
      }
      links[page] = links[page] " " (folder == "" ? "" : folder "/") target
    }
  }
  BEGIN {
    names = "^(Face|Python|Transformers?|Slurm|Highway|Holm|Student|Hadamard|Mamba|Tare|Llama|Debian|Hugging)[?]?$"
    signs = "^(\302[\261\267]|\303\227|\342\206\222)$"
    while ((getline line <phrases) > 0) {
      if (line ~ /^(#|$)/) continue
      split(line, field, "\t")
      looked_at[++patterns] = sub(/^[?]/, "", field[1])
      shown[patterns] = field[1]
      pattern[patterns] = (field[1] ~ /^\^/ ? "" : "(^|[^A-Za-z])") "(" field[1] ")([^A-Za-z]|$)"
      instead[patterns] = field[2]
    }
    while ((getline line <ratchet) > 0) { split(line, field, " "); allowed[field[1], field[2]] = field[3] }
    while ((getline line <budgets) > 0) {
      if (line ~ /^(#|$)/) continue
      split(line, field, " ")
      budget[field[1]] = field[2]
      sum += field[2]
    }
  }
  FNR == 1 {
    page_ends()
    page = FILENAME ~ /\.md$/ ? FILENAME : ""
    if (page) is_page[page]
    fenced = code = generated = waived = by_hand = waivers = commented = 0
    sentences = all_words = semicolons = section = 0
    section_line = blank = 1
  }
  !page {
    if (/\/\/ (Of|The same)([ ,.;:]|$)/ && !(/^ *\/\// && commented))
      hit("*", "comment", FNR, "got a comment that opens with Of or The same, expected its subject")
    commented = /^ *\/\//
    next
  }
  { total[page] += NF; remember_links($0) }
  /^\*\*[A-Z][a-z ]+\.\*\*/ {
    part_name = substr($0, 3)
    sub(/\..*/, "", part_name)
    has[page, part_name]
  }
  part_name == "How measured" && /make[.]sh|tare [a-z]+ / { has[page, "command"] }
  /^ *```/ { paragraph_ends(); fenced = !fenced; next }
  fenced { next }
  /^<!-- (generated|make)/ { paragraph_ends(); table_ends(); generated = 1; next }
  /^<!-- end/ { generated = 0; next }
  generated { next }
  /^<!-- prose: ./ { paragraph_ends(); waived = 1; ++waivers; next }
  /^<!-- by hand: ./ { paragraph_ends(); by_hand = 1; next }
  /^<!--/ { next }
  !NF { if (paragraph != "" || rows) { paragraph_ends(); table_ends(); waived = 0 } blank = 1; next }
  /^    / && (blank || code) && !in_list { code = 1; next }
  { code = 0 }
  /^ *\|/ { paragraph_ends(); row($0); blank = 0; next }
  /^#+ / { paragraph_ends(); in_list = 0; heading($0); blank = 0; next }
  /^ *([-*+]|[0-9]+\.) / { paragraph_ends(); in_list = 1; sub(/^ *([-*+]|[0-9]+\.) +/, "") }
  /^[^ ]/ && blank && !/^([-*+]|[0-9]+\.) / { in_list = 0 }
  {
    sub(/^> ?/, "")
    if (paragraph == "") { paragraph = $0; begun = FNR } else paragraph = paragraph " \001 " $0
    blank = 0
  }
  END {
    page_ends()
    for (file in is_page) {
      if (total[file] > budget[file] + 0)
        fail(file ": got " total[file] " words, expected at most " budget[file] + 0 " (" budgets \
          "); cut, or take words from another page")
    }
    for (file in budget) if (!(file in is_page)) fail(budgets ": got " file ", expected pages of this tree")
    if (sum > 40000) fail(budgets ": got " sum " words in all, expected at most 40000")
    near["docs/index.md"]
    for (step = 1; step <= 2; ++step) {
      split("", next_pages)
      for (file in near) for (i = split(links[file], target, " "); i > 0; --i) next_pages[target[i]]
      for (file in next_pages) near[file]
    }
    for (file in is_page) if (file ~ /^docs\// && !(file in near))
      fail(file ": got a page more than two links from docs/index.md, expected a link to it")
    for (key in allowed) count[key] += 0
    for (key in count) {
      split(key, field, SUBSEP)
      got = count[key]
      limit = allowed[key] + 0
      if (mode == "--all" || got > limit) printf "%s", said[key]
      if (got > limit) fail(field[1] ": got " got " of rule " field[2] ", expected at most " limit " (" ratchet ")")
      if (limit && got) lowered = lowered field[1] " " field[2] " " (got < limit ? got : limit) "\n"
    }
    if (mode == "--lower") printf "%s", lowered | "sort >tests/lint/prose.txt"
    exit bad
  }' "${pages[@]}" "${sources[@]}"
