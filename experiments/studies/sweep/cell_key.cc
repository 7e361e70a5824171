// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/cell_key.h"

#include <algorithm>

#include "experiments/passes/convention_windows.h"
#include "quant/base/formatted.h"
#include "quant/checkpoint/checkpoint.h"

namespace tare {
namespace {

bool IsOfModel(const std::string& name) {
  return name == "weights" || name == "stats" || std::ranges::contains(kModelFiles, name);
}

}  // namespace

std::string CellText(const Json& key) {
  return Formatted("{} {} {}", key.value("model", ""), key.value("plan", ""), key.value("task", ""));
}

Json IdentityOf(Json key) {
  if (const auto convention = key.find("convention"); convention != key.end())
    *convention = convention->is_object() ? (*convention)["name"] : Json(InfoOf(Convention::kTare).name);
  return key;
}

std::string IdentityText(const Json& key) { return JsonText(IdentityOf(key)); }

std::string Clash(const Json& key_a, const Json& key_b) {
  const Json a = IdentityOf(key_a), b = IdentityOf(key_b);
  const bool same_model = a["model"] == b["model"], same_task = a["task"] == b["task"];
  for (const auto& [name, value] : a.items()) {
    if (name == "model" || name == "task" || name == "plan" || name == "executed") continue;
    if ((name == "input" && !same_task) || (IsOfModel(name) && !same_model)) continue;
    if (b.contains(name) && b[name] != value) return name;
  }
  if (a.contains("from") != b.contains("from")) return "part of the input";  // older ones took its start
  if (same_task && a.contains("windows_begin") != b.contains("windows_begin")) return "windows of a long text";
  const bool same_row =
      same_model && same_task && a["plan"] == b["plan"] && a.contains("executed") == b.contains("executed");
  return same_row && a != b ? "set of files" : "";
}

}  // namespace tare
