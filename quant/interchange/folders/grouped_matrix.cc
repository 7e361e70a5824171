// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/grouped_matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/base/message.h"
#include "quant/format/pack.h"

namespace tare {
namespace {

// Eight codes of four bits, the lowest first, as bytes.
uint64_t Spread(uint32_t word) {
  uint64_t bytes = word;
  bytes = (bytes | bytes << 16) & 0x0000ffff0000ffff;
  bytes = (bytes | bytes << 8) & 0x00ff00ff00ff00ff;
  return (bytes | bytes << 4) & 0x0f0f0f0f0f0f0f0f;
}

// Byte j of word i becomes byte i of word j: halves of the square change places, then halves of these, and so on.
void Transpose(std::array<uint64_t, 8>& words) {
  constexpr std::array<uint64_t, 3> kLower{0x00000000ffffffff, 0x0000ffff0000ffff, 0x00ff00ff00ff00ff};
  for (size_t step = 4, level = 0; step > 0; step /= 2, ++level) {
    for (size_t i = 0; i < words.size(); ++i) {
      if ((i & step) != 0) continue;
      const uint64_t swapped = (words[i] >> (8 * step) ^ words[i + step]) & kLower[level];
      words[i + step] ^= swapped;
      words[i] ^= swapped << (8 * step);
    }
  }
}

// Elements first, first + step and so on.
void LoadElements(const TensorView& tensor, int64_t first, int64_t step, std::span<float> values) {
  const int64_t bytes = Bits(tensor.dtype) / 8;
  const std::byte* at = tensor.bytes.data() + first * bytes;
  const auto load = [&](auto value) {
    for (size_t i = 0; i < values.size(); ++i, at += step * bytes) values[i] = value(at);
  };
  const auto of_table = [&](const auto& table) { load([&](const std::byte* x) { return table[size_t(*x)]; }); };
  if (tensor.dtype == DType::kF8E4M3) return of_table(StoredValues(Format::kFp8E4M3));
  if (bytes == 1) return of_table(ScaleValues(ScaleType::kE8M0Floor));
  load([&](const std::byte* x) { return FloatAt(tensor.dtype, x); });
}

// The largest magnitude. Throws Error for NaN and infinities.
float LargestOf(const StoredScales& scales, const std::string& where) {
  float largest = 0.0f;
  for (int64_t i = 0; i < static_cast<int64_t>(scales.tensor->elements()); ++i) {
    float value;
    LoadElements(*scales.tensor, i, 1, {&value, 1});
    value = value / scales.divisor * scales.factor;
    if (!std::isfinite(value))
      Fail("{}: '{}', index {}: got a scale of {}, expected a finite one; try the checkpoint's source", where,
           scales.tensor->name, i, value);
    largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

// The largest magnitude of the values of all codes; infinite if a code has none.
float WidestOf(const PackedCodes& codes, const std::array<float, 256>& values) {
  float widest = 0.0f;
  for (size_t code = 0; code < size_t{1} << codes.bits; ++code) {
    if (!std::isfinite(values[code])) return std::numeric_limits<float>::infinity();
    widest = std::max(widest, std::fabs(values[code]));
  }
  return widest;
}

bool AreConsecutive(const PackedCodes& codes, const std::array<float, 256>& values) {
  for (size_t code = 1; code < size_t{1} << codes.bits; ++code) {
    if (values[code] != values[0] + static_cast<float>(code)) return false;
  }
  return true;
}

class GroupedMatrix : public ForeignMatrix {
 public:
  GroupedMatrix(GroupedParts parts, const CheckpointFiles& files)
      : ForeignMatrix(parts.out, parts.in), number_(++last_number_), parts_(std::move(parts)), files_(files) {
    float most = WidestOf(parts_.codes, parts_.values);
    if (parts_.zeros) most += WidestOf(*parts_.zeros, parts_.zero_values);
    most *= LargestOf(parts_.scales, parts_.where);
    if (parts_.added) most += LargestOf(*parts_.added, parts_.where);
    always_finite_ = std::isfinite(most);
    consecutive_ = AreConsecutive(parts_.codes, parts_.values);
    integers_ = IntegersIn(parts_);
  }

  void Row(int64_t row, float* y) const override {
    const uint8_t* const codes = CodesOf(row);
    const auto [zero, scale] = GroupsOf(row);
    if (parts_.group_of.empty()) {
      for (int64_t g = 0, c = 0; g < parts_.groups; ++g, c += parts_.columns)
        Multiply(codes + c, std::min(in() - c, parts_.columns), zero[g], scale[g], y + c);
    } else {
      for (int64_t c = 0; c < in(); ++c) {
        const auto g = static_cast<size_t>(parts_.group_of[c]);
        y[c] = (parts_.values[codes[c]] - zero[g]) * scale[g];
      }
    }
    for (int64_t g = 0; g < parts_.groups && parts_.added; ++g) {
      const float added = parts_.added->At(row, g);
      for (int64_t c = g * parts_.columns; c < std::min(in(), (g + 1) * parts_.columns); ++c) y[c] += added;
    }
    for (int64_t c = 0; c < in() && !always_finite_; ++c) {
      if (!std::isfinite(y[c]))
        Fail("{}, row {}, column {}: code {} makes {}; expected finite weights; try the checkpoint's source",
             parts_.where, row, c, codes[c], y[c]);
    }
  }
  std::optional<NibbleRow> Nibbles(int64_t row) const override {
    const std::byte* const codes = parts_.codes.Nibbles(row);
    if (codes == nullptr || !always_finite_ || parts_.added || !parts_.group_of.empty() || in() % 16 != 0 ||
        parts_.columns % 16 != 0)
      return std::nullopt;
    const auto [zeros, scales] = GroupsOf(row);
    return NibbleRow{codes, parts_.values.data(), zeros, scales, parts_.columns};
  }
  std::optional<IntegerForm> integers() const override {
    return integers_.transform([](const GroupedIntegers& integers) { return integers.form; });
  }
  std::span<const int32_t> order() const override {
    return integers_ ? std::span<const int32_t>(integers_->order) : std::span<const int32_t>();
  }
  void Integers(int64_t row, const IntegerRow& to) const override {
    const uint8_t* const codes = CodesOf(row);
    for (int64_t c = 0; c < in(); ++c)
      to.codes[c] = integers_->codes[codes[integers_->order.empty() ? c : integers_->order[c]]];
    for (int64_t g = 0; g < parts_.groups; ++g) to.scales[g] = parts_.scales.At(row, g) * integers_->step;
    for (int64_t g = 0; g < parts_.groups && to.zeros != nullptr; ++g)
      to.zeros[g] = static_cast<uint8_t>(parts_.zero_values[parts_.zeros->At(row, g)] + integers_->raised);
    for (int64_t g = 0; g < parts_.groups && to.minima != nullptr; ++g) to.minima[g] = parts_.added->At(row, g);
  }
  std::optional<float> input_scale() const override { return parts_.input_scale; }
  std::string scheme() const override { return parts_.scheme; }
  int64_t bytes() const override { return BytesOf(parts_.tensors); }
  void Release() const override {
    for (const TensorView* tensor : parts_.tensors) files_.Release(*tensor);
  }

 private:
  // Zero points and scales of a row's groups, until the thread asks for another's.
  std::pair<const float*, const float*> GroupsOf(int64_t row) const {
    thread_local std::vector<float> scale, zero;
    scale.resize(static_cast<size_t>(parts_.groups));
    zero.assign(scale.size(), 0.0f);
    parts_.scales.Load(row, 0, scale);
    for (int64_t g = 0; g < parts_.groups && parts_.zeros; ++g) zero[g] = parts_.zero_values[parts_.zeros->At(row, g)];
    return {zero.data(), scale.data()};
  }
  // A row's codes [in], until the thread asks for another. Keeps rows that share its words, usually asked for next.
  const uint8_t* CodesOf(int64_t row) const {
    struct Kept {
      uint64_t matrix = 0;  // none
      int64_t first = 0;
      std::vector<uint8_t> codes;  // [kRowsTogether][stride]
    };
    thread_local Kept kept;
    const int64_t stride = in() + 64;  // a power of two would put all rows onto the same lines of a cache
    if (!parts_.codes.SharesWords()) {
      kept.matrix = 0;
      kept.codes.resize(std::max(kept.codes.size(), static_cast<size_t>(in())));
      parts_.codes.Row(row, in(), kept.codes.data());
      return kept.codes.data();
    }
    const int64_t first = row / PackedCodes::kRowsTogether * PackedCodes::kRowsTogether;
    if (kept.matrix != number_ || kept.first != first) {
      const int64_t rows = std::min(PackedCodes::kRowsTogether, out() - first);
      kept.codes.resize(std::max(kept.codes.size(), static_cast<size_t>(PackedCodes::kRowsTogether * stride)));
      parts_.codes.Rows(first, rows, in(), stride, kept.codes.data());
      kept.matrix = number_, kept.first = first;
    }
    return kept.codes.data() + (row - first) * stride;
  }
  // Decodes columns that share a scale. Differences of integers are exact, so consecutive values need no table.
  void Multiply(const uint8_t* codes, int64_t count, float zero, float scale, float* y) const {
    if (consecutive_) {
      const float first = parts_.values[0] - zero;
      for (int64_t i = 0; i < count; ++i) y[i] = (static_cast<float>(codes[i]) + first) * scale;
    } else {
      for (int64_t i = 0; i < count; ++i) y[i] = (parts_.values[codes[i]] - zero) * scale;
    }
  }

  static inline std::atomic<uint64_t> last_number_ = 0;
  const uint64_t number_;  // of this matrix, in this process
  GroupedParts parts_;
  const CheckpointFiles& files_;
  bool always_finite_ = false;  // by the largest scale and value
  bool consecutive_ = false;    // code c is the first value plus c
  std::optional<GroupedIntegers> integers_;
};

}  // namespace

uint32_t PackedCodes::Word(int64_t stream, int64_t index) const {
  const std::byte* at = words + (stream * stream_step + index * word_step) * word_bytes;
  if (word_bytes == 1) return static_cast<uint32_t>(*at);
  return Load<uint32_t>(at) + word_add;
}

uint32_t PackedCodes::InStream(int64_t stream, int64_t index) const {
  const uint32_t mask = (1u << bits) - 1;
  if (per_word != 0) {
    const auto part = static_cast<int>(index % per_word);
    const int shift = (per_word == 8 ? place[static_cast<size_t>(part)] : part) * bits;
    return ((Word(stream, index / per_word) >> shift) + code_add) & mask;
  }
  const int word_bits = 8 * word_bytes;
  const int64_t bit = index * bits, word = bit / word_bits;
  const auto shift = static_cast<int>(bit % word_bits);
  uint32_t code = Word(stream, word) >> shift;
  if (shift + bits > word_bits) code |= Word(stream, word + 1) << (word_bits - shift);
  return (code + code_add) & mask;
}

uint32_t PackedCodes::At(int64_t row, int64_t column) const {
  return along_rows ? InStream(row, column) : InStream(column, row);
}

// Unpacks a row whose codes follow each other from the lowest bits, with nothing added: whole words of eight codes, or
// bytes of one or two. Returns how many codes it took, none of other rows.
int64_t PackedCodes::PlainRow(int64_t row, int64_t count, uint8_t* codes) const {
  if (!along_rows || per_word != 0 || word_add != 0 || code_add != 0) return 0;
  const std::byte* const first = words + row * stream_step * word_bytes;
  if (bits == 8 && word_step == 1) {
    std::memcpy(codes, first, static_cast<size_t>(count));
    return count;
  }
  if (bits != 4 || (word_bytes != 4 && word_step != 1)) return 0;
  const int64_t step = word_bytes == 4 ? word_step * 4 : 4;
  for (int64_t i = 0; i < count / 8; ++i) {
    const uint64_t eight = Spread(Load<uint32_t>(first + i * step));
    std::memcpy(codes + 8 * i, &eight, sizeof eight);
  }
  return count / 8 * 8;
}

const std::byte* PackedCodes::Nibbles(int64_t row) const {
  const bool pairs = along_rows && bits == 4 && per_word == 0 && word_step == 1 && word_add == 0 && code_add == 0;
  return pairs ? words + row * stream_step * word_bytes : nullptr;
}

void PackedCodes::Row(int64_t row, int64_t count, uint8_t* codes) const {
  const bool whole = per_word != 0 || (8 * word_bytes) % bits == 0;
  if (!whole || !along_rows) {
    for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(At(row, i));
    return;
  }
  const int in_word = per_word != 0 ? per_word : 8 * word_bytes / bits;
  const uint32_t mask = (1u << bits) - 1;
  const int64_t plain = PlainRow(row, count, codes);
  for (int64_t i = plain, word = plain / in_word; i < count; i += in_word, ++word) {  // each word is read once
    const uint32_t value = Word(row, word);
    const auto here = static_cast<int>(std::min<int64_t>(in_word, count - i));
    for (int part = 0; part < here; ++part) {
      const int shift = (in_word == 8 ? place[static_cast<size_t>(part)] : part) * bits;
      codes[i + part] = static_cast<uint8_t>(((value >> shift) + code_add) & mask);
    }
  }
}

bool PackedCodes::SharesWords() const {
  return !along_rows && bits == 4 && per_word == 8 && word_bytes == 4 && word_add == 0 && code_add == 0;
}

// The codes of up to eight columns in the words that hold rows 8 of_word to 8 of_word + 7: a row's are eight bytes.
std::array<uint64_t, 8> PackedCodes::Square(int64_t column, int64_t columns, int64_t of_word) const {
  std::array<uint64_t, 8> eight{};  // by column, then by place in a word
  const std::byte* const at = words + (column * stream_step + of_word * word_step) * word_bytes;
  for (int64_t c = 0; c < columns; ++c)
    eight[static_cast<size_t>(c)] = Spread(Load<uint32_t>(at + c * stream_step * word_bytes));
  Transpose(eight);
  return eight;
}

void PackedCodes::Rows(int64_t first, int64_t rows, int64_t count, int64_t stride, uint8_t* codes) const {
  constexpr int64_t kEight = 8;
  for (int64_t column = 0; column < count; column += kEight) {
    const int64_t columns = std::min(kEight, count - column);
    for (int64_t row = 0; row < rows; row += kEight) {
      const std::array<uint64_t, 8> square = Square(column, columns, (first + row) / kEight);
      uint8_t* const to = codes + row * stride + column;
      if (columns == kEight && rows - row >= kEight) {
        for (int64_t r = 0; r < kEight; ++r) std::memcpy(to + r * stride, &square[place[static_cast<size_t>(r)]], 8);
        continue;
      }
      for (int64_t r = 0; r < std::min(kEight, rows - row); ++r)
        std::memcpy(to + r * stride, &square[place[static_cast<size_t>(r)]], static_cast<size_t>(columns));
    }
  }
}

int64_t WordsOf(int64_t count, int bits, int per_word, int word_bits) {
  if (per_word != 0) return count / per_word + (count % per_word != 0 ? 1 : 0);
  return count / word_bits * bits + (count % word_bits * bits + word_bits - 1) / word_bits;
}

float StoredScales::At(int64_t row, int64_t group) const {
  float scale;
  Load(row, group, {&scale, 1});
  return scale;
}

void StoredScales::Load(int64_t row, int64_t first, std::span<float> scales) const {
  LoadElements(*tensor, row / rows * row_step + first * group_step, group_step, scales);
  const float times = factors.empty() ? factor : factors[static_cast<size_t>(row / rows_of_factor)];
  for (float& scale : scales) scale = factors.empty() && divisor != 1.0f ? scale / divisor : scale * times;
}

std::string Because(const GroupedParts& parts) {
  return Formatted("{} [{}, {}] is {} in quantization_config", parts.name, parts.out, parts.in, parts.scheme);
}

int64_t IntegerAt(const TensorView& tensor, size_t i) {
  const std::byte* const all = tensor.bytes.data();
  return tensor.dtype == DType::kI64 ? Load<int64_t>(all + 8 * i) : Load<int32_t>(all + 4 * i);
}

std::vector<int32_t> GroupsOfColumns(const GroupedParts& parts, const TensorView& g_idx, int64_t least,
                                     const ModuleTensors& tensors) {
  tensors.Require(g_idx, {parts.in}, Because(parts));
  std::vector<int32_t> group_of(static_cast<size_t>(parts.in));
  for (size_t c = 0; c < group_of.size(); ++c) {
    const int64_t group = IntegerAt(g_idx, c);
    if (group < least || group >= parts.groups)
      Fail("{}, index {}: got group {}, expected 0 to {}", tensors.Where(g_idx.name), c, group, parts.groups - 1);
    group_of[c] = static_cast<int32_t>(group);
  }
  return group_of;
}

void AddMatrix(GroupedParts parts, const ModuleTensors& tensors, ForeignModel& model) {
  const std::string name = parts.name;
  model.matrices.emplace(name, std::make_unique<GroupedMatrix>(std::move(parts), tensors.files()));
}

std::array<float, 256> IntegerValues(int offset) {
  std::array<float, 256> values;
  for (int code = 0; code < 256; ++code) values[static_cast<size_t>(code)] = static_cast<float>(code - offset);
  return values;
}

std::array<float, 256> SignedByteValues() {
  std::array<float, 256> values;
  for (size_t code = 0; code < 256; ++code) values[code] = static_cast<float>(static_cast<int8_t>(code));
  return values;
}

}  // namespace tare
