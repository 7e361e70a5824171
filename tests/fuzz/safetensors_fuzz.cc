// SPDX-License-Identifier: Apache-2.0
// usage: safetensors_fuzz SECONDS SEED. Mutates small safetensors files and reads each: it must be refused with an
// Error, or hold what its own header says, inside the file. Anything else aborts, naming the seed and the round, which
// replay it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "quant/base/error.h"
#include "quant/file/safetensors.h"
#include "tests/quant/file/safetensors_bytes.h"

namespace {

using Random = std::mt19937_64;

const std::vector<std::string>& Seeds() {
  static const std::vector<std::string> seeds{
      tare::SafetensorsBytes("{}", 0),
      tare::SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}       )", 24),
      tare::SafetensorsBytes(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[5],"data_offsets":[16,21]},)"
                             R"("b":{"dtype":"BF16","shape":[2,2,2],"data_offsets":[0,16]}})",
                             21),
      tare::SafetensorsBytes(
          R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},"z":{"dtype":"I64","shape":[0],"data_offsets":[2,2]}})",
          2),
  };
  return seeds;
}

// Pieces that headers are made of, or that parsers fear.
const std::vector<std::string>& Pieces() {
  static const std::vector<std::string> pieces{"{",
                                               "}",
                                               "[",
                                               "]",
                                               ",",
                                               ":",
                                               "\"",
                                               "0",
                                               "1",
                                               "-1",
                                               "1.5",
                                               "1e9",
                                               "null",
                                               "true",
                                               " ",
                                               "\\u0000",
                                               "\\ud800",
                                               "\xff",
                                               std::string(1, '\0'),
                                               "9223372036854775807",
                                               "9223372036854775808",
                                               "18446744073709551615",
                                               "4294967296",
                                               "\"dtype\":",
                                               "\"shape\":",
                                               "\"data_offsets\":",
                                               "[0,0]",
                                               "[0,4]",
                                               "\"F32\"",
                                               "\"F6_E2M3\"",
                                               "\"__metadata__\":",
                                               "\"a\":",
                                               "{\"k\":\"v\"}",
                                               "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[21,22]},",
                                               std::string(100, '['),
                                               std::string(100, '{')};
  return pieces;
}

void Mutate(std::string& file, Random& random) {
  const size_t at = file.empty() ? 0 : random() % file.size();
  switch (random() % 7) {
    case 0:
      if (!file.empty()) file[at] ^= static_cast<char>(1 << random() % 8);
      break;
    case 1:
      if (!file.empty()) file[at] = static_cast<char>(random());
      break;
    case 2:
      file.resize(at);
      break;
    case 3:
      file.erase(at, 1 + random() % 8);
      break;
    case 4:
      file.insert(at, Pieces()[random() % Pieces().size()]);
      break;
    case 5:
      file.insert(at, file.substr(random() % (file.size() + 1), random() % 32));
      break;
    default:
      file.append(random() % 32, 'x');
      break;
  }
}

// Most mutated headers should get past their length, or little else would be tried.
void MendLength(std::string& file, Random& random) {
  const size_t brace = file.rfind('}');
  if (file.size() < 8 || brace == file.npos || brace < 8 || random() % 8 == 0) return;
  const uint64_t length = brace + 1 - 8;
  std::memcpy(file.data(), &length, sizeof length);
}

void Require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void CheckContent(const tare::SafetensorsContent& content, const std::string& file) {
  size_t total = 0;
  for (const tare::TensorView& tensor : content.tensors) {
    const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
    const size_t size = tensor.bytes.size();
    Require(size == 0 || (begin >= file.data() + 8 && begin + size <= file.data() + file.size()),
            "a view outside its file");
    Require(tensor.elements() * static_cast<size_t>(tare::Bits(tensor.dtype)) == size * 8,
            "a view of another size than its shape");
    total += size;
  }
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  Require(total + length + 8 == file.size(), "tensors that do not fill the file");
}

bool IsAccepted(const std::string& file) {
  try {
    CheckContent(tare::ParseSafetensors(tare::AsBytes(file), "file"), file);
    return true;
  } catch (const tare::Error&) {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: safetensors_fuzz SECONDS SEED\n");
    return 2;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[1]));
  const uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  uint64_t rounds = 0, accepted = 0;
  for (const std::string& file : Seeds()) TARE_CHECK(IsAccepted(file));
  for (; rounds % 256 != 0 || std::chrono::steady_clock::now() < end; ++rounds) {
    Random random(seed * 1'000'003 + rounds);
    std::string file = Seeds()[random() % Seeds().size()];
    for (uint64_t left = 1 + random() % 4; left > 0; --left) Mutate(file, random);
    MendLength(file, random);
    try {
      accepted += IsAccepted(file);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "seed %llu, round %llu: %s\n", static_cast<unsigned long long>(seed),
                   static_cast<unsigned long long>(rounds), error.what());
      std::abort();
    }
  }
  std::printf("%llu files, %llu accepted\n", static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(accepted));
  return accepted > 0 && accepted < rounds ? 0 : 1;
}
