// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json_text.h"

#include "quant/file/json.h"

namespace tare {

std::string JsonText(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tare
