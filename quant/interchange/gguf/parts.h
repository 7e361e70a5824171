// SPDX-License-Identifier: Apache-2.0
// A GGUF model in one file, or in parts: files PREFIX-00001-of-00003.gguf that each say their number from 0 (split.no),
// how many there are (split.count) and how many tensors these hold (split.tensors.count). The first has the metadata.
// Any part stands for all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "quant/file/mapped_file.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

class Parts {
 public:
  // Throws Error if a part is missing, or the parts do not belong together.
  explicit Parts(const std::filesystem::path& path);

  const Metadata& metadata() const { return metadata_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // of all parts
  const std::vector<MappedFile>& files() const { return files_; }

  // Gives back the memory under bytes of a tensor.
  void Release(std::span<const std::byte> bytes) const;
  // As `sha256sum FILE` prints it; of parts, that of what `sha256sum FILES` prints in the folder, in order.
  std::string ContentHash() const;

 private:
  std::vector<MappedFile> files_;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
};

// The metadata of the first part alone, and the file that it is in.
struct FirstPart {
  MappedFile file;
  Content content;
};
FirstPart OpenFirst(const std::filesystem::path& path);

}  // namespace tare::gguf
