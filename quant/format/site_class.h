// SPDX-License-Identifier: Apache-2.0
// What a plan may say about a site: which of l, h and m it has, which granularities and options mean something there,
// and whether its values can be negative. Scales that span what a site does not have (heads of a weight, channels of a
// score) are not admitted.
#pragma once

#include <span>
#include <string_view>

#include "quant/format/granularity.h"
#include "quant/format/site.h"

namespace tare {

struct SiteClass {
  std::string_view dimensions;  // the letters that a selector may use, of "lhm"
  std::span<const Granularity::Kind> granularities;
  std::string_view options;  // separated by blanks
  bool is_unsigned = false;  // formats u8 u6 u4, otherwise int8 int6 int4
};

// The sites of a group are of one class.
const SiteClass& ClassOf(Site site);

}  // namespace tare
