// SPDX-License-Identifier: Apache-2.0
// `quantization_config` of a folder's config.json says that another tool quantized it; old compressed-tensors writes
// `compression_config`, MLX `quantization`, and some tools a file beside config.json. quant_method names the tool, and
// its reader takes the codes. A method, a key or a tensor that no reader understands is refused by name.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/checkpoint_files.h"
#include "quant/file/json.h"

struct pcre2_real_code_8;

namespace tare {

// Others' regular expressions over module names, in Python's re, which PCRE2 reads alike. Sizes and steps are bounded.
class NamePattern {
 public:
  // Throws Error, starting with `where`, for a text that is no such pattern.
  NamePattern(std::string_view pattern, std::string where);

  // Throw Error for a pattern that takes too long.
  bool MatchesStart(std::string_view name) const;      // re.match
  bool MatchesSomewhere(std::string_view name) const;  // re.search

 private:
  bool Matches(std::string_view name, uint32_t options) const;

  std::string where_;
  std::shared_ptr<const pcre2_real_code_8> code_;
};

// The types of tensors that hold scales.
constexpr std::initializer_list<DType> kFloatTypes = {DType::kF16, DType::kBF16, DType::kF32},
                                       kE8M0Types = {DType::kU8, DType::kF8E8M0};

// One object of a quantization_config, read strictly: whatever is asked for has its type and range, and RefuseOthers
// names the first key that nothing asked for, because a key that is not understood may change the numbers.
class SchemeKeys {
 public:
  // The object outlives this. Throws Error if it is none.
  SchemeKeys(const Json& object, std::string where);

  // Functions with `otherwise` return it for a key that is missing or null, and throw Error without it.
  const Json* Find(std::string_view key);  // null if it is missing or null
  bool Has(std::string_view key) { return Find(key) != nullptr; }
  bool SaysNull(std::string_view key) const;  // null, and not missing
  // An object of what `expected` says; an empty one for a key that is missing or null.
  const Json& Object(std::string_view key, std::string_view expected);
  int64_t Integer(std::string_view key, int64_t least, int64_t most, std::optional<int64_t> otherwise = {});
  bool Flag(std::string_view key, bool otherwise);
  std::string Text(std::string_view key, const std::optional<std::string>& otherwise = {});
  // A list of two from 1 to `most`; `expected` ends the message.
  std::array<int64_t, 2> Two(std::string_view key, int64_t most, std::string_view expected);
  // Strings, or lists of them within the list.
  std::vector<std::string> Texts(std::string_view key);
  // Missing, null, or one of these JSON texts; others are refused.
  void Only(std::string_view key, std::initializer_list<std::string_view> accepted);
  // Keys, separated by blanks, that say how a checkpoint was made, or how it is run, and change no number.
  void Ignore(std::string_view keys);
  void RefuseOthers() const;

  const std::string& where() const { return where_; }
  [[noreturn]] void Wrong(std::string_view key, std::string_view expected) const;

 private:
  const Json& Get(std::string_view key);

  const Json& object_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

// A folder's tensors by module, X.qweight beside X.scales, while a scheme's reader takes them. What it takes becomes
// X.weight; other tensors keep their names, unless named as parts of codes: a part that nothing took is refused.
class ModuleTensors {
 public:
  // `files` outlives this.
  ModuleTensors(const CheckpointFiles& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  std::vector<std::string> ModulesWith(std::string_view part) const;  // sorted
  const TensorView* Find(const std::string& module, std::string_view part) const;
  // Marks the tensor as taken. Throws Error if it is missing, or of another type, or has no elements.
  const TensorView& Take(const std::string& module, std::string_view part, std::initializer_list<DType> types);
  // As Take, for a matrix. Throws Error for another shape.
  const TensorView& TakeMatrix(const std::string& module, std::string_view part, std::initializer_list<DType> types);
  // Throws Error, saying what follows from what, for another shape.
  void Require(const TensorView& tensor, const std::vector<int64_t>& shape, std::string_view because) const;
  bool IsTaken(const std::string& name) const { return taken_.contains(name); }
  // Throws Error for a tensor with such a part, of these separated by blanks, that was not taken.
  void CheckNothingLeft(std::string_view parts) const;

  // "FOLDER: tensor 'NAME'".
  std::string Where(std::string_view name) const;
  const CheckpointFiles& files() const { return files_; }

 private:
  const CheckpointFiles& files_;
  std::string folder_;
  std::set<std::string> taken_;
};

struct ForeignModel {
  std::map<std::string, std::unique_ptr<const ForeignMatrix>, std::less<>> matrices;
  std::vector<std::string> notes;  // decisions, and advice to the user, a sentence each
};

// Modules that a configuration leaves as they are, each by its name or by neighbouring parts of it between points, so
// that "mlp.gate" is not "mlp.gate_proj"; * and ? stand for any text and any letter.
class LeftModules {
 public:
  // The lists of these names.
  LeftModules(SchemeKeys& keys, std::initializer_list<std::string_view> lists);

  bool Has(const std::string& module) const;
  // Throws Error for a module with codes that is one of them.
  void RequireCodes(const std::string& module, const std::string& where, const ModuleTensors& tensors) const;

 private:
  std::vector<std::string> names_;  // between points; thousands, where each layer has its own, so no patterns
  std::vector<NamePattern> patterns_;
};

int64_t BytesOf(const std::vector<const TensorView*>& tensors);

// The codes of a folder whose config.json is `config`; nothing without settings there or in a file beside it.
ForeignModel ReadForeignModel(const std::string& config, const std::filesystem::path& folder, ModuleTensors& tensors);

// The reader of each method, in a source of its name; AWQ's is in gptq.cc, those of floats in floats.cc.
using MethodReader = ForeignModel(SchemeKeys& keys, ModuleTensors& tensors);
MethodReader ReadGptq, ReadAwq, ReadAutoRound, ReadCompressedTensors, ReadFp8, ReadModelOpt, ReadBitsAndBytes,
    ReadMxfp4, ReadNvFp4Experts;
ForeignModel ReadMlx(SchemeKeys& keys, const Json& object, ModuleTensors& tensors);

// A folder's tensors and matrices (folder_checkpoint.cc).
std::unique_ptr<const CheckpointSource> OpenFolderCheckpoint(const std::filesystem::path& folder);
// A file of the folder, config.json with the entries of tensor-names.json; nullopt if there is none.
std::optional<std::string> FolderText(const std::filesystem::path& folder, const std::string& name);
// The text of config.json without these keys: of the model alone.
std::string WithoutQuantizationConfig(const std::string& config, const std::string& where);

}  // namespace tare
