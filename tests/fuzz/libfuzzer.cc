// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry point. The environment's TARE_READER chooses the reader; half of the inputs are changed by
// libFuzzer itself, half by their structure.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tests/fuzz/readers.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace tare;

const fuzz::Reader& Chosen() {
  static const fuzz::Reader& chosen = [] -> const fuzz::Reader& {
    const char* const name = std::getenv("TARE_READER");
    for (const fuzz::Reader& reader : fuzz::Readers()) {
      if (name != nullptr && reader.name == name) return reader;
    }
    std::fprintf(stderr, "TARE_READER: got '%s', expected one of:", name == nullptr ? "" : name);
    for (const fuzz::Reader& reader : fuzz::Readers()) std::fprintf(stderr, " %s", reader.name.data());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }();
  return chosen;
}

std::filesystem::path Scratch() {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tare-fuzz-" + std::to_string(std::rand()) + Chosen().name.data());
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)fuzz::Takes(Chosen(), {reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  damage::Random random(seed);
  if (random.OneIn(2)) return LLVMFuzzerMutate(data, size, max_size);
  const std::string damaged =
      damage::DamageStructure({reinterpret_cast<const char*>(data), size}, Chosen().form, Scratch(), random);
  if (damaged.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, damaged.data(), damaged.size());
  return damaged.size();
}
