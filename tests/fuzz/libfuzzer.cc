// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry point. The environment's TARE_READER chooses the reader; half of the inputs are changed by
// libFuzzer itself, half by their structure. The HDF5 library changes the structure of HDF5 files, and may crash in a
// file that is damaged already: libFuzzer changes such files byte by byte.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/fuzz/readers.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace tare;

const fuzz::Reader& ReaderOf(std::string_view name) {
  for (const fuzz::Reader& reader : fuzz::Readers()) {
    if (reader.name == name) return reader;
  }
  std::fprintf(stderr, "TARE_READER: got '%s', expected one of:", std::string(name).c_str());
  for (const fuzz::Reader& reader : fuzz::Readers()) std::fprintf(stderr, " %s", reader.name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

const fuzz::Reader& Chosen() {
  static const fuzz::Reader& chosen = [] -> const fuzz::Reader& {
    const char* const name = std::getenv("TARE_READER");
    return ReaderOf(name == nullptr ? "" : name);
  }();
  return chosen;
}

bool HasStructure(std::string_view bytes) {
  static const fuzz::Reader& hdf5 = ReaderOf("hdf5");
  return Chosen().form != damage::Form::kHdf5 || fuzz::Takes(hdf5, bytes);
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
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (random.OneIn(2) || !HasStructure(bytes)) return LLVMFuzzerMutate(data, size, max_size);
  const std::string damaged = damage::DamageStructure(bytes, Chosen().form, Scratch(), random);
  if (damaged.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, damaged.data(), damaged.size());
  return damaged.size();
}
