// SPDX-License-Identifier: Apache-2.0
// Typed reading of config.json; every message names the place. Families read their own keys with these functions.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tare {

// One JSON object, which must outlive this.
class ConfigKeys {
 public:
  ConfigKeys(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(const char* key) const;  // and is not null
  bool IsNull(const char* key) const;
  int Integer(const char* key, int smallest) const;
  int Integer(const char* key, int smallest, int otherwise) const {
    return Has(key) ? Integer(key, smallest) : otherwise;
  }
  double Positive(const char* key) const;
  double Positive(const char* key, double otherwise) const { return Has(key) ? Positive(key) : otherwise; }
  std::vector<double> Positives(const char* key) const;  // a list of them
  bool Flag(const char* key, bool otherwise) const;
  std::string Text(const char* key) const;
  std::vector<std::string> Texts(const char* key) const;
  bool IsText(const char* key) const;
  bool IsList(const char* key) const;
  // A list of integers or nulls.
  std::vector<std::optional<int>> Integers(const char* key, int smallest) const;
  ConfigKeys Object(const char* key) const;
  // Refuses a key unless its value is null, false, or one of the accepted JSON texts.
  void Refuse(const char* key, std::initializer_list<const char*> accepted = {}) const;

  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& Get(const char* key) const;
  [[noreturn]] void Wrong(const char* key, const char* expected) const;

  const nlohmann::json& object_;
  std::string where_;
};

// sliding_window: keys that a query sees; `otherwise` if the key is missing, 0 if it is null.
int ReadWindow(const ConfigKeys& keys, int otherwise);
// Windows of all layers: of those that layer_types (transformers 5) calls sliding_attention, or, if it is missing, of
// those for which `slides` is true; empty without any.
std::vector<int> ReadWindows(const ConfigKeys& keys, int layers, int window, const std::function<bool(int)>& slides);
// The same as Qwen's checkpoints say it: use_sliding_window, and max_window_layers, the first layer that slides.
std::vector<int> ReadQwenWindows(const ConfigKeys& keys, int layers);

}  // namespace tare
