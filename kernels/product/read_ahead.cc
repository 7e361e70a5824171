// SPDX-License-Identifier: Apache-2.0
#include "kernels/product/read_ahead.h"

#include <array>

namespace tare {
namespace {

ReadHint HintOfProcessor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("znver5")) return ReadHint::kOnce;
  if (__builtin_cpu_is("amd")) return ReadHint::kNone;
#endif
  return ReadHint::kKept;
}

}  // namespace

ReadHint BestReadHint() {
  static const ReadHint hint = HintOfProcessor();
  return hint;
}

std::string_view Name(ReadHint hint) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "once", "kept"};
  return kNames[static_cast<size_t>(hint)];
}

}  // namespace tare
