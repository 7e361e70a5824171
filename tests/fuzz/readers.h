// SPDX-License-Identifier: Apache-2.0
// Every reader of outside data, as a function of bytes: it reads them or throws Error. Anything else is a defect.
#pragma once

#include <span>
#include <string_view>

#include "tests/damage/damage.h"

namespace tare::fuzz {

struct Reader {
  std::string_view name;  // also of its folder of kept cases, corpus/NAME
  damage::Form form;
  void (*read)(std::string_view bytes);
};

std::span<const Reader> Readers();

// Whether the reader took the bytes. Error is caught; what else it throws is not.
bool Takes(const Reader& reader, std::string_view bytes);

}  // namespace tare::fuzz
