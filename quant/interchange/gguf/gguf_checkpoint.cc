// SPDX-License-Identifier: Apache-2.0
// GgufMatrix (one matrix), GgufSource (all tensors, with copies of what the converter changed), OpenGguf and GgufText.
#include "quant/interchange/gguf/architecture.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <ranges>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/interchange/gguf/blocks.h"
#include "quant/interchange/gguf/vocabulary.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

void ReleaseRows(const gguf::MappedTensor& mapped, const gguf::Parts& parts) {
  for (const gguf::Tensor* tensor : {mapped.tensor, mapped.in_turns}) {
    if (tensor != nullptr) parts.Release(mapped.RowsIn(*tensor));
  }
}

// A matrix of codes, or of floating point whose rows are in another order.
class GgufMatrix : public ForeignMatrix {
 public:
  GgufMatrix(const gguf::MappedTensor& mapped, const gguf::Parts& parts, std::string where)
      : ForeignMatrix(mapped.shape[0], mapped.shape[1]), mapped_(mapped), parts_(parts), where_(std::move(where)) {}

  void Row(int64_t row, float* y) const override {
    gguf::DequantizeBlocks(type().type, Block(row, 0), in() / type().values, y);
    RequireFinite({y, static_cast<size_t>(in())}, row);
  }
  std::optional<IntegerForm> integers() const override {
    return HasCodes() ? std::optional(gguf::IntegersOfType(type().type)) : std::nullopt;
  }
  void Integers(int64_t row, const IntegerRow& to) const override {
    const int64_t values = type().values, groups = values / gguf::IntegersOfType(type().type).group;
    gguf::BlockIntegers block;
    for (int64_t b = 0; b < in() / values; ++b) {
      gguf::ReadIntegers(type().type, Block(row, b), block);
      std::copy_n(block.codes.data(), values, to.codes + b * values);
      std::copy_n(block.scales.data(), groups, to.scales + b * groups);
      RequireFinite({to.scales + b * groups, static_cast<size_t>(groups)}, row);
      if (to.minima == nullptr) continue;
      std::copy_n(block.minima.data(), groups, to.minima + b * groups);
      RequireFinite({to.minima + b * groups, static_cast<size_t>(groups)}, row);
    }
  }
  std::string scheme() const override {
    return HasCodes() ? "GGUF " + std::string(type().name) : std::string(type().name);
  }
  bool HasCodes() const override { return !type().IsFloat(); }
  int64_t bytes() const override { return out() * mapped_.RowBytes(); }
  void Release() const override { ReleaseRows(mapped_, parts_); }

 private:
  const gguf::TypeInfo& type() const { return *mapped_.tensor->type; }
  const std::byte* Block(int64_t row, int64_t block) const {
    const auto [tensor, at] = mapped_.Row(row);
    return tensor->bytes.data() + at * mapped_.RowBytes() + block * type().bytes;
  }
  void RequireFinite(std::span<const float> values, int64_t row) const {
    constexpr uint32_t kExponent = 0x7f800000;  // all set in infinities and NaNs
    bool bad = false;
    for (const float value : values) bad |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent;
    if (!bad) return;
    const auto [tensor, at] = mapped_.Row(row);
    Fail("{}: tensor '{}', row {}: NaN or infinity{}; expected finite weights; try downloading it again", where_,
         tensor->name, at, HasCodes() ? " from its scales" : "");
  }

  gguf::MappedTensor mapped_;
  const gguf::Parts& parts_;
  std::string where_;
};

class GgufSource : public CheckpointSource {
 public:
  explicit GgufSource(const fs::path& path)
      : parts_(path), model_(gguf::MapModel(parts_.metadata(), parts_.tensors())) {
    for (const auto& [name, mapped] : model_.tensors) Add(name, mapped, path.string());
  }

  std::vector<std::string> names() const override {
    return model_.tensors | std::views::keys | std::ranges::to<std::vector>();
  }
  const TensorView* Find(std::string_view name) const override { return FindIn(views_, name); }
  const ForeignMatrix* FindForeign(std::string_view name) const override { return FindIn(matrices_, name); }
  void Release(const std::string& name) const override {
    const auto found = model_.tensors.find(name);
    if (found == model_.tensors.end()) Fail("tensor '{}': not in this checkpoint", name);
    ReleaseRows(found->second, parts_);
  }
  std::string ContentHash() const override { return parts_.ContentHash(); }

 private:
  void Add(const std::string& name, const gguf::MappedTensor& mapped, const std::string& where) {
    const gguf::Tensor& tensor = *mapped.tensor;
    const bool is_matrix = mapped.shape.size() == 2, reordered = mapped.rotated_heads > 0 || mapped.in_turns != nullptr;
    if (!tensor.type->IsFloat() || (reordered && is_matrix)) {
      if (!is_matrix || mapped.added != 0)
        Fail("{}: tensor '{}': got {} of shape {}, expected a matrix, or values in F32, F16 or BF16", where,
             tensor.name, tensor.type->name, ShapeText(tensor.shape));
      matrices_.try_emplace(name, mapped, parts_, where);
      return;
    }
    views_[name] = {name, *ParseDType(tensor.type->name), mapped.shape,
                    reordered || mapped.added != 0 ? Changed(mapped, where) : mapped.RowsIn(tensor)};
  }

  // A copy of a bias or a norm as the checkpoint had it.
  std::span<const std::byte> Changed(const gguf::MappedTensor& mapped, const std::string& where) {
    const gguf::Tensor& tensor = *mapped.tensor;
    const auto row_bytes = static_cast<size_t>(mapped.RowBytes());
    std::vector<std::byte>& copy = changed_.emplace_back(static_cast<size_t>(mapped.shape[0]) * row_bytes);
    for (int64_t row = 0; row < mapped.shape[0]; ++row) {
      const auto [from, at] = mapped.Row(row);
      std::memcpy(copy.data() + static_cast<size_t>(row) * row_bytes,
                  from->bytes.data() + static_cast<size_t>(at) * row_bytes, row_bytes);
    }
    if (mapped.added == 0) return copy;
    if (tensor.type->type != gguf::TensorType::kF32)
      Fail("{}: tensor '{}': got {}, expected F32", where, tensor.name, tensor.type->name);
    for (size_t at = 0; at < copy.size(); at += sizeof(float)) {
      const float value = Load<float>(copy.data() + at) + mapped.added;
      std::memcpy(copy.data() + at, &value, sizeof value);
    }
    return copy;
  }

  gguf::Parts parts_;
  gguf::MappedModel model_;
  std::deque<std::vector<std::byte>> changed_;
  std::map<std::string, TensorView, std::less<>> views_;
  std::map<std::string, GgufMatrix, std::less<>> matrices_;
};

}  // namespace

std::unique_ptr<const CheckpointSource> OpenGguf(const fs::path& path) { return std::make_unique<GgufSource>(path); }

std::optional<std::string> GgufText(const fs::path& path, const std::string& name) {
  if (name == "config.json") {
    const gguf::Parts parts(path);
    return gguf::MapModel(parts.metadata(), parts.tensors()).config;
  }
  if (!name.starts_with("tokenizer")) return std::nullopt;
  const gguf::FirstPart first = gguf::OpenFirst(path);
  return gguf::TokenizerText(first.content.metadata, name);
}

}  // namespace tare
