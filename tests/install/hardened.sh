#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What cmake/flags.cmake says that a build has (TARE_HARDEN), its files have: in their headers, in what they import and,
# of control-flow protection, in their code, for the C library's own objects keep its mark from the file. An archive of
# ours shows what its sources were compiled with; in a program, other archives may have brought it.
# usage: hardened.sh "NAME..." FILE...       NAME: FORTIFY_SOURCE GLIBCXX_ASSERTIONS stack-protector cf-protection
#                                            branch-protection (cf-protection of ARM) relro now
set -euo pipefail
names=${1:?usage: hardened.sh "NAME..." FILE...}
shift
bad=0
for file; do
  case $file in
    *.a) imports=$(nm -u "$file") segments='' dynamic='' ;;
    *) imports=$(readelf --dyn-syms -W "$file") segments=$(readelf -lW "$file") dynamic=$(readelf -dW "$file") ;;
  esac
  for name in $names; do
    case $file:$name in *.a:relro | *.a:now) continue ;; esac
    case $name in
      FORTIFY_SOURCE) grep -qE ' __(memcpy|snprintf|pread)_chk' <<<"$imports" ;;
      GLIBCXX_ASSERTIONS) grep -q __glibcxx_assert_fail <<<"$imports" ;;
      stack-protector) grep -q ' __stack_chk_fail' <<<"$imports" ;;
      relro) grep -q GNU_RELRO <<<"$segments" ;;
      now) grep -qE 'BIND_NOW|Flags: NOW' <<<"$dynamic" ;;
      cf-protection) [ "$(LC_ALL=C grep -oaP '\xf3\x0f\x1e\xfa' "$file" | wc -l)" -gt 1000 ] ;;
      branch-protection) [ "$(LC_ALL=C grep -oaP '\x3f\x23\x03\xd5' "$file" | wc -l)" -gt 1000 ] ;;
      *) false ;;
    esac || { echo "$file: got no $name, expected it as cmake/flags.cmake sets it"; bad=1; }
  done
  ! grep -E 'GNU_STACK.* RWE ' <<<"$segments" || { echo "$file: got a stack that may be executed (above)"; bad=1; }
done
exit $bad
