// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/read_whole.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <vector>

#include "experiments/model/linear/weights.h"

namespace tare {
namespace {

// The tensors whose values are floating-point numbers, by their place in memory. Files: a Checkpoint, or its files.
class FloatTensors {
 public:
  template <typename Files>
  FloatTensors(const Files& files, const std::string& where) : where_(where) {
    for (const std::string& name : files.names()) {
      const TensorView* const tensor = files.Find(name);
      if (tensor != nullptr && IsFloat(tensor->dtype) && tensor->elements() > 0) tensors_.push_back(tensor);
    }
  }

  // Checks those whose last byte is in this part of a file. Called from several threads.
  void Check(std::span<const std::byte> part) const {
    for (const TensorView* tensor : tensors_) {
      const std::span<const std::byte> bytes = tensor->bytes;
      const std::byte *const begin = std::max(part.data(), bytes.data(), std::less()), *const end = std::min(
                                                                                           part.data() + part.size(),
                                                                                           bytes.data() + bytes.size(),
                                                                                           std::less());
      if (!std::less()(begin, end)) continue;
      const size_t size = bytes.size() / tensor->elements(), first = static_cast<size_t>(begin - bytes.data()) / size,
                   last = static_cast<size_t>(end - bytes.data()) / size;
      RequireFinite(*tensor, first, last - first, where_);
    }
  }

  void CheckAll() const {
    for (const TensorView* tensor : tensors_) RequireFinite(*tensor, 0, tensor->elements(), where_);
  }

 private:
  static bool IsFloat(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

  std::string where_;
  std::vector<const TensorView*> tensors_;
};

}  // namespace

std::string ReadWhole(const std::filesystem::path& path, const Progress& progress) {
  if (!std::filesystem::is_directory(path)) {
    const Checkpoint files(path);
    FloatTensors(files, path.string()).CheckAll();
    return files.ContentHash();
  }
  const CheckpointFiles files(path);
  const FloatTensors tensors(files, path.string());
  std::mutex mutex;
  int64_t done = 0;
  const int64_t total = files.total_bytes();
  return files.ContentHash([&](std::span<const std::byte> part) {
    tensors.Check(part);
    const std::lock_guard lock(mutex);
    done = std::min(done + static_cast<int64_t>(part.size()), total);  // files have headers, too
    Report(progress, done, total, "bytes");
  });
}

}  // namespace tare
