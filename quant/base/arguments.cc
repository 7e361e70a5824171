// SPDX-License-Identifier: Apache-2.0
#include "quant/base/arguments.h"

#include "quant/base/message.h"

namespace tare {

void CheckPointer(std::string_view where, const void* data, int64_t values) {
  if (values < 0) Fail("{}: got {} values, expected 0 or more", where, values);
  if (data == nullptr && values > 0) Fail("{}: got a null pointer for {} values", where, values);
}

void CheckRange(std::string_view where, std::string_view what, int64_t got, int64_t least, int64_t most) {
  if (got >= least && got <= most) return;
  if (least == most) Fail("{}: got {} {}, expected {}", where, what, got, least);
  if (most == std::numeric_limits<int64_t>::max()) Fail("{}: got {} {}, expected at least {}", where, what, got, least);
  Fail("{}: got {} {}, expected {} to {}", where, what, got, least, most);
}

void CheckSquare(std::string_view where, size_t values, int64_t in) {
  constexpr int64_t kMost = int64_t{1} << 31;  // whose square an int64_t holds
  CheckRange(where, "inputs", in, 1, kMost);
  CheckEqual(where, "moments", static_cast<int64_t>(values), in * in);
}

}  // namespace tare
