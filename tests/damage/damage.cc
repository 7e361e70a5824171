// SPDX-License-Identifier: Apache-2.0
#include "tests/damage/damage.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "quant/file/json.h"
#include "tests/damage/damage_hdf5.h"

namespace tare::damage {
namespace {

using Json = nlohmann::ordered_json;

// Pieces that readers fear.
const std::vector<std::string>& Pieces() {
  static const std::vector<std::string> pieces{"{",
                                               "}",
                                               "[",
                                               "]",
                                               ",",
                                               ":",
                                               "\"",
                                               "\\",
                                               "\n",
                                               "\r\n",
                                               " ",
                                               "0",
                                               "-1",
                                               "1e309",
                                               "nan",
                                               "null",
                                               "true",
                                               "\\u0000",
                                               "\\ud800",
                                               "\xff",
                                               "\xed\xa0\x80",
                                               "\xef\xbb\xbf",
                                               "\xe2\x96\x81",
                                               std::string(4, '\0'),
                                               std::string(8, '\xff'),
                                               "9223372036854775807",
                                               "18446744073709551616",
                                               "4294967295",
                                               std::string(300, '['),
                                               std::string(300, '9')};
  return pieces;
}

void DamageOnce(std::string& file, Random& random) {
  const size_t at = random.Below(file.size()), other = random.Below(file.size());
  const size_t length = 1 + random.Below(random.OneIn(4) ? 4096 : 16);
  switch (file.empty() ? 5 : random.Below(9)) {
    case 0:
    case 1:
      file[at] = static_cast<char>(file[at] ^ (1 << random.Below(8)));
      break;
    case 2:
      file[at] = static_cast<char>(random.Bits());
      break;
    case 3:
      file.resize(at);
      break;
    case 4:
      file.erase(at, length);
      break;
    case 5:
      file.insert(at, random.Of(Pieces()));
      break;
    case 6:
      file.insert(at, file.substr(other, length));
      break;
    case 7:
      for (size_t i = at; i < std::min(file.size(), at + length); ++i) file[i] = static_cast<char>(random.Bits());
      break;
    default:
      file.replace(at, length, std::string(length, random.OneIn(2) ? '\0' : '\xff'));
      break;
  }
}

Json Hostile(Random& random) {
  static const std::vector<Json> values{nullptr,
                                        true,
                                        0,
                                        1,
                                        -1,
                                        2,
                                        3,
                                        7,
                                        64,
                                        4096,
                                        65536,
                                        1e308,
                                        -1e-308,
                                        0.5,
                                        std::numeric_limits<int64_t>::max(),
                                        std::numeric_limits<int64_t>::min(),
                                        std::numeric_limits<uint64_t>::max(),
                                        int64_t{1} << 31,
                                        (int64_t{1} << 32) + 1,
                                        "",
                                        "F32",
                                        "BF16",
                                        "F8_E4M3",
                                        "I64",
                                        "silu",
                                        "llama",
                                        "diffllama",
                                        "../x",
                                        std::string(5000, 'x'),
                                        "\xf0\x9f\x98\x80",
                                        Json::array(),
                                        Json::object(),
                                        {0, 0},
                                        {1, -1},
                                        {{"a", 1}},
                                        {int64_t{1} << 40, int64_t{1} << 40}};
  return random.Of(values);
}

// Some value of the tree: goes down with even chance until it is there.
void DamageJson(Json& json, Random& random) {
  if (json.is_structured() && !json.empty() && !random.OneIn(8)) {
    auto at = json.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random.Below(json.size())));
    if (!random.OneIn(6)) return DamageJson(*at, random);
    if (random.OneIn(2)) {
      json.erase(at);
    } else if (json.is_object()) {
      const Json value = *at;
      json[random.OneIn(2) ? "x" : std::string(1, static_cast<char>('a' + random.Below(26)))] = value;
    } else {
      json.insert(json.end(), *at);
    }
    return;
  }
  if (json.is_number_integer() && random.OneIn(2)) {
    json = static_cast<int64_t>(static_cast<uint64_t>(json.get<int64_t>()) + random.Below(7) - 3);
  } else {
    json = Hostile(random);
  }
}

// One line of the text, which is all of it where it is one value over many lines.
std::string DamageJsonText(const std::string& text, Random& random) {
  Json whole = Json::parse(text, nullptr, false);
  if (!whole.is_discarded()) {
    for (size_t n = 1 + random.Below(3); n > 0; --n) DamageJson(whole, random);
    return whole.dump(random.OneIn(2) ? 2 : -1, ' ', false, Json::error_handler_t::replace);
  }
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (lines.empty()) return DamageBytes(text, random);
  std::string& line = random.Of(lines);
  if (random.OneIn(8)) {
    lines.push_back(line);
  } else if (Json json = Json::parse(line, nullptr, false); !json.is_discarded()) {
    DamageJson(json, random);
    line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::string damaged;
  for (const std::string& l : lines) damaged += l + "\n";
  return damaged;
}

std::string DamageSafetensors(const std::string& file, Random& random) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return DamageBytes(file, random);
  std::memcpy(&length, file.data(), sizeof length);
  std::string header = file.substr(sizeof length, length), data = file.substr(sizeof length + header.size());
  if (random.OneIn(3)) {  // values: NaN, infinities, the largest
    static const std::vector<uint32_t> bits{0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xffffffff, 0, 0x80000000};
    const size_t at = random.Below(data.size() / 4) * 4;
    if (data.size() >= 4) std::memcpy(data.data() + at, &random.Of(bits), 4);
  } else {
    header = random.OneIn(3) ? DamageBytes(header, random) : DamageJsonText(header, random);
  }
  length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

}  // namespace

std::string DamageBytes(std::string file, Random& random) {
  const std::string before = file;
  do {
    for (size_t n = 1 + random.Below(3); n > 0; --n) DamageOnce(file, random);
  } while (file == before);
  return file;
}

std::string DamageStructure(const std::string& file, Form form, const std::filesystem::path& scratch, Random& random) {
  switch (form) {
    case Form::kJson:
      return DamageJsonText(file, random);
    case Form::kSafetensors:
      return DamageSafetensors(file, random);
    case Form::kHdf5:
      return DamageHdf5(file, scratch, random);
    default:
      return DamageBytes(file, random);
  }
}

}  // namespace tare::damage
