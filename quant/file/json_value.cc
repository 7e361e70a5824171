// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json_value.h"

namespace tare {

std::string JsonText(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tare
