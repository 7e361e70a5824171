// SPDX-License-Identifier: Apache-2.0
#include "quant/file/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "quant/base/message.h"

namespace tare {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

// Fetched once: EVP_sha256() would look it up again for every hash, under locks that the thread sanitizer cannot see.
static const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr || Algorithm() == nullptr || EVP_DigestInit_ex(context_.get(), Algorithm(), nullptr) != 1) {
    Fail("SHA-256: libcrypto does not offer it; try another build of OpenSSL 3");
  }
}

void Sha256::Add(std::span<const std::byte> bytes) {
  TARE_CHECK(context_ != nullptr);
  TARE_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  TARE_CHECK(context_ != nullptr);
  std::array<unsigned char, 32> digest;
  TARE_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  context_.reset();
  std::string hex;
  for (const unsigned char byte : digest) hex += Formatted("{:02x}", byte);
  return hex;
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return hash.Hex();
}

std::string Sha256OfText(std::string_view text) { return Sha256Hex(std::as_bytes(std::span(text))); }

std::string Sha256Hex(const MappedFile& file, const FileRead& read) {
  const size_t size = file.bytes().size();
  constexpr size_t kStep = size_t{8} << 20;  // at most so much of the file in our memory at a time
  Sha256 hash;
  for (size_t begin = 0; begin < size; begin += kStep) {
    ThrowIfStopped();
    const std::span<const std::byte> part = file.bytes().subspan(begin, std::min(kStep, size - begin));
    hash.Add(part);
    if (read) read(part);
    file.Release(part);
  }
  return hash.Hex();
}

std::string Sha256OfFile(const std::filesystem::path& path) { return Sha256Hex(MappedFile(path)); }

}  // namespace tare
