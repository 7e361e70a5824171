// SPDX-License-Identifier: Apache-2.0
// Structures of HDF5 files with other bytes in them and right checksums: what a random change never gets past.
#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/damage/damage_hdf5.h"

namespace tare::damage {
namespace {

// Bob Jenkins' lookup3, as HDF5 uses it: three words take twelve bytes a round.
uint32_t ChecksumOf(const std::string& file, size_t at, size_t size) {
  uint32_t a = 0xdeadbeef + static_cast<uint32_t>(size), b = a, c = a;
  const auto take = [&](size_t bytes) {
    uint32_t words[3] = {};
    std::memcpy(words, &file[at], bytes);
    a += words[0], b += words[1], c += words[2];
    at += bytes, size -= bytes;
  };
  const auto mix = [](uint32_t& x, uint32_t& y, uint32_t& z, int bits) { x -= z, x ^= std::rotl(z, bits), z += y; };
  while (size > 12) {
    take(12);
    mix(a, b, c, 4), mix(b, c, a, 6), mix(c, a, b, 8), mix(a, b, c, 16), mix(b, c, a, 19), mix(c, a, b, 4);
  }
  if (size == 0) return c;
  take(size);
  const auto end = [](uint32_t& x, uint32_t y, int bits) { x ^= y, x -= std::rotl(y, bits); };
  end(c, b, 14), end(a, c, 11), end(b, a, 25), end(c, b, 16), end(a, c, 4), end(b, a, 14), end(c, b, 24);
  return c;
}

uint32_t Word(const std::string& file, size_t at) {
  uint32_t word;
  std::memcpy(&word, &file[at], sizeof word);
  return word;
}

// Its size is the first at which the checksum is right.
Block BlockAt(const std::string& file, size_t at) {
  constexpr size_t kMost = 2048, kUnchecked = 512;
  for (size_t size = 8; size < kMost && at + size + 4 <= file.size(); ++size) {
    if (Word(file, at + size) == ChecksumOf(file, at, size)) return {at, size, true};
  }
  return {at, std::min(kUnchecked, file.size() - at), false};
}

void ChangeBytes(std::string& file, const Block& block, size_t other, Random& random) {
  const size_t at = block.at + random.Below(block.size), left = block.at + block.size - at;
  switch (random.Below(5)) {
    case 0:
      file[at] = static_cast<char>(file[at] ^ (1 << random.Below(8)));
      break;
    case 1:
      file[at] = static_cast<char>(file[at] + (random.OneIn(2) ? 1 : -1));
      break;
    case 2:
      std::memset(&file[at], random.OneIn(2) ? 0 : 0xff, std::min(left, size_t{1} << random.Below(4)));
      break;
    case 3:  // an address of something else
      std::memcpy(&file[at], &other, std::min(left, sizeof other));
      break;
    default:
      file[at] = static_cast<char>(random.Bits());
  }
}

}  // namespace

std::vector<Block> BlocksOf(const std::string& file) {
  static constexpr const char* kSignatures[] = {"\x89HDF", "OHDR", "OCHK", "FRHP", "FHDB", "FHIB",
                                                "BTHD",    "BTLF", "BTIN", "EAHD", "EAIB", "EADB",
                                                "FAHD",    "FADB", "TREE", "HEAP", "SNOD", "GCOL"};
  std::vector<Block> blocks;
  for (size_t at = 0; at + 16 < file.size(); ++at) {
    const auto begins = [&](const char* signature) { return file.compare(at, 4, signature) == 0; };
    if (std::ranges::any_of(kSignatures, begins)) blocks.push_back(BlockAt(file, at));
  }
  return blocks;
}

void Sign(std::string& file, const Block& block) {
  const uint32_t checksum = ChecksumOf(file, block.at, block.size);
  if (block.checked) std::memcpy(&file[block.at + block.size], &checksum, sizeof checksum);
}

std::string ForgeHdf5(std::string file, Random& random) {
  const std::vector<Block> blocks = BlocksOf(file);
  if (blocks.empty()) return file;
  for (size_t n = 1 + random.Below(2); n > 0; --n) {
    const Block& block = random.Of(blocks);
    for (size_t changes = 1 + random.Below(3); changes > 0; --changes)
      ChangeBytes(file, block, random.Of(blocks).at, random);
    Sign(file, block);
  }
  return file;
}

}  // namespace tare::damage
