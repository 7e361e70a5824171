// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto, as 64 lower-case hexadecimal digits, as `sha256sum` prints it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "quant/file/mapped_file.h"

struct evp_md_ctx_st;

namespace tare {

class Sha256 {
 public:
  Sha256();
  void Add(std::span<const std::byte> bytes);
  // The digest of all added bytes. Call it once, last.
  std::string Hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string Sha256Hex(std::span<const std::byte> bytes);
std::string Sha256OfText(std::string_view text);
// Gives back the file's memory as it reads, and throws Error after RequestStop. `read` sees each part of the file when
// it has been hashed and is still in memory.
using FileRead = std::function<void(std::span<const std::byte> part)>;
std::string Sha256Hex(const MappedFile& file, const FileRead& read = {});
std::string Sha256OfFile(const std::filesystem::path& path);

}  // namespace tare
