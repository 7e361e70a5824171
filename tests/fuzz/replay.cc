// SPDX-License-Identifier: Apache-2.0
// usage: readers_fuzz SECONDS SEED [READER]. Reads every kept case of each reader (or of one), then damages them for
// this many seconds and reads the result, which must be accepted or refused with an Error. Anything else ends it with
// reader, seed and round, which replay it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "tests/fuzz/readers.h"
#include "tests/quant/file/temporary_folder.h"

namespace {

using namespace tare;
using fuzz::Reader;

std::vector<std::string> Kept(const Reader& reader) {
  std::vector<std::string> cases;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TARE_SOURCE_DIR "/tests/fuzz/corpus") / reader.name))
    cases.push_back(GetFile(entry.path()));
  return cases;
}

// Most are damaged by their structure, or little but the first checks would be tried.
std::string Damaged(const std::string& file, const Reader& reader, const std::filesystem::path& scratch,
                    damage::Random& random) {
  if (random.OneIn(4)) return damage::DamageBytes(file, random);
  return damage::DamageStructure(file, reader.form, scratch, random);
}

// Whether some were taken and some refused: else the reader was not tried.
bool Try(const Reader& reader, double seconds, uint64_t seed) {
  const TemporaryFolder folder;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const std::vector<std::string> cases = Kept(reader);
  uint64_t taken = 0, rounds = 0;
  for (const std::string& file : cases) taken += fuzz::Takes(reader, file);
  for (; rounds < 16 || std::chrono::steady_clock::now() < end; ++rounds) {
    damage::Random random(seed * 1'000'003 + rounds);
    const std::string& file = random.Of(cases);
    try {
      taken += fuzz::Takes(reader, Damaged(file, reader, folder / "scratch", random));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s, seed %llu, round %llu: %s\n", reader.name.data(), static_cast<unsigned long long>(seed),
                   static_cast<unsigned long long>(rounds), error.what());
      std::abort();
    }
  }
  std::printf("%-12s %zu kept, %9llu damaged, %9llu taken\n", reader.name.data(), cases.size(),
              static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(taken));
  return taken > 0 && taken < rounds + cases.size();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: readers_fuzz SECONDS SEED [READER]\n");
    return 2;
  }
  bool tried = true;
  for (const Reader& reader : fuzz::Readers()) {
    if (argc == 4 && reader.name != argv[3]) continue;
    if (Try(reader, std::atof(argv[1]), std::strtoull(argv[2], nullptr, 10))) continue;
    std::fprintf(stderr, "%s: took all or nothing\n", reader.name.data());
    tried = false;
  }
  return tried ? 0 : 1;
}
