// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/export.h"

#include <deque>

#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/file/atomic_file.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {

void ExportDequantized(const std::filesystem::path& quantized, const std::filesystem::path& folder) {
  const QuantizedCheckpoint file(quantized);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) Fail("{}: cannot be made: {}; try another folder", folder.string(), error.message());
  for (const char* name : {"model.safetensors", "config.json"}) {
    if (std::filesystem::exists(folder / name))
      Fail("{}: is there already, and would be overwritten; try another folder", (folder / name).string());
  }
  std::vector<TensorView> tensors;
  for (const auto& [name, tensor] : file.tensors()) tensors.push_back(tensor);
  std::deque<AlignedBuffer<float>> values;
  for (const auto& [name, m] : file.matrices()) {
    AlignedBuffer<float>& dense = values.emplace_back(static_cast<size_t>(m.out * m.in));
    ParallelFor(static_cast<size_t>(m.out), [&](size_t row, int) {
      DequantizeRow(m, static_cast<int64_t>(row), dense.data() + static_cast<int64_t>(row) * m.in);
    });
    file.Release(name);
    tensors.push_back({name, DType::kF32, {m.out, m.in}, std::as_bytes(std::span<const float>(dense.span()))});
  }
  const Provenance& p = file.provenance();
  WriteSafetensors(folder / "model.safetensors", std::move(tensors),
                   {{"format", "pt"}, {"tare.plan", p.plan}, {"tare.method", p.method}, {"tare.source", p.source}});
  for (const char* name : {"tokenizer.model", "tokenizer_config.json", "config.json"}) {
    if (const auto text = file.File(name)) WriteFileAtomically(folder / name, *text);
  }
}

}  // namespace tare
