// SPDX-License-Identifier: Apache-2.0
// A checkpoint folder in memory, so that a test can change a part and write it elsewhere.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "quant/base/float16.h"
#include "quant/file/checkpoint_files.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare {

struct EditedCheckpoint {
  struct Tensor {
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;

    // Value i becomes these bits, as wide as the type.
    void SetBits(size_t i, uint64_t bits) {
      const auto width = static_cast<size_t>(Bits(dtype)) / 8;
      std::memcpy(bytes.data() + i * width, &bits, width);  // little-endian
    }
    // Value i of an F32, BF16 or F16 tensor.
    float Value(size_t i) const {
      float value = 0;
      uint16_t half = 0;
      if (dtype == DType::kF32) std::memcpy(&value, bytes.data() + 4 * i, 4);
      if (dtype == DType::kF32) return value;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      return dtype == DType::kBF16 ? FloatFromBf16(half) : FloatFromF16(half);
    }
  };

  explicit EditedCheckpoint(const std::filesystem::path& folder) : config(ReadJson(folder / "config.json")) {
    const CheckpointFiles files(folder);
    for (const std::string& name : files.names()) {
      const TensorView& view = *files.Find(name);
      tensors[name] = {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
    }
  }

  // Writes one file, its tensors aligned to their type.
  void Write(const std::filesystem::path& folder) const {
    WriteConfig(folder);
    std::vector<TensorView> views;
    for (const auto& [name, t] : tensors) views.push_back({name, t.dtype, t.shape, t.bytes});
    WriteSafetensors(folder / "model.safetensors", views);
  }

  // Writes the file of Write with its header a byte longer: no tensor wider than a byte is aligned any more.
  void WriteMisaligned(const std::filesystem::path& folder) const {
    Write(folder);
    std::string file = GetFile(folder / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    file.insert(sizeof length + length, 1, ' ');
    ++length;
    std::memcpy(file.data(), &length, sizeof length);
    PutFile(folder / "model.safetensors", file);
  }

  nlohmann::json config;
  std::map<std::string, Tensor> tensors;

 private:
  void WriteConfig(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    PutFile(folder / "config.json", config.dump());
  }
};

// A copy of a checkpoint whose final norm multiplies by 2^exponent: finite weights, and logits of any size.
inline void ScaleFinalNorm(const std::filesystem::path& from, int exponent, const std::filesystem::path& to) {
  EditedCheckpoint checkpoint(from);
  EditedCheckpoint::Tensor& norm = checkpoint.tensors.at("model.norm.weight");
  const uint32_t bits = static_cast<uint32_t>(127 + exponent) << 23;  // of f32; BF16 is its upper half
  for (size_t i = 0; i < static_cast<size_t>(norm.shape[0]); ++i)
    norm.SetBits(i, norm.dtype == DType::kF32 ? bits : bits >> 16);
  checkpoint.Write(to);
}

}  // namespace tare
